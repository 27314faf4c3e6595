package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
)

// idleCount is how many transports are idle at the same time.
const idleCount = 1000

// idleContest: what does a transport cost that nobody uses? The wrapped connections are of no process, but offer what
// stdio's do, so that everything is looked after that can be. Each has made one round trip, and one goroutine waits
// in Read, as a session's does. What the wrapped connections cost alone, with their readers, is to be subtracted.
func idleContest() *Contest {
	return &Contest{Name: "1,000 idle", Contenders: []Contender{
		idle("wrapped alone", func() (mcp.Connection, error) { return newQuiet(), nil }),
		idle(string(Supervised), func() (mcp.Connection, error) {
			t, err := supervised.New(func(context.Context) (mcp.Transport, error) { return quietTransport{newQuiet()}, nil })
			if err != nil {
				return nil, err
			}
			return t.Connect(context.Background())
		}),
	}}
}

func idle(name string, open func() (mcp.Connection, error)) Contender {
	return Contender{Name: name, Turn: func(Pace) (Sample, error) {
		before, goroutines := inUse(), runtime.NumGoroutine()
		conns := make([]mcp.Connection, idleCount)
		ended := make(chan error, idleCount)
		for i := range conns {
			c, err := open()
			if err != nil {
				return Sample{}, err
			}
			conns[i] = c
			r := &jsonrpc.Request{ID: newID(firstID), Method: "tools/list"}
			if err := c.Write(context.Background(), r); err != nil {
				return Sample{}, err
			}
			if _, err := c.Read(context.Background()); err != nil {
				return Sample{}, err
			}
			go func() {
				m, err := c.Read(context.Background())
				if m != nil {
					err = errors.New("an idle connection said something")
				}
				ended <- err
			}()
		}
		s := Sample{
			Bytes:      (inUse() - before) / idleCount,
			Goroutines: float64(runtime.NumGoroutine()-goroutines) / idleCount,
		}
		for _, c := range conns {
			_ = c.Close()
		}
		for range conns {
			if err := <-ended; err != io.EOF {
				return s, err
			}
		}
		// The next turn counts from what is left.
		for limit := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				return s, errors.New("goroutines are left behind")
			}
		}
		return s, nil
	}}
}

// inUse is how much the heap and the stacks hold. Two collections: the first finds what has a finalizer.
func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// A quiet connection answers every call and says nothing else.
type quiet struct {
	answers chan jsonrpc.Message
	once    sync.Once
	closed  chan struct{} // closed by Close
}

func newQuiet() *quiet {
	return &quiet{answers: make(chan jsonrpc.Message, 1), closed: make(chan struct{})}
}

type quietTransport struct{ conn *quiet }

func (t quietTransport) Connect(context.Context) (mcp.Connection, error) { return t.conn, nil }

func (q *quiet) SessionID() string       { return "" }
func (q *quiet) Exited() <-chan struct{} { return q.closed }
func (q *quiet) ExitErr() error          { return io.EOF }
func (q *quiet) OnReport(func(error))    {}

func (q *quiet) Kill() error { return q.Close() }

func (q *quiet) Write(_ context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		q.answers <- &jsonrpc.Response{ID: r.ID, Result: json.RawMessage("{}")}
	}
	return nil
}

func (q *quiet) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-q.answers:
		return m, nil
	case <-q.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (q *quiet) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}
