package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Children are the executables at the other end: the same for everybody.
type Children struct {
	Echo  string // cmd/echo
	Tools string // cmd/tools

	dir string
}

// Build compiles the children, as the go command does it for this module, into a directory of their own.
// It must be called in a directory of this module.
func Build() (*Children, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	c := &Children{Echo: filepath.Join(dir, "echo"), Tools: filepath.Join(dir, "tools"), dir: dir}
	const module = "github.com/seed7990db67/supervised/bench"
	out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), module+"/cmd/echo", module+"/cmd/tools").CombinedOutput()
	if err != nil {
		c.Remove()
		return nil, fmt.Errorf("bench: build of the children: %w\n%s", err, out)
	}
	return c, nil
}

// Remove deletes the executables.
func (c *Children) Remove() { _ = os.RemoveAll(c.dir) }
