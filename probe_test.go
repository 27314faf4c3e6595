package supervised_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

const discovery = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`

// probes writes the transport's first request, which is answered in the end; the error must be one that has the SDK
// fall back to the older handshake.
func (r *rig) probes() {
	r.Helper()
	r.ask(1, "server/discover", discovery)
	want(r, "the probe", lines("1 server/discover "+discovery), r.took(0))
}

// wantFallback checks that the probe has its one answer, an error that says nothing of a lost connection, and that
// nobody was told or charged.
func (r *rig) wantFallback() {
	r.Helper()
	failed := r.failures()
	want(r, "the probe's answers", 1, len(failed))
	for _, err := range failed {
		e, ok := errors.AsType[*jsonrpc.Error](err)
		want(r, "answered as a server would", true, ok)
		if ok {
			want(r, "refused by a transport", false, e.Code == -32005)
		}
		want(r, "matches mcp.ErrConnectionClosed", false, errors.Is(err, mcp.ErrConnectionClosed))
	}
	r.wantUncharged()
	r.wantState(supervised.StateServing)
	want(r, "probe timeouts to come", lines(), r.laterOn())
}

// wantUncharged checks that no hook was told and nothing was spent.
func (r *rig) wantUncharged() {
	r.Helper()
	want(r, "hooks", lines(), r.hooks())
	want(r, "spent", 0, r.Stats().RestartsInWindow)
	want(r, "restarts", 0, r.Stats().Restarts)
}

// laterOn is what hooks are told of in an hour in which nobody does anything.
func (r *rig) laterOn() []string {
	pass(time.Hour)
	return r.hooks()
}

// initializes has the client make its older handshake, which must go to the peer that serves, and nothing before it.
func (r *rig) initializes() {
	r.Helper()
	r.ask(2, "initialize", initParams)
	want(r, "what the fresh process gets", lines("2 initialize "+initParams), r.took(r.Last().Number))
	r.reply(2, hello2025)
	want(r, "answers", lines("2 "+hello2025), r.read())
}

func TestE3_ServerThatExitsOnTheProbe(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script func(r *rig)
		opts   []supervised.Option
	}{
		{"E3 hangs up", func(r *rig) {
			r.onWrite(0, "1 server/discover", func(_ context.Context, p *peertest.Peer) error { p.Die(io.EOF); return nil })
		}, nil},
		{"E3 exits", func(r *rig) {
			r.Fleet.Process = true
			r.onWrite(0, "1 server/discover", func(_ context.Context, p *peertest.Peer) error { p.Die(&peertest.Exit{Code: 1}); return nil })
		}, nil},
		{"E3 exits a day later", func(r *rig) {
			r.onWrite(0, "1 server/discover", func(_ context.Context, p *peertest.Peer) error {
				time.AfterFunc(24*time.Hour, func() { p.Die(io.EOF) })
				return nil
			})
		}, []supervised.Option{supervised.WithProbeTimeout(0)}},
		{"E3 does not take it", func(r *rig) {
			r.onWrite(0, "1 server/discover", func(_ context.Context, p *peertest.Peer) error { p.Die(io.EOF); return io.ErrClosedPipe })
		}, nil},
		{"E3 calls are retried", func(r *rig) {
			r.onWrite(0, "1 server/discover", func(_ context.Context, p *peertest.Peer) error { p.Die(io.EOF); return nil })
		}, []supervised.Option{retrying}},
		{"E3 says something and exits", func(r *rig) {
			r.onWrite(0, "1 server/discover", func(_ context.Context, p *peertest.Peer) error {
				p.Say(&jsonrpc.Request{Method: "notifications/message", Params: []byte(`{"level":"error","data":"?"}`)})
				p.Die(io.EOF)
				return nil
			})
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				tt.script(r)
				r.onStart(1, func(context.Context, *peertest.Peer) error { time.Sleep(time.Second); return nil })
				r.connect()
				r.ask(1, "server/discover", discovery)
				pass(24 * time.Hour * time.Duration(strings.Count(tt.name, "day")))
				r.wantState(supervised.StateConnecting) // at once: without a delay
				want(r, "promised", true, r.Reconnecting())
				for _, m := range r.said() {
					want(r, "said", "notifications/message", m.(*jsonrpc.Request).Method) // no answer before it serves
				}
				r.wantUncharged()
				pass(time.Second)
				want(r, "lives", 2, r.Minted())
				want(r, "the first is gone", true, closed(r.Peer(0)))
				r.wantFallback()
				r.initializes()
				want(r, "generation", 1, r.Stats().Generation)

				// From here on a death is a death.
				r.notify("notifications/initialized", `{}`)
				r.Last().Die(errCrash)
				want(r, "hooks", lines("close: crash"), r.hooks())
				want(r, "spent", 1, r.Stats().RestartsInWindow)
			}, append(tt.opts, supervised.WithRestartDelay(time.Minute), supervised.WithMaxRestarts(1))...)
		})
	}
}

func TestE3_ServerThatIsSilentOnTheProbe(t *testing.T) {
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		opts    []supervised.Option
	}{
		{"E3 by default", 10 * time.Second, nil},
		{"E3 an option", time.Millisecond, []supervised.Option{supervised.WithProbeTimeout(time.Millisecond)}},
		{"E3 calls are retried", 10 * time.Second, []supervised.Option{retrying}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				pass(time.Hour) // runs from the probe
				r.probes()
				pass(tt.timeout - 1)
				r.wantState(supervised.StateServing)
				want(r, "lives", 1, r.Minted())
				want(r, "answers", lines(), r.read())
				pass(1)
				want(r, "lives", 2, r.Minted())
				want(r, "killed", true, closed(r.Peer(0)))
				r.wantFallback()
				r.initializes()
			}, append(tt.opts, supervised.WithRestartDelay(time.Minute))...)
		})
	}
}

func TestE3_ProbeTimeout(t *testing.T) {
	_, err := supervised.New((&peertest.Fleet{}).Mint, supervised.WithProbeTimeout(-time.Second))
	if err == nil || !strings.Contains(err.Error(), "WithProbeTimeout") || !strings.Contains(err.Error(), "-1s") {
		t.Errorf("negative: %v", err)
	}
	inBubble(t, func(r *rig) { // 0: none
		r.connect()
		r.probes()
		want(r, "hooks", lines(), r.laterOn())
		want(r, "lives", 1, r.Minted())
		r.reply(1, `{}`)
		want(r, "answers", lines("1 {}"), r.read())
	}, supervised.WithProbeTimeout(0))
}

// An answer ends the wait, whatever it says and whatever it answers.
func TestE3_ServerThatAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(r *rig)
	}{
		{"E3 a result", func(r *rig) { r.reply(1, `{}`) }},
		{"E3 an error", func(r *rig) { r.Last().Say(&jsonrpc.Response{ID: makeID(1), Error: errors.New("what?")}) }},
		{"E3 another request", func(r *rig) {
			r.ask(9, "tools/call", `{}`)
			r.reply(9, `{}`)
		}},
		{"E3 a ping", func(r *rig) {
			r.ask(9, "ping", ``)
			r.reply(9, `{}`)
		}},
		{"E3 the older handshake", func(r *rig) { // by a client that does not wait
			r.ask(9, "initialize", initParams)
			r.reply(9, hello2025)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				r.probes()
				pass(10*time.Second - 1)
				tt.answer(r)
				want(r, "answers", 1, len(r.read()))
				want(r, "an hour later", lines(), r.laterOn())
				want(r, "lives", 1, r.Minted())
				r.Last().Die(errCrash)
				want(r, "a death is a death", lines("close: crash"), r.hooks())
				want(r, "spent", 1, r.Stats().RestartsInWindow)
				want(r, "it waits for the delay", 1, r.Minted())
			}, supervised.WithRestartDelay(time.Minute))
		})
	}
}

// The timer of the probe ends with the wait for it, however that ends.
func TestE3_TimerIsStopped(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"E3 answered":  func(r *rig) { r.reply(1, `{}`) },
		"E3 exits":     func(r *rig) { r.Last().Die(io.EOF) },
		"E3 restarted": func(r *rig) { r.Restart(errCrash) },
		"E3 closed":    func(r *rig) { r.closes() },
	} {
		t.Run(name, func(t *testing.T) {
			alarms := &alarms{Clock: clock.New(), of: 10 * time.Second}
			inBubble(t, func(r *rig) {
				r.connect()
				r.probes()
				end(r)
				pass(time.Hour)
				want(r, "set", 1, alarms.set)
				want(r, "gone off", 0, alarms.gone)
			}, supervised.WithClock(alarms))
		})
	}
}

// alarms is a clock that counts its timers of one duration which call a function.
type alarms struct {
	clock.Clock
	of        time.Duration
	set, gone int
}

func (a *alarms) AfterFunc(d time.Duration, f func()) *clock.Timer {
	if d != a.of {
		return a.Clock.AfterFunc(d, f)
	}
	a.set++
	return a.Clock.AfterFunc(d, func() { a.gone++; f() })
}

// A server that answers the probe and dies in the same breath has answered it.
func TestE3_AnswersAndExits(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onWrite(0, "1 server/discover", func(_ context.Context, p *peertest.Peer) error {
			p.Reply(makeID(1), `{"supportedVersions":["2026-07-28"]}`)
			p.Die(errCrash)
			return nil
		})
		r.connect()
		r.ask(1, "server/discover", discovery)
		want(r, "answers", lines(`1 {"supportedVersions":["2026-07-28"]}`), r.read())
		want(r, "hooks", lines("close: crash"), r.hooks())
		want(r, "spent", 1, r.Stats().RestartsInWindow)
	})
}

// A notification is no request: what comes behind it may be the first.
func TestE3_AfterANotification(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		want(r, "written", nil, r.notify("notifications/mine", `{}`))
		r.ask(1, "server/discover", discovery)
		r.Last().Die(io.EOF)
		r.wantFallback()
	}, supervised.WithRestartDelay(time.Minute))
}

// Answers to the probe that come too late, or from a process that was never asked, are nobody's.
func TestE3_LateAnswer(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.Process = true
			p.OnKill = func() error {
				p.Reply(makeID(1), `"late"`)
				time.Sleep(time.Second)
				p.Reply(makeID(1), `"later"`)
				return nil
			}
			return nil
		})
		r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
			p.Reply(makeID(1), `"a guess"`)
			return nil
		})
		r.connect()
		r.probes()
		pass(10 * time.Second)
		want(r, "answers while it is killed", lines(), r.read())
		want(r, "never two at once", 1, r.Minted())
		pass(time.Second)
		r.Peer(0).Reply(makeID(1), `"too late"`)
		r.Peer(1).Reply(makeID(1), `"a guess"`)
		r.wantFallback()
		r.Peer(1).Reply(makeID(1), `"a guess"`)
		r.initializes()
	})
}

// Other calls that were in flight with it are lost or kept as ever.
func TestE3_CallsBesideTheProbe(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.probes()
		r.ask(3, "tools/call", `{}`)
		r.ask(4, "tools/list", `{}`)
		r.ask(5, "ping", `{}`)
		r.ask(6, "subscriptions/listen", `{}`)
		r.Last().Die(io.EOF)
		synctest.Wait()
		answers := r.read()
		want(r, "failed", lines("3 peer lost", "5 {}"), answers[:2])
		want(r, "the probe", true, len(answers) == 3 && strings.HasPrefix(answers[2], "1 "))
		r.wantUncharged()
		want(r, "sent again", lines("4 tools/list {}", "6 subscriptions/listen {}"), r.took(1))
	}, retrying)
}

func TestE3_WhatMayGoWrongMeanwhile(t *testing.T) {
	slow := func(context.Context, *peertest.Peer) error { time.Sleep(time.Second); return nil }
	for _, tt := range []struct {
		name   string
		script func(r *rig)
		run    func(r *rig) // from the end of the first process on
		answer string       // to the probe; "": the fallback
		hooks  []string
		state  supervised.State
	}{
		{
			name: "E3 Close while the fresh process is minted", script: func(r *rig) { r.onMint(1, slow) },
			run:    func(r *rig) { pass(time.Millisecond); r.Transport.Close() },
			answer: "closed", hooks: lines("close"), state: supervised.StateClosed,
		},
		{
			name: "E3 Close while it starts", script: func(r *rig) { r.onStart(1, slow) },
			run:    func(r *rig) { pass(time.Millisecond); r.Transport.Close() },
			answer: "closed", hooks: lines("close"), state: supervised.StateClosed,
		},
		{
			name: "E3 Close while the first is killed", script: func(r *rig) {
				r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
					p.Process = true
					p.OnKill = func() error { time.Sleep(time.Second); return nil }
					return nil
				})
			},
			run:    func(r *rig) { pass(time.Millisecond); r.Transport.Close() },
			answer: "closed", hooks: lines("close"), state: supervised.StateClosed,
		},
		{
			name: "E3 the client cancels while the fresh process starts", script: func(r *rig) { r.onStart(1, slow) },
			run:    func(r *rig) { pass(time.Millisecond); r.cancels(1); pass(2 * time.Second) },
			answer: "context canceled", hooks: lines(), state: supervised.StateServing,
		},
		{
			name: "E3 the mint fails", script: func(r *rig) { r.onMint(1, func(context.Context, *peertest.Peer) error { return errCrash }) },
			run:   func(r *rig) { pass(2 * time.Minute) },
			hooks: lines("error: crash"), state: supervised.StateServing,
		},
		{
			name: "E3 the start fails", script: func(r *rig) { r.onStart(1, func(context.Context, *peertest.Peer) error { return errCrash }) },
			run:   func(r *rig) { pass(2 * time.Minute) },
			hooks: lines("error: crash"), state: supervised.StateServing,
		},
		{
			name: "E3 every mint fails", script: func(r *rig) {
				r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
					if p.Number > 0 {
						return errCrash
					}
					return nil
				}
			},
			run:    func(r *rig) { pass(time.Hour) },
			answer: "exhausted, peer lost",
			hooks: lines("error: crash", "error: crash", "error: supervised: restart budget of 1 in 1h0m0s spent: crash",
				"close: supervised: restart budget of 1 in 1h0m0s spent: crash"),
			state: supervised.StateClosed,
		},
		{
			name:  "E3 the fresh process dies as soon as it serves",
			run:   func(r *rig) { synctest.Wait(); r.Last().Die(errCrash); pass(2 * time.Minute) },
			hooks: lines("close: crash", "reconnect"), state: supervised.StateServing,
		},
		{
			// A failed attempt or a death of what served: there is no telling.
			name: "E3 it dies before anybody has asked it anything", script: func(r *rig) {
				r.onMint(1, func(_ context.Context, p *peertest.Peer) error { p.Die(errCrash); return nil })
			},
			run:   func(r *rig) { pass(2 * time.Minute) },
			state: supervised.StateServing,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				if tt.script != nil {
					tt.script(r)
				}
				r.connect()
				r.probes()
				r.Last().Die(io.EOF)
				tt.run(r)
				r.wantState(tt.state)
				answers := r.read()
				if tt.answer != "" {
					want(r, "answers", lines("1 "+tt.answer), answers)
				} else {
					want(r, "answers", 1, len(answers))
				}
				if hooks := r.hooks(); tt.hooks != nil {
					want(r, "hooks", tt.hooks, append(lines(), hooks...))
				}
				if tt.state == supervised.StateServing {
					r.initializes()
				}
				want(r, "later on", lines(), r.laterOn())
				for life := range r.Minted() {
					want(r, "the probe is never sent again", life == 0, slices.Contains(r.took(life), "1 server/discover "+discovery))
				}
			}, supervised.WithRestartDelay(time.Minute), supervised.WithMaxRestarts(1), supervised.WithRestartWindow(time.Hour))
		})
	}
}

// A drain is a drain (C2): the end of the peer ends it, and nothing is started in its place.
func TestE3_ExitsWhileItIsDrained(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnDrain(func(context.Context) { r.Last().Die(errCrash); time.Sleep(time.Second) })
		r.connect()
		r.probes()
		r.closes()
		want(r, "hooks", lines("drain", "close: crash"), r.hooks())
		want(r, "answers", lines("1 peer lost"), r.read())
		want(r, "lives", 1, r.Minted())
	})
}

// The timeout of the probe does not go off in a drain, nor after it.
func TestE3_SilentWhileItIsDrained(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnDrain(func(context.Context) { time.Sleep(time.Minute) })
		r.connect()
		r.probes()
		r.closes()
		want(r, "hooks", lines("drain", "close"), r.hooks())
		want(r, "answers", lines("1 closed"), r.read())
		want(r, "lives", 1, r.Minted())
	}, supervised.WithDrainTimeout(0))
}

// Under the SDK's client: it connects with the older handshake, and nobody notices.
func TestE3_SDKSession(t *testing.T) {
	for _, mode := range []string{"exits", "silent"} {
		t.Run("E3 "+mode, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.overStrict(&strict{mute: -1})
				r.onWrite(0, "1 server/discover", func(_ context.Context, p *peertest.Peer) error {
					p.Answer = nil
					if mode == "exits" {
						p.Die(io.EOF)
					}
					return nil
				})
				began := time.Now()
				session := r.sdk(nil, nil)
				want(r, "took", map[string]time.Duration{"exits": 0, "silent": 10 * time.Second}[mode], time.Since(began))
				want(r, "protocol", "2025-11-25", session.InitializeResult().ProtocolVersion)
				r.wantUncharged()
				want(r, "what the fresh process gets", lines("2 initialize", "notifications/initialized"), briefs(r.took(1)))
				r.crashes()
				want(r, "the next life", lines("own initialize", "notifications/initialized"), briefs(r.took(2)))
			})
		})
	}
}

// A discovery that is not the first request is a call as any other.
func TestE3_NotTheFirstRequest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first func(r *rig)
	}{
		{"E3 after a call", func(r *rig) { r.ask(9, "vendor/first", `{}`) }},
		{"E3 after a ping", func(r *rig) { r.ask(9, "ping", `{}`) }},
		{"E3 after a stream", func(r *rig) { r.ask(9, "subscriptions/listen", `{}`) }},
		{"E3 after another discovery", func(r *rig) {
			r.ask(9, "server/discover", discovery)
			r.Last().Say(&jsonrpc.Response{ID: makeID(9), Error: errors.New("another version")})
		}},
		{"E3 in a later life", func(r *rig) {
			r.ask(9, "server/discover", discovery)
			r.reply(9, `{}`)
			synctest.Wait()
			r.crashes()
		}},
		{"E3 in a later life, and nothing was asked in the first but a call that was lost", func(r *rig) {
			r.ask(9, "tools/call", `{}`)
			r.crashes()
		}},
	} {
		for name, opts := range map[string][]supervised.Option{"": nil, ", retrying": {retrying}} {
			t.Run(tt.name+name, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					r.connect()
					tt.first(r)
					r.hooks()
					r.read()
					life := r.Minted()
					r.ask(1, "server/discover", discovery)
					want(r, "an hour later", lines(), r.laterOn())
					want(r, "started again", life, r.Minted())
					r.ask(2, "server/discover", discovery)
					r.Last().Die(errCrash)
					want(r, "hooks", lines("close: crash"), r.hooks())
					want(r, "spent", 1, r.Stats().RestartsInWindow)
					pass(time.Second)
					again := slices.DeleteFunc(r.took(life), func(s string) bool { return strings.HasPrefix(s, "9 ") })
					if opts == nil {
						want(r, "sent again", 0, len(again))
						failed := counted(r.read())
						want(r, "failed", []int{1, 1}, []int{failed["1 peer lost"], failed["2 peer lost"]})
					} else {
						want(r, "sent again", lines("1 server/discover "+discovery, "2 server/discover "+discovery), again)
					}
				}, opts...)
			})
		}
	}
}

// Restart of a server that hangs on the probe: the probe is not sent again, and has its answer all the same.
func TestE3_Restart(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.probes()
		want(r, "Restart", nil, r.Restart(errCrash))
		want(r, "serves", nil, r.WaitServing(context.Background()))
		want(r, "the probe's answers", 1, len(r.failures()))
		want(r, "spent", 0, r.Stats().RestartsInWindow)
		r.hooks()
		r.initializes()
		want(r, "an hour later", lines(), r.laterOn())
		r.Last().Die(errCrash)
		want(r, "hooks: a death is a death", lines("close: crash"), r.hooks())
	})
}

// A client that has lost patience with the probe, and tries the older handshake on a server that hangs, is heard by the
// fresh process.
func TestE3_ClientThatDoesNotWait(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		t.Run(fmt.Sprintf("E3 cancels: %t", cancels), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				r.probes()
				pass(5 * time.Second)
				if cancels {
					want(r, "cancelled", nil, r.cancels(1))
				}
				r.ask(2, "initialize", initParams)
				pass(5 * time.Second)
				r.wantState(supervised.StateServing)
				r.wantUncharged()
				want(r, "the probe's answers", 1, len(r.read()))
				want(r, "what the fresh process gets", lines("2 initialize "+initParams), r.took(1))
				r.reply(2, hello2025)
				want(r, "answers", lines("2 "+hello2025), r.read())
				want(r, "an hour later", lines(), r.laterOn())
			})
		})
	}
}
