package supervised_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/retry"
)

// closes calls Close and holds it to C1: when it returns nothing lives and Done is closed, and after that nothing
// is minted or started.
func (r *rig) closes() error {
	r.Helper()
	err := r.Transport.Close()
	alive, _ := r.Alive()
	started := r.Started()
	want(r, "C1: alive when Close has returned", 0, alive)
	select {
	case <-r.Done():
	default:
		r.Error("C1: Done is open when Close has returned")
	}
	want(r, "C1: state", "closed", r.State().String())
	synctest.Wait() // a call of the factory that Close did not wait for is under way, and gets to its script
	minted := r.Minted()
	pass(time.Hour)
	want(r, "C1: minted after Close", 0, r.Minted()-minted)
	want(r, "C1: started after Close", 0, r.Started()-started)
	alive, _ = r.Alive()
	want(r, "C1: alive an hour later", 0, alive)
	return err
}

// connecting calls Connect beside the test, until nothing moves any more.
func (r *rig) connecting() <-chan error {
	done := later(func() error { _, err := r.Connect(context.Background()); return err })
	synctest.Wait()
	return done
}

// stubborn is a factory's, a Connect's or a Write's part that takes d, whatever its context says.
func stubborn(d time.Duration) func(context.Context, *peertest.Peer) error {
	return func(context.Context, *peertest.Peer) error { time.Sleep(d); return nil }
}

// obedient is one that takes until its context ends.
func obedient(ctx context.Context, _ *peertest.Peer) error { <-ctx.Done(); return ctx.Err() }

// inFlight writes a call that is never answered, a call that the policy of keeping keeps, and a stream.
func (r *rig) inFlight() {
	r.call("tools/call")
	r.call("tools/list")
	r.call("subscriptions/listen")
}

// keeping keeps calls that read.
var keeping = supervised.WithRetryPolicy(retry.ReadOnly)

