package supervised_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/retry"
)

func TestD1_HowAConnectionEnds(t *testing.T) {
	breaks := func(err error) func(*rig, *peertest.Peer) {
		return func(r *rig, p *peertest.Peer) {
			p.OnWrite = func(context.Context, jsonrpc.Message) error { return err }
			wantIs(r, "the writer", r.notify("notifications/x", `{}`), supervised.ErrPeerLost, err)
		}
	}
	for _, tt := range []struct {
		name    string
		process bool
		end     func(*rig, *peertest.Peer)
		cause   string // that OnClose gets
	}{
		{"Read fails", false, func(_ *rig, p *peertest.Peer) { p.Hangup(errCrash) }, "crash"},
		{"Read ends", false, func(_ *rig, p *peertest.Peer) { p.Hangup(io.EOF) }, "EOF"},
		{"Read is cancelled by somebody else", false, func(_ *rig, p *peertest.Peer) { p.Hangup(context.Canceled) }, "context canceled"},
		{"Read of a process fails", true, func(_ *rig, p *peertest.Peer) { p.Hangup(errCrash) }, "crash (killed)"},
		{"exit status 0", true, func(_ *rig, p *peertest.Peer) { p.Die(&peertest.Exit{}) }, "exit status 0"},
		{"exit status 0, output held open", true, func(_ *rig, p *peertest.Peer) { p.Exit(&peertest.Exit{}) }, "exit status 0"},
		{"signal", true, func(_ *rig, p *peertest.Peer) { p.Die(&peertest.Exit{Code: -1, Signal: syscall.SIGSEGV}) }, "signal: segmentation fault"},
		{"Write fails", false, breaks(io.ErrClosedPipe), "io: read/write on closed pipe"},
		{"Write fails in a process", true, breaks(syscall.EPIPE), "broken pipe (killed)"},
		{"Write is cancelled by somebody else", false, breaks(context.Canceled), "context canceled"},
		{"Write hits a deadline that is not its writer's", false, breaks(os.ErrDeadlineExceeded), "i/o timeout"},
		{"Write fails with another code", false, breaks(&jsonrpc.Error{Code: -32600, Message: "bad"}), "bad"},
		{
			"Write fails while its writer's context is done", false, func(r *rig, p *peertest.Peer) {
				ctx, cancel := context.WithCancel(context.Background())
				p.OnWrite = func(context.Context, jsonrpc.Message) error { cancel(); return io.ErrClosedPipe }
				wantIs(r, "the writer", r.conn.Write(ctx, notice("x")), supervised.ErrPeerLost)
			}, "io: read/write on closed pipe",
		},
		{
			"Write of a call fails", false, func(r *rig, p *peertest.Peer) {
				p.OnWrite = func(context.Context, jsonrpc.Message) error { return errCrash }
				_, err := r.call("tools/call")
				want(r, "the writer", nil, err)
			}, "crash",
		},
		{
			"Write of an answer fails", false, func(r *rig, p *peertest.Peer) {
				p.OnWrite = func(context.Context, jsonrpc.Message) error { return errCrash }
				err := r.conn.Write(context.Background(), &jsonrpc.Response{ID: number(1), Result: []byte(`{}`)})
				wantIs(r, "the writer", err, supervised.ErrPeerLost)
			}, "crash",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.OnMint = func(_ context.Context, p *peertest.Peer) error { p.Process = tt.process; return nil }
				r.connect()
				tt.end(r, r.Last())
				pass(time.Second)
				want(t, "hooks", lines("close: "+tt.cause, "reconnect"), r.hooks())
				want(t, "spent", 1, r.Stats().RestartsInWindow)
				r.wantState(supervised.StateServing)
			})
		})
	}
}

// A process that was not asked to end has died, also if it has nothing to say about it.
func TestD1_ExitWithoutAnError(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.allProcesses()
		var cause error
		r.OnClose(func(err error) { cause = err })
		r.connect()
		r.call("tools/call")
		r.Last().Exit(nil)
		pass(time.Second)
		if cause == nil {
			t.Error("want a cause in the OnClose of a death, got none")
		}
		want(t, "answers", lines("1 peer lost"), r.read())
		r.wantState(supervised.StateServing)
	})
}

