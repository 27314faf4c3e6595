package stdio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var errConnectedTwice = errors.New("stdio: transport is for one process and was connected already")

// A transport starts one process.
type transport struct {
	command   Command // complete: defaults filled in, Env is the whole environment
	path      string  // of the executable
	connected atomic.Bool
}

// Connect starts the process and returns the connection to it. The context bounds the start alone; its end does
// not touch a process that was started. An error of the system's is wrapped, so that it matches fs.ErrNotExist
// and the like; nothing is left behind then.
func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !t.connected.CompareAndSwap(false, true) {
		return nil, errConnectedTwice
	}
	if err := checkDir(t.command.Dir); err != nil {
		return nil, fmt.Errorf("stdio: start: %w", err)
	}
	ours, theirs, err := pipes()
	if err != nil {
		return nil, fmt.Errorf("stdio: start: %w", err)
	}
	proc, err := start(t.path, t.command, theirs[:])
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, fmt.Errorf("stdio: start: %w", err)
	}
	return newConnection(t.command, proc, ours), nil
}

// checkDir exists because the system blames the executable for a directory that is not there.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	return nil
}

// pipes makes the pipes for stdin, stdout and stderr, in this order.
func pipes() (ours, theirs [3]*os.File, err error) {
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			closeAll(theirs)
			return ours, theirs, err
		}
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	return ours, theirs, nil
}

func closeAll(files [3]*os.File) {
	for _, f := range files {
		_ = f.Close() // of a pipe end; a nil one, not made yet, refuses and that is all
	}
}
