package supervised_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/retry"
)

func TestL1_BadOptions(t *testing.T) {
	tumbling, err := budget.NewTumbling(3, time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	type opts = []supervised.Option
	tests := []struct {
		name  string
		opts  opts
		names []string // what the error must name
	}{
		{"no restart", opts{supervised.WithMaxRestarts(0)}, []string{"WithMaxRestarts", "0"}},
		{"less than none", opts{supervised.WithMaxRestarts(-7)}, []string{"WithMaxRestarts", "-7"}},
		{"negative delay", opts{supervised.WithRestartDelay(-time.Second)}, []string{"WithRestartDelay", "-1s"}},
		{"no window", opts{supervised.WithRestartWindow(0)}, []string{"WithRestartWindow", "0"}},
		{"negative window", opts{supervised.WithRestartWindow(-time.Minute)}, []string{"WithRestartWindow", "-1m"}},
		{"negative connect timeout", opts{supervised.WithConnectTimeout(-1)}, []string{"WithConnectTimeout", "-1ns"}},
		{"negative drain timeout", opts{supervised.WithDrainTimeout(-1)}, []string{"WithDrainTimeout", "-1ns"}},
		{"negative probe timeout", opts{supervised.WithProbeTimeout(-1)}, []string{"WithProbeTimeout", "-1ns"}},
		{"no stream buffer", opts{supervised.WithStreamBuffer(0)}, []string{"WithStreamBuffer", "0"}},
		{"less than no stream buffer", opts{supervised.WithStreamBuffer(-2)}, []string{"WithStreamBuffer", "-2"}},
		{"nil clock", opts{supervised.WithClock(nil)}, []string{"WithClock", "nil"}},
		{"typed nil clock", opts{supervised.WithClock((*clock.Mock)(nil))}, []string{"WithClock", "nil"}},
		{"nil logger", opts{supervised.WithLogger(nil)}, []string{"WithLogger", "nil"}},
		{"typed nil logger", opts{supervised.WithLogger((*logrus.Logger)(nil))}, []string{"WithLogger", "nil"}},
		{"nil budget", opts{supervised.WithBudget(nil)}, []string{"WithBudget", "nil"}},
		{"typed nil budget", opts{supervised.WithBudget((*budget.Tumbling)(nil))}, []string{"WithBudget", "nil"}},
		{"nil policy", opts{supervised.WithRetryPolicy(nil)}, []string{"WithRetryPolicy", "nil"}},
		{"typed nil policy", opts{supervised.WithRetryPolicy(retry.PolicyFunc(nil))}, []string{"WithRetryPolicy", "nil"}},
		{"nil option", opts{nil}, []string{"nil"}},
		{"budget and max", opts{supervised.WithBudget(tumbling), supervised.WithMaxRestarts(3)}, []string{"WithBudget", "WithMaxRestarts"}},
		{"delay and budget", opts{supervised.WithRestartDelay(0), supervised.WithBudget(tumbling)}, []string{"WithBudget", "WithRestartDelay"}},
		{"budget and window", opts{supervised.WithBudget(tumbling), supervised.WithRestartWindow(time.Minute)}, []string{"WithBudget", "WithRestartWindow"}},
		{
			"two at once", opts{supervised.WithMaxRestarts(0), supervised.WithDrainTimeout(-time.Hour)},
			[]string{"WithMaxRestarts", "0", "WithDrainTimeout", "-1h"},
		},
		{
			"a good one behind a bad one", opts{supervised.WithMaxRestarts(-1), supervised.WithLogger(logrus.New())},
			[]string{"WithMaxRestarts", "-1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr, err := supervised.New(mintsNothing(t), tt.opts...)
			if tr != nil || err == nil {
				t.Fatalf("want an error and no transport, got %v, %v", tr, err)
			}
			for _, name := range tt.names {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("want %q named in: %v", name, err)
				}
			}
		})
	}
	t.Run("nil factory", func(t *testing.T) {
		if tr, err := supervised.New(nil); tr != nil || err == nil || !strings.Contains(err.Error(), "factory") {
			t.Errorf("want an error that names the factory, got %v, %v", tr, err)
		}
	})
}

func TestL1_EdgesAreGood(t *testing.T) {
	tumbling, _ := budget.NewTumbling(1, time.Nanosecond, 0)
	for name, opts := range map[string][]supervised.Option{
		"none":     nil,
		"smallest": {supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0), supervised.WithRestartWindow(1)},
		"no bound": {supervised.WithConnectTimeout(0), supervised.WithDrainTimeout(0), supervised.WithProbeTimeout(0), supervised.WithStreamBuffer(1)},
		"all else": {supervised.WithBudget(tumbling), supervised.WithRetryPolicy(retry.ReadOnly), supervised.WithClock(clock.NewMock()), supervised.WithLogger(logrus.New())},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := supervised.New(mintsNothing(t), opts...)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "state", supervised.StateIdle, tr.State())
			want(t, "err", nil, tr.Err())
		})
	}
}

