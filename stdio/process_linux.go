package stdio

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// awaitExit returns when the child has exited, without reaping it. A system call that waits would keep a thread for each
// server; the poller of the runtime wants a descriptor of the process.
func awaitExit(child *os.Process) error {
	if pidfd, err := openPidfd(child); err == nil {
		polled, err := pollExit(pidfd, child.Pid)
		_ = pidfd.Close()
		if polled {
			return err
		}
	}
	_, err := waitid(child.Pid, 0)
	return err
}

// openPidfd opens a descriptor of the child for the poller, which takes only one that does not block. The handle that
// os.Process has is none: its Wait relies on that it blocks, and a duplicate would share the flag. PIDFD_NONBLOCK wants
// Linux 5.10, so the flag is set afterwards. WithHandle fails where Go has found that there are no such descriptors (before
// Linux 5.4) or that none may be asked for: Android before 12 kills who does (go.dev/issue/69065).
func openPidfd(child *os.Process) (*os.File, error) {
	if err := child.WithHandle(func(uintptr) {}); err != nil {
		return nil, err
	}
	fd, err := unix.PidfdOpen(child.Pid, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// pollExit returns when the child has exited, or cannot be waited for. It reports false where the poller does not take
// pidfd.
func pollExit(pidfd *os.File, pid int) (polled bool, err error) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return false, err
	}
	failed := raw.Read(func(uintptr) bool {
		var exited bool
		exited, err = waitid(pid, unix.WNOHANG)
		return exited || err != nil
	})
	return failed == nil, err
}

// waitid waits for the exit, and leaves the zombie. With WNOHANG it does not wait; a child that runs is no error, and leaves
// the signal number 0.
func waitid(pid, options int) (exited bool, err error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if !errors.Is(err, unix.EINTR) {
			return info.Signo != 0, err
		}
	}
}

// groupAlive reports whether a member of the process group runs, the leader having been reaped. A zombie does not:
// where no init process reaps, as in many a container, an orphan stays one for ever. Where we are that process
// (process 1 of a container, or a subreaper) the orphans of the group have become our children, and are reaped
// here.
func groupAlive(pgid int) bool {
	if err := unix.Kill(-pgid, 0); errors.Is(err, unix.ESRCH) { // signal 0 asks and does nothing
		return false
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	if len(stats) == 0 {
		return true // no /proc here
	}
	group := []byte(strconv.Itoa(pgid))
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // gone meanwhile
		}
		// "pid (name) state ppid pgrp ...", and the name may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 || !bytes.Equal(fields[2], group) {
			continue
		}
		if !bytes.Contains([]byte("ZX"), fields[0]) {
			return true
		}
		if string(fields[1]) == strconv.Itoa(os.Getpid()) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			}
		}
	}
	return false
}