func TestC1_CloseAtEveryMoment(t *testing.T) {
	lost := lines("1 peer lost")
	allClosed := lines("1 closed", "2 closed", "3 closed")
	keptClosed := lines("2 closed", "3 closed")
	for _, tt := range []struct {
		name    string
		opts    []supervised.Option
		moment  func(r *rig)  // leads up to it
		hooks   []string      // that Close adds
		answers []string      // that Close gives
		takes   time.Duration // Close, for what it must wait for
	}{
		{
			name:   "C3 before start",
			moment: func(r *rig) {},
			hooks:  lines("drain", "close"),
		}, {
			name: "C3 after a first start that failed",
			moment: func(r *rig) {
				r.onStart(0, func(context.Context, *peertest.Peer) error { return errCrash })
				wantIs(r, "Connect", <-r.connecting(), errCrash)
			},
			hooks: lines("drain", "close"),
		}, {
			name: "C3 in the first factory",
			moment: func(r *rig) {
				r.onMint(0, obedient)
				r.connectIsClosed()
			},
			hooks: lines("drain", "close"),
		}, {
			name: "C3 in a first factory that ignores its context",
			moment: func(r *rig) {
				r.onMint(0, stubborn(time.Minute))
				r.connectIsClosed()
			},
			hooks: lines("drain", "close"),
		}, {
			name: "C3 while the first connection starts",
			moment: func(r *rig) {
				r.onStart(0, obedient)
				r.connectIsClosed()
			},
			hooks: lines("drain", "close"),
		}, {
			name: "C3 while the first connection starts and ignores its context",
			moment: func(r *rig) {
				r.onStart(0, stubborn(7*time.Second))
				r.connectIsClosed()
			},
			hooks: lines("drain", "close"),
			takes: 7 * time.Second,
		}, {
			name:    "C2 serving",
			moment:  func(r *rig) { r.connect(); r.inFlight() },
			hooks:   lines("drain", "close"),
			answers: allClosed,
		}, {
			name: "C2 serving, to a peer that closes slowly",
			moment: func(r *rig) {
				r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
					p.OnClose = func() error { time.Sleep(4 * time.Second); return nil }
					return nil
				})
				r.connect()
				r.inFlight()
			},
			hooks:   lines("drain", "close"),
			answers: allClosed,
			takes:   4 * time.Second,
		}, {
			name: "C4 while a dead peer is being killed",
			opts: []supervised.Option{keeping, supervised.WithRestartDelay(0)},
			moment: func(r *rig) {
				r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
					p.Process = true
					p.OnKill = func() error { time.Sleep(3 * time.Second); return nil }
					return nil
				})
				r.connect()
				r.inFlight()
				r.Last().Die(errCrash)
				want(r, "answers at the death", lost, r.read())
				pass(time.Second)
				want(r, "hooks, while it is being killed", nil, r.hooks())
			},
			hooks:   lines("close: crash", "close"),
			answers: keptClosed,
			takes:   2 * time.Second,
		}, {
			name: "C4 during the delay",
			opts: []supervised.Option{keeping},
			moment: func(r *rig) {
				r.connect()
				r.inFlight()
				r.Last().Die(errCrash)
				pass(50 * time.Millisecond)
				want(r, "answers at the death", lost, r.read())
				want(r, "hooks at the death", lines("close: crash"), r.hooks())
			},
			hooks:   lines("close"),
			answers: keptClosed,
		}, {
			name: "C4 at the very end of the delay",
			opts: []supervised.Option{keeping},
			moment: func(r *rig) {
				r.connect()
				r.inFlight()
				r.Last().Die(errCrash)
				want(r, "answers at the death", lost, r.read())
				want(r, "hooks at the death", lines("close: crash"), r.hooks())
				time.Sleep(supervised.DefaultRestartDelay - 1)
			},
			hooks:   lines("close"),
			answers: keptClosed,
		}, {
			name: "C4 while an OnClose hook of the death holds up the mint",
			opts: []supervised.Option{keeping, supervised.WithRestartDelay(0)},
			moment: func(r *rig) {
				r.OnClose(func(err error) {
					if err != nil {
						time.Sleep(time.Second)
					}
				})
				r.connect()
				r.inFlight()
				r.Last().Die(errCrash)
				want(r, "answers at the death", lost, r.read())
				want(r, "hooks at the death", lines("close: crash"), r.hooks())
			},
			hooks:   lines("close"),
			answers: keptClosed,
		}, {
			name:    "C4 in the factory",
			opts:    []supervised.Option{keeping, supervised.WithRestartDelay(0)},
			moment:  func(r *rig) { r.onMint(1, obedient); r.losesOne(lost) },
			hooks:   lines("close"),
			answers: keptClosed,
		}, {
			name:    "C4 in a factory that ignores its context",
			opts:    []supervised.Option{keeping, supervised.WithRestartDelay(0)},
			moment:  func(r *rig) { r.onMint(1, stubborn(time.Minute)); r.losesOne(lost) },
			hooks:   lines("close"),
			answers: keptClosed,
		}, {
			name:    "C4 while the replacement starts",
			opts:    []supervised.Option{keeping, supervised.WithRestartDelay(0)},
			moment:  func(r *rig) { r.onStart(1, obedient); r.losesOne(lost) },
			hooks:   lines("close"),
			answers: keptClosed,
		}, {
			name:    "C4 while the replacement starts and ignores its context",
			opts:    []supervised.Option{keeping, supervised.WithRestartDelay(0)},
			moment:  func(r *rig) { r.onStart(1, stubborn(7*time.Second)); r.losesOne(lost) },
			hooks:   lines("close"),
			answers: keptClosed,
			takes:   7 * time.Second,
		}, {
			name:    "C4 while the replacement starts, longer than is waited for",
			opts:    []supervised.Option{keeping, supervised.WithRestartDelay(0)},
			moment:  func(r *rig) { r.onStart(1, stubborn(40*time.Second)); r.losesOne(lost) },
			hooks:   lines("close"),
			answers: keptClosed,
			takes:   30 * time.Second,
		}, {
			name: "C4 during a replay whose write waits for its context",
			opts: []supervised.Option{keeping, supervised.WithRestartDelay(0)},
			moment: func(r *rig) {
				r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
					p.OnWrite = func(ctx context.Context, _ jsonrpc.Message) error { <-ctx.Done(); return ctx.Err() }
					return nil
				})
				r.losesOne(lost)
			},
			hooks:   lines("close"),
			answers: keptClosed,
		}, {
			name: "C4 during a replay whose write waits for the end of the connection",
			opts: []supervised.Option{keeping, supervised.WithRestartDelay(0)},
			moment: func(r *rig) {
				r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
					p.OnWrite = func(context.Context, jsonrpc.Message) error { <-p.Closed(); return io.ErrClosedPipe }
					return nil
				})
				r.losesOne(lost)
			},
			hooks:   lines("close"),
			answers: keptClosed,
		}, {
			name: "C4 during the replay, to a process that takes its time to die",
			opts: []supervised.Option{keeping, supervised.WithRestartDelay(0)},
			moment: func(r *rig) {
				r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
					p.Process = true
					p.OnWrite = func(context.Context, jsonrpc.Message) error { <-p.Closed(); return io.ErrClosedPipe }
					p.OnKill = func() error { time.Sleep(3 * time.Second); return nil }
					return nil
				})
				r.losesOne(lost)
			},
			hooks:   lines("close"),
			answers: keptClosed,
			takes:   3 * time.Second,
		}, {
			name: "C4 in the delay after an attempt that failed",
			opts: []supervised.Option{keeping},
			moment: func(r *rig) {
				r.onMint(1, func(context.Context, *peertest.Peer) error { return errors.New("no mint") })
				r.losesOne(lost)
				pass(150 * time.Millisecond)
				want(r, "hooks of the attempt", lines("error: no mint"), r.hooks())
			},
			hooks:   lines("close"),
			answers: keptClosed,
		}, {
			name: "C1 while the peer that spent the budget is being killed",
			opts: []supervised.Option{keeping, supervised.WithRestartDelay(0), supervised.WithMaxRestarts(1)},
			moment: func(r *rig) {
				r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
					p.Process = true
					p.OnKill = func() error { time.Sleep(3 * time.Second); return nil }
					return nil
				})
				r.losesOne(lost)
				r.hooks()
				r.Last().Die(errCrash)
				want(r, "answers", lines("2 exhausted, peer lost", "3 exhausted"), r.read())
				r.wantState(supervised.StateExhausted)
			},
			hooks: lines("close: crash", "error: supervised: restart budget of 1 in 1m0s spent: crash"),
			takes: 3 * time.Second,
		}, {
			name: "C1 after the budget's end",
			opts: []supervised.Option{supervised.WithRestartDelay(0), supervised.WithMaxRestarts(1)},
			moment: func(r *rig) {
				r.connect()
				r.dies()
				r.dies()
				r.hooks()
			},
		}, {
			name:   "C1 after Close",
			moment: func(r *rig) { r.connect(); r.Transport.Close(); r.hooks() },
		}, {
			name: "C1 after Close of the connection",
			moment: func(r *rig) {
				r.connect()
				r.conn.Close()
				want(r, "hooks", lines("drain", "close"), r.hooks())
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				tt.moment(r)
				served := r.Stats().Generation >= 0
				began := time.Now()
				closed := later(r.Transport.Close)
				want(r, "Close", "ok", kind(<-closed))
				want(r, "Close took", tt.takes, time.Since(began))
				r.closes()
				want(r, "hooks", tt.hooks, r.hooks())
				want(r, "promised", false, r.Reconnecting())
				if !served {
					_, err := r.Connect(context.Background())
					want(r, "Connect afterwards", "closed", kind(err))
					return
				}
				want(r, "answers", tt.answers, r.read())
				if r.Err() == nil {
					want(r, "Read", io.EOF.Error(), kind(r.readError()))
					_, err := r.call("tools/call")
					want(r, "Write afterwards", "closed", kind(err))
					want(r, "WaitServing afterwards", "closed", kind(r.WaitServing(context.Background())))
					want(r, "Restart afterwards", "closed", kind(r.Restart(errCrash)))
				}
			}, tt.opts...)
		})
	}
}