// wantSame compares errors by identity.
func wantSame(t testing.TB, what string, want, got error) {
	t.Helper()
	if want != got {
		t.Errorf("%s: want %v itself, got %v", what, want, got)
	}
}

// mintsNothing is a factory that must not be called.
func mintsNothing(t *testing.T) supervised.Factory {
	return func(context.Context) (mcp.Transport, error) {
		t.Error("the factory was called")
		return nil, errCrash
	}
}

func TestL2_ConnectOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		again := func(when string, target error) {
			r.Helper()
			conn, err := r.Transport.Connect(context.Background())
			if conn != nil {
				t.Errorf("%s: want no connection", when)
			}
			wantIs(t, when, err, target)
		}
		r.OnStart = func(_ context.Context, p *peertest.Peer) error {
			again("while a connection starts", supervised.ErrAlreadyStarted)
			return nil
		}
		r.connect()
		want(t, "minted", 1, r.Minted())
		want(t, "started", 1, r.Started())
		again("while serving", supervised.ErrAlreadyStarted)
		r.Last().Die(errCrash)
		r.wantState(supervised.StateRespawnPending)
		again("in the gap", supervised.ErrAlreadyStarted)
		pass(time.Second)
		again("after a respawn", supervised.ErrAlreadyStarted)
		want(t, "minted", 2, r.Minted())

		r.OnDrain(func(context.Context) { again("while draining", supervised.ErrClosed) })
		r.Transport.Close()
		again("after Close", supervised.ErrClosed)
		want(t, "minted", 2, r.Minted())
	})
}

func TestL2_CloseComesFirst(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.Transport.Close()
		_, err := r.Transport.Connect(context.Background())
		wantSame(t, "Connect", supervised.ErrClosed, err)
		want(t, "minted", 0, r.Minted())
	})
}

func TestL2_ManyAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		var ok, already atomic.Int32
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				switch _, err := r.Transport.Connect(context.Background()); {
				case err == nil:
					ok.Add(1)
				case errors.Is(err, supervised.ErrAlreadyStarted):
					already.Add(1)
				}
			})
		}
		all.Wait()
		want(t, "connected", 1, ok.Load())
		want(t, "refused", 19, already.Load())
		want(t, "minted", 1, r.Minted())
	})
}

// errBoom is compared by identity.
var errBoom = errors.New("boom")

func TestL3_FirstConnectionFails(t *testing.T) {
	for name, fail := range map[string]func(*rig, error){
		"mint":  func(r *rig, err error) { r.OnMint = func(context.Context, *peertest.Peer) error { return err } },
		"start": func(r *rig, err error) { r.OnStart = func(context.Context, *peertest.Peer) error { return err } },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				for i := range 5 { // more often than the budget has restarts
					fail(r, errBoom)
					_, err := r.Transport.Connect(context.Background())
					wantSame(t, "unchanged", errBoom, err)
					want(t, "state", supervised.StateIdle, r.State())
					want(t, "promised", false, r.Reconnecting())
					want(t, "for good", nil, r.Err())
					want(t, "minted", i+1, r.Minted())
					if r.Last().Context.Err() == nil {
						t.Error("L4: the context of the attempt goes on")
					}
				}
				want(t, "hooks", nil, r.hooks())

				fail(r, nil)
				r.connect()
				want(t, "hooks", nil, r.hooks())
				id, err := r.call("tools/call")
				want(t, "accepted", "ok", kind(err))
				r.Last().Reply(id, `"here"`)
				want(t, "answers", lines(`1 "here"`), r.read())
				want(t, "generation", 0, r.Stats().Generation)
				want(t, "restarts spent", 0, r.Stats().RestartsInWindow)
			})
		})
	}
}

func TestL3_AbandonedConnectionIsNotHeard(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.Process = true
		r.OnStart = func(ctx context.Context, p *peertest.Peer) error {
			if p.Number == 0 {
				time.Sleep(time.Minute / 4) // whatever its context says
				p.Say(notice("from the grave"))
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := r.Transport.Connect(ctx)
		wantIs(t, "Connect", err, context.DeadlineExceeded)
		want(t, "state", supervised.StateIdle, r.State())
		now, _ := r.Alive()
		want(t, "D4: alive", 0, now)

		r.connect()
		r.Peer(0).Say(notice("still from the grave"))
		r.Peer(0).Hangup(errCrash)
		r.Last().Say(notice("alive"))
		pass(time.Minute)
		want(t, "read", lines(`notifications/message "alive"`), r.read())
		want(t, "hooks", nil, r.hooks())
		r.wantState(supervised.StateServing)
	})
}

// notice is a notification with a text.
func notice(text string) *jsonrpc.Request {
	return &jsonrpc.Request{Method: "notifications/message", Params: fmt.Appendf(nil, "%q", text)}
}

