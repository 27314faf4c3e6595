package stdio

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised/internal/wire"
)

const (
	// drainWait is how long after an exit the pipes of the process are still listened to, when something else
	// holds them open (rule W3), and how long after the end of stdout Read waits for the exit behind it.
	drainWait = 250 * time.Millisecond

	// killWait is how long a process may take to go after SIGKILL (rule D4). One in an uninterruptible system
	// call may take for ever.
	killWait = 5 * time.Second
)

var (
	errClosed = fmt.Errorf("stdio: %w", mcp.ErrConnectionClosed)

	errStdoutClosed = fmt.Errorf("stdio: server closed its stdout: %w", io.ErrUnexpectedEOF)
)

// A connection is a started process and our ends of its pipes. Its facets have a file each: the writer has
// stdin, the reader stdout, the stderr its own pipe, the process what is signalled and waited for.
type connection struct {
	proc   *process
	stdin  *writer
	stdout *reader
	stderr *stderr
	grace  time.Duration
	clock  clock.Clock
	log    logrus.FieldLogger
	report atomic.Pointer[func(error)]

	batch wire.Array // what is left of a line that held an array; belongs to Read
	whole int        // the length of the line that is being read, in bytes; belongs to Read

	ended time.Time // when Read came to the end of stdout; zero: it has not; belongs to Read

	dead   chan struct{} // closed by watch: the process has ended, and its stderr is being read out
	exited chan struct{} // closed by watch, after dead
	exit   *ExitError    // set before exited is closed
	gone   chan struct{} // closed by watch, after exited, when the group is gone too

	closing atomic.Bool
	stop    sync.Once // Close
	stopErr error     // of Close
	release sync.Once // of what the process leaves behind
}

func newConnection(cmd Command, proc *process, ends [3]*os.File) *connection {
	c := &connection{
		proc:   proc,
		stdout: newReader(ends[1], cmd.MaxLine),
		grace:  cmd.StopGrace,
		clock:  cmd.Clock,
		log:    cmd.Logger,
		dead:   make(chan struct{}),
		exited: make(chan struct{}),
		gone:   make(chan struct{}),
	}
	c.stdin = newWriter(ends[0], &c.stdout.flow, c.unwritable)
	c.stderr = newStderr(ends[2], cmd, c.reported)
	go c.stderr.drain()
	go c.watch()
	return c
}

// SessionID returns the empty string: a pipe has no sessions.
func (c *connection) SessionID() string { return "" }

// Exited returns a channel that is closed when the process has ended and was reaped, Read or not.
func (c *connection) Exited() <-chan struct{} { return c.exited }

// ExitErr returns how the process ended: an *[ExitError], for exit status 0 too. It is nil until Exited is
// closed.
func (c *connection) ExitErr() error {
	select {
	case <-c.exited:
		return c.exit
	default:
		return nil
	}
}

// OnReport sets what is told about mishaps that ended nothing, such as a *[StrayLineError]. It is called from
// the goroutine that reads or, for the stderr writer's failure, from one of ours. Call OnReport once, before the
// first Read; what happens without it is only logged.
func (c *connection) OnReport(f func(error)) {
	if f != nil {
		c.report.Store(&f)
	}
}

func (c *connection) reported(err error) {
	if f := c.report.Load(); f != nil {
		(*f)(err)
	}
}

// Write sends m as one line. It may be called from any number of goroutines.
//
// It returns the context's error as soon as the context is done, and writes nothing if it was done before. A
// message that cannot be encoded is an *[EncodeError]. Neither harms the connection. Every other error ends it:
// one that matches mcp.ErrConnectionClosed after Close or Kill, else the system's, EPIPE when the process is gone.
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	return c.stdin.write(ctx, m)
}

// Read returns the server's next message, or the error of its context; a context's end loses no message.
//
// Lines that are no message are reported and skipped. When all is read that the process had written, the error
// is io.EOF after Close, else the *[ExitError]; where the process goes on without its stdout, it matches
// io.ErrUnexpectedEOF. A line over the limit is a *[LineTooLongError], now and in every later Read.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if m := c.ready(); m != nil {
			return m, nil
		}
		switch err := c.stdout.wait(ctx); {
		case err == io.EOF:
			return nil, c.ending(ctx)
		case err != nil:
			return nil, err
		}
	}
}

