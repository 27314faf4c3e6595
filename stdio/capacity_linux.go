package stdio

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// What is raised, in bytes, and how many pipes of this process at the same time. A user whose pipes hold more than
// /proc/sys/fs/pipe-user-pages-soft, by default 64 MiB, gets small ones from then on, in all of his processes
// (pipe(7)): a quarter of that is our share.
const (
	raisedCapacity = 256 << 10
	raisedMax      = 64
)

var raisedPipes atomic.Int32

// A capacity is how much a pipe holds: by itself what a chunk does, so that a large message goes through it in many
// pieces, with a change of processes for each. The zero value is of one that was left as it is.
type capacity struct {
	asked  bool
	raised bool
}

// raise has the pipe hold more, if it may and does not already. It asks once.
func (c *capacity) raise(f *os.File) {
	if c.asked {
		return
	}
	c.asked = true
	c.raised = raisedPipes.Add(1) <= raisedMax && enlarge(f)
	if !c.raised {
		raisedPipes.Add(-1)
	}
}

// enlarge has the pipe hold raisedCapacity, or reports false: it may not, or the server has seen to it.
func enlarge(f *os.File) (done bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		if size, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err != nil || size >= raisedCapacity {
			return
		}
		size, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, raisedCapacity)
		if err != nil {
			return
		}
		done = true
		// Before the fix "pipe: wakeup wr_wait after setting max_usage" of Linux 6.8, who waits to write is woken
		// while the old limit is in force, and waits on for ever. The same size again wakes him under the new one.
		_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size)
	})
	return done
}

// closed is that the pipe is: another may be raised in its place.
func (c *capacity) closed() {
	if c.raised {
		c.raised = false
		raisedPipes.Add(-1)
	}
	c.asked = true
}