// A start that returns never is abandoned after 30 s; what comes of it later is closed and not heard.
func TestL3_AbandonedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.OnStart = func(_ context.Context, p *peertest.Peer) error {
			if p.Number == 0 {
				time.Sleep(time.Hour)
				p.Say(notice("from the grave"))
			}
			return nil
		}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		_, err := r.Transport.Connect(ctx)
		wantIs(t, "Connect", err, context.Canceled)
		if waited := time.Since(begin); waited > 31*time.Second {
			t.Errorf("want Connect to return after 31s at most, took %v", waited)
		}
		want(t, "state", supervised.StateIdle, r.State())
		r.connect()
		pass(2 * time.Hour)
		<-r.Peer(0).Closed()
		want(t, "read", nil, r.read())
		want(t, "hooks", nil, r.hooks())
		r.wantState(supervised.StateServing)
		r.Transport.Close()
	})
}

func TestL3_FailedHandshakeOfASession(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnMint = func(_ context.Context, p *peertest.Peer) error {
			p.Answer = func(q *jsonrpc.Request) *jsonrpc.Response {
				return &jsonrpc.Response{ID: q.ID, Error: &jsonrpc.Error{Code: -32601, Message: "no"}}
			}
			return nil
		}
		client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
		if _, err := client.Connect(context.Background(), r.Transport, nil); err == nil {
			t.Fatal("want the handshake to fail")
		}
		<-r.Done()
		r.wantState(supervised.StateClosed)
		want(t, "minted", 1, r.Minted())
	})
}

type callerKey struct{}

func TestL4_Values(t *testing.T) {
	inBubble(t, func(r *rig) {
		var s story
		see := func(what string) func(context.Context, *peertest.Peer) error {
			return func(ctx context.Context, p *peertest.Peer) error {
				s.tell("%s %d for %v", what, p.Number, ctx.Value(callerKey{}))
				if p.Number == 0 && what == "start" {
					return errBoom
				}
				return nil
			}
		}
		r.OnMint, r.OnStart = see("mint"), see("start")
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), callerKey{}, "one"))
		_, err := r.Transport.Connect(ctx)
		wantIs(t, "first try", err, errBoom)
		r.connectIn(context.WithValue(ctx, callerKey{}, "two"))
		cancel()
		r.Last().Die(errCrash)
		pass(time.Second)
		want(t, "seen", lines("mint 0 for one", "start 0 for one", "mint 1 for two", "start 1 for two", "mint 2 for two", "start 2 for two"), s.told())
	})
}

func TestL4_AsLongAsTheConnection(t *testing.T) {
	inBubble(t, func(r *rig) {
		var starts [3]context.Context
		r.Process = true
		r.OnStart = func(ctx context.Context, p *peertest.Peer) error { starts[p.Number] = ctx; return nil }
		lives := func(i int, lives bool) {
			r.Helper()
			synctest.Wait()
			want(t, fmt.Sprintf("factory's context %d lives", i), lives, r.Peer(i).Context.Err() == nil)
			want(t, fmt.Sprintf("start's context %d lives", i), lives, starts[i].Err() == nil)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		r.connectIn(ctx)
		cancel()
		pass(time.Hour) // longer than any timeout of the options
		lives(0, true)

		r.Last().Die(&peertest.Exit{Code: 1})
		lives(0, false)
		pass(time.Hour)
		r.wantState(supervised.StateServing)
		lives(1, true)

		want(t, "restart", nil, r.Restart(errBoom))
		lives(1, false)
		lives(2, true)
		r.Last().OnClose = func() error {
			for range 3 {
				if starts[2].Err() != nil || r.Peer(2).Context.Err() != nil {
					t.Error("the context ended before the connection's own Close returned")
				}
				pass(time.Second)
			}
			return nil
		}
		r.Transport.Close()
		lives(2, false)
	})
}

func TestL4_WhileConnectingEndsWithTheCaller(t *testing.T) {
	hold := func(ctx context.Context, p *peertest.Peer) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, holdIn := range map[string]func(*rig){
		"factory": func(r *rig) { r.OnMint = hold },
		"start":   func(r *rig) { r.OnStart = hold },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				holdIn(r)
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				begin := time.Now()
				_, err := r.Transport.Connect(ctx)
				want(t, "took", time.Hour, time.Since(begin))
				wantIs(t, "the caller's deadline", err, context.DeadlineExceeded)

				ctx, cancel = context.WithCancel(context.Background())
				time.AfterFunc(time.Second, cancel)
				begin = time.Now()
				_, err = r.Transport.Connect(ctx)
				want(t, "took", time.Second, time.Since(begin))
				wantIs(t, "the caller's cancel", err, context.Canceled)

				_, err = r.Transport.Connect(ctx)
				wantIs(t, "cancelled before", err, context.Canceled)
				want(t, "state", supervised.StateIdle, r.State())
				want(t, "hooks", nil, r.hooks())
			})
		})
	}
}

