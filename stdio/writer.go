package stdio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/internal/wire"
)

// EncodeError is returned to the writer of a message that cannot be encoded; nothing of it was written. It
// matches the SDK's "rejected by transport", so that an SDK session fails that one call and goes on.
type EncodeError struct {
	Err error
}

func (e *EncodeError) Error() string { return "stdio: message not written: " + e.Err.Error() }

func (e *EncodeError) Unwrap() []error { return []error{errRejected, e.Err} }

var (
	errRejected = &jsonrpc.Error{Code: -32005, Message: "rejected by transport"}

	errBrokenPipe = fmt.Errorf("stdio: write: %w", syscall.EPIPE)
)

// What is gathered, in bytes: short lines, as much of them as a pipe holds on Linux.
const (
	gatherLine = 4 << 10
	gatherMax  = 64 << 10
)

// A writer sends messages to the server's stdin, a line each, one at a time.
//
// The turn decides whose line is written. It is held by a caller while its line fits into the pipe. Where it
// does not, line and turn pass to a goroutine that writes the rest, however long the server takes to read:
// the caller may leave at any time, and no line is left in the middle.
//
// A system call for each line is most of what a short one costs. Who writes the next one before anything has come
// from the server, or while that is being looked at, does not wait for the answer to the one at hand: so it is left
// to a goroutine that writes it together with those that come meanwhile.
type writer struct {
	file  *os.File
	probe probe         // used by whoever has the turn
	turn  chan struct{} // one slot; full while a line is being written
	stuck chan struct{} // one slot; full while who has the turn waits for the server to read
	flow  *flow         // of what the server writes
	lost  func()        // called after lines could not be written whose writers have left

	mu       sync.Mutex
	gathered *line // to be written by who has the turn next; nil: nothing
	flushing bool  // a goroutine is about to take the turn for them
	capacity capacity
	why      error // of the end; nil: it has not come
}

func newWriter(file *os.File, flow *flow, lost func()) *writer {
	w := &writer{file: file, turn: make(chan struct{}, 1), stuck: make(chan struct{}, 1), flow: flow, lost: lost}
	w.probe.init(file)
	return w
}

// write sends m. See connection.Write for its errors.
func (w *writer) write(ctx context.Context, m jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l := newLine(m)
	if err := l.encode(m); err != nil {
		l.recycle()
		return &EncodeError{Err: err}
	}
	if gathers && w.hurried() && w.gather(l) {
		return nil
	}
	if err := w.takeTurn(ctx); err != nil {
		l.recycle()
		return err
	}
	l = w.collect(l)
	n, err := w.probe.write(l.text)
	if err == nil && n < len(l.text) {
		return w.writeRest(ctx, l, n)
	}
	l.recycle()
	if err != nil {
		err = w.fail(err)
	}
	<-w.turn
	return err
}

// hurried reports whether lines come faster than answers are waited for: messages of the server are being looked at
// right now, or none was since the line before.
func (w *writer) hurried() bool {
	if w.flow.taking.Load() {
		return true
	}
	if w.flow.taken.Load() {
		w.flow.taken.Store(false)
		return false
	}
	return true
}

// gather takes l in, to be written soon, or reports false.
func (w *writer) gather(l *line) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why != nil || len(w.stuck) > 0 || len(l.text) > gatherLine {
		return false
	}
	if w.gathered == nil {
		w.gathered = batches.Get().(*line)
	}
	if len(w.gathered.text)+len(l.text) > gatherMax {
		return false
	}
	w.gathered.text = append(w.gathered.text, l.text...)
	l.recycle()
	if !w.flushing {
		w.flushing = true
		go w.flush()
	}
	return true
}

// collect returns the gathered lines with l behind them, which may be nil, for who has the turn; nil: there is
// nothing.
func (w *writer) collect(l *line) *line {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.gathered
	w.gathered = nil
	switch {
	case g == nil:
		return l
	case l != nil:
		g.text = append(g.text, l.text...)
		l.recycle()
	}
	return g
}

