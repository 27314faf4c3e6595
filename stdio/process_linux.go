package stdio

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// awaitExit returns when the child has exited, without reaping it.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
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
