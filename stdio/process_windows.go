package stdio

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// A process is a child in a job object of its own. The job is what is ended; it is ours for as long as we hold
// its handle, so that no stranger can be hit.
type process struct {
	leader *os.Process
	state  *os.ProcessState // of the leader, set by await
	job    *job
}

// start starts the executable at path with the files as stdin, stdout and stderr. A process group of its own
// keeps the console's Ctrl-C from the server, and lets terminate address it.
func start(path string, cmd Command, files []*os.File) (*process, error) {
	j, err := newJob()
	if err != nil {
		return nil, err
	}
	leader, err := os.StartProcess(path, cmd.Args, &os.ProcAttr{
		Dir:   cmd.Dir,
		Env:   cmd.Env,
		Files: files,
		Sys:   &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true},
	})
	if err != nil {
		j.close()
		return nil, err
	}
	if err := j.assign(leader); err != nil {
		_ = leader.Kill()
		_, _ = leader.Wait()
		j.close()
		return nil, err
	}
	return &process{leader: leader, job: j}, nil
}

// await returns when the leader has exited.
func (p *process) await() { p.state, _ = p.leader.Wait() }

// reap gives the job back, and returns the exit code, or -1 where it was lost.
func (p *process) reap() (code int, signal os.Signal) {
	p.job.close()
	return p.state.ExitCode(), nil
}

// terminate asks the group to end.
func (p *process) terminate() {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.leader.Pid))
}

func (p *process) kill() error { return p.job.terminate() }

// groupAlive is always false: the end of a job ends its processes before it returns.
func (p *process) groupAlive() bool { return false }