func TestL4_WhileConnectingEndsWithTheTimeout(t *testing.T) {
	hold := func(ctx context.Context, p *peertest.Peer) error {
		if p.Number != 1 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	for name, holdIn := range map[string]func(*rig){
		"factory": func(r *rig) { r.OnMint = hold },
		"start":   func(r *rig) { r.OnStart = hold },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				holdIn(r)
				var errs []error
				r.OnError(func(err error) { errs = append(errs, err) })
				r.connect()
				r.Last().Die(errCrash)
				pass(100 * time.Millisecond)
				r.wantState(supervised.StateConnecting)
				pass(7*time.Second - 1)
				want(t, "attempt goes on", nil, r.Peer(1).Context.Err())
				pass(1)
				if r.Peer(1).Context.Err() == nil {
					t.Error("want the attempt to end after 7s")
				}
				want(t, "errors", 1, len(errs))
				wantIs(t, "the timeout is told", errs[0], context.DeadlineExceeded)
				pass(time.Second)
				r.wantState(supervised.StateServing)
			}, supervised.WithConnectTimeout(7*time.Second))
		})
	}
}

func TestL4_NoConnectTimeout(t *testing.T) {
	slow := func(_ context.Context, p *peertest.Peer) error { time.Sleep(24 * time.Hour); return nil }
	t.Run("of the first connection", func(t *testing.T) {
		inBubble(t, func(r *rig) {
			r.OnMint, r.OnStart = slow, slow
			r.connect()
		})
	})
	t.Run("0", func(t *testing.T) {
		inBubble(t, func(r *rig) {
			r.connect()
			r.OnMint, r.OnStart = slow, slow
			r.Last().Die(errCrash)
			pass(49 * time.Hour)
			r.wantState(supervised.StateServing)
			want(t, "hooks", lines("close: crash", "reconnect"), r.hooks())
		}, supervised.WithConnectTimeout(0))
	})
}

// startFunc is a transport in one function.
type startFunc func(context.Context) (mcp.Connection, error)

func (f startFunc) Connect(ctx context.Context) (mcp.Connection, error) { return f(ctx) }

// deadConn is a connection that is not to be used.
type deadConn struct{ mcp.Connection }

func TestL5_BadFactories(t *testing.T) {

	starts := func(f startFunc) supervised.Factory {
		return func(context.Context) (mcp.Transport, error) { return f, nil }
	}
	for name, tt := range map[string]struct {
		bad supervised.Factory
		say string // what the error must mention
	}{
		"nil transport":       {func(context.Context) (mcp.Transport, error) { return nil, nil }, "nil transport"},
		"typed nil transport": {func(context.Context) (mcp.Transport, error) { return (*mcp.InMemoryTransport)(nil), nil }, "nil transport"},
		"nil func":            {func(context.Context) (mcp.Transport, error) { return startFunc(nil), nil }, "nil transport"},
		"nil connection":      {starts(func(context.Context) (mcp.Connection, error) { return nil, nil }), "nil connection"},
		"typed nil connection": {
			starts(func(context.Context) (mcp.Connection, error) { return (*deadConn)(nil), nil }), "nil connection",
		},
		"factory panics":           {func(context.Context) (mcp.Transport, error) { panic("eek") }, "eek"},
		"factory panics with nil":  {func(context.Context) (mcp.Transport, error) { panic(nil) }, "panic"},
		"Connect panics":           {starts(func(context.Context) (mcp.Connection, error) { panic(errBoom) }), "boom"},
		"factory fails with a nil": {func(context.Context) (mcp.Transport, error) { return nil, errBoom }, "boom"},
	} {
		t.Run(name, func(t *testing.T) { failedAttempt(t, tt.bad, tt.say) })
	}
}

// As t.FailNow does in a factory of a test.
func TestL5_FactoryEndsItsGoroutine(t *testing.T) {
	t.Run("factory", func(t *testing.T) {
		failedAttempt(t, func(context.Context) (mcp.Transport, error) { runtime.Goexit(); return nil, nil }, "factory")
	})
	t.Run("Connect", func(t *testing.T) {
		failedAttempt(t, func(context.Context) (mcp.Transport, error) {
			return startFunc(func(context.Context) (mcp.Connection, error) { runtime.Goexit(); return nil, nil }), nil
		}, "Connect")
	})
}

// failedAttempt checks that a bad factory makes a failed attempt, first and later, with an error that says why.
func failedAttempt(t *testing.T, bad supervised.Factory, say string) {
	overFactory(t, func(f *peertest.Fleet, n int) supervised.Factory {
		if n == 0 || n == 2 { // the first connection, and the first replacement
			return bad
		}
		return f.Mint
	}, func(r *rig) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_, err := r.Transport.Connect(ctx)
		want(t, "took", 0, time.Since(begin))
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("want an error about %q, got %v", say, err)
		}
		want(t, "state", supervised.StateIdle, r.State())
		want(t, "hooks", nil, r.hooks())

		r.connect()
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		r.wantState(supervised.StateRespawnPending)
		want(t, "hooks", lines("close: crash", "error: "+err.Error()), r.hooks())
		pass(100 * time.Millisecond)
		r.wantState(supervised.StateServing)
		want(t, "hooks", lines("reconnect"), r.hooks())
		want(t, "spent", 2, r.Stats().RestartsInWindow)
	})
}