// losesOne connects, and has the peer die with calls in flight.
func (r *rig) losesOne(answers []string) {
	r.Helper()
	r.connect()
	r.inFlight()
	r.Last().Die(errCrash)
	want(r, "answers at the death", answers, r.read())
	want(r, "hooks at the death", lines("close: crash"), r.hooks()[:1])
}

// Close ends the factory's context, and the one that its transport got.
func TestC1_CloseEndsTheContextsOfTheAttempt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		blind func(r *rig, ended chan<- error)
	}{
		{"in the factory", func(r *rig, ended chan<- error) {
			r.onMint(1, func(ctx context.Context, _ *peertest.Peer) error { <-ctx.Done(); ended <- ctx.Err(); return nil })
		}},
		{"in Connect", func(r *rig, ended chan<- error) {
			r.onStart(1, func(ctx context.Context, _ *peertest.Peer) error { <-ctx.Done(); ended <- ctx.Err(); return nil })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ended := make(chan error, 1)
				tt.blind(r, ended)
				r.connect()
				r.Last().Die(errCrash)
				r.wantState(supervised.StateConnecting)
				r.closes()
				wantIs(r, "its context", <-ended, context.Canceled)
				want(r, "hooks", lines("close: crash", "close"), r.hooks())
			}, supervised.WithRestartDelay(0), supervised.WithConnectTimeout(0))
		})
	}
}

// What would have waited for the replacement does not outlive the transport: the bubble would notice.
func TestC1_CloseLeavesNothingWaiting(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.Last().Die(errCrash)
		r.wantState(supervised.StateRespawnPending)
		r.Transport.Close()
		want(r, "hooks", lines("close: crash", "close"), r.hooks())
	}, supervised.WithRestartDelay(time.Hour))
}

// goroutine is the number of this goroutine.
func goroutine() string {
	var buf [64]byte
	return string(bytes.Fields(buf[:runtime.Stack(buf[:], false)])[1])
}

func TestC2_CallsGoThroughDuringTheDrain(t *testing.T) {
	inBubble(t, func(r *rig) {
		var closing string
		r.OnDrain(func(ctx context.Context) {
			want(r, "the hook's goroutine is that of Close", closing, goroutine())
			deadline, bounded := ctx.Deadline()
			want(r, "the context is bounded", true, bounded)
			want(r, "the bound", supervised.DefaultDrainTimeout, time.Until(deadline))
			want(r, "state", "serving", r.State().String())
			want(r, "promised", false, r.Reconnecting())
			want(r, "WaitServing", "ok", kind(r.WaitServing(context.Background())))
			id, err := r.call("tools/call")
			want(r, "written in the drain", "ok", kind(err))
			r.Last().Reply(id, `"drained"`)
			want(r, "answers in the drain", lines(`2 "drained"`), r.read())
			want(r, "Restart in the drain", "closed", kind(r.Restart(errCrash)))
		})
		r.connect()
		r.call("tools/call")
		closed := later(func() error { closing = goroutine(); return r.Transport.Close() })
		want(r, "Close", "ok", kind(<-closed))
		want(r, "answers", lines("1 closed"), r.read())
		want(r, "hooks", lines("drain", "close"), r.hooks())
		want(r, "minted", 1, r.Minted())
	})
}

// The peer may answer as long as it lives; what it leaves open fails after that, and OnClose is told last.
func TestC2_LastAnswersOfAPeerThatIsClosed(t *testing.T) {
	inBubble(t, func(r *rig) {
		var first jsonrpc.ID
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.OnClose = func() error {
				want(r, "failed before the connection is closed", nil, r.read())
				want(r, "hooks before the connection is closed", lines("drain"), r.hooks())
				_, err := r.call("tools/call")
				want(r, "written while it closes", "closed", kind(err))
				p.Reply(first, `"late"`)
				return nil
			}
			return nil
		})
		r.connect()
		first, _ = r.call("tools/call")
		r.call("tools/call")
		r.closes()
		want(r, "answers", lines(`1 "late"`, "2 closed"), r.read())
		want(r, "Read", io.EOF.Error(), kind(r.readError()))
		want(r, "hooks", lines("close"), r.hooks())
	})
}

// A write that the peer holds up ends with the connection: the call is answered like the others, and what has no
// answer is refused as after the end.
func TestC2_WritesThatThePeerHoldsUp(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(context.Context, jsonrpc.Message) error { <-p.Closed(); return io.ErrClosedPipe }
			return nil
		})
		r.connect()
		called := later(func() error { _, err := r.call("tools/call"); return err })
		wantPending(r, "the call's Write", called)
		notified := later(func() error { return r.notify("notifications/progress", `{}`) })
		wantPending(r, "the notification's Write", notified)
		r.closes()
		want(r, "the call's Write", "ok", kind(<-called))
		want(r, "the notification's Write", "closed", kind(<-notified))
		want(r, "answers", lines("1 closed"), r.read())
		want(r, "hooks", lines("drain", "close"), r.hooks())
	})
}

