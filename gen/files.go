package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/diagram"
	"github.com/seed7990db67/supervised/fsm"
)

// Where the SVG is: for readers, and for the package that embeds it.
var drawings = []string{"docs/lifecycle.svg", "live/lifecycle.svg"}

// texts are the files that are written, and what is in them.
type texts struct {
	dot   string
	whole map[string]string // by path: all of the file
	parts []part
}

// A part is what stands between two lines of a file that is written by hand.
type part struct {
	path, from, to string
	text           string
}

// written returns what is to be in the files for a table.
func written(table fsm.Table[supervised.State, supervised.Event]) (texts, error) {
	d, err := diagram.New(table, supervised.LifecycleSpec(), diagram.Options{
		Title:    "The lifecycle of a supervised transport",
		Emphasis: []string{"budget left"},
	})
	if err != nil {
		return texts{}, fmt.Errorf("gen: %w", err)
	}
	const begin, end = "<!-- generated from transitions.go: begin -->\n", "<!-- generated from transitions.go: end -->\n"
	return texts{
		dot: d.DOT(),
		whole: map[string]string{
			"docs/lifecycle.dot": d.DOT(),
			"docs/lifecycle.mmd": d.Mermaid(),
		},
		parts: []part{
			{"docs/lifecycle.md", begin, end, "\n" + d.Markdown() + "\n"},
			{"README.md", begin, end, "\n" + d.Markdown() + "\n"},
			{"doc.go", "// # The lifecycle\n//\n", "//\n", comment(d.Text())},
		},
	}, nil
}

// comment makes a text the code of a doc comment.
func comment(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("//\t" + line)
	}
	return b.String()
}

// stale says for each file below root in what way it is not what it should be.
func (w texts) stale(root string) (found []error) {
	say := func(path, format string, args ...any) {
		found = append(found, fmt.Errorf("gen: "+path+": "+format, args...))
	}
	for _, path := range []string{"docs/lifecycle.dot", "docs/lifecycle.mmd"} {
		switch text, err := read(root, path); {
		case err != nil:
			say(path, "%w", err)
		case text != w.whole[path]:
			say(path, "stale: %s", difference(w.whole[path], text))
		}
	}
	for _, p := range w.parts {
		text, err := read(root, p.path)
		if err != nil {
			say(p.path, "%w", err)
			continue
		}
		switch _, old, _, err := p.cut(text); {
		case err != nil:
			say(p.path, "%w", err)
		case old != p.text:
			say(p.path, "stale: %s", difference(p.text, old))
		}
	}
	for _, path := range drawings {
		switch drawing, err := read(root, path); {
		case err != nil:
			say(path, "%w", err)
		case attribute(drawing, "data-dot-sha256") != sum(w.dot):
			say(path, "stale: it was drawn from another docs/lifecycle.dot")
		case attribute(drawing, "data-sha256") != sum(self.ReplaceAllString(drawing, `data-sha256=""`)):
			say(path, "stale: it was changed after it was drawn")
		}
	}
	return found
}

// write writes the files below root.
func (w texts) write(root string, drawing []byte) error {
	put := func(path, text string) error {
		path = filepath.Join(root, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(text), 0o644)
	}
	var errs []error
	for path, text := range w.whole {
		errs = append(errs, put(path, text))
	}
	for _, path := range drawings {
		errs = append(errs, put(path, string(drawing)))
	}
	for _, p := range w.parts {
		text, err := read(root, p.path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		before, _, after, err := p.cut(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("gen: %s: %w", p.path, err))
			continue
		}
		errs = append(errs, put(p.path, before+p.text+after))
	}
	return errors.Join(errs...)
}

// cut finds the part in the text of its file.
func (p part) cut(text string) (before, part, after string, err error) {
	before, rest, found := strings.Cut(text, p.from)
	if !found {
		return "", "", "", fmt.Errorf("no line %q", strings.TrimSpace(p.from))
	}
	part, after, found = strings.Cut(rest, p.to)
	if !found {
		return "", "", "", fmt.Errorf("no line %q after %q", strings.TrimSpace(p.to), strings.TrimSpace(p.from))
	}
	return before + p.from, part, p.to + after, nil
}

// self is the attribute with the hash of the SVG that it stands in.
var self = regexp.MustCompile(`data-sha256="[0-9a-f]*"`)

func attribute(drawing, name string) string {
	m := regexp.MustCompile(` ` + name + `="([^"]*)"`).FindStringSubmatch(drawing)
	if m == nil {
		return ""
	}
	return m[1]
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// read returns a file with the line ends that this command writes.
func read(root, path string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	return strings.ReplaceAll(string(text), "\r\n", "\n"), err
}

// difference is the first line in which two texts differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	at := func(lines []string) string {
		if i < len(lines) {
			return strings.TrimSpace(lines[i])
		}
		return "its end"
	}
	return fmt.Sprintf("line %d should be\n\t%s\nand is\n\t%s", i+1, at(w), at(g))
}
