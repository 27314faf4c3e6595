package supervised_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/internal/peertest"
)

// Two hooks of each kind, over two deaths and Close: registration is the order within an emission, and the
// transitions are the order of the emissions. Nobody registers anything again for the replacement.
func TestH1_Order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, supervised.WithRestartDelay(0))
		hears := func(who string) {
			r.OnTransition(func(s supervised.Transition) {
				r.note(fmt.Sprintf("%s %v→%v", who, s.From, s.To), nil)
			})
			r.OnClose(func(cause error) { r.note(who+" close", cause) })
			r.OnDrain(func(context.Context) { r.note(who+" drain", nil) })
			r.OnReconnect(func(context.Context) error { r.note(who+" reconnect", nil); return nil })
			r.OnError(func(err error) { r.note(who+" error", err) })
		}
		hears("a") // before Connect
		r.onMint(1, func(context.Context, *peertest.Peer) error { return errors.New("no mint") })
		r.connect()
		want(t, "the first connection", lines("a idle→connecting", "a connecting→serving"), r.hooks())
		hears("b") // after it
		r.dies()
		want(t, "a death, and a replacement that fails at first", lines(
			"a serving→respawn-pending", "b serving→respawn-pending",
			"close: crash", "a close: crash", "b close: crash",
			"a respawn-pending→connecting", "b respawn-pending→connecting",
			"a connecting→respawn-pending", "b connecting→respawn-pending",
			"error: no mint", "a error: no mint", "b error: no mint",
			"a respawn-pending→connecting", "b respawn-pending→connecting",
			"a connecting→serving", "b connecting→serving",
			"reconnect", "a reconnect", "b reconnect",
		), r.hooks())
		r.dies()
		want(t, "another death", 12, len(r.hooks()))
		r.Transport.Close()
		want(t, "Close", lines(
			"drain", "a drain", "b drain",
			"a serving→closed", "b serving→closed",
			"close", "a close", "b close",
		), r.hooks())
	})
}

// OnDrain alone may overlap another hook.
func TestH1_OneAtATime(t *testing.T) {
	inBubble(t, func(r *rig) {
		var inside, most atomic.Int32
		enter := func() {
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Millisecond) // so that another could come in
			inside.Add(-1)
		}
		r.Fleet.Process = true
		for range 3 {
			r.OnClose(func(error) { enter() })
			r.OnReconnect(func(context.Context) error { enter(); return nil })
			r.OnError(func(error) { enter() })
			r.OnTransition(func(supervised.Transition) { enter() })
		}
		r.connect()
		for range 3 {
			p := r.Last()
			for range 10 {
				go p.Report(errors.New("stray line"))
			}
			p.Die(errCrash)
			pass(time.Second)
			r.wantState(supervised.StateServing)
		}
		r.closes()
		want(r, "hooks at once", 1, most.Load())
	}, supervised.WithRestartDelay(0))
}

func TestH1_Remove(t *testing.T) {
	inBubble(t, func(r *rig) {
		kinds := map[string]func(who string) (remove func()){
			"close": func(who string) func() { return r.OnClose(func(error) { r.note(who, nil) }) },
			"reconnect": func(who string) func() {
				return r.OnReconnect(func(context.Context) error { r.note(who, nil); return nil })
			},
			"transition": func(who string) func() { return r.OnTransition(func(supervised.Transition) { r.note(who, nil) }) },
			"error":      func(who string) func() { return r.OnError(func(error) { r.note(who, nil) }) },
			"drain":      func(who string) func() { return r.OnDrain(func(context.Context) { r.note(who, nil) }) },
		}
		for kind, register := range kinds {
			remove := register("removed " + kind)
			register("kept " + kind)
			remove()
			remove() // which is no error, and takes out nothing else
		}
		r.onMint(1, func(context.Context, *peertest.Peer) error { return errors.New("no mint") })
		r.connect()
		r.dies()
		r.Transport.Close()
		heard := counted(r.hooks())
		for kind := range kinds {
			want(r, "removed "+kind, 0, heard["removed "+kind])
			if heard["kept "+kind] == 0 {
				r.Errorf("kept %s: not called", kind)
			}
		}
	}, supervised.WithRestartDelay(0))
}