// flush writes what is gathered until that is nothing.
func (w *writer) flush() {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	for {
		w.mu.Lock()
		l := w.gathered
		w.gathered = nil
		w.flushing = l != nil
		w.mu.Unlock()
		if l == nil {
			return
		}
		if err := w.writeAll(l, 0); err != nil {
			w.lost()
		}
	}
}

func (w *writer) takeTurn(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case w.turn <- struct{}{}:
		if err := ctx.Err(); err != nil { // both were ready
			<-w.turn
			return err
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeRest waits for the server to take the rest of l, from byte n on, or for ctx. It passes l and the turn on.
func (w *writer) writeRest(ctx context.Context, l *line, n int) error {
	written := make(chan error)
	go func() {
		err := w.writeAll(l, n)
		<-w.turn
		select {
		case written <- err:
		case <-ctx.Done():
			if err != nil {
				w.lost()
			}
		}
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeAll writes l from byte n on, however long the server takes to read. It is called by who has the turn.
func (w *writer) writeAll(l *line, n int) error {
	defer l.recycle()
	k, err := w.probe.write(l.text[n:])
	if n += k; err == nil && n < len(l.text) {
		w.stuck <- struct{}{}
		if len(l.text) > chunkSize {
			w.raise()
		}
		_, err = w.file.Write(l.text[n:])
		select {
		case <-w.stuck:
		default: // finish has it
		}
	}
	if err != nil {
		return w.fail(err)
	}
	return nil
}

// raise has the pipe hold more, for who has the turn.
func (w *writer) raise() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.capacity.raise(w.file)
}

// fail ends the writer after a failed write and returns why it ended, which may be another reason: a write that
// is interrupted by end fails too.
func (w *writer) fail(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err // "|1" is no name that helps anyone
	}
	return w.end(fmt.Errorf("stdio: write: %w", err))
}

// end closes stdin. The write under way fails at once, and then those that wait for their turn and all later
// ones: with why, unless there was an end before, whose reason it returns.
func (w *writer) end(why error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == nil {
		w.why = why
		w.capacity.closed()
		_ = w.file.Close()
	}
	return w.why
}

// failure is why the writer has ended; nil: it has not.
func (w *writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// finish ends the writer after what was gathered is in the pipe, as far as the pipe takes it at once.
func (w *writer) finish(why error) {
	select {
	case w.turn <- struct{}{}:
		if l := w.collect(nil); l != nil {
			_, _ = w.probe.write(l.text) // whoever closes waits for nothing
			l.recycle()
		}
		<-w.turn
	case <-w.stuck:
	}
	w.end(why)
}

// settle returns when no write is under way. It is called after end.
func (w *writer) settle() {
	w.turn <- struct{}{}
	<-w.turn
}

// A line is an encoded message with its newline.
type line struct {
	text []byte
}

// Lines by the size of their buffers. A large buffer that nobody needs goes with the garbage; one that short messages
// took would stay for ever.
var (
	lines   = sync.Pool{New: func() any { return new(line) }}
	batches = sync.Pool{New: func() any { return &line{text: make([]byte, 0, gatherMax)} }}
	large   = sync.Pool{New: func() any { return new(line) }}
)

// newLine returns a line to encode m in.
func newLine(m jsonrpc.Message) *line {
	size := 0
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m != nil {
			size = len(m.Params)
		}
	case *jsonrpc.Response:
		if m != nil {
			size = len(m.Result)
		}
	}
	if size > gatherMax {
		return large.Get().(*line)
	}
	return lines.Get().(*line)
}

func (l *line) encode(m jsonrpc.Message) error {
	text, err := wire.Append(l.text[:0], m)
	if err != nil {
		return err
	}
	l.text = append(text, '\n')
	return nil
}

// recycle gives l back.
func (l *line) recycle() {
	l.text = l.text[:0]
	switch n := cap(l.text); {
	case n < gatherMax:
		lines.Put(l)
	case n == gatherMax:
		batches.Put(l)
	default:
		large.Put(l)
	}
}
