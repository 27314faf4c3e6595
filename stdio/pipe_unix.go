//go:build unix

package stdio

import (
	"errors"
	"os"
	"syscall"
)

// gathers says whether short lines are gathered: what is gathered when Close comes has to go into the pipe at once.
const gathers = true

// A probe writes to a pipe what it takes at once. Arguments and results of the system call are fields, so that a
// write allocates nothing. Not safe for concurrent use.
type probe struct {
	raw  syscall.RawConn
	call func(fd uintptr)
	b    []byte
	n    int
	err  error
}

func (p *probe) init(f *os.File) {
	p.raw, _ = f.SyscallConn() // fails for a nil file only
	p.call = func(fd uintptr) {
		p.n, p.err = nonblocking(syscall.Write, fd, p.b)
	}
}

// write returns how much of b was written; less than all of it, without an error, if the pipe is full.
func (p *probe) write(b []byte) (int, error) {
	p.b, p.n = b, 0
	if err := p.raw.Control(p.call); err != nil {
		p.err = err // closed
	}
	p.b = nil
	return p.n, p.err
}

// tryRead reads what is in the pipe, without regard to a deadline. It returns 0 when that is nothing, now or for
// good.
func tryRead(f *os.File, b []byte) (n int) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		n, _ = nonblocking(syscall.Read, fd, b)
	})
	return n
}

// nonblocking makes one transfer on a descriptor that does not block, as the pipe ends of this process are.
func nonblocking(transfer func(int, []byte) (int, error), fd uintptr, b []byte) (int, error) {
	for {
		n, err := transfer(int(fd), b)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return 0, nil
		}
		return max(n, 0), err
	}
}
