package stdio

import (
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A job is a job object, whose processes die with it. Safe for concurrent use.
type job struct {
	mu     sync.Mutex
	handle windows.Handle // 0 once closed
}

func newJob() (*job, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateJobObject", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, // the host's own end counts as well
		},
	}
	_, err = windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(handle)
		return nil, os.NewSyscallError("SetInformationJobObject", err)
	}
	return &job{handle: handle}, nil
}

func (j *job) assign(p *os.Process) error {
	var assigned error
	if err := p.WithHandle(func(handle uintptr) {
		assigned = windows.AssignProcessToJobObject(j.handle, windows.Handle(handle))
	}); err != nil {
		return err
	}
	return os.NewSyscallError("AssignProcessToJobObject", assigned)
}

func (j *job) terminate() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handle == 0 {
		return nil
	}
	return os.NewSyscallError("TerminateJobObject", windows.TerminateJobObject(j.handle, 1))
}

func (j *job) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handle != 0 {
		_ = windows.CloseHandle(j.handle)
		j.handle = 0
	}
}