// A Read that returns nothing has failed.
func TestD1_ReadOfNothing(t *testing.T) {
	for name, nothing := range map[string]jsonrpc.Message{
		"nil": nil, "nil answer": (*jsonrpc.Response)(nil), "nil request": (*jsonrpc.Request)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				r.Last().Say(nothing)
				pass(time.Second)
				hooks := r.hooks()
				want(t, "hooks", 2, len(hooks))
				r.wantState(supervised.StateServing)
			})
		})
	}
}

// These go to the writer alone.
func TestD1_TheWritersOwn(t *testing.T) {
	errCause := errors.New("enough")
	done := func() context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		write func(context.Context, jsonrpc.Message) error
		is    error
	}{
		{"cancelled", done(), func(ctx context.Context, _ jsonrpc.Message) error { return ctx.Err() }, context.Canceled},
		{
			"cancelled, wrapped", done(),
			func(ctx context.Context, _ jsonrpc.Message) error { return fmt.Errorf("post: %w", ctx.Err()) }, context.Canceled,
		},
		{"a pipe's deadline", done(), func(context.Context, jsonrpc.Message) error { return os.ErrDeadlineExceeded }, os.ErrDeadlineExceeded},
		{
			"cancelled with a cause", func() context.Context {
				ctx, cancel := context.WithCancelCause(context.Background())
				cancel(errCause)
				return ctx
			}(), func(ctx context.Context, _ jsonrpc.Message) error { return context.Cause(ctx) }, errCause,
		},
		{
			"rejected", context.Background(),
			func(context.Context, jsonrpc.Message) error { return &jsonrpc.Error{Code: -32005, Message: "too big"} },
			&jsonrpc.Error{Code: -32005},
		},
		{
			"rejected, wrapped", context.Background(), func(context.Context, jsonrpc.Message) error {
				return fmt.Errorf("post: %w", &jsonrpc.Error{Code: -32005})
			}, &jsonrpc.Error{Code: -32005},
		},
	} {
		for what, m := range map[string]jsonrpc.Message{
			"call":         &jsonrpc.Request{ID: number(1), Method: "tools/call"},
			"notification": notice("x"),
			"answer":       &jsonrpc.Response{ID: number(1), Result: []byte(`{}`)},
		} {
			t.Run(tt.name+", "+what, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					r.connect()
					r.Last().OnWrite = tt.write
					wantIs(t, "the writer", r.conn.Write(tt.ctx, m), tt.is)
					want(t, "in flight", 0, r.Stats().InFlight)
					r.livesOn()
				})
			})
		}
	}
}

func TestD1_Unencodable(t *testing.T) {
	encode := func(_ context.Context, m jsonrpc.Message) error {
		_, err := jsonrpc.EncodeMessage(m)
		return err
	}
	for what, m := range map[string]jsonrpc.Message{
		"call":         &jsonrpc.Request{ID: number(1), Method: "tools/call", Params: json.RawMessage(`{"open":`)},
		"notification": &jsonrpc.Request{Method: "x", Params: json.RawMessage(`nonsense`)},
		"answer":       &jsonrpc.Response{ID: number(1), Result: json.RawMessage(`{`)},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				r.Last().OnWrite = encode
				if r.conn.Write(context.Background(), m) == nil {
					t.Error("want an error")
				}
				want(t, "in flight", 0, r.Stats().InFlight)
				r.livesOn()
			})
		})
	}
}

// livesOn checks that the first peer serves still.
func (r *rig) livesOn() {
	r.Helper()
	pass(time.Hour)
	want(r, "hooks", nil, r.hooks())
	want(r, "answers", nil, r.read())
	want(r, "minted", 1, r.Minted())
	r.wantState(supervised.StateServing)
	r.Last().OnWrite = nil
	id, err := r.call("tools/call")
	want(r, "accepted", nil, err)
	r.Last().Reply(id, `1`)
	want(r, "answers", 1, len(r.read()))
}