func TestC2_OnCloseFollowsTheFailures(t *testing.T) {
	inBubble(t, func(r *rig) {
		conn, err := r.Connect(context.Background())
		want(r, "Connect", "ok", kind(err))
		r.conn = conn // which nobody reads
		r.call("tools/call")
		r.OnClose(func(error) {
			done, cancel := context.WithCancel(context.Background())
			cancel()
			m, err := conn.Read(done)
			want(r, "Read in OnClose", "ok", kind(err))
			want(r, "answered before OnClose", "1 closed", line(m))
			now, _ := r.Alive()
			want(r, "alive in OnClose", 0, now)
		})
		r.closes()
		want(r, "hooks", lines("drain", "close"), r.hooks())
	})
}

func TestC2_DrainIsBounded(t *testing.T) {
	for _, tt := range []struct {
		timeout time.Duration
		heeds   bool
		takes   time.Duration
	}{
		{3 * time.Second, true, 3 * time.Second},
		{3 * time.Second, false, 10 * time.Second},
		{20 * time.Second, false, 10 * time.Second},
		{0, false, 10 * time.Second},
		{0, true, 10 * time.Second},
	} {
		t.Run(fmt.Sprintf("%v, heeded %v", tt.timeout, tt.heeds), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.OnDrain(func(ctx context.Context) {
					_, bounded := ctx.Deadline()
					want(r, "bounded", tt.timeout > 0, bounded)
					heeded := ctx.Done()
					if !tt.heeds {
						heeded = nil
					}
					select {
					case <-heeded:
						wantIs(r, "the context's error", ctx.Err(), context.DeadlineExceeded)
					case <-time.After(10 * time.Second):
					}
				})
				r.connect()
				began := time.Now()
				closed := later(r.Transport.Close)
				bound := tt.timeout
				if bound == 0 || bound > tt.takes {
					bound = tt.takes
				}
				time.Sleep(bound - 1)
				r.wantState(supervised.StateServing)
				time.Sleep(time.Nanosecond)
				r.wantState(supervised.StateClosed) // whether the hook has returned or not
				want(r, "Close", "ok", kind(<-closed))
				want(r, "Close took", tt.takes, time.Since(began))
				want(r, "hooks", lines("drain", "close"), r.hooks())
			}, supervised.WithDrainTimeout(tt.timeout))
		})
	}
}

func TestC2_DeathEndsTheDrain(t *testing.T) {
	b := &countingBudget{Budget: tumbling(t, 3, time.Minute, 0)}
	inBubble(t, func(r *rig) {
		r.OnDrain(func(ctx context.Context) {
			<-ctx.Done()
			wantIs(r, "the context's error", ctx.Err(), context.Canceled)
			_, err := r.call("tools/call")
			want(r, "written after the death", "closed", kind(err))
		})
		r.connect()
		r.call("tools/call")
		r.call("tools/list") // which would be kept
		r.call("subscriptions/listen")
		began := time.Now()
		closed := later(r.Transport.Close)
		pass(time.Second)
		r.Last().Die(errCrash)
		want(r, "Close", "ok", kind(<-closed))
		want(r, "Close took", time.Second, time.Since(began))
		answers := r.read()
		want(r, "answers of calls", lines("1 peer lost", "2 peer lost"), answers[:2])
		want(r, "Read", io.EOF.Error(), kind(r.readError()))
		r.closes()
		want(r, "hooks", lines("drain", "close: crash"), r.hooks())
		want(r, "minted", 1, r.Minted())
		want(r, "budget asked", 0, len(b.deaths()))
		want(r, "Err", "ok", kind(r.Err()))
	}, supervised.WithBudget(b), supervised.WithDrainTimeout(0), keeping)
}

// A peer that dies because it is closed has not died.
func TestC2_EndOfAClosedPeerIsNoDeath(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.Process = true
			p.OnClose = func() error { p.Die(errCrash); time.Sleep(time.Second); return nil }
			return nil
		})
		r.connect()
		r.call("tools/call")
		r.closes()
		want(r, "answers", lines("1 closed"), r.read())
		want(r, "hooks", lines("drain", "close"), r.hooks())
	})
}

func TestC2_EveryDrainHookRuns(t *testing.T) {
	inBubble(t, func(r *rig) {
		broken := errors.New("broken")
		r.OnDrain(func(context.Context) { panic(broken) })
		r.OnDrain(func(context.Context) { r.note("drain again", nil) })
		r.connect()
		r.closes()
		want(r, "hooks", map[string]int{
			"drain": 1, "drain again": 1, "close": 1, "error: supervised: OnDrain panicked: broken": 1,
		}, counted(r.hooks()))
		wantIs(r, "OnError", r.errors()[0], broken)
	})
}

// Even a hook that ends the goroutine of Close does not keep the transport open.
func TestC2_DrainHookThatExitsItsGoroutine(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnDrain(func(context.Context) { runtime.Goexit() })
		r.connect()
		go r.Transport.Close()
		r.wantState(supervised.StateClosed)
		r.closes()
		want(r, "hooks", lines("drain", "close"), r.hooks())
	}, supervised.WithDrainTimeout(0))
}

// C3's hooks are called in order, and once, however often Close is called.
func TestC3_HooksOfATransportThatNeverServed(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnDrain(func(ctx context.Context) {
			_, bounded := ctx.Deadline()
			want(r, "the context is bounded", true, bounded)
			time.Sleep(time.Second)
			r.note("drained", nil)
		})
		for range 3 {
			r.closes()
		}
		want(r, "hooks", lines("drain", "drained", "close"), r.hooks())
	})
}

