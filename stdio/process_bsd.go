//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package stdio

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// awaitExit returns when the child has exited, without reaping it. It asks the kernel's event queue: waitid
// also returns for a child that was merely stopped, on macOS.
func awaitExit(child *os.Process) error {
	queue, err := unix.Kqueue()
	if err != nil {
		return err
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	var change unix.Kevent_t
	unix.SetKevent(&change, child.Pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	change.Fflags = unix.NOTE_EXIT
	changes, events := []unix.Kevent_t{change}, make([]unix.Kevent_t, 1)
	for {
		switch n, err := unix.Kevent(queue, changes, events, nil); {
		case errors.Is(err, unix.EINTR):
			continue // the change was made, and making it again does no harm
		case errors.Is(err, unix.ESRCH):
			return nil // a zombie already
		case err != nil:
			return err
		case n > 0:
			return nil
		}
	}
}

// groupAlive reports whether a member of the process group runs.
func groupAlive(pgid int) bool { return unix.Kill(-pgid, 0) == nil } // signal 0 asks and does nothing
