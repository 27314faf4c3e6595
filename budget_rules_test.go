package supervised_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/retry"
)

// onFakeClock is inBubble on a clock that f alone moves.
func onFakeClock(t *testing.T, f func(r *rig, now *clock.Mock), opts ...supervised.Option) {
	t.Helper()
	now := clock.NewMock()
	inBubble(t, func(r *rig) { f(r, now) }, append(opts, supervised.WithClock(now))...)
}

// dies has the peer that serves die, and says whether that is survived; with no delay the replacement serves then.
func (r *rig) dies() (replaced bool) {
	r.Helper()
	r.wantState(supervised.StateServing)
	r.Last().Die(errCrash)
	synctest.Wait()
	select {
	case <-r.Done():
		return false
	default:
		return true
	}
}

// exhaustion is the *ExhaustedError in err.
func exhaustion(t testing.TB, what string, err error) *supervised.ExhaustedError {
	t.Helper()
	e, ok := errors.AsType[*supervised.ExhaustedError](err)
	if !ok {
		t.Fatalf("%s: no *ExhaustedError in %v", what, err)
	}
	return e
}

func TestB1_DefaultIsThreeRestartsInAMinute(t *testing.T) {
	onFakeClock(t, func(r *rig, now *clock.Mock) {
		r.connect()
		for range 3 {
			want(r, "replaced", true, r.dies())
			now.Add(100 * time.Millisecond)
		}
		now.Add(60*time.Second - 300*time.Millisecond) // the edge, which is inside
		want(r, "replaced a fourth time", false, r.dies())

		got := exhaustion(r, "Err", r.Err())
		want(r, "restarts allowed", 3, got.Restarts)
		want(r, "window", time.Minute, got.Window)
		wantIs(r, "Err", r.Err(), errCrash)
		want(r, "minted", 4, r.Minted())
	})
}

func TestB1_WindowOpensAtTheFirstDeathAndNotAtTheOrigin(t *testing.T) {
	for _, lived := range []time.Duration{0, 1, 30 * time.Second, time.Minute - 1, time.Minute, time.Minute + 1, 1000 * time.Hour} {
		onFakeClock(t, func(r *rig, now *clock.Mock) {
			r.connect()
			now.Add(lived)
			want(r, fmt.Sprint("replaced, after ", lived), true, r.dies())
			now.Add(time.Minute)
			want(r, fmt.Sprint("replaced a minute later, after ", lived), false, r.dies())
		}, supervised.WithMaxRestarts(1), supervised.WithRestartWindow(time.Minute), supervised.WithRestartDelay(0))
	}
}

// What spends nothing opens no window either.
func TestB1_RestartOpensNoWindow(t *testing.T) {
	onFakeClock(t, func(r *rig, now *clock.Mock) {
		r.connect()
		want(r, "Restart", "ok", kind(r.Restart(errCrash)))
		r.wantState(supervised.StateServing)
		now.Add(time.Minute)
		want(r, "replaced", true, r.dies())
		now.Add(time.Second) // past the edge of a window that Restart would have opened
		want(r, "Restart", "ok", kind(r.Restart(errCrash)))
		r.wantState(supervised.StateServing) // else the clock overtakes the Close of the one that went
		now.Add(time.Minute - time.Second)
		want(r, "replaced on the edge", false, r.dies())
		want(r, "minted", 4, r.Minted())
	}, supervised.WithMaxRestarts(1), supervised.WithRestartWindow(time.Minute), supervised.WithRestartDelay(0))
}

func TestB2_EdgeOfTheWindowIsInside(t *testing.T) {
	const window = 10 * time.Second
	for _, tt := range []struct {
		after    time.Duration
		replaced bool
	}{
		{0, false},
		{1, false},
		{window - 1, false},
		{window, false},
		{window + 1, true},
		{2 * window, true},
	} {
		onFakeClock(t, func(r *rig, now *clock.Mock) {
			r.connect()
			now.Add(time.Hour + 1)
			for range 2 {
				want(r, "replaced", true, r.dies())
			}
			now.Add(tt.after)
			want(r, fmt.Sprintf("replaced %v after the first of two", tt.after), tt.replaced, r.dies())
		}, supervised.WithMaxRestarts(2), supervised.WithRestartWindow(window), supervised.WithRestartDelay(0))
	}
}

