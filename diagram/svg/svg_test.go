package svg

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dots are the graphs that package diagram has written: the lifecycle, and the golden
// files of its tests.
func dots(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../testdata/*.dot")
	if err != nil || len(files) < 4 {
		t.Fatalf("golden files: %v, %v", files, err)
	}
	all := make(map[string]string)
	for _, path := range append(files, "../../docs/lifecycle.dot") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".dot")] = strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	return all
}

// TestGraphvizReads: Graphviz parses what package diagram writes, and finds each name
// as the table has it.
func TestGraphvizReads(t *testing.T) {
	g, err := layout(dots(t)["odd"])
	if err != nil {
		t.Fatal(err)
	}
	var states, labels []string
	for _, o := range g.Objects {
		if has(o.Class, "state") {
			states = append(states, text(o.Label))
		}
	}
	for _, e := range g.Edges {
		if e.Label != "" {
			labels = append(labels, strings.Join(lines(e.Label), "\n"))
		}
	}
	if d := cmp.Diff([]string{"конец", `C:\temp\new`, "a b", "a-b", "end", `say "hi"`, "state", "état: Straße", "状態 二"}, states); d != "" {
		t.Errorf("states (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{
		"class", `\`, "[*]", "a-b c",
		"1 [x < y & z > \"1\"]\n/ f(a); g{b},\nback\\slash",
		"2 [#35; %% -- -->\n<br>] / *bold* _it_\n`code` | pipe",
		"3 [else] / 呼ぶ", "direction LR", "note over", "次へ\nline", "end",
	}, slices.DeleteFunc(labels, func(l string) bool { return l == "" })); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if got, want := text(g.Name), `A "title": with \ and 'quotes' #1`; got != want {
		t.Errorf("title: want %s, got %s", want, got)
	}
}

// TestNothingTouches: no label is on an edge, a state, a border or another label, no
// edge runs through a state that is not its own, and nothing is cut off.
func TestNothingTouches(t *testing.T) {
	for name, dot := range dots(t) {
		t.Run(name, func(t *testing.T) {
			g, err := layout(dot)
			if err != nil {
				t.Fatal(err)
			}
			p, err := best(g)
			if err != nil {
				t.Fatal(err)
			}
			for _, touch := range p.touches() {
				t.Error(touch)
			}
			all := nowhere
			for _, n := range slices.Concat(p.nodes, p.regions) {
				all = all.and(n.box)
			}
			for _, e := range p.edges {
				all = all.and(e.bounds())
			}
			if all.left < 0 || all.top < 0 || all.right > p.width || all.bottom > p.height {
				t.Errorf("what is drawn fills %v of %v by %v", all, p.width, p.height)
			}
		})
	}
}

// TestEachElementIsThere: each state, edge and diamond has its id, its classes and its
// text in the SVG, which is well-formed.
func TestEachElementIsThere(t *testing.T) {
	for name, dot := range dots(t) {
		drawing := rendered(t, dot)
		decoder := xml.NewDecoder(bytes.NewReader(drawing))
		classes := make(map[string]string)
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if start, ok := token.(xml.StartElement); ok && start.Name.Local == "g" {
				var id, class string
				for _, a := range start.Attr {
					switch a.Name.Local {
					case "id":
						id = a.Value
					case "class":
						class = a.Value
					}
				}
				if _, twice := classes[id]; twice {
					t.Errorf("%s: twice: %s", name, id)
				}
				classes[id] = class
			}
		}
		for _, m := range regexp.MustCompile(`[\[ ]id="?([^ "]*)"? class="([^"]*)"`).FindAllStringSubmatch(dot, -1) {
			if got, there := classes[m[1]]; m[1] != "lifecycle" && (!there || got != m[2]) {
				t.Errorf("%s: %s: want the classes %q, got %q", name, m[1], m[2], got)
			}
		}
	}
	odd := string(rendered(t, dots(t)["odd"]))
	for _, want := range []string{
		">say &#34;hi&#34;</text>", `>C:\temp\new</text>`, ">状態 二</text>", ">état: Straße</text>", ">&lt;br&gt;] / *bold* _it_</text>",
		`<title id="lifecycle-title">A &#34;title&#34;: with \ and &#39;quotes&#39; #1</title>`,
		`<desc id="lifecycle-desc">It starts in say &#34;hi&#34;. It ends in конец. `,
	} {
		if !strings.Contains(odd, want) {
			t.Errorf("not in the SVG: %s", want)
		}
	}
}

// renderings are kept: drawing one takes a moment.
var renderings sync.Map

func rendered(t *testing.T, dot string) []byte {
	t.Helper()
	if kept, ok := renderings.Load(dot); ok {
		return kept.([]byte)
	}
	drawing, err := Render(dot)
	if err != nil {
		t.Fatal(err)
	}
	renderings.Store(dot, drawing)
	return drawing
}

// TestSameBytes: the SVG of the lifecycle that is in the repository is what is drawn
// now, byte for byte.
func TestSameBytes(t *testing.T) {
	want, err := os.ReadFile("../../docs/lifecycle.svg")
	if err != nil {
		t.Fatal(err)
	}
	got := rendered(t, dots(t)["lifecycle"])
	if d := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), string(got)); d != "" {
		t.Errorf("docs/lifecycle.svg is stale (-there +drawn):\n%s", d)
	}
}

// TestHashes: the SVG carries the hash of its DOT, and its own.
func TestHashes(t *testing.T) {
	dot := dots(t)["door"]
	drawing := string(rendered(t, dot))
	if !strings.Contains(drawing, ` data-dot-sha256="`+sum(dot)+`"`) {
		t.Error("no hash of the DOT")
	}
	own := regexp.MustCompile(` data-sha256="([0-9a-f]{64})"`).FindStringSubmatch(drawing)
	if own == nil {
		t.Fatal("no hash of its own")
	}
	if empty := strings.Replace(drawing, own[1], "", 1); sum(empty) != own[1] {
		t.Error("its own hash is another")
	}
}

func TestRenderRefuses(t *testing.T) {
	for _, dot := range []string{"", "digraph {", "a -> b"} {
		if drawing, err := Render(dot); err == nil || !strings.HasPrefix(err.Error(), "svg: ") {
			t.Errorf("%q: %d bytes, %v", dot, len(drawing), err)
		}
		if _, err := layout("digraph { a -> b }"); err != nil {
			t.Errorf("after %q: %v", dot, err)
		}
	}
}

// TestContrast: text has a contrast of 7:1 at least on every ground that it is on, in
// both schemes.
func TestContrast(t *testing.T) {
	light, dark, found := strings.Cut(style, "@media")
	if !found {
		t.Fatal("one scheme alone")
	}
	for name, css := range map[string]string{"light": light, "dark": dark} {
		colour := func(selector, property string) string {
			m := regexp.MustCompile(regexp.QuoteMeta(".lifecycle "+selector) + ` \{[^}]*\b` + property + `: (#[0-9a-f]{6})`).FindStringSubmatch(css)
			if m == nil {
				t.Fatalf("%s: no %s of %s", name, property, selector)
			}
			return m[1]
		}
		for _, pair := range [][2]string{
			{colour("text", "fill"), colour(".paper", "fill")},
			{colour("text", "fill"), colour(".region rect", "fill")},
			{colour("text", "fill"), colour(".state rect", "fill")},
			{colour(".edge.taken text", "fill"), colour(".paper", "fill")},
			{colour(".edge.taken text", "fill"), colour(".region rect", "fill")},
			{colour(".current text", "fill"), colour(".current rect", "fill")},
		} {
			if c := contrast(t, pair[0], pair[1]); c < 7 {
				t.Errorf("%s: %s on %s: %.1f:1", name, pair[0], pair[1], c)
			}
		}
	}
}
