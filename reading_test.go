package supervised_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
)

// byHand is a rig whose peers are read by who is in Read, and in which nobody is: one message has been read, for
// which somebody waited, so that the turn is free.
func byHand(t *testing.T, f func(r *rig), opts ...supervised.Option) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, opts...)
		defer r.Transport.Close()
		r.Process = true
		conn, err := r.Transport.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.conn = conn
		for range 2 { // the first by way of the pump
			got := r.reads(context.Background())
			synctest.Wait()
			r.Last().Say(said("hello"))
			want(t, "read", "hello <nil>", <-got)
		}
		f(r)
	})
}

func said(what string) *jsonrpc.Request {
	return &jsonrpc.Request{Method: what, Params: json.RawMessage(`{}`)}
}

// reads calls Read beside the test: what came, and the error.
func (r *rig) reads(ctx context.Context) <-chan string {
	got := make(chan string, 1)
	go func() {
		m, err := r.conn.Read(ctx)
		switch m := m.(type) {
		case *jsonrpc.Request:
			got <- fmt.Sprint(m.Method, " ", err)
		case *jsonrpc.Response:
			got <- fmt.Sprintf("answer to %v: %s %s %v", m.ID.Raw(), m.Result, kind(m.Error), err)
		default:
			got <- fmt.Sprint("nothing ", err)
		}
	}()
	synctest.Wait()
	return got
}

// Whoever has left Read may never come back. What the peer says is heard all the same.
func TestW2_NobodyIsInRead(t *testing.T) {
	byHand(t, func(r *rig) {
		handled := make(chan string, 1)
		s, err := r.Listen(context.Background(), &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}},
			func(n *jsonrpc.Request) { handled <- n.Method })
		want(t, "listen", nil, err)
		r.Last().Say(delivery(s.ID(), "resources/updated"))
		want(t, "handled", "notifications/resources/updated", <-handled)

		got := r.reads(context.Background()) // the pump's turn, which waits for the next message
		r.Last().Say(said("one"), said("two"))
		want(t, "read", "one <nil>", <-got)
		r.Last().Die(errCrash)
		want(t, "the death", lines("close: crash"), r.hooks())
		want(t, "read, of what was said before it", "two <nil>", <-r.reads(context.Background()))
	})
}

func TestW2_ReadsUnderAContextThatEnds(t *testing.T) {
	byHand(t, func(r *rig) {
		for range 3 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			got := r.reads(ctx)
			want(t, "read", "nothing context deadline exceeded", <-got)
			cancel()
			r.Last().Say(said("later"))
			want(t, "read, with nothing lost", "later <nil>", <-r.reads(context.Background()))
		}
		want(t, "hooks: the peer took no harm", nil, r.hooks())
	})
}

// What is not the peer's reaches whoever waits for the peer.
func TestW7_AnswerReachesWhoReadsThePeer(t *testing.T) {
	byHand(t, func(r *rig) {
		got := r.reads(context.Background())
		id, err := r.call("tools/call")
		want(t, "write", nil, err)
		want(t, "restart", nil, r.Restart(errCrash))
		want(t, "read", fmt.Sprintf("answer to %v:  peer lost <nil>", id.Raw()), <-got)

		got = r.reads(context.Background())
		pass(time.Second)
		r.Last().Say(said("hello"))
		want(t, "read of the replacement", "hello <nil>", <-got)
		got = r.reads(context.Background())
		want(t, "close", nil, r.Transport.Close())
		want(t, "read", "nothing EOF", <-got)
	})
}

// More comes at once than is passed on at once.
func TestW2_ManyMessagesAtOnce(t *testing.T) {
	byHand(t, func(r *rig) {
		for _, n := range []int{1, 2, 31, 32, 33, 64, 65, 1000} {
			var ms []jsonrpc.Message
			for i := range n {
				ms = append(ms, said(fmt.Sprint(n, ".", i)))
			}
			r.Last().Say(ms...)
			for i := range n {
				want(t, "read", fmt.Sprint(n, ".", i, " <nil>"), <-r.reads(context.Background()))
			}
		}
	})
}

// Read is for one caller at a time; from several each message still goes to one of them.
func TestW2_SeveralRead(t *testing.T) {
	byHand(t, func(r *rig) {
		const readers, each = 4, 250
		var mu sync.Mutex
		got := make(map[string]int)
		var wg sync.WaitGroup
		for range readers {
			wg.Go(func() {
				for range each {
					m, err := r.conn.Read(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					got[m.(*jsonrpc.Request).Method]++
					mu.Unlock()
				}
			})
		}
		for i := range readers * each {
			r.Last().Say(said(fmt.Sprint(i)))
			if i%7 == 0 {
				synctest.Wait()
			}
		}
		wg.Wait()
		want(t, "messages", readers*each, len(got))
	})
}

// On a clock that stands still the pump has the turn: nothing is heard later for it.
func TestB7_ReadingDoesNotWaitForTheClock(t *testing.T) {
	mock := clock.NewMock()
	r := newRig(t, supervised.WithClock(mock))
	defer r.Transport.Close()
	r.Process = true
	died := make(chan error, 1)
	r.OnClose(func(cause error) { died <- cause })
	conn, err := r.Transport.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.conn = conn
	for range 2 {
		r.Last().Say(said("hello"))
		if _, err := conn.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.Last().Die(errCrash)
	wantIs(t, "cause", next(t, "the death", died), errCrash)
}