// The same function registered twice is called twice, and each registration is removed by itself.
func TestH1_RegisteredTwice(t *testing.T) {
	inBubble(t, func(r *rig) {
		f := func(error) { r.note("twice", nil) }
		first := r.OnClose(f)
		r.OnClose(f)
		r.connect()
		r.dies()
		want(r, "hooks", lines("close: crash", "twice", "twice", "reconnect"), r.hooks())
		first()
		first()
		r.dies()
		want(r, "hooks", lines("close: crash", "twice", "reconnect"), r.hooks())
	}, supervised.WithRestartDelay(0))
}

func TestH1_NilHook(t *testing.T) {
	inBubble(t, func(r *rig) {
		removes := []func(){r.OnClose(nil), r.OnDrain(nil), r.OnReconnect(nil), r.OnError(nil), r.OnTransition(nil)}
		r.onMint(1, func(context.Context, *peertest.Peer) error { return errors.New("no mint") })
		r.connect()
		r.dies()
		r.Transport.Close()
		want(r, "hooks", lines("close: crash", "error: no mint", "reconnect", "drain", "close"), r.hooks())
		for _, remove := range removes {
			remove()
		}
	}, supervised.WithRestartDelay(0))
}

func TestH2_OncePerReplacementThatServes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(2, func(context.Context, *peertest.Peer) error { return errors.New("no mint") })
		r.onStart(3, func(context.Context, *peertest.Peer) error { return errors.New("no start") })
		r.connect()
		want(r, "the first connection", nil, r.hooks())
		r.dies()
		want(r, "the first replacement", lines("close: crash", "reconnect"), r.hooks())
		r.dies()
		want(r, "the third that was tried", lines("close: crash", "error: no mint", "error: no start", "reconnect"), r.hooks())
		r.Restart(errCrash)
		want(r, "Restart", lines("close: crash", "reconnect"), r.hooks())
	}, supervised.WithRestartDelay(0), supervised.WithMaxRestarts(10))
}

// A first connection that comes up after attempts that failed is no replacement.
func TestH2_NotForAFirstConnectionThatWasTriedAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onStart(0, func(context.Context, *peertest.Peer) error { return errCrash })
		_, err := r.Connect(context.Background())
		wantIs(r, "Connect", err, errCrash)
		r.connect()
		want(r, "hooks", nil, r.hooks())
	})
}

// The hook comes after OnClose of the connection before, after the replay was written; what it writes reaches
// the replacement, behind the replay.
func TestH2_AWriteReachesTheReplacement(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnReconnect(func(ctx context.Context) error {
			want(r, "replayed before the hook", lines("tools/list", "subscriptions/listen"), r.Last().Methods())
			want(r, "state", "serving", r.State().String())
			want(r, "promised", false, r.Reconnecting())
			want(r, "generation", 1, r.Stats().Generation)
			id, err := r.call("tools/call")
			want(r, "written", "ok", kind(err))
			r.Last().Reply(id, `"heard"`)
			return err
		})
		r.connect()
		r.call("subscriptions/listen")
		r.call("tools/list")
		r.dies()
		want(r, "hooks", lines("close: crash", "reconnect"), r.hooks())
		want(r, "the first peer got", lines("subscriptions/listen", "tools/list"), r.Peer(0).Methods())
		want(r, "the second peer got", lines("tools/list", "subscriptions/listen", "tools/call"), r.Peer(1).Methods())
		want(r, "answers", lines(`3 "heard"`), r.read())
	}, supervised.WithRestartDelay(0), keeping)
}

