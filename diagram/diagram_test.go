package diagram_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/diagram"
	"github.com/seed7990db67/supervised/fsm"
)

var update = flag.Bool("update", false, "write the golden files anew")

// pictures are what the golden files show, by name.
func pictures(t testing.TB) map[string]*drawn {
	plain := draw(t, door(), doorSpec, doorOptions)
	return map[string]*drawn{
		"door":  plain,
		"path":  walk(t, plain),
		"odd":   draw(t, odd(), oddSpec, oddOptions),
		"light": draw(t, table{"on": {"press": {{To: "off"}}}, "off": {"press": {{To: "on"}}}}, spec{}, diagram.Options{}),
	}
}

// forms are the formats, by the ending of their golden files.
var forms = map[string]func(*drawn) string{
	".dot": (*drawn).DOT,
	".mmd": (*drawn).Mermaid,
	".md":  (*drawn).Markdown,
	".txt": (*drawn).Text,
}

func TestGolden(t *testing.T) {
	check := func(name, got string) {
		t.Helper()
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
	for name, d := range pictures(t) {
		for ending, form := range forms {
			check(name+ending, form(d))
		}
	}
	check("path.sequence.mmd", pictures(t)["path"].Sequence())
}

// TestSameBytes: the order of maps shows in none of the formats.
func TestSameBytes(t *testing.T) {
	first := make(map[string]string)
	for range 3 {
		for name, d := range pictures(t) {
			for ending, form := range forms {
				got := form(d)
				if first[name+ending] == "" {
					first[name+ending] = got
				}
				if d := cmp.Diff(first[name+ending], got); d != "" {
					t.Fatalf("%s%s differs from itself:\n%s", name, ending, d)
				}
			}
		}
	}
}

// TestEachRowIsDrawn: no row can change without a change in each format.
func TestEachRowIsDrawn(t *testing.T) {
	for _, tt := range []struct {
		name  string
		table func() table
		spec  spec
	}{{"door", door, doorSpec}, {"odd", odd, oddSpec}} {
		if tt.name == "odd" && testing.Short() {
			continue
		}
		options := diagram.Options{Title: tt.name}
		plain := draw(t, tt.table(), tt.spec, options)
		for _, r := range tt.table().Rows() {
			for what, change := range map[string]func(c *fsm.Choice[string]){
				"deleted":      func(c *fsm.Choice[string]) { *c = slices.Delete(*c, r.Branch, r.Branch+1) },
				"other target": func(c *fsm.Choice[string]) { (*c)[r.Branch].To = "elsewhere" },
				"other guard":  func(c *fsm.Choice[string]) { (*c)[r.Branch].Guard += "?" },
				"other hooks":  func(c *fsm.Choice[string]) { (*c)[r.Branch].Hooks = append((*c)[r.Branch].Hooks, "more") },
				"no hooks":     func(c *fsm.Choice[string]) { (*c)[r.Branch].Hooks = nil },
			} {
				if what == "no hooks" && len(r.Hooks) == 0 {
					continue
				}
				changed := tt.table()
				choice := changed[r.From][r.Event]
				change(&choice)
				if changed[r.From][r.Event] = choice; len(choice) == 0 {
					delete(changed[r.From], r.Event)
				}
				d := draw(t, changed, tt.spec, options)
				for ending, form := range forms {
					if form(d) == form(plain) {
						t.Errorf("%s: %s, %s, branch %d: %s: %s is the same", tt.name, r.From, r.Event, r.Branch, what, ending)
					}
				}
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		table   fsm.Table[any, string]
		spec    fsm.Spec[any, string]
		options diagram.Options
		want    string
	}{
		{"two states of one name", fsm.Table[any, string]{1: {"go": {{To: "1"}}}}, fsm.Spec[any, string]{}, diagram.Options{},
			`diagram: state "1": a printed name must be there once`},
		{"a state without a name", fsm.Table[any, string]{1: {"go": {{To: ""}}}}, fsm.Spec[any, string]{}, diagram.Options{},
			`diagram: state "": a printed name must be there once`},
		{"an event without a name", fsm.Table[any, string]{1: {"": {{To: 2}}}}, fsm.Spec[any, string]{}, diagram.Options{},
			`diagram: event "": a printed name must be there once`},
		{"an unknown start", fsm.Table[any, string]{1: {"go": {{To: 2}}}}, fsm.Spec[any, string]{Start: 3}, diagram.Options{},
			`diagram: start 3: the table has no such state`},
		{"an unknown end", fsm.Table[any, string]{1: {"go": {{To: 2}}}}, fsm.Spec[any, string]{Ends: []any{3}}, diagram.Options{},
			`diagram: end 3: the table has no such state`},
		{"an unknown guard", fsm.Table[any, string]{1: {"go": {{To: 2}}}}, fsm.Spec[any, string]{}, diagram.Options{Emphasis: []string{"lucky"}},
			`diagram: emphasis "lucky": the table has no such guard`},
	} {
		_, err := diagram.New(tt.table, tt.spec, tt.options)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: want %s, got %v", tt.name, tt.want, err)
		}
	}
}

func TestMarksRefuse(t *testing.T) {
	d := draw(t, door(), doorSpec, doorOptions)
	if _, err := d.At("ajar"); err == nil || err.Error() != "diagram: ajar: the table has no such state" {
		t.Errorf("At: %v", err)
	}
	_, err := d.Taken(step{From: "open", Event: "push"}, step{From: "closed", Event: "push"})
	if want := "diagram: step 2: the table has no row closed, push, []"; err == nil || err.Error() != want {
		t.Errorf("Taken: want %s, got %v", want, err)
	}
	if _, err := d.EdgeIDs(step{From: "ajar"}); err == nil {
		t.Error("EdgeIDs of a step that is not in the table: no error")
	}
	if id := d.StateID("ajar"); id != "" {
		t.Errorf("StateID of a state that is not in the table: %q", id)
	}
}

// TestMarksAreCopies: a marked diagram leaves the one that it came from alone, and a
// caller's table is not the diagram's.
func TestMarksAreCopies(t *testing.T) {
	tb := door()
	d := draw(t, tb, doorSpec, doorOptions)
	before := d.DOT()
	walk(t, d)
	tb["open"]["push"][0].To = "gone"
	tb["open"]["push"][0].Hooks[0] = "bang"
	delete(tb, "locked")
	if d := cmp.Diff(before, d.DOT()); d != "" {
		t.Errorf("it has changed (-want +got):\n%s", d)
	}
}

func TestIDs(t *testing.T) {
	d := draw(t, door(), doorSpec, doorOptions)
	for _, tt := range []struct {
		step step
		want []string
	}{
		{step{From: "open", Event: "push"}, []string{"edge-open-push-0"}},
		{step{From: "locked", Event: "unlock", Guard: "the key is a crowbar"},
			[]string{"edge-locked-unlock", "choice-locked-unlock", "edge-locked-unlock-1"}},
		{step{From: "locked", Event: "unlock"},
			[]string{"edge-locked-unlock", "choice-locked-unlock", "edge-locked-unlock-2"}},
		{step{From: "locked", Event: "raze", Guard: "insured"}, []string{"edge-everywhere-raze"}},
	} {
		got, err := d.EdgeIDs(tt.step)
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%v (-want +got):\n%s", tt.step, d)
		}
		for _, id := range got {
			if !strings.Contains(d.DOT(), `id="`+id+`"`) {
				t.Errorf("%s is not in the DOT", id)
			}
		}
	}
	if id := d.StateID("locked"); id != "state-locked" {
		t.Errorf("want state-locked, got %s", id)
	}
}

// TestIDsAreUnique: also where names differ in nothing that an id keeps.
func TestIDsAreUnique(t *testing.T) {
	d := draw(t, odd(), oddSpec, oddOptions)
	if a, b := d.StateID("a b"), d.StateID("a-b"); a != "state-a-b" || b != "state-a-b_2" {
		t.Errorf("want state-a-b and state-a-b_2, got %s and %s", a, b)
	}
	seen := make(map[string]bool)
	for _, field := range strings.Fields(d.DOT()) {
		id, found := strings.CutPrefix(strings.TrimPrefix(field, "["), "id=")
		if found && seen[id] {
			t.Errorf("twice: %s", id)
		}
		seen[id] = seen[id] || found
	}
}

// TestRegion: the event that all states accept is drawn once, and only where that
// says the same as an edge from each.
func TestRegion(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edit  func(table, *spec)
		drawn bool
	}{
		{"as it is", func(table, *spec) {}, true},
		{"one leads elsewhere", func(t table, _ *spec) { t["closed"]["raze"][0].To = "open" }, false},
		{"to a state that accepts it", func(t table, s *spec) {
			t["gone"] = map[string]fsm.Choice[string]{"raze": {{To: "open"}}}
			s.Ends = nil
		}, false},
		{"not said to be everywhere", func(_ table, s *spec) { s.Everywhere = nil }, false},
	} {
		tb, s := door(), doorSpec
		tt.edit(tb, &s)
		dot := draw(t, tb, s, doorOptions).DOT()
		if got := strings.Contains(dot, `id="region"`); got != tt.drawn {
			t.Errorf("%s: a region: %t", tt.name, got)
		}
		if got := strings.Count(dot, `id="edge-everywhere-raze"`); (got == 1) != tt.drawn {
			t.Errorf("%s: %d edges from a region", tt.name, got)
		}
		if got := strings.Contains(dot, `id="edge-open-raze-0"`); got == tt.drawn {
			t.Errorf("%s: an edge from open: %t", tt.name, got)
		}
	}
}