func TestL5_SameTransportTwice(t *testing.T) {
	var once mcp.Transport
	same := func(f *peertest.Fleet, n int) supervised.Factory {
		return func(ctx context.Context) (mcp.Transport, error) {
			var err error
			if once == nil {
				once, err = f.Mint(ctx)
			}
			return once, err
		}
	}
	t.Run("as replacement", func(t *testing.T) {
		once = nil
		overFactory(t, same, func(r *rig) {
			r.connect()
			r.Last().Die(errCrash)
			pass(time.Second)
			r.wantState(supervised.StateClosed)
			want(t, "started", 1, r.Started())
			hooks := r.hooks()
			want(t, "hooks", 6, len(hooks)) // the death, three attempts, the end, the withdrawn one
			for _, line := range hooks[1:4] {
				if !strings.Contains(line, "same") {
					t.Errorf("want an error about the same transport, got %q", line)
				}
			}
		})
	})
	t.Run("after a failed start", func(t *testing.T) {
		once = nil
		overFactory(t, same, func(r *rig) {
			r.OnStart = func(context.Context, *peertest.Peer) error { return errBoom }
			_, err := r.Transport.Connect(context.Background())
			wantIs(t, "first", err, errBoom)
			_, err = r.Transport.Connect(context.Background())
			if err == nil || !strings.Contains(err.Error(), "same") {
				t.Errorf("want an error about the same transport, got %v", err)
			}
		})
	})
	t.Run("equal values are not the same", func(t *testing.T) {
		overFactory(t, func(f *peertest.Fleet, n int) supervised.Factory {
			return func(ctx context.Context) (mcp.Transport, error) {
				return valueTransport{f}, nil
			}
		}, func(r *rig) {
			r.connect()
			r.Last().Die(errCrash)
			pass(time.Second)
			r.wantState(supervised.StateServing)
			want(t, "hooks", lines("close: crash", "reconnect"), r.hooks())
		})
	})
}

// valueTransport is a transport that is a recipe: each Connect makes another connection.
type valueTransport struct{ fleet *peertest.Fleet }

func (v valueTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	tr, err := v.fleet.Mint(ctx)
	if err != nil {
		return nil, err
	}
	return tr.Connect(ctx)
}

// overFactory runs f in a bubble, on a rig whose n-th mint is by the factory that choose returns.
func overFactory(t *testing.T, choose func(f *peertest.Fleet, n int) supervised.Factory, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := newRigOver(t, func(fleet *peertest.Fleet) supervised.Factory {
			return func(ctx context.Context) (mcp.Transport, error) {
				n++
				return choose(fleet, n-1)(ctx)
			}
		})
		f(r)
		r.Transport.Close()
	})
}

// spy is asked by a transport for all that users may supply, and looks at the transport each time.
type spy struct {
	t    *supervised.Transport
	seen map[string]int
	mu   sync.Mutex
}

func (s *spy) look(from string) {
	s.t.State()
	s.t.Stats()
	s.t.Reconnecting()
	s.t.Done()
	_ = s.t.Err()
	done, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.t.WaitServing(done)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[from]++
}

func (s *spy) Spend(d budget.Death) (budget.Grant, bool) {
	s.look("budget")
	return budget.Grant{Attempt: 1, Max: 1, Window: time.Second}, s.t.Stats().Restarts < 2
}

func (s *spy) Retain(*jsonrpc.Request) bool { s.look("policy"); return false }

func (s *spy) Levels() []logrus.Level     { return logrus.AllLevels }
func (s *spy) Fire(e *logrus.Entry) error { s.look("logger"); return nil }