func TestH2_ItsContextEndsWithTheConnection(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ends  func(r *rig)
		hooks []string // from the end on
	}{
		{"death", func(r *rig) { r.Last().Die(errCrash) }, lines("close: crash", "reconnect")},
		{"Restart", func(r *rig) { r.Restart(errCrash) }, lines("close: crash", "reconnect")},
		{"Close", func(r *rig) { go r.Transport.Close() }, lines("drain", "close")},
		{"Close of the connection", func(r *rig) { r.conn.Close() }, lines("drain", "close")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var contexts []context.Context
				r.OnReconnect(func(ctx context.Context) error {
					contexts = append(contexts, ctx)
					if len(contexts) == 1 {
						<-ctx.Done()
					}
					return nil
				})
				r.connect()
				r.dies()
				want(r, "hooks", lines("close: crash", "reconnect"), r.hooks())
				pass(time.Hour)
				want(r, "hooks called", 1, len(contexts))
				want(r, "its context, while the connection lives", "ok", kind(contexts[0].Err()))
				tt.ends(r)
				synctest.Wait()
				wantIs(r, "its context, afterwards", contexts[0].Err(), context.Canceled)
				want(r, "hooks", tt.hooks, r.hooks())
				if len(contexts) > 1 {
					want(r, "the context of the next", "ok", kind(contexts[1].Err()))
				}
			}, supervised.WithRestartDelay(0))
		})
	}
}

// Close ends the hook's context before the drain, so that a hook that waits for it holds up nothing.
func TestH2_CloseEndsItsContextBeforeTheDrain(t *testing.T) {
	inBubble(t, func(r *rig) {
		var reconnected context.Context
		r.OnReconnect(func(ctx context.Context) error { reconnected = ctx; return nil })
		r.OnDrain(func(context.Context) { wantIs(r, "its context in the drain", reconnected.Err(), context.Canceled) })
		r.connect()
		r.dies()
		r.closes()
	}, supervised.WithRestartDelay(0))
}

// A connection that has ended before its hook had a turn: the hook is called all the same, with a context that
// has ended.
func TestH2_TurnComesLate(t *testing.T) {
	inBubble(t, func(r *rig) {
		hold := make(chan struct{})
		r.OnTransition(func(s supervised.Transition) {
			if s.From == supervised.StateConnecting && s.Generation == 1 {
				<-hold
			}
		})
		var ended []bool
		r.OnReconnect(func(ctx context.Context) error { ended = append(ended, ctx.Err() != nil); return nil })
		r.connect()
		r.dies()
		want(r, "hooks", lines("close: crash"), r.hooks())
		r.dies()
		r.wantState(supervised.StateRespawnPending)
		close(hold)
		r.wantState(supervised.StateServing)
		want(r, "hooks", lines("reconnect", "close: crash", "reconnect"), r.hooks())
		want(r, "whose context had ended", []bool{true, false}, ended)
	}, supervised.WithRestartDelay(0))
}

// A call through the session inside the hook goes to the replacement, and ends with it.
func TestH2_ACallInsideIt(t *testing.T) {
	inBubble(t, func(r *rig) {
		var session *mcp.ClientSession
		called := make(chan error, 2)
		r.OnReconnect(func(ctx context.Context) error {
			called <- session.Ping(ctx, nil)
			_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "tool"})
			called <- err
			return nil
		})
		session = r.session()
		r.dies()
		want(r, "an answered call", "ok", kind(<-called))
		r.onMint(2, obedient)
		r.Last().Die(errCrash)
		err := <-called
		if !errors.Is(err, supervised.ErrPeerLost) && !errors.Is(err, context.Canceled) {
			r.Errorf("a call that is never answered: %v", err)
		}
	}, supervised.WithRestartDelay(0))
}