func TestB2_FirstDeathPastTheEdgeOpensAFreshWindow(t *testing.T) {
	const window = 10 * time.Second
	onFakeClock(t, func(r *rig, now *clock.Mock) {
		r.connect()
		for range 3 { // each window holds two, and opens where it is first needed
			want(r, "replaced, the window's first", true, r.dies())
			now.Add(window)
			want(r, "replaced, the window's last", true, r.dies())
			now.Add(1)
		}
		now.Add(-1) // the last window opened window ago: its edge has come, and one was spent after its opening
		want(r, "replaced past a full window", false, r.dies())
	}, supervised.WithMaxRestarts(2), supervised.WithRestartWindow(window), supervised.WithRestartDelay(0))
}

func TestB3_WindowTumbles(t *testing.T) {
	const most, window = 3, 60 * time.Second
	onFakeClock(t, func(r *rig, now *clock.Mock) {
		r.connect()
		want(r, "replaced, opening the window", true, r.dies())
		now.Add(window)
		restarts := 0
		for range most - 1 { // on the edge
			want(r, "replaced, the old window's rest", true, r.dies())
			restarts++
		}
		now.Add(1)
		for range most {
			want(r, "replaced, in the fresh window", true, r.dies())
			restarts++
		}
		want(r, "restarts in a nanosecond", 2*most-1, restarts)
		want(r, "replaced once more", false, r.dies())
	}, supervised.WithMaxRestarts(most), supervised.WithRestartWindow(window), supervised.WithRestartDelay(0))
}

func TestB4_AttemptsThatFail(t *testing.T) {
	noMint, noStart, noWrite := errors.New("no mint"), errors.New("no start"), errors.New("no write")
	for _, tt := range []struct {
		name string
		fail func(r *rig)
		err  error
	}{
		{"B4 mint", func(r *rig) { r.onMint(1, func(context.Context, *peertest.Peer) error { return noMint }) }, noMint},
		{"B4 start", func(r *rig) { r.onStart(1, func(context.Context, *peertest.Peer) error { return noStart }) }, noStart},
		{"B4 replay", func(r *rig) {
			r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
				p.OnWrite = func(context.Context, jsonrpc.Message) error { p.Hangup(noWrite); return noWrite }
				return nil
			})
		}, noWrite},
		{"B4 death while it is being replayed to", func(r *rig) {
			r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
				p.OnWrite = func(context.Context, jsonrpc.Message) error {
					p.Die(errCrash)
					<-p.Closed()
					return io.ErrClosedPipe
				}
				return nil
			})
		}, errCrash},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &countingBudget{Budget: tumbling(t, 2, time.Minute, 100*time.Millisecond)}
			onFakeClock(t, func(r *rig, now *clock.Mock) {
				tt.fail(r)
				r.connect()
				r.call("subscriptions/listen") // what there is to replay
				now.Add(time.Second)
				r.Last().Die(errCrash)
				want(r, "hooks", lines("close: crash"), r.hooks())

				now.Add(100 * time.Millisecond)
				r.wantState(supervised.StateRespawnPending)
				want(r, "promised", true, r.Reconnecting())
				failed := r.errors()
				want(r, "failures told", 1, len(failed))
				wantIs(r, "OnError", failed[0], tt.err)
				want(r, "asked", 2, len(b.deaths()))
				want(r, "the attempt's uptime", 0, b.deaths()[1].Uptime)
				wantIs(r, "the attempt's cause", b.deaths()[1].Cause, tt.err)

				now.Add(100*time.Millisecond - 1)
				want(r, "minted before the delay is over", 2, r.Minted())
				now.Add(1)
				r.wantState(supervised.StateServing)
				r.hooks()
				want(r, "replaced, with both spent", false, r.dies())
			}, supervised.WithBudget(b))
		})
	}
}

func TestB4_AnAttemptThatTakesTooLong(t *testing.T) {
	onFakeClock(t, func(r *rig, now *clock.Mock) {
		r.onStart(1, func(ctx context.Context, _ *peertest.Peer) error { <-ctx.Done(); return ctx.Err() })
		r.connect()
		want(r, "replaced", true, r.dies())
		r.hooks()
		now.Add(time.Second - 1)
		r.wantState(supervised.StateConnecting)
		now.Add(1)
		r.wantState(supervised.StateServing)
		failed := r.errors()
		want(r, "failures told", 1, len(failed))
		wantIs(r, "OnError", failed[0], context.DeadlineExceeded)
		want(r, "replaced, with both spent", false, r.dies())
	}, supervised.WithMaxRestarts(2), supervised.WithRestartDelay(0), supervised.WithConnectTimeout(time.Second))
}