func TestL6_AskedFromAnywhere(t *testing.T) {
	s := &spy{seen: make(map[string]int)}
	log := logrus.New()
	log.SetOutput(discard{})
	log.AddHook(s)
	inBubble(t, func(r *rig) {
		s.t = r.Transport
		look := func(from string) func() error { return func() error { s.look(from); return nil } }
		r.OnMint = func(_ context.Context, p *peertest.Peer) error {
			p.Process = true
			p.OnClose, p.OnKill = look("conn close"), look("conn kill")
			p.OnWrite = func(context.Context, jsonrpc.Message) error { s.look("conn write"); return nil }
			s.look("factory")
			return nil
		}
		r.OnStart = func(context.Context, *peertest.Peer) error { s.look("start"); return nil }
		r.OnClose(func(error) { s.look("OnClose") })
		r.OnDrain(func(context.Context) { s.look("OnDrain") })
		r.OnReconnect(func(context.Context) error { s.look("OnReconnect"); return nil })
		r.OnError(func(error) { s.look("OnError") })
		r.OnTransition(func(supervised.Transition) { s.look("OnTransition") })
		s.look("idle")
		r.connect()
		for range 3 {
			r.call("tools/call")
			r.Last().Report(errBoom)
			r.Last().Die(&peertest.Exit{})
			synctest.Wait()
		}
		<-r.Done()
		s.look("closed")
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, from := range []string{
			"idle", "factory", "start", "conn write", "conn kill", "conn close", "budget", "policy", "logger",
			"OnClose", "OnReconnect", "OnError", "OnTransition", "closed",
		} {
			if s.seen[from] == 0 {
				t.Errorf("never asked from %s", from)
			}
		}
	}, supervised.WithBudget(s), supervised.WithRetryPolicy(s), supervised.WithLogger(log))
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestL6_WaitServing(t *testing.T) {
	inBubble(t, func(r *rig) {
		type result struct {
			err  error
			took time.Duration
		}
		wait := func(ctx context.Context) <-chan result {
			got := make(chan result, 1)
			begin := time.Now()
			go func() { got <- result{r.WaitServing(ctx), time.Since(begin)} }()
			return got
		}
		bg := context.Background()
		short, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		got := <-wait(short)
		wantSame(t, "while idle, its context's", context.DeadlineExceeded, got.err)
		want(t, "took", time.Second, got.took)

		early := wait(bg)
		r.OnStart = func(context.Context, *peertest.Peer) error { time.Sleep(10 * time.Second); return nil }
		r.connect()
		got = <-early
		want(t, "once it serves", nil, got.err)
		want(t, "took", 10*time.Second, got.took)
		want(t, "serves, whatever its context", nil, r.WaitServing(short))

		r.Last().Die(errCrash)
		synctest.Wait()
		got = <-wait(bg)
		want(t, "once the replacement serves", nil, got.err)
		want(t, "took", 10*time.Second+100*time.Millisecond, got.took)
		_, err := r.call("tools/call")
		want(t, "a call then", "ok", kind(err))

		r.Last().Die(errCrash)
		synctest.Wait()
		ends := []<-chan result{wait(bg), wait(bg)}
		r.Transport.Close()
		for _, end := range ends {
			wantSame(t, "after Close", supervised.ErrClosed, (<-end).err)
		}
		wantSame(t, "after Close, whatever its context", supervised.ErrClosed, r.WaitServing(short))
	})
}

func TestL6_TheEnd(t *testing.T) {
	for name, end := range map[string]func(*rig) error{
		"Close": func(r *rig) error { r.Transport.Close(); return nil },
		"budget": func(r *rig) error {
			r.Last().Die(errCrash)
			synctest.Wait()
			r.Last().Die(errCrash)
			return errCrash
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				waiting := make(chan error, 1)
				select {
				case <-r.Done():
					t.Error("done before its time")
				default:
				}
				want(t, "err before its time", nil, r.Err())
				reason := end(r)
				<-r.Done()
				go func() { waiting <- r.WaitServing(context.Background()) }()
				if reason == nil {
					want(t, "Err", nil, r.Err())
					wantSame(t, "WaitServing", supervised.ErrClosed, <-waiting)
					return
				}
				var exhausted *supervised.ExhaustedError
				if !errors.As(r.Err(), &exhausted) {
					t.Fatalf("want an *ExhaustedError, got %v", r.Err())
				}
				wantIs(t, "Err", r.Err(), reason, supervised.ErrClosed)
				wantSame(t, "WaitServing", r.Err(), <-waiting)
			}, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
		})
	}
}

// A story is what happened, told by many.
type story struct {
	mu    sync.Mutex
	lines []string
}

func (s *story) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// told is what was told since it was asked last, once nothing moves any more.
func (s *story) told() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines
	s.lines = nil
	return lines
}

