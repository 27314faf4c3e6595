package supervised_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

// A flood is a server that says the same thing for ever, and counts how often it could.
type flood struct {
	message func() jsonrpc.Message
	said    atomic.Int64
	closed  chan struct{}
}

func (f *flood) Connect(context.Context) (mcp.Connection, error) { return f, nil }

func (f *flood) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-f.closed:
		return nil, io.EOF
	default:
		f.said.Add(1)
		return f.message(), ctx.Err()
	}
}

func (f *flood) Write(context.Context, jsonrpc.Message) error { return nil }
func (f *flood) SessionID() string                            { return "" }
func (f *flood) Close() error                                 { close(f.closed); return nil }

// TestW2_FloodIsLeftWaiting: whatever a server says to a client that does not read, no more than 4 MiB of it are taken,
// and one message.
func TestW2_FloodIsLeftWaiting(t *testing.T) {
	const limit = 4 << 20
	long := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		name    string
		message jsonrpc.Request
		costs   int // at least
	}{
		{"long params", jsonrpc.Request{Method: "m", Params: []byte(`"` + long + `"`)}, 1 << 20},
		{"a long method", jsonrpc.Request{Method: long}, 1 << 20},
		// Ids counted nothing: 16,000 of 16 MiB each were let in.
		{"a long id", jsonrpc.Request{Method: "m", ID: idOf(long)}, 1 << 20},
		{"next to nothing", jsonrpc.Request{Method: "m"}, 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flood{closed: make(chan struct{}), message: func() jsonrpc.Message { m := tt.message; return &m }}
				tr, err := supervised.New(func(context.Context) (mcp.Transport, error) { return f, nil })
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				conn, err := tr.Connect(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				said := f.said.Load()
				if said < 2 || int(said)*tt.costs > limit+2*tt.costs {
					t.Errorf("%d messages were taken", said)
				}
				for range said { // one that reads and answers gets the next
					m, err := conn.Read(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					if r := m.(*jsonrpc.Request); r.IsCall() {
						conn.Write(context.Background(), &jsonrpc.Response{ID: r.ID, Result: []byte(`{}`)})
					}
				}
				synctest.Wait()
				if then := f.said.Load(); then <= said {
					t.Errorf("%d messages were taken, and none after they were read", said)
				}
			})
		})
	}
}

// TestH5_FloodOfReports: of what a server causes to be reported, no more than 1,000 wait for a hook that does not
// return.
func TestH5_FloodOfReports(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error { p.Process = true; return nil }
		r.connect()
		hold := make(chan struct{})
		var told atomic.Int64
		r.OnError(func(error) { told.Add(1); <-hold })
		for range 5000 {
			r.Last().Report(errors.New("stray line"))
		}
		synctest.Wait()
		close(hold)
		synctest.Wait()
		want(t, "reports", int64(1000), told.Load())
		r.Last().Report(errors.New("and later"))
		synctest.Wait()
		want(t, "reports", int64(1001), told.Load())
	})
}