// A Connect in progress is told at once, whatever Close still has to wait for.
func TestC3_ConnectInProgress(t *testing.T) {
	for _, at := range []string{"mint", "start"} {
		t.Run(at, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				if at == "mint" {
					r.onMint(0, stubborn(7*time.Second))
				} else {
					r.onStart(0, stubborn(7*time.Second))
				}
				connecting := r.connecting()
				began := time.Now()
				closed := later(r.Transport.Close)
				want(r, "Connect", "closed", kind(<-connecting))
				want(r, "it took", 0, time.Since(began))
				<-closed
				r.closes()
			})
		})
	}
}

func TestC4_CauseOfAWithdrawnReplacementIsClose(t *testing.T) {
	inBubble(t, func(r *rig) {
		var causes []error
		r.OnClose(func(cause error) { causes = append(causes, cause) })
		r.connect()
		r.Last().Die(errCrash)
		synctest.Wait()
		r.closes()
		want(r, "OnClose was called", 2, len(causes))
		wantIs(r, "the death's cause", causes[0], errCrash)
		want(r, "the withdrawal's cause", "ok", kind(causes[1]))
	})
}

// OnClose of a replacement that is called off comes when it is gone.
func TestC4_OnCloseOfAReplacementFollowsItsEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onStart(1, stubborn(7*time.Second))
		r.connect()
		r.Last().Die(errCrash)
		r.wantState(supervised.StateConnecting)
		want(r, "hooks", lines("close: crash"), r.hooks())
		closed := later(r.Transport.Close)
		pass(7*time.Second - 1)
		want(r, "hooks, while it starts", nil, r.hooks())
		<-closed
		want(r, "hooks, when it is gone", lines("close"), r.hooks())
	}, supervised.WithRestartDelay(0))
}

func TestC5_FromManyGoroutines(t *testing.T) {
	const callers = 50
	inBubble(t, func(r *rig) {
		refuses, hold := errors.New("refuses to close"), make(chan struct{})
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.OnClose = func() error { <-hold; return refuses }
			return nil
		})
		blocked := make(chan struct{})
		r.OnClose(func(error) { <-blocked }) // Close waits for no hook that it emitted
		r.connect()
		r.call("tools/call")
		closed := make(chan error, callers)
		for range callers {
			go func() {
				err := r.Transport.Close()
				select {
				case <-r.Done():
				default:
					r.Error("Done is open when Close has returned")
				}
				closed <- err
			}()
		}
		synctest.Wait()
		want(r, "returned before the peer is gone", 0, len(closed))
		close(hold)
		synctest.Wait()
		want(r, "returned", callers, len(closed))
		first := 0
		for range callers {
			if err := <-closed; err != nil {
				first++
				wantIs(r, "the first call's error", err, refuses)
			}
		}
		want(r, "calls that returned the connection's error", 1, first)
		want(r, "Close once more", "ok", kind(r.Transport.Close()))
		want(r, "answers", lines("1 closed"), r.read())
		want(r, "hooks", lines("drain", "close"), r.hooks())
		close(blocked)
	})
}

// The first call returns the error of the connection's close, which swallows no emission and is not Err.
func TestC5_ErrorOfTheConnectionsClose(t *testing.T) {
	for _, end := range []struct {
		name string
		f    func() error
		is   string
	}{
		{"an error", func() error { return errCrash }, "crash"},
		{"a panic", func() error { panic(errCrash) }, "supervised: connection panicked: crash"},
	} {
		t.Run(end.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
					p.OnClose = end.f
					return nil
				})
				r.connect()
				r.call("tools/call")
				err := r.Transport.Close()
				want(r, "Close", end.is, kind(err))
				wantIs(r, "Close", err, errCrash)
				want(r, "Close again", "ok", kind(r.Transport.Close()))
				want(r, "Err", "ok", kind(r.Err()))
				want(r, "answers", lines("1 closed"), r.read())
				want(r, "Read", io.EOF.Error(), kind(r.readError()))
				want(r, "hooks", lines("drain", "close"), r.hooks())
			})
		})
	}
}

// Whoever comes while the drain is under way waits for the end as the first one does.
func TestC5_DuringTheDrain(t *testing.T) {
	inBubble(t, func(r *rig) {
		hold := make(chan struct{})
		r.OnDrain(func(context.Context) { <-hold })
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.OnClose = func() error { return errCrash }
			return nil
		})
		r.connect()
		first := later(r.Transport.Close)
		synctest.Wait()
		second := later(r.Transport.Close)
		r.conn.Close()
		wantPending(r, "the first Close", first)
		wantPending(r, "the second Close", second)
		close(hold)
		want(r, "the first Close", "crash", kind(<-first))
		want(r, "the second Close", "ok", kind(<-second))
		want(r, "hooks", lines("drain", "close"), r.hooks())
	}, supervised.WithDrainTimeout(0))
}