func TestD1_ManySignsOfOneDeath(t *testing.T) {
	for range 20 {
		inBubble(t, func(r *rig) {
			r.allProcesses()
			r.connect()
			p := r.Last()
			p.OnWrite = func(context.Context, jsonrpc.Message) error { return syscall.EPIPE }
			var all sync.WaitGroup
			for i := range 10 {
				all.Go(func() {
					r.conn.Write(context.Background(), &jsonrpc.Request{ID: number(int64(i + 1)), Method: "tools/call"})
				})
				all.Go(func() { r.notify("notifications/x", `{}`) })
			}
			all.Go(func() { p.Exit(&peertest.Exit{Code: 1}) })
			all.Go(func() { p.Hangup(errCrash) })
			all.Go(func() { p.Hangup(io.EOF) })
			all.Wait()
			pass(time.Second)
			hooks := r.hooks()
			want(t, "hooks", 2, len(hooks))
			want(t, "one replacement", "reconnect", hooks[1])
			want(t, "minted", 2, r.Minted())
			want(t, "spent", 1, r.Stats().RestartsInWindow)
			want(t, "restarts", 1, r.Stats().Restarts)
		})
	}
}

func TestD2_DeathAndReplacement(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		first, _ := r.call("tools/call")
		r.call("tools/call")
		r.Last().Reply(first, `"one"`)
		want(r, "answers", lines(`1 "one"`), r.read())

		r.Last().Die(errCrash)
		r.wantState(supervised.StateRespawnPending)
		want(r, "promised", true, r.Reconnecting())
		want(r, "failed", lines("2 peer lost"), r.read())
		_, err := r.call("tools/call")
		want(r, "refused", "reconnecting", kind(err))
		want(r, "hooks", lines("close: crash"), r.hooks())

		pass(99 * time.Millisecond)
		want(r, "minted before the delay is over", 1, r.Minted())
		pass(time.Millisecond)
		r.wantState(supervised.StateServing)
		want(r, "hooks", lines("reconnect"), r.hooks())
		id, err := r.call("tools/call")
		want(r, "accepted", "ok", kind(err))
		r.Last().Reply(id, `"four"`)
		want(r, "answers", lines(`4 "four"`), r.read())
	})
}

func TestD2_InThisOrder(t *testing.T) {
	var s story
	exit := &peertest.Exit{Code: 3}
	spend := budgetFunc(func(d budget.Death) (budget.Grant, bool) {
		s.tell("budget asked: %v up for %v", d.Cause, d.Uptime)
		return budget.Grant{Attempt: 1, Max: 2, Delay: time.Second}, true
	})
	keep := retry.PolicyFunc(func(q *jsonrpc.Request) bool {
		s.tell("policy asked: %v", q.ID.Raw())
		return q.Method == "tools/list"
	})
	inBubble(t, func(r *rig) {
		r.OnMint = func(_ context.Context, p *peertest.Peer) error {
			s.tell("mint %d", p.Number)
			p.Process = true
			p.OnKill = func() error { time.Sleep(time.Millisecond); s.tell("killed %d", p.Number); return nil }
			p.OnClose = func() error { s.tell("reaped %d", p.Number); return nil }
			return nil
		}
		r.OnClose(func(cause error) {
			now, _ := r.Alive()
			var found *peertest.Exit
			s.tell("OnClose: %v, %d alive, exit found %v", cause, now, errors.As(cause, &found) && found == exit)
		})
		r.OnReconnect(func(context.Context) error { s.tell("OnReconnect"); return nil })
		r.connect()
		r.call("tools/call")
		r.call("tools/list")
		r.call("tools/call")
		r.call("tools/call")
		pass(time.Minute)
		want(t, "before", lines("mint 0"), s.told())
		r.Last().Die(exit)
		want(t, "failed, oldest first", lines("1 peer lost", "3 peer lost", "4 peer lost"), r.read())
		pass(time.Millisecond)
		want(t, "at the death", lines(
			"budget asked: exit status 3 up for 1m0s",
			"policy asked: 1", "policy asked: 2", "policy asked: 3", "policy asked: 4",
			"killed 0", "reaped 0", "OnClose: exit status 3, 0 alive, exit found true",
		), s.told())
		pass(time.Minute)
		want(t, "later", lines("mint 1", "OnReconnect"), s.told())
		want(t, "sent again", lines("tools/list"), r.Last().Methods())
	}, supervised.WithBudget(spend), supervised.WithRetryPolicy(keep))
}

