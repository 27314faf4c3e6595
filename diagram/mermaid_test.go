package diagram_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// read is what Mermaid makes of a text. It keeps the line breaks of its labels, <br>.
type read struct {
	Kind           string
	States, Arrows []string
}

// TestMermaidReads: Mermaid itself parses what is written, and finds every text as
// the table has it.
func TestMermaidReads(t *testing.T) {
	if testing.Short() {
		t.Skip("installs from npm")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("no npm")
	}
	dir := t.TempDir()
	install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, "mermaid@11.17.2", "jsdom@29.1.1")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	script, err := os.ReadFile(filepath.Join("testdata", "parse.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "parse.mjs"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	lifecycle, err := filepath.Abs("../docs/lifecycle.mmd")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"parse.mjs", lifecycle}
	texts := map[string]string{"sequence": pictures(t)["path"].Sequence()}
	for name, d := range pictures(t) {
		texts[name] = d.Mermaid()
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	parse := exec.Command("node", args...)
	parse.Dir = dir
	out, err := parse.Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			out = exit.Stderr
		}
		t.Fatalf("Mermaid: %v\n%s", err, out)
	}
	var got map[string]read
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if r := got[lifecycle]; r.Kind != "stateDiagram" || len(r.Arrows) != 22 {
		t.Errorf("docs/lifecycle.mmd: %d arrows: %+v", len(r.Arrows), r)
	}
	if d := cmp.Diff(read{
		Kind:   "stateDiagram",
		States: []string{"конец", "accepts end", `C:\temp\new`, "a b", "a-b", "end", `say "hi"`, "state", "état: Straße", "状態 二"},
		Arrows: []string{
			"", "class", `\`, "[*]", "a-b c",
			`1 [x < y & z > "1"]<br>/ f(a); g{b},<br>back\slash<br>(!)`,
			"2 [#35; %% -- --><br><br>] / *bold* _it_<br>`code` | pipe",
			"3 [else] / 呼ぶ", "direction LR", "note over", "次へ line", "end", "",
		},
	}, got["odd"]); d != "" {
		t.Errorf("odd (-want +got):\n%s", d)
	}
	if d := cmp.Diff(read{
		Kind:   "sequence",
		States: []string{"closed", "gone", "locked", "open"},
		Arrows: []string{
			"push / click", "lock", "unlock [else] / alarm", "unlock [else] / alarm", "the wrong key: again",
			"unlock [the key fits] / click", `the "right" one; at last`, "raze",
		},
	}, got["sequence"]); d != "" {
		t.Errorf("sequence (-want +got):\n%s", d)
	}
	for name, arrows := range map[string]int{"door": 10, "path": 10, "light": 2} {
		if r := got[name]; r.Kind != "stateDiagram" || len(r.Arrows) != arrows {
			t.Errorf("%s: want %d arrows, got %+v", name, arrows, r)
		}
	}
}