// The last attempt that fails is told of as a failure first, then as the end; the replacement that was promised
// is withdrawn.
func TestB4_LastAttemptThatFailsEndsTheBudget(t *testing.T) {
	noMint := errors.New("no mint")
	onFakeClock(t, func(r *rig, now *clock.Mock) {
		r.onMint(1, func(context.Context, *peertest.Peer) error { return noMint })
		r.connect()
		want(r, "replaced", false, r.dies())
		want(r, "hooks", lines(
			"close: crash",
			"error: no mint",
			"error: supervised: restart budget of 1 in 1m0s spent: no mint",
			"close: supervised: restart budget of 1 in 1m0s spent: no mint",
		), r.hooks())
		wantIs(r, "Err", r.Err(), noMint)
		want(r, "minted", 2, r.Minted())
	}, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
}

func TestB4_FirstConnectionThatFailsSpendsNothing(t *testing.T) {
	b := &countingBudget{Budget: tumbling(t, 1, time.Minute, 0)}
	inBubble(t, func(r *rig) {
		r.onStart(0, func(context.Context, *peertest.Peer) error { return errCrash })
		_, err := r.Connect(context.Background())
		wantIs(r, "Connect", err, errCrash)
		want(r, "asked", 0, len(b.deaths()))
		r.connect()
		want(r, "replaced", true, r.dies())
	}, supervised.WithBudget(b))
}

func TestB5_NothingIsGivenBack(t *testing.T) {
	onFakeClock(t, func(r *rig, now *clock.Mock) {
		r.connect()
		for range 3 {
			for range 100 {
				id, err := r.call("tools/call")
				want(r, "written", "ok", kind(err))
				r.Last().Reply(id, `{}`)
				synctest.Wait()
			}
			want(r, "answered", 100, len(r.read()))
			now.Add(15 * time.Second)
			want(r, "replaced", true, r.dies())
		}
		now.Add(15 * time.Second)
		want(r, "replaced a fourth time", false, r.dies())
	}, supervised.WithRestartDelay(0))
}

// When OnError is told of the end, everything that was in flight has its answer, and Read its error.
func TestB6_CallsAndStreamsFailBeforeOnErrorIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0), supervised.WithRetryPolicy(retry.ReadOnly))
		conn, err := r.Connect(context.Background())
		want(t, "Connect", "ok", kind(err))
		r.conn = conn // which nobody reads
		var got []string
		r.OnError(func(err error) {
			if _, ok := errors.AsType[*supervised.ExhaustedError](err); !ok {
				return
			}
			done, cancel := context.WithCancel(context.Background())
			cancel() // what is there is returned all the same
			for {
				m, err := conn.Read(done)
				if err != nil {
					got = append(got, "Read: "+kind(err))
					return
				}
				got = append(got, line(m))
			}
		})
		r.call("tools/list")
		r.call("subscriptions/listen")
		r.dies() // keeps the list
		r.call("tools/call")
		r.dies()
		want(t, "told", 4, len(got))
		want(t, "told last", "Read: exhausted", got[len(got)-1])
		want(t, "told", map[string]int{
			"1 exhausted, peer lost": 1, "2 exhausted": 1, "3 exhausted, peer lost": 1, "Read: exhausted": 1,
		}, counted(got))
		want(t, "hooks", lines(
			"close: crash", "reconnect", "close: crash", "error: supervised: restart budget of 1 in 1m0s spent: crash",
		), r.hooks())
		r.Transport.Close()
	})
}

// What was kept for a replacement that does not come was sent, to the one before.
func TestB6_KeptCallsAtTheLastAttempt(t *testing.T) {
	for _, at := range []string{"mint", "start", "replay"} {
		t.Run(at, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				fails := func(context.Context, *peertest.Peer) error { return errors.New("fails") }
				switch at {
				case "mint":
					r.onMint(1, fails)
				case "start":
					r.onStart(1, fails)
				case "replay":
					r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
						p.OnWrite = func(context.Context, jsonrpc.Message) error { p.Hangup(io.EOF); return errors.New("fails") }
						return nil
					})
				}
				r.connect()
				r.call("tools/list")
				r.call("tools/list")
				r.call("subscriptions/listen")
				want(r, "replaced", false, r.dies())
				want(r, "answers", lines("1 exhausted, peer lost", "2 exhausted, peer lost", "3 exhausted"), r.read())
				want(r, "Read", "exhausted", kind(r.readError()))
			}, keeping, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
		})
	}
}

