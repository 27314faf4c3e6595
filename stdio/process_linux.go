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
// server; the poller of the runtime is told by a descriptor of the process (pidfd, Linux 5.3), where it can be had.
func awaitExit(pid int) error {
	if fd, err := unix.PidfdOpen(pid, unix.O_NONBLOCK); err == nil {
		pidfd := os.NewFile(uintptr(fd), "pidfd")
		defer pidfd.Close()
		var failed error
		if raw, err := pidfd.SyscallConn(); err == nil && raw.Read(func(uintptr) bool {
			var exited bool
			exited, failed = waitExit(pid, unix.WNOHANG)
			return exited || failed != nil
		}) == nil {
			return failed
		}
	}
	_, err := waitExit(pid, 0)
	return err
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