// Each way of closing, inside each kind of hook: the hook gets through, and so does everything else.
func TestC6_InsideAHook(t *testing.T) {
	ways := map[string]func(r *rig){
		"Close":                   func(r *rig) { r.Transport.Close() },
		"Close of the connection": func(r *rig) { r.conn.Close() },
		"both":                    func(r *rig) { r.conn.Close(); r.Transport.Close() },
		"both, the other way":     func(r *rig) { r.Transport.Close(); r.conn.Close() },
		"many": func(r *rig) {
			for range 10 {
				r.Transport.Close()
				r.conn.Close()
			}
		},
	}
	for _, tt := range []struct {
		name  string
		hook  func(r *rig, closes func()) // registers closes
		moves func(r *rig)                // leads to the hook, from serving
		hooks []string
	}{
		{
			name:  "OnClose of a death",
			hook:  func(r *rig, closes func()) { r.OnClose(func(error) { closes() }) },
			moves: func(r *rig) { r.Last().Die(errCrash) },
			hooks: lines("close: crash", "close"),
		}, {
			name:  "OnClose of Restart",
			hook:  func(r *rig, closes func()) { r.OnClose(func(error) { closes() }) },
			moves: func(r *rig) { r.Restart(errCrash) },
			hooks: lines("close: crash (killed)", "close"),
		}, {
			name:  "OnClose of Close",
			hook:  func(r *rig, closes func()) { r.OnClose(func(error) { closes() }) },
			moves: func(r *rig) { r.Transport.Close() },
			hooks: lines("drain", "close"),
		}, {
			name:  "OnDrain of Close",
			hook:  func(r *rig, closes func()) { r.OnDrain(func(context.Context) { closes() }) },
			moves: func(r *rig) { r.Transport.Close() },
			hooks: lines("drain", "close"),
		}, {
			name:  "OnDrain of Close of the connection",
			hook:  func(r *rig, closes func()) { r.OnDrain(func(context.Context) { closes() }) },
			moves: func(r *rig) { r.conn.Close() },
			hooks: lines("drain", "close"),
		}, {
			name:  "OnReconnect",
			hook:  func(r *rig, closes func()) { r.OnReconnect(func(context.Context) error { closes(); return nil }) },
			moves: func(r *rig) { r.Last().Die(errCrash) },
			hooks: lines("close: crash", "reconnect", "drain", "close"),
		}, {
			name: "OnError of an attempt that failed",
			hook: func(r *rig, closes func()) { r.OnError(func(error) { closes() }) },
			moves: func(r *rig) {
				r.onMint(1, func(context.Context, *peertest.Peer) error { return errors.New("no mint") })
				r.onMint(2, obedient)
				r.Last().Die(errCrash)
			},
			hooks: lines("close: crash", "error: no mint", "close"),
		}, {
			name:  "OnError of what a peer reports",
			hook:  func(r *rig, closes func()) { r.OnError(func(error) { closes() }) },
			moves: func(r *rig) { r.Last().Report(errors.New("stray line")) },
			hooks: lines("error: stray line", "drain", "close"),
		}, {
			name: "OnError of the budget's end",
			hook: func(r *rig, closes func()) {
				r.OnError(func(err error) {
					if _, ok := errors.AsType[*supervised.ExhaustedError](err); ok {
						closes()
					}
				})
			},
			moves: func(r *rig) {
				for i := 1; i <= 3; i++ {
					r.onMint(i, func(context.Context, *peertest.Peer) error { return errors.New("no mint") })
				}
				r.Last().Die(errCrash)
			},
			hooks: lines("close: crash", "error: no mint", "error: no mint", "error: no mint",
				"error: supervised: restart budget of 3 in 1m0s spent: no mint",
				"close: supervised: restart budget of 3 in 1m0s spent: no mint"),
		}, {
			name: "OnTransition to respawn-pending",
			hook: func(r *rig, closes func()) {
				r.OnTransition(func(s supervised.Transition) {
					if s.To == supervised.StateRespawnPending {
						closes()
					}
				})
			},
			moves: func(r *rig) { r.Last().Die(errCrash) },
			hooks: lines("close: crash", "close"),
		}, {
			name: "OnTransition to connecting",
			hook: func(r *rig, closes func()) {
				r.OnTransition(func(s supervised.Transition) {
					if s.To == supervised.StateConnecting && s.From == supervised.StateRespawnPending {
						closes()
					}
				})
			},
			moves: func(r *rig) { r.onStart(1, obedient); r.Last().Die(errCrash) },
			hooks: lines("close: crash", "close"),
		}, {
			name: "OnTransition to closed",
			hook: func(r *rig, closes func()) {
				r.OnTransition(func(s supervised.Transition) {
					if s.To == supervised.StateClosed {
						closes()
					}
				})
			},
			moves: func(r *rig) { r.Transport.Close() },
			hooks: lines("drain", "close"),
		},
	} {
		for way, close := range ways {
			for _, timeout := range []time.Duration{supervised.DefaultDrainTimeout, 0} {
				t.Run(fmt.Sprintf("%s in %s, drain timeout %v", way, tt.name, timeout), func(t *testing.T) {
					inBubble(t, func(r *rig) {
						r.Fleet.Process = true
						began := time.Now()
						var in, out int
						tt.hook(r, func() { in++; close(r); out++ })
						r.connect()
						tt.moves(r)
						select {
						case <-r.Done():
						case <-time.After(time.Hour):
							buf := make([]byte, 1<<20)
							r.Errorf("not closed after an hour\n%s", ours(string(buf[:runtime.Stack(buf, true)])))
							r.Last().Die(errCrash) // which ends a drain that waits for itself
							return
						}
						want(r, "time that it took", 0, time.Since(began))
						r.closes()
						want(r, "hooks", tt.hooks, r.hooks())
						want(r, "calls of the hook that returned", in, out)
						if in == 0 || in > 2 {
							r.Errorf("the hook was called %d times", in)
						}
					}, supervised.WithRestartDelay(0), supervised.WithDrainTimeout(timeout))
				})
			}
		}
	}
}

// ours is the stacks of a dump that have code of this module in them.
func ours(dump string) string {
	var kept []string
	for stack := range strings.SplitSeq(dump, "\n\n") {
		if strings.Contains(stack, "synctest bubble") && strings.Contains(stack, "/supervised.(") {
			kept = append(kept, stack)
		}
	}
	return strings.Join(kept, "\n\n")
}

func TestC6_CloseInOnCloseLogsNoRestart(t *testing.T) {
	logger, log := logtest.NewNullLogger()
	inBubble(t, func(r *rig) {
		r.OnClose(func(cause error) {
			want(r, "promised in OnClose of a death", cause != nil, r.Reconnecting())
			r.Transport.Close()
			want(r, "promised after Close", false, r.Reconnecting())
		})
		r.connect()
		r.Last().Die(errCrash)
		synctest.Wait()
		r.closes()
		want(r, "minted", 1, r.Minted())
		for _, e := range log.AllEntries() {
			if e.Level <= logrus.WarnLevel {
				r.Errorf("logged: %s %q %v", e.Level, e.Message, e.Data)
			}
		}
	}, supervised.WithLogger(logger), supervised.WithRestartDelay(0))
}

