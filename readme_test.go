package supervised_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised"
)

// documents are the texts that are checked against the code.
var documents = []string{"README.md", "docs/guide.md"}

// TestReadmeLifecycle: the table in README.md is the one that the machine runs.
func TestReadmeLifecycle(t *testing.T) {
	_, section, found := strings.Cut(document(t, "README.md"), "\n## The lifecycle\n")
	if !found {
		t.Fatal("README.md has no section of that name")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var shown [][]string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		shown = append(shown, cells)
	}

	rows := [][]string{{"from", "event", "guard", "to", "emits"}}
	for _, row := range supervised.Lifecycle().Rows() {
		guard := row.Guard
		if row.Else() {
			guard = "else"
		}
		rows = append(rows, []string{row.From.String(), row.Event.String(), guard, row.To.String(), strings.Join(row.Hooks, ", ")})
	}
	if d := cmp.Diff(rows, shown); d != "" {
		t.Errorf("Lifecycle() and README.md (-want +got):\n%s", d)
	}
}

// TestDocumentsShowExamples: each block of Go code is the body of the example that the comment before it names,
//
//	<!-- ExampleTransport_OnClose -->
//	```go
//
// so that all code in the documents compiles, and what has an output has been run.
func TestDocumentsShowExamples(t *testing.T) {
	bodies := examples(t)
	block := regexp.MustCompile("(?ms)^(?:<!-- (Example\\w*) -->\n)?```go\n(.*?)^```$")
	for _, name := range documents {
		blocks := block.FindAllStringSubmatch(document(t, name), -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no code", name)
		}
		for _, b := range blocks {
			switch body, known := bodies[b[1]]; {
			case b[1] == "":
				t.Errorf("%s: no example is named before this block:\n%s", name, b[2])
			case !known:
				t.Errorf("%s: there is no %s", name, b[1])
			case body != b[2]:
				t.Errorf("%s: %s (-want +got):\n%s", name, b[1], cmp.Diff(body, b[2]))
			}
		}
	}
}

// TestGuideNamesAll: each option, hook and error stands in the guide.
func TestGuideNamesAll(t *testing.T) {
	guide := document(t, "docs/guide.md")
	names := exported(t)
	if len(names) < 15 {
		t.Errorf("only these were found: %v", names)
	}
	for _, name := range names {
		if !regexp.MustCompile("`[*]?" + name + `\b`).MatchString(guide) {
			t.Errorf("docs/guide.md does not name %s", name)
		}
	}
}

// TestDocumentsLinks: a link to a file or a heading leads somewhere.
func TestDocumentsLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`) // a colon is in what leads out of the repository
	for _, name := range documents {
		for _, l := range link.FindAllStringSubmatch(document(t, name), -1) {
			target := name
			if l[1] != "" {
				target = filepath.Join(filepath.Dir(name), l[1])
			}
			text := document(t, target)
			if l[2] != "" && !headings(text)[l[2]] {
				t.Errorf("%s: %s has no heading #%s", name, target, l[2])
			}
		}
	}
}

// document returns the text of a file of the repository.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// headings returns the anchors that a page gets for its headings.
func headings(text string) map[string]bool {
	anchors := make(map[string]bool)
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		anchor := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(h[1]), "")
		anchors[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	return anchors
}

// examples returns the code of each example by its name, without the output.
func examples(t *testing.T) map[string]string {
	t.Helper()
	const name = "example_test.go"
	source := document(t, name)
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	bodies := make(map[string]string)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "Example") {
			continue
		}
		body := source[files.Position(f.Body.Lbrace).Offset+1 : files.Position(f.Body.Rbrace).Offset]
		body, _, _ = strings.Cut(body, "\t// Output:")
		body = strings.Trim(strings.ReplaceAll(body, "\n\t", "\n"), "\n")
		bodies[f.Name.Name] = body + "\n"
	}
	return bodies
}

// exported returns the names of the options, hooks and errors of the package.
func exported(t *testing.T) (names []string) {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^(?:func (With\w+)\(|func \(t \*Transport\) (On\w+)\(|\t(Err[A-Z]\w*) .*=|type (\w+Error) )`)
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range declared.FindAllStringSubmatch(document(t, name), -1) {
			if found := strings.Join(m[1:], ""); ast.IsExported(found) {
				names = append(names, found)
			}
		}
	}
	return names
}