func TestH3_PanicsAreReportedAndTheChainGoesOn(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		hooks func(r *rig, fail func())
		moves func(r *rig)
		rest  string
	}{
		{"OnClose", func(r *rig, fail func()) {
			r.OnClose(func(error) { fail() })
			r.OnClose(func(error) { r.note("the rest", nil) })
		}, func(r *rig) { r.Last().Die(errCrash) }, "reconnect"},
		{"OnReconnect", func(r *rig, fail func()) {
			r.OnReconnect(func(context.Context) error { fail(); return nil })
			r.OnReconnect(func(context.Context) error { r.note("the rest", nil); return nil })
		}, func(r *rig) { r.Last().Die(errCrash) }, "reconnect"},
		{"OnTransition", func(r *rig, fail func()) {
			r.OnTransition(func(s supervised.Transition) {
				if s.Event == supervised.EventPeerDied {
					fail()
				}
			})
			r.OnTransition(func(s supervised.Transition) {
				if s.Event == supervised.EventPeerDied {
					r.note("the rest", nil)
				}
			})
		}, func(r *rig) { r.Last().Die(errCrash) }, "reconnect"},
		{"OnDrain", func(r *rig, fail func()) {
			r.OnDrain(func(context.Context) { fail() })
			r.OnDrain(func(context.Context) { r.note("the rest", nil) })
		}, func(r *rig) { r.Transport.Close() }, "close"},
	} {
		for how, v := range map[string]any{"an error": broken, "a text": "broken"} {
			t.Run(tt.name+" with "+how, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					tt.hooks(r, func() { panic(v) })
					r.connect()
					tt.moves(r)
					heard := counted(r.hooks())
					told := r.errors()
					want(r, "OnError was told", 1, len(told))
					want(r, "what it was told", "supervised: "+tt.name+" panicked: broken", kind(told[0]))
					if how == "an error" {
						wantIs(r, "what it was told", told[0], broken)
					}
					want(r, "the rest of the chain ran", 1, heard["the rest"])
					want(r, "what comes after it", 1, heard[tt.rest])
				}, supervised.WithRestartDelay(0))
			})
		}
	}
}

func TestH3_ErrorOfOnReconnect(t *testing.T) {
	inBubble(t, func(r *rig) {
		cold := errors.New("still cold")
		r.OnReconnect(func(context.Context) error { return cold })
		r.OnReconnect(func(context.Context) error { r.note("the rest", nil); return nil })
		r.connect()
		r.dies()
		r.wantState(supervised.StateServing)
		told := r.errors()
		want(r, "OnError was told", 1, len(told))
		wantIs(r, "what it was told", told[0], cold)
		heard := counted(r.hooks())
		want(r, "the rest of the chain ran", 1, heard["the rest"])
		want(r, "deaths", 1, heard["close: crash"])
	}, supervised.WithRestartDelay(0))
}

func TestH3_OnErrorThatPanicsIsLogged(t *testing.T) {
	logger, log := logtest.NewNullLogger()
	inBubble(t, func(r *rig) {
		broken := errors.New("broken")
		remove := r.OnError(func(error) { panic(broken) })
		r.OnError(func(error) { r.note("the rest", nil) })
		r.onMint(1, func(context.Context, *peertest.Peer) error { return errors.New("no mint") })
		r.connect()
		r.dies()
		r.wantState(supervised.StateServing)
		want(r, "hooks", lines("close: crash", "error: no mint", "the rest", "reconnect"), r.hooks())
		remove()
		logged := 0
		for _, e := range log.AllEntries() {
			if err, ok := e.Data[logrus.ErrorKey].(error); ok && errors.Is(err, broken) {
				want(r, "level", logrus.ErrorLevel, e.Level)
				logged++
			}
		}
		want(r, "logged", 1, logged)
	}, supervised.WithRestartDelay(0), supervised.WithLogger(logger))
}