func TestL6_Stats(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.allProcesses()
		type stats struct {
			State                                         string
			Generation, Restarts, Window, Flight, Streams int
			Exit                                          string
			Code                                          int
		}
		are := func(when string, want stats) {
			r.Helper()
			synctest.Wait()
			s := r.Stats()
			got := stats{s.State.String(), s.Generation, s.Restarts, s.RestartsInWindow, s.InFlight, s.Streams, kind(s.LastExit), s.LastExitCode}
			if got != want {
				r.Errorf("%s: want %+v, got %+v", when, want, got)
			}
		}
		are("idle", stats{"idle", -1, 0, 0, 0, 0, "ok", -1})
		r.connect()
		are("serving", stats{"serving", 0, 0, 0, 0, 0, "ok", -1})
		r.call("tools/call")
		r.call("tools/list")
		r.listen("s", `{}`)
		are("busy", stats{"serving", 0, 0, 0, 2, 1, "ok", -1})
		r.Last().Die(&peertest.Exit{Code: 4})
		are("in the gap", stats{"respawn-pending", 0, 0, 1, 1, 1, "exit status 4", 4})
		pass(time.Second)
		are("again", stats{"serving", 1, 1, 1, 1, 1, "exit status 4", 4})
		r.Last().Reply(number(2), `{}`)
		r.Last().Die(&peertest.Exit{Code: -1, Signal: syscall.SIGKILL})
		pass(time.Second)
		are("and again", stats{"serving", 2, 2, 2, 0, 1, "signal: killed", -1})
		pass(time.Hour)
		are("past the window", stats{"serving", 2, 2, 0, 0, 1, "signal: killed", -1})
		r.Transport.Close()
		s := r.Stats()
		want(t, "closed", supervised.StateClosed, s.State)
		want(t, "open at the end", 0, s.InFlight+s.Streams)
	}, supervised.WithRetryLostRequests())
}

func TestL7_Reconnecting(t *testing.T) {
	inBubble(t, func(r *rig) {
		var s story
		tell := func(when string) { s.tell("%s: %v", when, r.Reconnecting()) }
		r.OnStart = func(_ context.Context, p *peertest.Peer) error {
			tell(fmt.Sprint("start ", p.Number))
			if p.Number == 2 {
				return errBoom
			}
			return nil
		}
		r.OnClose(func(error) { tell("OnClose") })
		r.OnReconnect(func(context.Context) error { tell("OnReconnect"); return nil })
		r.OnError(func(error) { tell("OnError") })
		told := func(lines ...string) { r.Helper(); want(t, "story", lines, s.told()) }
		tell("idle")
		r.connect()
		tell("serving")
		told("idle: false", "start 0: false", "serving: false")

		r.Last().Die(errCrash)
		synctest.Wait()
		tell("gap")
		pass(100 * time.Millisecond)
		tell("serving")
		told("OnClose: true", "gap: true", "start 1: true", "OnReconnect: false", "serving: false")

		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		tell("between attempts")
		pass(100 * time.Millisecond)
		told("OnClose: true", "start 2: true", "OnError: true", "between attempts: true", "start 3: true", "OnReconnect: false")

		r.Last().Die(errCrash)
		synctest.Wait()
		tell("spent")
		told("OnClose: false", "OnError: false", "spent: false")
	})
}

func TestL7_AfterClose(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.Last().Die(errCrash)
		r.wantState(supervised.StateRespawnPending)
		var inside []bool
		r.OnClose(func(error) { inside = append(inside, r.Reconnecting()) })
		want(t, "in the gap", true, r.Reconnecting())
		r.Transport.Close()
		want(t, "closed", false, r.Reconnecting())
		synctest.Wait()
		want(t, "in the OnClose of the withdrawn one", []bool{false}, inside)
	})
}

func TestL7_InTheDrain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		var inside []bool
		see := func() { inside = append(inside, r.Reconnecting()) }
		r.OnDrain(func(context.Context) {
			see()
			r.Last().Die(errCrash)
			synctest.Wait()
			see()
		})
		r.OnClose(func(error) { see() })
		r.Transport.Close()
		synctest.Wait()
		want(t, "promised", []bool{false, false, false}, inside)
		want(t, "hooks", lines("drain", "close: crash"), r.hooks())
	})
}

// Whoever is refused with ErrReconnecting is told of a replacement that is promised already; time stands still in
// the gap, so that it is promised still. Whoever is refused when none will come is not told of one (W1).
func TestL7_TrueBeforeARefusalTellsIt(t *testing.T) {
	refused := func(r *rig, end func()) (errs [4]error, promised [4]bool) {
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				for errs[i] == nil {
					errs[i] = r.notify("notifications/x", `{}`)
					runtime.Gosched()
				}
				promised[i] = r.Reconnecting()
			})
		}
		end()
		all.Wait()
		return errs, promised
	}
	for range 8 {
		inBubble(t, func(r *rig) {
			r.connect()
			_, promised := refused(r, func() { r.Last().Die(errCrash) })
			want(t, "promised to whom a death refused", [...]bool{true, true, true, true}, promised)
			pass(time.Second)
			errs, promised := refused(r, func() { r.Last().Die(errCrash) })
			want(t, "promised to whom the end refused", [4]bool{}, promised)
			for _, err := range errs {
				if errors.Is(err, supervised.ErrReconnecting) {
					t.Errorf("want no replacement promised at the end, got %v", err)
				}
			}
		}, supervised.WithMaxRestarts(1))
		inBubble(t, func(r *rig) {
			r.connect()
			errs, promised := refused(r, func() { r.Transport.Close() })
			want(t, "promised to whom Close refused", [4]bool{}, promised)
			for _, err := range errs {
				if errors.Is(err, supervised.ErrReconnecting) {
					t.Errorf("want no replacement promised after Close, got %v", err)
				}
			}
		})
	}
}

