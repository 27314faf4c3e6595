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

// A writer sends messages to the server's stdin, a line each, one at a time.
//
// The turn decides whose line is written. It is held by a caller while its line fits into the pipe. Where it
// does not, line and turn pass to a goroutine that writes the rest, however long the server takes to read:
// the caller may leave at any time, and no line is left in the middle.
type writer struct {
	file  *os.File
	probe probe         // used by whoever has the turn
	turn  chan struct{} // one slot; full while a line is being written

	once sync.Once
	why  error // of the end; set in once
}

func newWriter(file *os.File) *writer {
	w := &writer{file: file, turn: make(chan struct{}, 1)}
	w.probe.init(file)
	return w
}

// write sends m. See connection.Write for its errors.
func (w *writer) write(ctx context.Context, m jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l := lines.Get().(*line)
	if err := l.encode(m); err != nil {
		l.recycle()
		return &EncodeError{Err: err}
	}
	if err := w.takeTurn(ctx); err != nil {
		l.recycle()
		return err
	}
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
	written := make(chan error, 1)
	go func() {
		_, err := w.file.Write(l.text[n:])
		if err != nil {
			err = w.fail(err)
		}
		l.recycle()
		<-w.turn
		written <- err
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail ends the writer after a failed write and returns why it ended, which may be another reason: a write that
// is interrupted by end fails too.
func (w *writer) fail(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err // "|1" is no name that helps anyone
	}
	w.end(fmt.Errorf("stdio: write: %w", err))
	return w.why
}

// end closes stdin. The write under way fails at once, and then those that wait for their turn and all later
// ones: with why, unless there was an end before.
func (w *writer) end(why error) {
	w.once.Do(func() {
		w.why = why
		_ = w.file.Close()
	})
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

var lines = sync.Pool{New: func() any { return new(line) }}

func (l *line) encode(m jsonrpc.Message) error {
	text, err := wire.Append(l.text[:0], m)
	if err != nil {
		return err
	}
	l.text = append(text, '\n')
	return nil
}

// recycle gives l back. A large buffer is left to the garbage collector, so that one large message does not
// stay for ever.
func (l *line) recycle() {
	if cap(l.text) <= 64<<10 {
		lines.Put(l)
	}
}