// The calls are failed and the peer is killed at once, and the replacement waits for all three.
func TestD2_TheReplacementWaits(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name             string
		gone, hook, mint time.Duration
	}{
		{"for the delay", 10 * ms, 20 * ms, 100 * ms},
		{"for the old peer", 300 * ms, 0, 300 * ms},
		{"for the hooks", 0, 400 * ms, 400 * ms},
		{"for the peer and the hooks", 300 * ms, 400 * ms, 700 * ms}, // the hooks are called when it is gone
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.OnMint = func(_ context.Context, p *peertest.Peer) error {
					p.Process = true
					p.OnKill = func() error { time.Sleep(tt.gone); return nil }
					return nil
				}
				r.OnClose(func(cause error) {
					if cause != nil {
						time.Sleep(tt.hook)
					}
				})
				r.connect()
				r.call("tools/call")
				r.Last().Die(errCrash)
				want(t, "failed at once", lines("1 peer lost"), r.read())
				pass(tt.mint - 1)
				want(t, "minted", 1, r.Minted())
				pass(1)
				want(t, "minted", 2, r.Minted())
			})
		})
	}
}

func TestD3_OneOnCloseEach(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.allProcesses()
		closes := 0
		r.OnClose(func(error) { closes++ })
		r.connect()
		for i := range 3 {
			p := r.Last()
			p.Exit(&peertest.Exit{Code: 1})
			p.Hangup(errCrash)
			pass(time.Second)
			p.Hangup(io.EOF)
			p.Report(errBoom)
			pass(time.Second)
			want(t, "closes", i+1, closes)
		}
		r.Restart(errBoom)
		pass(time.Second)
		want(t, "closes", 4, closes)
		r.Last().Die(errCrash) // the end of the budget
		pass(time.Second)
		want(t, "closes", 5, closes)
		r.Transport.Close()
		pass(time.Second)
		want(t, "closes", 5, closes)
		want(t, "state", supervised.StateClosed, r.State())
	})
}

// abandons runs f in a bubble on a rig that may leave peers behind; release lets them end.
func abandons(t *testing.T, f func(r *rig, stuck <-chan struct{}), opts ...supervised.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		r := newRig(t, opts...)
		f(r, stuck)
		close(stuck)
		r.Transport.Close()
	})
}