// The SDK waits for a call that is never answered; closing the transport ends that wait.
func TestC7_TransportCloseEndsTheWaitOfTheSession(t *testing.T) {
	for _, tt := range []struct {
		name  string
		close func(r *rig, session *mcp.ClientSession) (session_ <-chan error)
	}{
		{"session first", func(r *rig, session *mcp.ClientSession) <-chan error {
			closing := later(session.Close)
			wantPending(r, "session.Close, with a call in flight", closing)
			pass(time.Hour)
			wantPending(r, "session.Close, with a call in flight", closing)
			want(r, "Transport.Close", "ok", kind(r.Transport.Close()))
			return closing
		}},
		{"transport first", func(r *rig, session *mcp.ClientSession) <-chan error {
			hold := make(chan struct{})
			remove := r.OnDrain(func(context.Context) { <-hold })
			defer remove()
			closed := later(r.Transport.Close)
			synctest.Wait()
			closing := later(session.Close)
			wantPending(r, "session.Close, in the drain", closing)
			close(hold)
			want(r, "Transport.Close", "ok", kind(<-closed))
			return closing
		}},
		{"transport alone", func(r *rig, session *mcp.ClientSession) <-chan error {
			want(r, "Transport.Close", "ok", kind(r.Transport.Close()))
			return later(session.Close)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				session := r.session()
				called := later(func() error { return callTool(session) })
				wantPending(r, "the call", called)
				closing := tt.close(r, session)
				err := <-called
				wantIs(r, "the call in flight", err, supervised.ErrClosed, mcp.ErrConnectionClosed)
				want(r, "the call matches ErrPeerLost", false, errors.Is(err, supervised.ErrPeerLost))
				want(r, "session.Close", "ok", kind(<-closing))
				want(r, "session.Wait", "ok", kind(session.Wait()))
				wantIs(r, "a later call", callTool(session), mcp.ErrConnectionClosed)
				r.closes()
				want(r, "hooks", lines("drain", "close"), r.hooks())
			}, supervised.WithDrainTimeout(0))
		})
	}
}

// A call that is kept for a replacement that does not come is in flight too.
func TestC7_WithAKeptCall(t *testing.T) {
	for _, first := range []string{"session", "transport"} {
		t.Run(first+" first", func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.onMint(1, obedient)
				session := r.session()
				r.Last().Answer = nil
				called := later(func() error { _, err := session.ListTools(context.Background(), nil); return err })
				synctest.Wait()
				r.Last().Die(errCrash)
				pass(time.Second)
				r.wantState(supervised.StateConnecting)
				wantPending(r, "the kept call", called)
				var closing <-chan error
				if first == "session" {
					closing = later(session.Close)
					wantPending(r, "session.Close", closing)
					r.Transport.Close()
				} else {
					r.Transport.Close()
					closing = later(session.Close)
				}
				wantIs(r, "the kept call", <-called, supervised.ErrClosed)
				want(r, "session.Close", "ok", kind(<-closing))
				r.closes()
				want(r, "hooks", lines("close: crash", "close"), r.hooks())
			}, keeping, supervised.WithConnectTimeout(0))
		})
	}
}

// A session with nothing in flight closes the transport by its connection, and Wait returns nil.
func TestC8_SessionCloseClosesTheTransport(t *testing.T) {
	inBubble(t, func(r *rig) {
		session := r.session()
		waiting := later(session.Wait)
		want(r, "session.Close", "ok", kind(session.Close()))
		want(r, "session.Wait", "ok", kind(<-waiting))
		<-r.Done()
		r.closes()
		want(r, "hooks", lines("drain", "close"), r.hooks())
	})
}

// A server of the SDK, in memory, that has a tool running which waits for its context.
func TestC8_OverAServerOfTheSDK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "tool"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			<-ctx.Done()
			return nil, nil, ctx.Err()
		})
		served := make(chan error, 1)
		tr, err := supervised.New(func(ctx context.Context) (mcp.Transport, error) {
			client, end := mcp.NewInMemoryTransports()
			go func() { served <- server.Run(ctx, end) }()
			return client, nil
		})
		want(t, "New", "ok", kind(err))
		session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(context.Background(), tr, nil)
		want(t, "Connect", "ok", kind(err))
		called := later(func() error { return callTool(session) })
		synctest.Wait()
		closing := later(session.Close)
		synctest.Wait()
		want(t, "Transport.Close", "ok", kind(tr.Close()))
		wantIs(t, "the call in flight", <-called, supervised.ErrClosed)
		want(t, "session.Close", "ok", kind(<-closing))
		<-served
	})
}

// Close of the connection runs no hook itself and waits for none: the caller may hold a lock that they want.
func TestC8_CallerHoldsALock(t *testing.T) {
	for _, state := range []string{"serving", "respawn-pending", "connecting"} {
		t.Run(state, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var lock sync.Mutex
				hook := func() {
					for !lock.TryLock() { // a mutex that is waited for would stop the bubble's clock
						time.Sleep(time.Millisecond)
					}
					lock.Unlock()
				}
				r.onMint(1, obedient)
				r.connect()
				hooks := lines("drain", "close")
				switch state {
				case "respawn-pending":
					r.Last().Die(errCrash)
				case "connecting":
					r.Last().Die(errCrash)
					pass(time.Second)
				}
				r.wantState(map[string]supervised.State{
					"serving": supervised.StateServing, "respawn-pending": supervised.StateRespawnPending, "connecting": supervised.StateConnecting,
				}[state])
				if state != "serving" {
					hooks = lines("close: crash", "close")
				}
				r.OnDrain(func(context.Context) { hook() })
				r.OnClose(func(error) { hook() })
				r.OnTransition(func(supervised.Transition) { hook() })
				lock.Lock()
				began := time.Now()
				want(r, "Close of the connection", "ok", kind(r.conn.Close()))
				want(r, "it took", 0, time.Since(began))
				synctest.Wait()
				lock.Unlock()
				<-r.Done()
				r.closes()
				want(r, "hooks", hooks, r.hooks())
			}, supervised.WithDrainTimeout(0))
		})
	}
}

