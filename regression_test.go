package supervised_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

// Faults that the property found, each reduced to what it took.

// The end of the handshake waits for a replacement that is coming up. A peer that Close is ending was taken for one,
// and no status ever followed.
func TestW1_InitializedWhileClosing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.Answer = serve2025
			p.OnClose = func() error { time.Sleep(time.Second); return nil }
			return nil
		})
		r.connect()
		r.call("initialize")
		r.read()
		closed := later(r.Transport.Close)
		pass(time.Millisecond)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel() // so that a Write that hangs does not hang the test
		said := later(func() error {
			return r.conn.Write(ctx, &jsonrpc.Request{Method: "notifications/initialized"})
		})
		pass(time.Hour)
		select {
		case err := <-said:
			want(r, "Write", "closed", kind(err))
		default:
			r.Error("Write has not returned")
		}
		want(r, "Close", nil, <-closed)
	})
}

// What the transport rejects concerns its writer alone, also where that is the supervisor, which answers the pings of
// a replacement that it is replaying to. It took the rejection for the end of the connection.
func TestD1_RejectedPong(t *testing.T) {
	inBubble(t, func(r *rig) {
		replayed := make(chan struct{})
		r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(_ context.Context, m jsonrpc.Message) error {
				if _, is := m.(*jsonrpc.Response); is {
					return &jsonrpc.Error{Code: -32005, Message: "rejected"}
				}
				<-replayed
				return nil
			}
			return nil
		})
		r.connect()
		r.call("tools/list")
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		id, _ := jsonrpc.MakeID(1.0)
		r.Last().Say(&jsonrpc.Request{ID: id, Method: "ping"})
		pass(time.Second)
		r.wantState(supervised.StateConnecting)
		close(replayed)
		pass(time.Second)
		r.wantState(supervised.StateServing)
		want(r, "hooks", lines("close: crash", "reconnect"), r.hooks())
	}, keeping)
}

// A ping that is written in the gap is answered at once. Where the transport ended between the look at its state and
// that answer, Write said nil and no answer came.
func TestW7_PingAsTheGapEnds(t *testing.T) {
	for range 300 {
		inBubble(t, func(r *rig) {
			r.connect()
			r.Last().Die(errCrash)
			r.wantState(supervised.StateRespawnPending)
			var writers sync.WaitGroup
			var owed atomic.Int64
			for i := range 4 {
				writers.Go(func() {
					for n := range 10_000 {
						id, _ := jsonrpc.MakeID(fmt.Sprint(i, "-", n))
						if r.conn.Write(context.Background(), &jsonrpc.Request{ID: id, Method: "ping"}) != nil {
							return
						}
						owed.Add(1)
					}
				})
			}
			r.Transport.Close()
			writers.Wait()
			want(r, "answers", int(owed.Load()), len(r.read()))
		})
	}
}