func TestD4_APeerThatDoesNotGo(t *testing.T) {
	hang := func(stuck <-chan struct{}) func() error { return func() error { <-stuck; return nil } }
	for _, tt := range []struct {
		name  string
		shape func(p *peertest.Peer, stuck <-chan struct{})
		after time.Duration
	}{
		{"its Kill hangs", func(p *peertest.Peer, stuck <-chan struct{}) {
			p.Process, p.OnKill = true, hang(stuck)
		}, 5 * time.Second},
		{"its Kill and its Close hang", func(p *peertest.Peer, stuck <-chan struct{}) {
			p.Process, p.OnKill, p.OnClose = true, hang(stuck), hang(stuck)
		}, 5 * time.Second},
		{"its Close hangs", func(p *peertest.Peer, stuck <-chan struct{}) {
			p.OnClose = hang(stuck)
		}, 30 * time.Second},
		{"its Close hangs after the kill", func(p *peertest.Peer, stuck <-chan struct{}) {
			p.Process, p.OnClose = true, hang(stuck)
		}, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			abandons(t, func(r *rig, stuck <-chan struct{}) {
				r.OnMint = func(_ context.Context, p *peertest.Peer) error {
					if p.Number == 0 {
						tt.shape(p, stuck)
					}
					return nil
				}
				r.connect()
				r.call("tools/call")
				r.Last().Die(errCrash)
				want(t, "failed at once", lines("1 peer lost"), r.read())
				pass(tt.after - 1)
				want(t, "minted", 1, r.Minted())
				want(t, "hooks", nil, r.hooks())
				r.wantState(supervised.StateRespawnPending)
				pass(1)
				want(t, "minted", 2, r.Minted())
				r.wantState(supervised.StateServing)
				hooks := r.hooks()
				want(t, "hooks", 3, len(hooks))
				all := strings.Join(hooks, "\n")
				for _, hook := range []string{"error: supervised: ", "close: crash", "reconnect"} {
					if !strings.Contains(all, hook) {
						t.Errorf("want %q among the hooks, got %q", hook, hooks)
					}
				}
				pass(time.Hour)
				want(t, "reported once", nil, r.hooks())
			})
		})
		t.Run(tt.name+" at Close", func(t *testing.T) {
			if strings.Contains(tt.name, "after the kill") || tt.name == "its Kill hangs" {
				t.Skip("Close does not begin with a kill")
			}
			abandons(t, func(r *rig, stuck <-chan struct{}) {
				r.OnMint = func(_ context.Context, p *peertest.Peer) error { tt.shape(p, stuck); return nil }
				r.connect()
				r.call("tools/call")
				begin := time.Now()
				r.Transport.Close()
				limit := 30 * time.Second
				if r.Last().Process {
					limit += 5 * time.Second
				}
				if took := time.Since(begin); took < limit || took > limit+time.Second {
					t.Errorf("want Close to take %v, took %v", limit, took)
				}
				want(t, "answers", lines("1 closed"), r.read())
				hooks := r.hooks()
				want(t, "hooks", 3, len(hooks)) // the drain, the report, the close
			})
		})
	}
}

// A connection whose Close hangs is killed where that can be done, and that is reported.
func TestD4_KilledInClose(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnMint = func(_ context.Context, p *peertest.Peer) error {
			p.Process = true
			p.OnClose = func() error { <-p.Closed(); return nil }
			return nil
		}
		r.connect()
		begin := time.Now()
		r.Transport.Close()
		if took := time.Since(begin); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("want Close to take 30s, took %v", took)
		}
		hooks := r.hooks()
		want(t, "hooks", 3, len(hooks))
		if !strings.Contains(strings.Join(hooks, "\n"), "error: ") {
			t.Errorf("want the hanging Close reported, got %q", hooks)
		}
	})
}

// A kill that fails leaves the peer alive: its Close is waited for, so that there are never two.
func TestD4_AKillThatFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnMint = func(_ context.Context, p *peertest.Peer) error {
			if p.Number == 0 {
				p.Process = true
				p.KillErr = errors.New("operation not permitted")
				p.OnClose = func() error { time.Sleep(10 * time.Second); return nil }
			}
			return nil
		}
		r.connect()
		r.Last().Hangup(errCrash)
		pass(time.Minute)
		r.wantState(supervised.StateServing)
		if now, most := r.Alive(); now != 1 || most != 1 {
			t.Errorf("want one alive at a time, got %d now and %d at once", now, most)
		}
		want(t, "told", true, strings.Contains(strings.Join(r.hooks(), "\n"), "operation not permitted"))
	})
}