func TestL8_Restart(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.Process = true
		wantIs(t, "before start", r.Restart(errBoom), supervised.ErrNotStarted)
		r.connect()
		for i := range 10 { // more often than the budget has restarts
			r.call("tools/call")
			want(t, "restart", nil, r.Restart(errBoom))
			synctest.Wait()
			want(t, "minted without delay", i+2, r.Minted())
			r.wantState(supervised.StateServing)
			want(t, "failed", lines(fmt.Sprintf("%d peer lost", i+1)), r.read())
			hooks := r.hooks()
			want(t, "hooks", 2, len(hooks))
			if !strings.HasPrefix(hooks[0], "close: boom") {
				t.Errorf("want an OnClose with the cause, got %q", hooks[0])
			}
			want(t, "hooks", "reconnect", hooks[1])
		}
		want(t, "spent", 0, r.Stats().RestartsInWindow)
		want(t, "restarts", 10, r.Stats().Restarts)
		for range 3 { // the budget is whole
			r.Last().Die(errCrash)
			wantIs(t, "in the gap", waitThen(func() error { return r.Restart(errBoom) }), supervised.ErrReconnecting)
			pass(99 * time.Millisecond)
			r.wantState(supervised.StateRespawnPending)
			pass(time.Millisecond)
			r.wantState(supervised.StateServing)
		}
		r.OnDrain(func(context.Context) {
			if r.Restart(errBoom) == nil {
				t.Error("want no restart while draining")
			}
		})
		minted := r.Minted()
		r.Transport.Close()
		wantIs(t, "after the end", r.Restart(errBoom), supervised.ErrClosed)
		want(t, "minted", minted, r.Minted())
	})
}

// waitThen asks once nothing moves any more.
func waitThen(ask func() error) error { synctest.Wait(); return ask() }

func TestL8_TheCauseIsFound(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		_, err := r.call("tools/call")
		want(t, "written", nil, err)
		var closed error
		r.OnClose(func(cause error) { closed = cause })
		want(t, "restart", nil, r.Restart(errBoom))
		synctest.Wait()
		wantIs(t, "in OnClose", closed, errBoom)
		answer := r.answers[0].(*jsonrpc.Response).Error
		wantIs(t, "in the answer", answer, errBoom, supervised.ErrPeerLost, mcp.ErrConnectionClosed)
		if errors.Is(answer, supervised.ErrClosed) {
			t.Error("want a lost peer not to match ErrClosed")
		}
		if r.Restart(nil) == nil {
			t.Error("want a restart without a cause to be refused")
		}
	})
}

func TestL8_OneOfMany(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		var done atomic.Int32
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if r.Restart(errBoom) == nil {
					done.Add(1)
				}
			})
			all.Go(func() { r.Peer(0).Die(errCrash) })
		}
		all.Wait()
		pass(time.Second)
		hooks := r.hooks()
		want(t, "hooks", 2*(r.Minted()-1), len(hooks)) // one OnClose, one OnReconnect for each
		if n := int(done.Load()); n > r.Minted()-1 {
			t.Errorf("%d restarts were decided on and %d replacements minted", n, r.Minted()-1)
		}
		want(t, "every other", false, slices.Contains(hooks[1:2], "close: crash"))
	})
}

func TestL8_WhereNothingServes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnStart = func(_ context.Context, p *peertest.Peer) error {
			if r.Restart(errBoom) == nil {
				t.Errorf("want no restart while connection %d starts", p.Number)
			}
			if p.Number == 2 {
				return errCrash
			}
			return nil
		}
		r.OnClose(func(error) { wantIs(t, "in OnClose", r.Restart(errBoom), supervised.ErrClosed) })
		r.connect()
		r.Last().Die(errCrash)
		pass(time.Second)
		want(t, "hooks", lines("close: crash", "reconnect"), r.hooks())

		// A replacement of a requested restart that fails spends, as any other (B4).
		want(t, "restart", nil, r.Restart(errBoom))
		synctest.Wait()
		r.wantState(supervised.StateRespawnPending)
		want(t, "spent", 2, r.Stats().RestartsInWindow)
		pass(time.Second)
		r.wantState(supervised.StateServing)
		want(t, "hooks", lines("close: boom", "error: crash", "reconnect"), r.hooks())
	})
}

func TestL8_InsideOnReconnect(t *testing.T) {
	inBubble(t, func(r *rig) {
		again := 3
		r.OnReconnect(func(context.Context) error {
			if again--; again >= 0 {
				return r.Restart(errBoom)
			}
			return nil
		})
		r.connect()
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		r.wantState(supervised.StateServing)
		want(t, "hooks", lines("close: crash", "reconnect", "close: boom", "reconnect", "close: boom", "reconnect", "close: boom", "reconnect"), r.hooks())
	})
}
