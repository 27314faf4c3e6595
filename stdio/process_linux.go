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
	if pidfd, err := openProcess(child); err == nil {
		done, err := pollExit(pidfd, child.Pid)
		_ = pidfd.Close()
		if done {
			return err
		}
	}
	_, err := waitExit(child.Pid, 0)
	return err
}

// openProcess opens a descriptor of the child that can be waited for in the poller. The handle that the child has already
// cannot, but there is one only where the system has such descriptors (Linux 5.4) and lets us have them: on an old Android
// to ask for one is the end of us (go.dev/issue/69065).
func openProcess(child *os.Process) (*os.File, error) {
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

// pollExit returns when the child has exited, or cannot be waited for. It reports false where pidfd is nothing for the
// poller.
func pollExit(pidfd *os.File, pid int) (done bool, err error) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return false, err
	}
	polled := raw.Read(func(uintptr) bool {
		done, err = waitExit(pid, unix.WNOHANG)
		return done || err != nil
	})
	return polled == nil, err
}

func waitExit(pid, options int) (exited bool, err error) {
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
