package diagram_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestRendererStaysOut: who imports a package of this module, the transport, a diagram or
// the live page, has no Graphviz in the binary, and no requirement of it; package diagram needs the standard
// library and package fsm alone.
func TestRendererStaysOut(t *testing.T) {
	if testing.Short() {
		t.Skip("lists every package")
	}
	const module = "github.com/seed7990db67/supervised"
	list := func(args ...string) []string {
		cmd := exec.Command("go", append([]string{"list"}, args...)...)
		cmd.Dir = ".."
		out, err := cmd.Output()
		if err != nil {
			if exit, ok := err.(*exec.ExitError); ok {
				out = exit.Stderr
			}
			t.Fatalf("go list %v: %v\n%s", args, err, out)
		}
		return strings.Fields(string(out))
	}
	renderer := func(name string) bool {
		return strings.Contains(name, "graphviz") || strings.Contains(name, "wazero") || name == module+"/diagram/svg"
	}
	deps := list("-deps", "./...")
	if len(deps) < 100 {
		t.Errorf("only these: %v", deps)
	}
	for _, dep := range deps {
		if renderer(dep) {
			t.Errorf("imported: %s", dep)
		}
	}
	for _, required := range list("-m", "all") {
		if renderer(required) {
			t.Errorf("in the module graph: %s", required)
		}
	}
	for _, dep := range list("-deps", "./diagram") {
		// A path of the standard library has no dot in its first part.
		first, _, _ := strings.Cut(dep, "/")
		if ours := dep == module+"/diagram" || dep == module+"/fsm"; strings.Contains(first, ".") && !ours {
			if dep != "github.com/looplab/fsm" { // which package fsm is made of
				t.Errorf("diagram imports %s", dep)
			}
		}
	}
}
