package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/fsm"
)

const root = ".."

func lifecycle(t *testing.T) texts {
	t.Helper()
	w, err := written(supervised.Lifecycle())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestFresh(t *testing.T) {
	for _, err := range lifecycle(t).stale(root) {
		t.Error(err)
	}
}

// TestEachRowMatters deletes and changes each row of the table, and sees the check
// find every file stale.
func TestEachRowMatters(t *testing.T) {
	type choice = fsm.Choice[supervised.State]
	mutations := 0
	for _, r := range supervised.Lifecycle().Rows() {
		at := func(c choice) *fsm.Branch[supervised.State] { return &c[r.Branch] }
		changes := map[string]func(choice) choice{
			"deleted":   func(c choice) choice { return slices.Delete(c, r.Branch, r.Branch+1) },
			"new guard": func(c choice) choice { at(c).Guard += "!"; return c },
			"new hook":  func(c choice) choice { at(c).Hooks = append(at(c).Hooks, "onMore"); return c },
		}
		for _, to := range supervised.Lifecycle().States() {
			if to != r.To {
				changes["to "+to.String()] = func(c choice) choice { at(c).To = to; return c }
			}
		}
		if len(r.Hooks) > 0 {
			changes["no hook"] = func(c choice) choice { at(c).Hooks = nil; return c }
		}
		for _, what := range slices.Sorted(maps.Keys(changes)) {
			if testing.Short() && what != "deleted" {
				continue
			}
			mutations++
			table := supervised.Lifecycle()
			c := changes[what](table[r.From][r.Event])
			if table[r.From][r.Event] = c; len(c) == 0 {
				delete(table[r.From], r.Event)
			}
			w, err := written(table)
			if err != nil {
				continue // without the guard that is to stand out nothing is drawn
			}
			var said strings.Builder
			for _, err := range w.stale(root) {
				fmt.Fprintln(&said, err)
			}
			for _, path := range append(drawings, "docs/lifecycle.dot", "docs/lifecycle.mmd", "docs/lifecycle.md", "README.md", "doc.go") {
				if !strings.Contains(said.String(), "gen: "+path+": stale: ") {
					t.Errorf("%v, %v, branch %d: %s: not said to be stale: %s", r.From, r.Event, r.Branch, what, path)
				}
			}
		}
	}
	if mutations < 150 && !testing.Short() {
		t.Errorf("only %d mutations", mutations)
	}
}

// TestCommandSees runs the command itself on a module whose table is another.
func TestCommandSees(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the module three times")
	}
	const file = "transitions.go"
	source, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, row, instead string
		want               string
	}{
		{"as it is", "EventRespawn: choice{{To: StateConnecting}},", "EventRespawn: choice{{To: StateConnecting}},", ""},
		{"deleted", "EventRestart: choice{{To: StateRespawnPending, Hooks: []string{hookClose}}},", "",
			"gen: docs/lifecycle.dot: stale: line "},
		{"changed", "EventRespawn: choice{{To: StateConnecting}},", "EventRespawn: choice{{To: StateServing}},",
			"gen: docs/lifecycle.svg: stale: it was drawn from another docs/lifecycle.dot\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Count(string(source), tt.row) != 1 {
				t.Fatalf("%s has no row %s", file, tt.row)
			}
			dir := t.TempDir()
			changed := filepath.Join(dir, file)
			if err := os.WriteFile(changed, []byte(strings.Replace(string(source), tt.row, tt.instead, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			original, err := filepath.Abs(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
			if err != nil {
				t.Fatal(err)
			}
			instead := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(instead, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			check := exec.Command("go", "run", "-overlay="+instead, "./gen", "-check")
			check.Dir = root
			out, err := check.CombinedOutput()
			if failed := err != nil; failed != (tt.want != "") || !strings.Contains(string(out), tt.want) {
				t.Errorf("want %q, got %v and\n%s", tt.want, err, out)
			}
		})
	}
}

// TestWrite: what was written is not stale, what is by hand stays, and each fault has
// its own words.
func TestWrite(t *testing.T) {
	w := lifecycle(t)
	dir := t.TempDir()
	for _, p := range w.parts {
		before, _, after, err := p.cut(mustRead(t, root, p.path))
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, p.path, before+"old\n"+after)
	}
	if err := w.write(dir, []byte(mustRead(t, root, drawings[0]))); err != nil {
		t.Fatal(err)
	}
	if stale := w.stale(dir); len(stale) > 0 {
		t.Fatalf("stale at once: %v", stale)
	}
	for _, p := range w.parts {
		if d := cmp.Diff(mustRead(t, root, p.path), mustRead(t, dir, p.path)); d != "" {
			t.Errorf("%s (-in the repository +written):\n%s", p.path, d)
		}
	}
	svg := mustRead(t, dir, drawings[0])
	for _, tt := range []struct{ name, path, text, want string }{
		{"a changed line", "docs/lifecycle.mmd", strings.Replace(w.whole["docs/lifecycle.mmd"], "start", "begin", 1),
			"gen: docs/lifecycle.mmd: stale: line 18 should be\n\ts0 --> s1 : start\nand is\n\ts0 --> s1 : begin"},
		{"no markers", "docs/lifecycle.md", "# The lifecycle\n",
			`gen: docs/lifecycle.md: no line "<!-- generated from transitions.go: begin -->"`},
		{"a picture that was edited", drawings[0], strings.Replace(svg, ">serving<", ">Serving<", 1),
			"gen: docs/lifecycle.svg: stale: it was changed after it was drawn"},
		{"an old picture", drawings[1], strings.Replace(svg, sum(w.dot), sum(""), 1),
			"gen: live/lifecycle.svg: stale: it was drawn from another docs/lifecycle.dot"},
		{"Windows line ends", drawings[1], strings.ReplaceAll(svg, "\n", "\r\n"), ""},
	} {
		before := mustRead(t, dir, tt.path)
		put(t, dir, tt.path, tt.text)
		var got []string
		for _, err := range w.stale(dir) {
			got = append(got, err.Error())
		}
		if d := cmp.Diff(tt.want, strings.Join(got, "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
		put(t, dir, tt.path, before)
	}
	if err := os.Remove(filepath.Join(dir, "docs", "lifecycle.dot")); err != nil {
		t.Fatal(err)
	}
	if stale := w.stale(dir); len(stale) != 1 || !os.IsNotExist(unwrapped(stale[0])) {
		t.Errorf("a file that is gone: %v", stale)
	}
}

func unwrapped(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return err
}

func mustRead(t *testing.T, root, path string) string {
	t.Helper()
	text, err := read(root, path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func put(t *testing.T, dir, path, text string) {
	t.Helper()
	path = filepath.Join(dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