func TestB6_OldestCallFailsFirst(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		want(r, "replaced", true, r.dies())
		for range 5 {
			r.call("tools/call")
		}
		r.dies()
		want(r, "answers", lines(
			"1 exhausted, peer lost", "2 exhausted, peer lost", "3 exhausted, peer lost", "4 exhausted, peer lost", "5 exhausted, peer lost",
		), r.read())
	}, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
}

func TestB6_NothingWaitsForOnError(t *testing.T) {
	inBubble(t, func(r *rig) {
		hold := make(chan struct{})
		r.OnError(func(error) { <-hold })
		r.connect()
		r.dies()
		r.call("tools/call")
		want(r, "replaced", false, r.dies())
		r.wantState(supervised.StateClosed)
		want(r, "answers", lines("1 exhausted, peer lost"), r.read())
		want(r, "Err", "exhausted", kind(r.Err()))
		now, _ := r.Alive()
		want(r, "alive", 0, now)
		close(hold)
	}, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
}

// The peer that spent the budget is gone before the transport is closed for good.
func TestB6_ClosedForGoodOnceTheLastPeerIsGone(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
			p.Process = true
			p.OnKill = func() error { time.Sleep(3 * time.Second); return nil }
			return nil
		})
		r.connect()
		r.dies()
		r.call("tools/call")
		r.hooks()
		r.dies()
		r.wantState(supervised.StateExhausted)
		want(r, "promised", false, r.Reconnecting())
		want(r, "answers, at once", lines("1 exhausted, peer lost"), r.read())
		want(r, "Err, before the end", "ok", kind(r.Err()))
		_, err := r.call("tools/call")
		want(r, "refused", "exhausted", kind(err))
		want(r, "Restart", "exhausted", kind(r.Restart(errCrash)))
		_, err = r.Connect(context.Background())
		want(r, "Connect", "exhausted", kind(err))
		pass(3 * time.Second)
		r.wantState(supervised.StateClosed)
		want(r, "Err", "exhausted", kind(r.Err()))
	}, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
}

func TestB6_WhatTheErrorsMatch(t *testing.T) {
	for _, end := range []error{errCrash, io.EOF, fmt.Errorf("torn: %w", io.EOF)} {
		t.Run(end.Error(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				r.dies()
				r.call("tools/call")
				r.call("subscriptions/listen")
				r.Last().Die(end)
				synctest.Wait()

				_, refused := r.call("tools/call")
				_, listen := r.call("subscriptions/listen")
				_, again := r.Connect(context.Background())
				failed := r.failures()
				want(r, "failed", 2, len(failed))
				told := r.errors()
				want(r, "told", 1, len(told))
				for _, tt := range []struct {
					what string
					err  error
					sent bool
				}{
					{"a call in flight", failed[0], true},
					{"a stream in flight", failed[1], false},
					{"a later call", refused, false},
					{"a later stream", listen, false},
					{"a later notification", r.notify("notifications/progress", `{}`), false},
					{"OnError", told[0], false},
					{"Err", r.Err(), false},
					{"Read", r.readError(), false},
					{"WaitServing", r.WaitServing(context.Background()), false},
					{"Restart", r.Restart(errCrash), false},
					{"Connect", again, false},
				} {
					exhaustion(r, tt.what, tt.err)
					wantIs(r, tt.what, tt.err, supervised.ErrClosed, mcp.ErrConnectionClosed)
					want(r, tt.what+" matches ErrPeerLost", tt.sent, errors.Is(tt.err, supervised.ErrPeerLost))
					want(r, tt.what+" matches io.EOF", false, errors.Is(tt.err, io.EOF))
					want(r, tt.what+" matches ErrReconnecting", false, errors.Is(tt.err, supervised.ErrReconnecting))
					if end == errCrash {
						wantIs(r, tt.what, tt.err, errCrash)
					}
				}
			}, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
		})
	}
}

func TestB6_SDKSession(t *testing.T) {
	for _, end := range []error{errCrash, io.EOF} {
		t.Run(end.Error(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				session := r.session()
				r.dies()
				called := later(func() error { return callTool(session) })
				synctest.Wait()
				r.Last().Die(end)

				for what, err := range map[string]error{"the call in flight": <-called, "Wait": session.Wait()} {
					exhaustion(r, what, err)
					wantIs(r, what, err, supervised.ErrClosed, mcp.ErrConnectionClosed)
					want(r, what+" matches io.EOF", false, errors.Is(err, io.EOF))
				}
				err := callTool(session)
				wantIs(r, "a later call", err, mcp.ErrConnectionClosed)
				for _, no := range []error{supervised.ErrClosed, supervised.ErrPeerLost, io.EOF} {
					want(r, fmt.Sprintf("a later call matches %v", no), false, errors.Is(err, no))
				}
			}, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
		})
	}
}