// A start that ignores its context may yet bring up a peer: it is waited for, reported and abandoned.
func TestD4_AStartThatDoesNotReturn(t *testing.T) {
	abandons(t, func(r *rig, stuck <-chan struct{}) {
		r.OnStart = func(_ context.Context, p *peertest.Peer) error {
			if p.Number == 1 {
				<-stuck
			}
			return nil
		}
		r.connect()
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		r.hooks()
		pass(40*time.Second - 1)
		want(t, "minted", 2, r.Minted())
		want(t, "hooks", nil, r.hooks())
		pass(1)
		want(t, "reported", 1, len(r.hooks()))
		pass(100 * time.Millisecond)
		want(t, "minted", 3, r.Minted())
		r.wantState(supervised.StateServing)
		want(t, "hooks", lines("reconnect"), r.hooks())
	}, supervised.WithConnectTimeout(10*time.Second))
}

func TestD4_NeverTwoAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnMint = func(_ context.Context, p *peertest.Peer) error {
			p.Process = p.Number%2 == 0
			slow := func() error { time.Sleep(3 * time.Second); return nil }
			p.OnKill, p.OnClose = slow, slow
			return nil
		}
		r.OnStart = func(_ context.Context, p *peertest.Peer) error {
			switch p.Number % 5 {
			case 3:
				return errBoom
			case 4:
				p.Die(errCrash)
			}
			return nil
		}
		r.connect()
		for i := range 30 {
			if i%3 == 0 {
				r.Restart(errBoom)
			} else if r.State() == supervised.StateServing {
				r.Last().Die(errCrash)
			}
			pass(time.Duration(i) * 500 * time.Millisecond)
		}
	}, supervised.WithMaxRestarts(1000), supervised.WithRestartDelay(0))
}

// record is a log record in short: its level, its message and its fields in the order of keys.
func record(e *logrus.Entry, keys ...string) string {
	s := e.Level.String() + " " + e.Message
	for _, key := range keys {
		if v, ok := e.Data[key]; ok {
			s += fmt.Sprintf(" %s=%v", key, v)
		}
	}
	return s
}

func TestD5_Records(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  error
		exit string
	}{
		{"no process", nil, "exit_code=unknown"},
		{"exit status 0", &peertest.Exit{}, "exit_code=0"},
		{"exit status 3", &peertest.Exit{Code: 3}, "exit_code=3"},
		{"signal", &peertest.Exit{Code: -1, Signal: syscall.SIGKILL}, "exit_code=-1 signal=killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			logger, log := logtest.NewNullLogger()
			logger.SetLevel(logrus.TraceLevel)
			inBubble(t, func(r *rig) {
				r.OnMint = func(_ context.Context, p *peertest.Peer) error { p.Process = tt.end != nil; return nil }
				r.connect()
				for range 3 {
					end := tt.end
					if end == nil {
						end = errCrash
					}
					r.Last().Die(end)
					pass(time.Second)
				}
				var got []string
				for _, e := range log.AllEntries() {
					got = append(got, record(e, "exit_code", "signal", "attempt", "budget"))
				}
				want(t, "records", lines(
					"warning restarting the peer "+tt.exit+" attempt=1 budget=2",
					"warning restarting the peer "+tt.exit+" attempt=2 budget=2",
					"error restart budget spent budget=2",
				), got)
				if _, has := log.AllEntries()[0].Data["signal"]; has != strings.Contains(tt.exit, "signal") {
					t.Error("want a signal where there was one, and nowhere else")
				}
			}, supervised.WithLogger(logger), supervised.WithMaxRestarts(2))
		})
	}
}