// It does not depend on Read being called again: nobody reads, and the peer has more to say than is taken.
func TestC8_NobodyReads(t *testing.T) {
	inBubble(t, func(r *rig) {
		conn, err := r.Connect(context.Background())
		want(r, "Connect", "ok", kind(err))
		flood := &jsonrpc.Request{Method: "notifications/message", Params: bytes.Repeat([]byte(" "), 1<<20)}
		for range 20 {
			r.Last().Say(flood)
		}
		synctest.Wait()
		conn.Close()
		<-r.Done()
		r.closes()
		want(r, "hooks", lines("drain", "close"), r.hooks())
		var last error
		for last == nil {
			_, last = conn.Read(context.Background())
		}
		want(r, "Read, at last", io.EOF.Error(), kind(last))
	})
}

// Close of the connection from the goroutine that reads, while a hook is blocked: it returns at once. OnDrain has
// its turn after that hook, so the drain timeout is what ends the connection; the default, where there is none.
func TestC8_FromTheReadingGoroutineWithAHookBlocked(t *testing.T) {
	for _, timeout := range []time.Duration{supervised.DefaultDrainTimeout, 0} {
		t.Run(fmt.Sprintf("drain timeout %v", timeout), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				hold := make(chan struct{})
				r.OnError(func(error) { <-hold })
				r.onMint(0, func(_ context.Context, p *peertest.Peer) error { p.Process = true; return nil })
				conn, err := r.Connect(context.Background())
				want(r, "Connect", "ok", kind(err))
				r.Last().Report(errors.New("stray line"))
				began := time.Now()
				ended := later(func() error {
					conn.Read(context.Background())
					conn.Close()
					want(r, "Close of the connection took", 0, time.Since(began))
					_, err := conn.Read(context.Background())
					return err
				})
				r.Last().Say(&jsonrpc.Request{Method: "notifications/message"})
				pass(supervised.DefaultDrainTimeout - 1)
				want(r, "hooks, while one is blocked", lines("error: stray line"), r.hooks())
				pass(1)
				r.wantState(supervised.StateClosed)
				want(r, "Read", io.EOF.Error(), kind(<-ended))
				close(hold)
				want(r, "hooks", lines("drain", "close"), r.hooks())
			}, supervised.WithDrainTimeout(timeout))
		})
	}
}

// With nothing to drain there is nothing that the close could wait for.
func TestC8_WithAHookBlockedAndNothingToDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fleet peertest.Fleet
		fleet.Process = true
		tr, err := supervised.New(fleet.Mint)
		want(t, "New", "ok", kind(err))
		hold := make(chan struct{})
		tr.OnError(func(error) { <-hold })
		conn, err := tr.Connect(context.Background())
		want(t, "Connect", "ok", kind(err))
		fleet.Last().Report(errors.New("stray line"))
		synctest.Wait()
		conn.Close()
		synctest.Wait()
		want(t, "state", "closed", tr.State().String())
		now, _ := fleet.Alive()
		want(t, "alive", 0, now)
		close(hold)
		tr.Close()
	})
}

// Close comes to the help of a drain that waits behind a hook.
func TestC8_TransportCloseAfterCloseOfTheConnectionWithAHookBlocked(t *testing.T) {
	inBubble(t, func(r *rig) {
		hold := make(chan struct{})
		r.OnError(func(error) { <-hold })
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error { p.Process = true; return nil })
		r.connect()
		r.Last().Report(errors.New("stray line"))
		synctest.Wait()
		r.conn.Close()
		closed := later(r.Transport.Close)
		select {
		case <-closed:
		case <-time.After(time.Hour):
			r.Error("Close has not returned after an hour")
			r.Last().Die(errCrash)
		}
		close(hold)
	}, supervised.WithDrainTimeout(0))
}

// An OnDrain hook that uses the session while the SDK holds its lock neither hangs nor is answered wrongly.
func TestC8_DrainHookThatUsesTheSession(t *testing.T) {
	inBubble(t, func(r *rig) {
		session := r.session()
		var drained error
		r.OnDrain(func(ctx context.Context) {
			_, drained = session.ListTools(ctx, nil)
			r.note("used", nil)
		})
		want(r, "session.Close", "ok", kind(session.Close()))
		<-r.Done()
		r.closes()
		want(r, "hooks", lines("drain", "used", "close"), r.hooks())
		wantIs(r, "the call in the drain", drained, mcp.ErrConnectionClosed) // the session has closed itself already
	}, supervised.WithDrainTimeout(0))
}

// By Transport.Close the session is whole during the drain, and what a hook calls is answered.
func TestC8_DrainHookThatUsesTheSessionOfATransportThatIsClosed(t *testing.T) {
	inBubble(t, func(r *rig) {
		session := r.session()
		drained := errors.New("not called")
		r.OnDrain(func(ctx context.Context) { drained = session.Ping(ctx, nil) })
		r.closes()
		want(r, "the ping in the drain", "ok", kind(drained))
		want(r, "session.Wait", "ok", kind(session.Wait()))
		want(r, "hooks", lines("drain", "close"), r.hooks())
	}, supervised.WithDrainTimeout(0))
}