// A hook that ends its goroutine, as t.FailNow does, wedges neither the hooks behind it nor the respawn.
func TestH3_HookThatExitsItsGoroutine(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnClose(func(error) { runtime.Goexit() })
		r.OnReconnect(func(context.Context) error { runtime.Goexit(); return nil })
		r.OnError(func(error) { runtime.Goexit() })
		r.OnDrain(func(context.Context) { runtime.Goexit() })
		r.OnTransition(func(supervised.Transition) { runtime.Goexit() })
		r.onMint(2, func(context.Context, *peertest.Peer) error { return errors.New("no mint") })
		r.connect()
		r.dies()
		want(r, "hooks", lines("close: crash", "reconnect"), r.hooks())
		r.dies()
		want(r, "hooks", lines("close: crash", "error: no mint", "reconnect"), r.hooks())
		r.conn.Close()
		<-r.Done()
		want(r, "hooks", lines("drain", "close"), r.hooks())
	}, supervised.WithRestartDelay(0), supervised.WithDrainTimeout(0))
}

// Every public method, inside every kind of hook.
func TestH4_AnyMethodInsideAHook(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hook  func(r *rig, f func())
		moves func(r *rig)
	}{
		{"OnClose", func(r *rig, f func()) { r.OnClose(func(error) { f() }) }, func(r *rig) { r.dies() }},
		{"OnReconnect", func(r *rig, f func()) { r.OnReconnect(func(context.Context) error { f(); return nil }) }, func(r *rig) { r.dies() }},
		{"OnError", func(r *rig, f func()) { r.OnError(func(error) { f() }) }, func(r *rig) { r.Last().Report(errCrash); r.dies() }},
		{"OnTransition", func(r *rig, f func()) { r.OnTransition(func(supervised.Transition) { f() }) }, func(r *rig) { r.dies() }},
		{"OnDrain", func(r *rig, f func()) { r.OnDrain(func(context.Context) { f() }) }, func(r *rig) { r.Transport.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.Fleet.Process = true
				began, called := time.Now(), 0
				soon, cancel := context.WithCancel(context.Background())
				cancel()
				tt.hook(r, func() {
					called++
					r.State()
					r.Stats()
					r.Reconnecting()
					r.Err()
					select {
					case <-r.Done():
					default:
					}
					r.WaitServing(soon)
					r.OnClose(func(error) {})()
					r.OnDrain(func(context.Context) {})()
					r.OnReconnect(func(context.Context) error { return nil })()
					r.OnError(func(error) {})()
					r.OnTransition(func(supervised.Transition) {})()
					if _, err := r.Connect(context.Background()); err == nil {
						r.Error("Connect inside a hook: no error")
					}
					if called == 1 {
						r.Restart(errCrash)
					}
				})
				r.connect()
				tt.moves(r)
				r.Transport.Close()
				synctest.Wait()
				want(r, "it took", 0, time.Since(began))
				if called == 0 {
					r.Error("the hook was not called")
				}
			}, supervised.WithRestartDelay(0))
		})
	}
}

// A hook registered during an emission is called from the next one on; one removed during it is not called after.
func TestH4_RegisteringAndRemovingDuringAnEmission(t *testing.T) {
	inBubble(t, func(r *rig) {
		register := sync.OnceFunc(func() { r.OnClose(func(error) { r.note("late", nil) }) })
		var remove func()
		r.OnClose(func(error) { register(); remove() })
		remove = r.OnClose(func(error) { r.note("removed", nil) })
		var removeSelf func()
		removeSelf = r.OnClose(func(error) { r.note("self", nil); removeSelf() })
		r.connect()
		r.dies()
		heard := counted(r.hooks())
		want(r, "late, in the emission that registered it", 0, heard["late"])
		want(r, "self", 1, heard["self"])
		if heard["removed"] > 1 { // once is allowed
			r.Errorf("removed: called %d times", heard["removed"])
		}
		r.dies()
		want(r, "hooks", lines("close: crash", "late", "reconnect"), r.hooks())
	}, supervised.WithRestartDelay(0))
}

