package supervised

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"testing/synctest"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestW2_AnswerBehindWhatWasHeld: between the door and the release of what was held back, a call may come in and be
// answered. Its answer overtook what the peer had said before it.
func TestW2_AnswerBehindWhatWasHeld(t *testing.T) {
	l := newLedger()
	ctx := context.Background()
	l.hear(0, func(jsonrpc.ID) bool { return false })
	l.deliver(ctx, 0, &jsonrpc.Request{Method: "notifications/first"})
	l.admit()
	id, _ := jsonrpc.MakeID(1.0)
	if _, err := l.register(0, entry{request: &jsonrpc.Request{ID: id, Method: "tools/call"}, ctx: ctx}); err != nil {
		t.Fatal(err)
	}
	l.deliver(ctx, 0, &jsonrpc.Request{Method: "notifications/second"})
	l.deliver(ctx, 0, &jsonrpc.Response{ID: id, Result: json.RawMessage(`"third"`)})
	l.release()
	var got []string
	for range 3 {
		m, err := l.read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *jsonrpc.Request:
			got = append(got, m.Method)
		case *jsonrpc.Response:
			got = append(got, string(m.Result))
		}
	}
	if d := cmp.Diff([]string{"notifications/first", "notifications/second", `"third"`}, got); d != "" {
		t.Errorf("read (-want +got):\n%s", d)
	}
}

// TestW6_CallsAreUsedAgain: a call that was answered serves the next one, unless somebody may still have it: its
// writer, until the Write is over, or who replays it.
func TestW6_CallsAreUsedAgain(t *testing.T) {
	ctx := context.Background()
	for _, test := range []struct {
		name    string
		written bool
		lost    bool
		again   bool
	}{
		{name: "answered", written: true, again: true},
		{name: "answered during its Write"},
		{name: "kept at a death", written: true, lost: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger()
			generation := 0
			open := func() {
				l.hear(generation, func(jsonrpc.ID) bool { return false })
				l.admit()
				l.release()
			}
			register := func(n float64) *call {
				id, _ := jsonrpc.MakeID(n)
				c, err := l.register(generation, entry{request: &jsonrpc.Request{ID: id, Method: "tools/call"}, ctx: ctx})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			open()
			first := register(1)
			id := first.request.ID
			first.written.Store(test.written)
			if test.lost {
				l.seal(func(*jsonrpc.Request) bool { return true }, ErrPeerLost)
				generation++
				open()
				if !l.resend(generation, first) {
					t.Fatal("the call was not kept")
				}
			}
			l.deliver(ctx, generation, &jsonrpc.Response{ID: id, Result: json.RawMessage(`1`)})
			if m, err := l.read(ctx); err != nil || m.(*jsonrpc.Response).ID != id {
				t.Fatalf("read %v, %v", m, err)
			}
			second := register(2)
			if again := second == first; again != test.again {
				t.Errorf("used again: %t, want %t", again, test.again)
			}
			if second.written.Load() || second.moved || second.generation != generation || second.in != &l.flight {
				t.Error("the second call has something of the first")
			}
			if !test.again && first.request.ID != id {
				t.Error("the call of a writer is another one now")
			}
		})
	}
}

// TestW7_InitializedWaitsForTheLedger: the end of the handshake waits while a replacement is being replayed to. The
// status is ahead of the ledger: who came between the two waited for the status after the last one.
func TestW7_InitializedWaitsForTheLedger(t *testing.T) {
	spent := &ExhaustedError{Restarts: 1}
	for _, test := range []struct {
		name string
		now  status
		then func(*ledger)
		want error
	}{
		{"closed", status{state: StateClosed}, func(l *ledger) { l.finish(ErrClosed, ErrClosed, io.EOF) }, ErrClosed},
		{"exhausted", status{state: StateExhausted, failure: spent}, func(l *ledger) { l.finish(spent, spent, spent) }, spent},
		{"failed", status{state: StateRespawnPending, reconnecting: true}, func(l *ledger) { l.seal(nil, ErrPeerLost) }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lifecycle{ledger: newLedger(), board: newBoard(clock.New())}
				l.ledger.session.handshake = &agreement{}
				l.ledger.hear(1, nil)
				l.ledger.told = 0 // by the client, to the one before
				l.board.post(test.now)
				said := make(chan error, 1)
				go func() {
					c := &connection{&Transport{life: l}}
					said <- c.Write(context.Background(), &jsonrpc.Request{Method: notificationInitialized})
				}()
				synctest.Wait()
				test.then(l.ledger)
				synctest.Wait()
				select {
				case err := <-said:
					if err != test.want {
						t.Errorf("Write: %v, want %v", err, test.want)
					}
				default:
					t.Error("Write waits on")
					l.board.post(status{state: StateClosed}) // so that the test ends
				}
			})
		})
	}
}