// What a user sends, and what the peers' ends say, shows in no record; a message is the same whatever happened.
func TestD5_NothingOfTheUsersIsLogged(t *testing.T) {
	const secret = "hunter2"
	logger, log := logtest.NewNullLogger()
	logger.SetLevel(logrus.TraceLevel)
	inBubble(t, func(r *rig) {
		r.OnMint = func(_ context.Context, p *peertest.Peer) error {
			p.Process = true
			switch p.Number {
			case 2: // refuses what it is sent again
				p.OnWrite = func(_ context.Context, m jsonrpc.Message) error { return syscall.EPIPE }
			case 3:
				return errBoom
			}
			return nil
		}
		r.connectIn(context.WithValue(context.Background(), callerKey{}, secret))
		params := json.RawMessage(`{"password":"` + secret + `"}`)
		write := func(id int64, method string) {
			r.conn.Write(context.Background(), &jsonrpc.Request{ID: number(id), Method: method, Params: params})
		}
		for i, id := range []int64{0, 10, 20, 30} {
			write(id+1, "tools/call")
			write(id+2, "tools/list")
			write(id+3, "subscriptions/listen")
			r.notify("notifications/"+secret, string(params))
			r.Last().Say(&jsonrpc.Request{Method: secret, Params: params})
			r.Last().Reply(number(id+9), secret)
			if i == 1 {
				r.Restart(errBoom)
			} else {
				r.Last().Die(&peertest.Exit{Code: 1})
			}
			pass(time.Second)
		}
		r.Transport.Close()
		if len(log.AllEntries()) < 4 {
			t.Errorf("want records to look at, got %d", len(log.AllEntries()))
		}
		for _, e := range log.AllEntries() {
			if text := fmt.Sprint(e.Message, e.Data); strings.Contains(text, secret) {
				t.Errorf("want nothing of the user's logged, got %s", text)
			}
			for _, v := range e.Data {
				if text := fmt.Sprint(v); text != "" && strings.Contains(e.Message, text) {
					t.Errorf("want a constant message, got %q with %q", e.Message, text)
				}
			}
		}
	}, supervised.WithLogger(logger), supervised.WithRetryLostRequests())
}

func TestD5_ARestartOnRequest(t *testing.T) {
	logger, log := logtest.NewNullLogger()
	inBubble(t, func(r *rig) {
		r.connect()
		r.Restart(errBoom)
		synctest.Wait()
		want(t, "records", 1, len(log.AllEntries()))
		e := log.LastEntry()
		want(t, "level", logrus.WarnLevel, e.Level)
		want(t, "exit code", any("unknown"), e.Data["exit_code"])
	}, supervised.WithLogger(logger))
}

func TestD6_AnAnswerIsNoDeath(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		failed, _ := r.call("tools/call")
		tool, _ := r.call("tools/call")
		internal, _ := r.call("tools/list")
		r.Last().Say(
			&jsonrpc.Response{ID: failed, Error: &jsonrpc.Error{Code: -32601, Message: "no such method"}},
			&jsonrpc.Response{ID: tool, Result: []byte(`{"isError":true}`)},
			&jsonrpc.Response{ID: internal, Error: &jsonrpc.Error{Code: -32603, Message: "internal"}},
			&jsonrpc.Response{Error: &jsonrpc.Error{Code: -32700, Message: "parse error"}},
		)
		want(t, "answers", lines("1 no such method", `2 {"isError":true}`, "3 internal"), r.read())
		r.livesOn()
	})
}

func TestD6_SlowOrSilentIsNotDead(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.allProcesses()
		r.connect()
		id, _ := r.call("tools/call")
		pass(30 * 24 * time.Hour)
		r.wantState(supervised.StateServing)
		want(t, "hooks", nil, r.hooks())
		want(t, "in flight", 1, r.Stats().InFlight)
		r.Last().Reply(id, `"at last"`)
		want(t, "answers", lines(`1 "at last"`), r.read())
		r.Last().Report(errBoom)
		want(t, "a report ends nothing", lines("error: boom"), r.hooks())
		r.livesOn()
	})
}

// Nor is one that does not take what it is sent.
func TestD6_ABlockedWriteIsNoDeath(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		hold := make(chan struct{})
		r.Last().OnWrite = func(context.Context, jsonrpc.Message) error { <-hold; return nil }
		written := make(chan error, 1)
		go func() { _, err := r.call("tools/call"); written <- err }()
		pass(24 * time.Hour)
		r.wantState(supervised.StateServing)
		close(hold)
		want(t, "written", nil, <-written)
		r.Last().Reply(number(1), `1`)
		want(t, "answers", 1, len(r.read()))
		r.livesOn()
	})
}
