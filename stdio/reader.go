package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunkSize = 64 << 10 // what a pipe holds on Linux, unless the server changed that

	// lateMax is how much is still read from a pipe that was cut: as much as one can hold (Linux, for an
	// unprivileged server). More than that was written by another process, after the exit.
	lateMax = 1 << 20
)

// A reader takes lines from the server's stdout, on the goroutine that asks for one.
type reader struct {
	file *os.File
	over atomic.Bool // nothing more is waited for

	flow flow
	last bool // next has returned all there was; belongs to its caller

	mu       sync.Mutex // held while a line is fetched
	framer   framer
	chunk    []byte
	capacity capacity
	err      error // io.EOF, or why the stream is of no use; the file is closed then

	done    <-chan struct{} // of the context whose end interrupts a read of the pipe; nil: none does
	unwatch func()          // undoes that; nil with done
}

// A flow is how the server's messages come in, for the writer to see.
type flow struct {
	taking atomic.Bool // there are more than were looked at
	taken  atomic.Bool // some came since the writer has cleared it
}

func newReader(file *os.File, maxLine int) *reader {
	r := &reader{file: file, framer: framer{max: maxLine}, chunk: make([]byte, chunkSize)}
	r.flow.taken.Store(true) // nothing was written yet
	return r
}

// next returns the next line of what was fetched, in memory of its own; nil: there is none.
func (r *reader) next() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	line, err := r.framer.next()
	if err != nil {
		r.finish(err)
	}
	r.last = len(r.framer.in) == 0
	return line
}

// wait fetches more. The error is the context's, or what has ended the stream after all lines: io.EOF, or a
// *LineTooLongError.
func (r *reader) wait(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		if r.framer.left() {
			return nil // it was sealed after next had found nothing
		}
		return r.err
	}
	if r.over.Load() {
		r.takeLate()
		return nil
	}
	r.watch(ctx)
	if len(r.framer.held) >= chunkSize {
		r.capacity.raise(r.file)
	}
	n, err := r.file.Read(r.chunk)
	r.framer.in = r.chunk[:n]
	if n > 0 {
		r.flow.taken.Store(true)
		r.flow.taking.Store(true)
	}
	switch {
	case err == nil, r.over.Load():
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	default:
		r.finish(io.EOF) // or a failure of the pipe, which comes to the same
	}
	return nil
}

// cut makes the reader wait no more: it goes on with what is in the pipe now, then ends.
func (r *reader) cut() {
	r.over.Store(true)
	unblock(r.file)
}

// seal closes the pipe, after a read under way has returned. What was in it stays readable.
func (r *reader) seal() {
	r.cut()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.takeLate()
	}
}

// takeLate takes all that is in the pipe into memory and finishes.
func (r *reader) takeLate() {
	late := bytes.Clone(r.framer.in)
	for n := 1; n > 0 && len(late) < lateMax; {
		late = slices.Grow(late, chunkSize)
		n = tryRead(r.file, late[len(late):cap(late)])
		late = late[:len(late)+n]
	}
	r.framer.in = late
	r.finish(io.EOF)
}

func (r *reader) finish(err error) {
	r.watch(context.Background())
	r.err = err
	r.framer.ended = true
	r.chunk = nil
	r.capacity.closed()
	_ = r.file.Close()
}

// past is a deadline that is over on any clock.
var past = time.Unix(1, 0)

// unblock makes every read of f return at once, the one under way included. Where a pipe takes no deadline
// (Windows), closing it does that.
func unblock(f *os.File) {
	if err := f.SetReadDeadline(past); err != nil {
		_ = f.Close()
	}
}

// watch makes the end of ctx interrupt a read of the pipe, in place of the context before. Who reads on under one
// context pays for it once; a context that cannot end costs nothing.
func (r *reader) watch(ctx context.Context) {
	if ctx.Done() == r.done {
		return
	}
	if r.unwatch != nil {
		r.unwatch()
		r.unwatch = nil
	}
	r.done = ctx.Done()
	if r.done == nil {
		return
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = r.file.SetReadDeadline(past)
		close(interrupted)
	})
	r.unwatch = func() {
		if stop() {
			return
		}
		<-interrupted
		_ = r.file.SetReadDeadline(time.Time{})
		if r.over.Load() {
			unblock(r.file) // the cut may have come before that
		}
	}
}