// ready returns the server's next message if it has been read from the pipe already; nil: Read has to wait, or to say
// what has ended.
func (c *connection) ready() jsonrpc.Message {
	for {
		text := c.next()
		if text == nil {
			c.stdout.flow.taking.Store(false)
			return nil
		}
		m, err := wire.Decode(text)
		if err == nil {
			if !c.batch.More() && c.stdout.last {
				c.stdout.flow.taking.Store(false)
			}
			return detached(m, c.whole)
		}
		c.log.WithField("bytes", len(text)).Warn("skipped a line on stdout that is no JSON-RPC message")
		c.reported(newStrayLineError(text, err))
	}
}

// next returns what should be a message: a line, or an element of one that holds an array. Nil: there is none at hand.
func (c *connection) next() []byte {
	if text := c.batch.Next(); text != nil {
		return text
	}
	line := c.stdout.next()
	c.whole = len(line)
	if line == nil || !wire.IsArray(line) {
		return line
	}
	batch, err := wire.OpenArray(line)
	if err != nil {
		return line // no message either; decoding says so
	}
	c.batch = batch
	return c.batch.Next()
}

// ending says what Read returns when stdout has ended. That is seen before the exit that it comes from, so it waits
// for that a little.
func (c *connection) ending(ctx context.Context) error {
	if c.closing.Load() {
		return io.EOF
	}
	if c.ended.IsZero() {
		c.ended = c.clock.Now()
	}
	timer := c.clock.Timer(drainWait - c.clock.Since(c.ended))
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		select {
		case <-c.dead: // something else holds its stderr open; watch waits for that no longer than this did
			select {
			case <-c.exited:
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.closing.Load() {
		return io.EOF
	}
	if err := c.ExitErr(); err != nil {
		return err
	}
	if err := c.stdin.failure(); err != nil {
		return err
	}
	return errStdoutClosed
}

// unwritable ends Read where lines could not be written whose writers have left: the server has closed its stdin. What
// it says on its way out is heard for as long as after an exit.
func (c *connection) unwritable() {
	if !c.closing.Load() {
		c.clock.AfterFunc(drainWait, c.stdout.cut)
	}
}

// Close ends the process: the end of its stdin, a grace, SIGTERM to its group, a grace, SIGKILL to its group.
// While it waits, Read goes on. It returns when the process and its group are gone and everything of ours is
// released; nil however they went, an error if they are still there 5 s after SIGKILL. It may be called again,
// and from many goroutines: all return then, with the same result.
func (c *connection) Close() error {
	c.stop.Do(func() {
		c.closing.Store(true)
		c.stdin.finish(errClosed)
		if !c.goneWithin(c.grace) {
			c.proc.terminate()
			if !c.goneWithin(c.grace) {
				c.stopErr = c.destroy()
			}
		}
		c.release.Do(c.letGo)
	})
	return c.stopErr
}

// Kill sends SIGKILL to the group, also while Close waits, and returns when the process and its group are gone
// and everything of ours is released. It returns an error if they are still there 5 s later.
func (c *connection) Kill() error {
	_ = c.proc.kill() // before its stdin ends, which it might go by; destroy says what fails
	c.stdin.end(errClosed)
	err := c.destroy()
	c.release.Do(c.letGo)
	return err
}

func (c *connection) destroy() error {
	err := c.proc.kill()
	if c.goneWithin(killWait) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stdio: process cannot be killed: %w", err)
	}
	return fmt.Errorf("stdio: process is still there %v after SIGKILL", killWait)
}

func (c *connection) goneWithin(d time.Duration) bool {
	select {
	case <-c.gone:
		return true
	default:
	}
	timer := c.clock.Timer(d)
	defer timer.Stop()
	select {
	case <-c.gone:
		return true
	case <-timer.C:
		return false
	}
}

// letGo gives back pipes and goroutines. Messages that are still in the pipe stay readable.
func (c *connection) letGo() {
	c.stdout.seal()
	c.stdin.settle()
	c.stderr.stop()
}

// watch sees the process to its end. It runs on a goroutine of its own from start to end.
func (c *connection) watch() {
	c.proc.await()
	close(c.dead)
	_ = c.proc.kill() // what is left of the group, while its id is still taken
	c.stdin.end(errBrokenPipe)
	c.clock.AfterFunc(drainWait, c.stdout.cut)

	timer := c.clock.Timer(drainWait)
	select {
	case <-c.stderr.drained:
	case <-timer.C:
		c.stderr.stop()
	}
	timer.Stop()

	code, signal := c.proc.reap()
	c.exit = &ExitError{Code: code, Signal: signal, Stderr: c.stderr.last()}
	close(c.exited)

	// A killed process takes a moment to go, and nothing tells us when one that is not our child has.
	for pause := time.Millisecond; pause < drainWait && c.proc.groupAlive(); pause *= 2 {
		<-c.clock.After(pause)
	}
	close(c.gone)
}