// A removal during an emission takes out what it removes, and nothing behind it.
func TestH4_RemovingDuringAnEmission(t *testing.T) {
	inBubble(t, func(r *rig) {
		var remove func()
		r.OnClose(func(error) { r.note("first", nil); remove() })
		remove = r.OnClose(func(error) { r.note("removed", nil) })
		r.OnClose(func(error) { r.note("third", nil) })
		r.OnClose(func(error) { r.note("fourth", nil) })
		r.connect()
		r.dies()
		heard := counted(r.hooks())
		want(r, "third", 1, heard["third"])
		want(r, "fourth", 1, heard["fourth"])
		r.dies()
		want(r, "hooks", lines("close: crash", "first", "third", "fourth", "reconnect"), r.hooks())
	}, supervised.WithRestartDelay(0))
}

// A hook of one kind may register one of another kind that is yet to be called for the same death.
func TestH4_RegisteringForAnEmissionToCome(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnClose(func(error) { r.OnReconnect(func(context.Context) error { r.note("new", nil); return nil }) })
		r.connect()
		r.dies()
		want(r, "hooks", lines("close: crash", "reconnect", "new"), r.hooks())
	}, supervised.WithRestartDelay(0))
}

// A blocked is a hook of each kind, and what has it called while a connection serves (peer 1, but for OnDrain).
var blocked = []struct {
	name string
	hook func(r *rig, block func())
	// leads to the hook; afterwards a peer serves
	moves func(r *rig)
}{
	{"OnError", func(r *rig, block func()) { r.OnError(func(error) { block() }) },
		func(r *rig) { r.Last().Report(errors.New("stray line")) }},
	{"OnReconnect", func(r *rig, block func()) {
		r.OnReconnect(func(context.Context) error { block(); return nil })
	}, func(r *rig) { r.Last().Die(errCrash) }},
	{"OnTransition", func(r *rig, block func()) {
		r.OnTransition(func(s supervised.Transition) {
			if s.To == supervised.StateServing {
				block()
			}
		})
	}, func(r *rig) {}},
	{"OnDrain", func(r *rig, block func()) { r.OnDrain(func(context.Context) { block() }) },
		func(r *rig) { go r.Transport.Close() }},
	{"OnDrain of the connection's Close", func(r *rig, block func()) { r.OnDrain(func(context.Context) { block() }) },
		func(r *rig) { r.conn.Close() }},
}

func TestH5_NothingMechanicalWaitsForAHook(t *testing.T) {
	for _, tt := range blocked {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.Fleet.Process = true
				hold, inside := make(chan struct{}), false
				tt.hook(r, func() { inside = true; <-hold })
				r.connect()
				tt.moves(r)
				r.wantState(supervised.StateServing)
				want(r, "a hook is blocked", true, inside)
				pass(time.Hour)
				r.wantState(supervised.StateServing)

				// Messages flow.
				for range 3 {
					id, err := r.call("tools/call")
					want(r, "written", "ok", kind(err))
					r.Last().Reply(id, `"ok"`)
				}
				r.Last().Say(&jsonrpc.Request{Method: "notifications/message"})
				want(r, "messages", lines(`1 "ok"`, `2 "ok"`, `3 "ok"`, "notifications/message"), r.read())

				// At a death the call is answered, the peer is killed and reaped.
				r.call("tools/call")
				p := r.Last()
				began := time.Now()
				p.Die(errCrash)
				want(r, "answers", lines("4 peer lost"), r.read())
				<-p.Closed()
				want(r, "it took", 0, time.Since(began))
				now, _ := r.Alive()
				want(r, "alive", 0, now)
				close(hold)
				synctest.Wait()
			}, supervised.WithRestartDelay(0), supervised.WithDrainTimeout(0))
		})
	}
}

