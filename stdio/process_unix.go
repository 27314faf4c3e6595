//go:build unix

package stdio

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// A process is a child that leads a process group of its own. The group is what is signalled.
//
// The group's id is the leader's, and belongs to us until the leader is reaped; then the system may give it to
// someone else. So the group is killed while the leader is a zombie, and no signal is sent after the reaping.
type process struct {
	leader *os.Process

	mu     sync.Mutex // held while a signal is sent
	reaped bool       // or about to be
}

// start starts the executable at path with the files as stdin, stdout and stderr. The new group is no terminal's
// foreground group, so that its Ctrl-C does not reach the server.
func start(path string, cmd Command, files []*os.File) (*process, error) {
	leader, err := os.StartProcess(path, cmd.Args, &os.ProcAttr{
		Dir:   cmd.Dir,
		Env:   cmd.Env,
		Files: files,
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, err
	}
	return &process{leader: leader}, nil
}

// await returns when the leader has exited, and leaves it a zombie.
func (p *process) await() {
	if err := awaitExit(p.leader); err != nil {
		// The host ignores SIGCHLD or waits for all children: the leader is gone and reaped, its id free.
		p.disown()
	}
}

// reap removes the zombie. The exit code is -1 where a signal ended the process, or where the status was lost.
func (p *process) reap() (code int, signal os.Signal) {
	p.disown()
	state, err := p.leader.Wait()
	if err != nil {
		_ = p.leader.Release() // its descriptor (pidfd), which Wait keeps when it fails
		return -1, nil
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -1, status.Signal()
	}
	return state.ExitCode(), nil
}

func (p *process) disown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
}

// terminate asks the group to end. A stopped process gets to hear that only when it is continued.
func (p *process) terminate() {
	_ = p.signal(syscall.SIGTERM)
	_ = p.signal(syscall.SIGCONT)
}

func (p *process) kill() error { return p.signal(syscall.SIGKILL) }

func (p *process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	err := syscall.Kill(-p.leader.Pid, s)
	if errors.Is(err, syscall.ESRCH) { // the leader has moved to another group
		err = syscall.Kill(p.leader.Pid, s)
	}
	return err
}

// groupAlive reports whether anything of the group still runs after the leader was reaped.
func (p *process) groupAlive() bool { return groupAlive(p.leader.Pid) }