func TestB7_StepOfTheWallClockChangesNothing(t *testing.T) {
	for _, step := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		now := newSteppedClock()
		inBubble(t, func(r *rig) {
			r.connect()
			want(r, "replaced", true, r.dies())
			now.Add(time.Minute)
			now.step = step
			now.Add(1)
			want(r, fmt.Sprintf("replaced past the edge, stepped by %v", step), true, r.dies())
			now.Add(time.Minute - 1)
			now.step = 0
			now.Add(1)
			want(r, fmt.Sprintf("replaced on the edge, stepped back by %v", -step), false, r.dies())
		}, supervised.WithClock(now), supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
	}
}

func TestB7_DelayRunsOnTheClockAlone(t *testing.T) {
	onFakeClock(t, func(r *rig, now *clock.Mock) {
		r.connect()
		r.dies()
		pass(time.Hour) // of the bubble's time, which is not the transport's
		want(r, "minted", 1, r.Minted())
		now.Add(time.Second - 1)
		want(r, "minted", 1, r.Minted())
		now.Add(1)
		want(r, "minted", 2, r.Minted())
	}, supervised.WithRestartDelay(time.Second))
}

func TestB8_SharedBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := clock.NewMock()
		shared := supervised.WithBudget(tumbling(t, 3, time.Minute, 0))
		one, other := newRig(t, shared, supervised.WithClock(now)), newRig(t, shared, supervised.WithClock(now))
		one.connect()
		other.connect()
		want(t, "one replaced", true, one.dies())
		now.Add(30 * time.Second)
		want(t, "other replaced", true, other.dies())
		want(t, "other replaced", true, other.dies())
		now.Add(30 * time.Second)
		want(t, "one replaced, with none left", false, one.dies())
		other.wantState(supervised.StateServing) // it has lost nothing by that
		now.Add(1)
		want(t, "other replaced, in a fresh window", true, other.dies())
		other.Transport.Close()
	})
}

func TestB8_OneThatIsSpentTakesNothingOfWhatItShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := clock.NewMock()
		host := tumbling(t, 3, time.Hour, 0)
		own := func(max int) supervised.Option {
			all, err := budget.NewAll(host, tumbling(t, max, time.Minute, 0))
			if err != nil {
				t.Fatal(err)
			}
			return supervised.WithBudget(all)
		}
		one, other := newRig(t, own(1), supervised.WithClock(now)), newRig(t, own(9), supervised.WithClock(now))
		one.connect()
		other.connect()
		want(t, "one replaced", true, one.dies())
		want(t, "one replaced, with none of its own left", false, one.dies())
		wantExhausted(t, "one", 1, time.Minute, one.Err())
		want(t, "other replaced", true, other.dies())
		want(t, "other replaced", true, other.dies())
		want(t, "other replaced, with none left that both share", false, other.dies())
		wantExhausted(t, "other", 3, time.Hour, other.Err())
	})
}

// wantExhausted wants the figures of the budget that refused.
func wantExhausted(t *testing.T, what string, restarts int, window time.Duration, err error) {
	t.Helper()
	var exhausted *supervised.ExhaustedError
	if !errors.As(err, &exhausted) {
		t.Fatalf("%s: %v, want an ExhaustedError", what, err)
	}
	want(t, what+": restarts", restarts, exhausted.Restarts)
	want(t, what+": window", window, exhausted.Window)
}

func TestB8_SharedBudgetUnderConcurrentDeaths(t *testing.T) {
	const transports, most = 50, 20
	synctest.Test(t, func(t *testing.T) {
		shared := supervised.WithBudget(tumbling(t, most, time.Minute, 0))
		rigs := make([]*rig, transports)
		for i := range rigs {
			rigs[i] = newRig(t, shared)
			rigs[i].connect()
		}
		start := make(chan struct{})
		for _, r := range rigs {
			go func() { <-start; r.Last().Die(errCrash) }()
		}
		close(start)
		synctest.Wait()
		states := map[string]int{}
		for _, r := range rigs {
			states[r.State().String()]++
			r.Transport.Close()
		}
		want(t, "states", map[string]int{"serving": most, "closed": transports - most}, states)
	})
}

