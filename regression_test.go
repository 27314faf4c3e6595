package supervised_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
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

// A server that cannot be started, with a budget that grants all it is asked for, told of each attempt in a queue that
// had no end while a hook blocked: nothing waits for OnError (B6), so nothing bounded it.
func TestH5_AttemptsBehindAHookThatBlocks(t *testing.T) {
	for _, blocks := range []string{"OnError", "OnTransition", "OnReconnect"} {
		t.Run(blocks, func(t *testing.T) {
			const attempts = 1500
			grants := budgetFunc(func(budget.Death) (budget.Grant, bool) { return budget.Grant{}, true })
			inBubble(t, func(r *rig) {
				hold, told := make(chan struct{}), 0
				block := sync.OnceFunc(func() { <-hold })
				r.OnError(func(error) {
					told++
					if blocks == "OnError" {
						block()
					}
				})
				r.OnTransition(func(s supervised.Transition) {
					told++
					if blocks == "OnTransition" && s.Event == supervised.EventConnectFailed {
						block()
					}
				})
				r.OnReconnect(func(context.Context) error {
					if blocks == "OnReconnect" {
						block()
					}
					return nil
				})
				r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
					if p.Number > 1 && p.Number < attempts {
						return errCrash
					}
					return nil
				}
				r.connect()
				r.Last().Die(errCrash) // the replacement serves
				synctest.Wait()
				r.Restart(errCrash)
				pass(time.Minute)
				if blocks != "OnReconnect" { // else the mint waits for the OnClose behind it, which bounds it as well
					r.wantState(supervised.StateServing)
					want(r, "minted", attempts+1, r.Minted())
				}
				close(hold)
				pass(time.Minute)
				r.wantState(supervised.StateServing)
				want(r, "minted", attempts+1, r.Minted())
				if blocks != "OnReconnect" && (told < 500 || told > 1500) {
					r.Errorf("%d turns were told of %d attempts", told, attempts)
				}
				r.hooks()
				r.Transport.Close()
				want(r, "what comes once is told", lines("drain", "close"), r.hooks())
			}, supervised.WithBudget(grants))
		})
	}
}

// What comes but once is told however many attempts were not: that one of them came up, or that none will.
func TestH5_WhatComesOnceBehindAHookThatBlocks(t *testing.T) {
	const attempts = 1500
	for _, last := range []supervised.State{supervised.StateServing, supervised.StateExhausted} {
		t.Run(last.String(), func(t *testing.T) {
			left := attempts + 1
			grants := budgetFunc(func(budget.Death) (budget.Grant, bool) {
				left--
				return budget.Grant{}, left > 0
			})
			inBubble(t, func(r *rig) {
				hold := make(chan struct{})
				var told []supervised.State
				r.OnTransition(func(s supervised.Transition) {
					if told = append(told, s.To); s.Event == supervised.EventConnectFailed {
						<-hold
					}
				})
				r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
					if p.Number > 0 && (last == supervised.StateExhausted || p.Number < attempts) {
						return errCrash
					}
					return nil
				}
				r.connect()
				r.Last().Die(errCrash)
				pass(time.Minute)
				close(hold)
				synctest.Wait()
				want(r, "told of "+last.String(), true, slices.Contains(told[len(told)-2:], last))
				r.hooks()
				r.Transport.Close()
				r.hooks()
			}, supervised.WithBudget(grants))
		})
	}
}