// With a hook blocked, the budget's end and Close still come to their end.
func TestH5_EndsWithAHookBlocked(t *testing.T) {
	for _, tt := range blocked[:3] { // a drain is what Close waits for
		for end, f := range map[string]func(r *rig){
			"budget": func(r *rig) {
				r.Last().Die(errCrash)
			},
			"Close": func(r *rig) { go r.Transport.Close() },
		} {
			t.Run(end+", "+tt.name, func(t *testing.T) {
				b := budgetFunc(func(d budget.Death) (budget.Grant, bool) {
					return budget.Grant{Max: 1}, d.Uptime < time.Hour
				})
				inBubble(t, func(r *rig) {
					r.Fleet.Process = true
					hold := make(chan struct{})
					tt.hook(r, func() { <-hold })
					r.connect()
					tt.moves(r)
					pass(time.Hour)
					r.call("tools/call")
					f(r)
					r.wantState(supervised.StateClosed)
					<-r.Done()
					want(r, "answers", 1, len(r.failures()))
					now, _ := r.Alive()
					want(r, "alive", 0, now)
					close(hold)
				}, supervised.WithBudget(b))
			})
		}
	}
}

// OnClose of a death is what the mint waits for; nothing else does, and when it takes more than 5 s that is logged.
func TestH5_TheMintWaitsForOnClose(t *testing.T) {
	for _, tt := range []struct {
		delay, hook time.Duration
		minted      time.Duration // after the death
		logged      bool
	}{
		{0, 0, 0, false},
		{0, 4 * time.Second, 4 * time.Second, false},
		{0, 5*time.Second - 1, 5*time.Second - 1, false},
		{0, 5*time.Second + 1, 5*time.Second + 1, true},
		{time.Second, 10 * time.Second, 10 * time.Second, true},
		{10 * time.Second, time.Second, 10 * time.Second, false},
		{10 * time.Second, 8 * time.Second, 10 * time.Second, false}, // it holds up nothing
	} {
		t.Run(fmt.Sprintf("delay %v, hook %v", tt.delay, tt.hook), func(t *testing.T) {
			logger, log := logtest.NewNullLogger()
			inBubble(t, func(r *rig) {
				var death, mint time.Time
				r.onMint(1, func(context.Context, *peertest.Peer) error { mint = time.Now(); return nil })
				r.OnClose(func(cause error) {
					if cause != nil {
						time.Sleep(tt.hook)
					}
				})
				r.connect()
				r.call("tools/call")
				death = time.Now()
				r.Last().Die(errCrash)
				want(r, "answers, at once", lines("1 peer lost"), r.read())
				pass(time.Minute)
				want(r, "minted after the death", tt.minted, mint.Sub(death))
				warned := 0
				for _, e := range log.AllEntries() {
					if e.Level == logrus.WarnLevel && e.Message == "hook holds up a restart" {
						warned++
					}
				}
				want(r, "logged that a hook holds it up", tt.logged, warned > 0)
			}, supervised.WithRestartDelay(tt.delay), supervised.WithLogger(logger))
		})
	}
}

// Where Close has called the mint off, no hook holds it up.
func TestH5_NoWarningAfterClose(t *testing.T) {
	logger, log := logtest.NewNullLogger()
	inBubble(t, func(r *rig) {
		hold := make(chan struct{})
		r.OnClose(func(error) { <-hold })
		r.connect()
		r.Last().Die(errCrash)
		pass(4 * time.Second)
		r.closes()
		want(r, "records", 0, len(log.AllEntries()))
		close(hold)
	}, supervised.WithRestartDelay(0), supervised.WithLogger(logger))
}

// Nothing but OnClose of the death holds up the mint: no hook of an attempt that failed does.
func TestH5_TheMintWaitsForNoOtherHook(t *testing.T) {
	inBubble(t, func(r *rig) {
		hold := make(chan struct{})
		r.OnError(func(error) { <-hold })
		r.onMint(1, func(context.Context, *peertest.Peer) error { return errors.New("no mint") })
		r.connect()
		r.dies()
		r.wantState(supervised.StateServing)
		want(r, "hooks", lines("close: crash", "error: no mint"), r.hooks())
		close(hold)
		want(r, "hooks", lines("reconnect"), r.hooks())
	}, supervised.WithRestartDelay(0))
}