func TestB8_AskedOncePerDeath(t *testing.T) {
	b := &countingBudget{Budget: tumbling(t, 10, time.Minute, 0)}
	inBubble(t, func(r *rig) {
		r.Fleet.Process = true
		r.connect()
		began := time.Now()
		pass(7 * time.Second)
		for range 5 { // every sign of one death that there is
			r.Last().OnWrite = func(context.Context, jsonrpc.Message) error { return io.ErrClosedPipe }
			go r.notify("notifications/progress", `{}`)
			go r.Last().Hangup(io.EOF)
			go r.Last().Exit(errCrash)
			pass(time.Second)
			r.wantState(supervised.StateServing)
		}
		deaths := b.deaths()
		want(r, "asked, for five deaths", 5, len(deaths))
		want(r, "the first death's time", 7*time.Second, deaths[0].At.Sub(began))
		want(r, "the first death's uptime", 7*time.Second, deaths[0].Uptime)
		wantIs(r, "the first death's cause", deaths[0].Cause, errCrash)

		want(r, "Restart", "ok", kind(r.Restart(errCrash)))
		r.wantState(supervised.StateServing)
		want(r, "asked, after a Restart", 5, len(b.deaths()))

		r.OnDrain(func(context.Context) { r.Last().Die(errCrash) })
		r.Transport.Close()
		want(r, "asked, after a death in the drain", 5, len(b.deaths()))
	}, supervised.WithBudget(b))
}

func TestB8_TheGuardGoesByTheBudgetsAnswer(t *testing.T) {
	answers := make(chan bool, 2)
	b := budgetFunc(func(budget.Death) (budget.Grant, bool) {
		return budget.Grant{Attempt: 41, Max: 42, Window: 43, Delay: 44}, <-answers
	})
	onFakeClock(t, func(r *rig, now *clock.Mock) {
		r.connect()
		answers <- true
		want(r, "granted", true, r.dies())
		now.Add(43)
		want(r, "minted before the granted delay is over", 1, r.Minted())
		now.Add(1)
		r.wantState(supervised.StateServing)
		answers <- false
		want(r, "refused", false, r.dies())
		got := exhaustion(r, "Err", r.Err())
		want(r, "restarts allowed", 42, got.Restarts)
		want(r, "window", 43, got.Window)
	}, supervised.WithBudget(b))
}

func tumbling(t testing.TB, most int, window, delay time.Duration) *budget.Tumbling {
	t.Helper()
	b, err := budget.NewTumbling(most, window, delay)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A countingBudget remembers what it was asked.
type countingBudget struct {
	budget.Budget
	mu    sync.Mutex
	asked []budget.Death
}

func (b *countingBudget) Spend(d budget.Death) (budget.Grant, bool) {
	b.mu.Lock()
	b.asked = append(b.asked, d)
	b.mu.Unlock()
	return b.Budget.Spend(d)
}

// deaths is what it was asked for so far, once nothing moves any more.
func (b *countingBudget) deaths() []budget.Death {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// A budgetFunc is a budget in a function.
type budgetFunc func(budget.Death) (budget.Grant, bool)

func (f budgetFunc) Spend(d budget.Death) (budget.Grant, bool) { return f(d) }

// A steppedClock is the clock of a machine whose wall clock was set by step. Its readings have a monotonic part,
// which those of a mock and of a bubble lack.
type steppedClock struct {
	*clock.Mock
	boot time.Time // a reading of the system's clock
	step time.Duration
}

func newSteppedClock() *steppedClock { return &steppedClock{Mock: clock.NewMock(), boot: time.Now()} }

// Now adds the step to the wall part of the reading and leaves the monotonic part as it is. The time package
// offers no way to do that.
func (c *steppedClock) Now() time.Time {
	const secondsShift = 30 // of the wall word: 30 bits of nanoseconds, then seconds
	now := c.boot.Add(c.Mock.Now().Sub(time.Unix(0, 0)))
	stepped := now
	*(*uint64)(unsafe.Pointer(&stepped)) += uint64(c.step/time.Second) << secondsShift
	if stepped.Sub(now) != 0 || stepped.Round(0).Sub(now.Round(0)) != c.step {
		panic("time.Time is not laid out as this test has it")
	}
	return stepped
}

func counted(ss []string) map[string]int {
	n := map[string]int{}
	for _, s := range ss {
		n[s]++
	}
	return n
}
