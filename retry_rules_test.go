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

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/retry"
)

// reading are the methods that only read (Q2).
var reading = []string{
	"server/discover", "tools/list", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
	"resources/read", "completion/complete",
}

var retrying = supervised.WithRetryLostRequests()

func TestQ1_OffByDefault(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.ask(0, "vendor/first", `{}`) // so that no discovery after it is the probe (E3)
		var lost []string
		for i, method := range append([]string{"tools/call", "vendor/status"}, reading...) {
			r.ask(1+i, method, `{}`)
			lost = append(lost, fmt.Sprint(1+i, " peer lost"))
		}
		r.Last().Die(errCrash)
		want(r, "failed, oldest first", append(lines("0 peer lost"), lost...), r.read())
		pass(time.Second)
		r.wantState(supervised.StateServing)
		want(r, "what the replacement took", lines(), r.took(1))
		want(r, "answers", lines(), r.read())
		want(r, "in flight", 0, r.Stats().InFlight)
	})
}

func TestQ1_TheEndOfThePeerIsFoundInTheError(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.Last().Die(&peertest.Exit{Code: 7})
		failed := r.failures()
		wantLen(r, "failed", 1, failed)
		wantIs(r, "the call", failed[0], supervised.ErrPeerLost, mcp.ErrConnectionClosed)
		want(r, "matches ErrClosed", false, errors.Is(failed[0], supervised.ErrClosed))
		exit, ok := errors.AsType[*peertest.Exit](failed[0])
		want(r, "has the exit", true, ok)
		want(r, "code", 7, exit.Code)
	})
}

type ctxKey struct{}

// What the replacement is sent is what the first peer was sent: id, bytes, Extra, and the values of the context.
func TestQ2_SentAgainAsItWas(t *testing.T) {
	ids := []any{1, 0, -1, 9007199254740991, "1", "", "a \" \u00e9 \n"}
	params := []string{
		`{}`,
		``,
		"{ \"uri\" :\t\"file:///\\u00e9\\/x\" , \"n\":1e400,\r\n \"n\":1.0 }",
		`{"nested":{"inputResponses":1,"requestState":"s"},"list":[{"requestState":1}]}`,
		`{"big":"` + strings.Repeat("x", 64<<10) + `"}`,
		`{"_meta":{"progressToken":0}}`,
		`null`,
	}
	type seen struct {
		ID             any
		Method, Params string
		Extra, Value   any
		Deadline       time.Time
	}
	for _, method := range reading {
		t.Run(method, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				took := make(map[int][]seen)
				r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
					p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
						q := m.(*jsonrpc.Request)
						d, _ := ctx.Deadline()
						took[p.Number] = append(took[p.Number], seen{q.ID.Raw(), q.Method, string(q.Params), q.Extra, ctx.Value(ctxKey{}), d})
						return nil
					}
					return nil
				}
				r.connect()
				r.ask(100, "vendor/first", `{}`)
				for i, id := range ids {
					ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), ctxKey{}, i), time.Hour)
					defer cancel()
					q := rawCall(id, method, params[i])
					q.Extra = &seen{Method: fmt.Sprint("extra ", i)}
					want(r, "written", nil, r.conn.Write(ctx, q))
				}
				for range 2 {
					r.Last().Die(errCrash)
					pass(100 * time.Millisecond)
					r.wantState(supervised.StateServing)
				}
				want(r, "first life", 1+len(ids), len(took[0]))
				want(r, "second life", took[0][1:], took[1])
				want(r, "third life", took[0][1:], took[2])
				for _, s := range took[2] {
					r.Last().Say(&jsonrpc.Response{ID: makeID(s.ID), Result: []byte(`{}`)})
				}
				want(r, "answers", 1+len(ids), len(r.read()))
			}, retrying)
		})
	}
}

func TestQ2_OldestFirstBeforeTheStreams(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.ask(1, "subscriptions/listen", `{"a":1}`)
		r.ask(2, "tools/list", `{}`)
		r.ask(3, "tools/call", `{}`)
		r.ask(4, "subscriptions/listen", `{"b":1}`)
		r.ask(5, "prompts/list", `{}`)
		r.ask(6, "resources/read", `{}`)
		r.reply(6, `"six"`)
		r.Last().Die(errCrash)
		want(r, "answers", lines(`6 "six"`, "3 peer lost"), r.read())
		pass(100 * time.Millisecond)
		want(r, "second life", lines(
			`2 tools/list {}`, `5 prompts/list {}`, `1 subscriptions/listen {"a":1}`, `4 subscriptions/listen {"b":1}`,
		), r.took(1))
		// What comes later stays behind, also in the next life; the age is that of the first sending.
		r.ask(7, "resources/list", `{}`)
		r.reply(2, `"two"`)
		want(r, "answers", lines(`2 "two"`), r.read())
		r.ask(2, "resources/list", `{}`) // an id that is free again
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		want(r, "third life", lines(
			`5 prompts/list {}`, `7 resources/list {}`, `2 resources/list {}`, `1 subscriptions/listen {"a":1}`, `4 subscriptions/listen {"b":1}`,
		), r.took(2))
		r.reply(7, `7`)
		r.reply(5, `5`)
		r.reply(2, `2`)
		want(r, "answers", lines(`7 7`, `5 5`, `2 2`), r.read())
		want(r, "in flight", 0, r.Stats().InFlight)
	}, retrying)
}

// OnReconnect comes after the replay, and what is written in it reaches the replacement behind that.
func TestQ2_ReplayIsWrittenBeforeAnythingElse(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnReconnect(func(context.Context) error { r.ask(9, "tools/call", `{}`); return nil })
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.Last().Die(errCrash)
		pass(time.Second)
		want(r, "second life", lines(`1 tools/list {}`, `9 tools/call {}`), r.took(1))
	}, retrying)
}

// The caller of a session never learns that the peer changed.
func TestQ2_SDKSession(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{result: map[string]string{"tools/list": `{"tools":[{"name":"hammer","inputSchema":{"type":"object"}}]}`}, mute: 0})
		session := r.sdk(nil, nil)
		type tools struct {
			names []string
			err   error
		}
		listed := make(chan tools, 1)
		go func() {
			res, err := session.ListTools(context.Background(), nil)
			var names []string
			if err == nil {
				for _, tool := range res.Tools {
					names = append(names, tool.Name)
				}
			}
			listed <- tools{names, err}
		}()
		synctest.Wait()
		for range 2 { // the second before the first replacement has answered
			r.Last().Die(errCrash)
			synctest.Wait()
		}
		pass(time.Second)
		got := <-listed
		want(r, "tools", lines("hammer"), got.names)
		want(r, "error", nil, got.err)
	}, retrying)
}

func TestQ3_NothingElseIsKept(t *testing.T) {
	type row struct {
		name, method, params string
		kept                 bool
	}
	rows := []row{}
	for _, method := range []string{
		"tools/call", "vendor/status", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/get",
		"tools/List", "tools/list/", "tools/list2", "list", "",
	} {
		rows = append(rows, row{"Q3 " + method, method, `{}`, false})
	}
	for _, method := range reading {
		for _, params := range []string{
			`{"inputResponses":{}}`,
			`{"requestState":""}`,
			`{"requestState":null}`,
			`{"inputResponses":null,"requestState":"s"}`,
			`{"uri":"u","\u0072equestState":"s"}`,
			`{"requestState":"s","requestState":"t"}`,
			`not json`,
			`[]`,
		} {
			rows = append(rows, row{"Q3 " + method + " " + params, method, params, false})
		}
		rows = append(rows,
			row{"Q2 " + method + ", markers inside", method, `{"arguments":{"requestState":"s","inputResponses":[]}}`, true},
			row{"Q2 " + method + ", markers as values", method, `{"uri":"requestState","name":"\"inputResponses\":1"}`, true},
		)
	}
	// All of them on one peer, so that each is decided on by itself.
	inBubble(t, func(r *rig) {
		r.connect()
		var lost, kept []string
		r.ask(1000, "vendor/first", `{}`)
		lost = append(lost, "1000 peer lost")
		for i, tt := range rows {
			r.ask(i, tt.method, tt.params)
			if tt.kept {
				kept = append(kept, fmt.Sprintf("%d %s %s", i, tt.method, tt.params))
			} else {
				lost = append(lost, fmt.Sprintf("%d peer lost", i))
			}
		}
		r.Last().Die(errCrash)
		want(r, "failed", lost, r.read())
		want(r, "in flight", len(kept), r.Stats().InFlight)
		pass(100 * time.Millisecond)
		want(r, "sent again", kept, r.took(1))
	}, retrying)
}

// The policy of a user is asked once for each call, with the request as it was written.
func TestQ3_PolicyOfTheUsersOwn(t *testing.T) {
	var asked []string
	policy := supervised.WithRetryPolicy(retry.PolicyFunc(func(q *jsonrpc.Request) bool {
		asked = append(asked, brief(q)+" "+string(q.Params))
		return q.Method == "tools/call"
	}))
	inBubble(t, func(r *rig) {
		r.connect()
		r.ask(1, "tools/call", `{"a":1}`)
		r.ask(2, "tools/list", `{"b":1}`)
		r.ask(3, "subscriptions/listen", `{}`)
		r.Last().Die(errCrash)
		want(r, "failed", lines("2 peer lost"), r.read())
		pass(100 * time.Millisecond)
		want(r, "sent again", lines(`1 tools/call {"a":1}`, `3 subscriptions/listen {}`), r.took(1))
		want(r, "asked", lines(`1 tools/call {"a":1}`, `2 tools/list {"b":1}`), asked)
	}, policy)
}

func TestQ4_DeadlineThatEndsInTheGap(t *testing.T) {
	cause := errors.New("no patience")
	for _, tt := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		err  error
	}{
		{"Q4 deadline", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 50*time.Millisecond)
		}, context.DeadlineExceeded},
		{"Q4 deadline with a cause", func() (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(context.Background(), 50*time.Millisecond, cause)
		}, context.DeadlineExceeded},
		{"Q4 cancel", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				ctx, cancel := tt.ctx()
				defer cancel()
				r.ask(1, "tools/list", `{}`)
				r.askIn(ctx, 2, "tools/list", `{}`)
				r.ask(3, "tools/list", `{}`)
				r.Last().Die(errCrash)
				pass(100 * time.Millisecond)
				r.wantState(supervised.StateServing)
				want(r, "sent again", lines("1 tools/list {}", "3 tools/list {}"), r.took(1))
				failed := r.failures()
				wantLen(r, "failed", 1, failed)
				wantIs(r, "the call", failed[0], tt.err)
				want(r, "matches ErrPeerLost", false, errors.Is(failed[0], supervised.ErrPeerLost))
				r.reply(2, `"late"`)
				want(r, "answered once", lines(), r.read())
				want(r, "hooks", lines("close: crash", "reconnect"), r.hooks())
			}, retrying)
		})
	}
}

// A call that outlives one replacement and not the next: its deadline is one, whatever lives it goes through.
func TestQ4_DeadlineOverSeveralLives(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
		defer cancel()
		r.askIn(ctx, 1, "tools/list", `{}`)
		for range 2 {
			r.Last().Die(errCrash)
			pass(100 * time.Millisecond)
			want(r, "sent again", lines("1 tools/list {}"), r.took(r.Last().Number))
		}
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		r.wantState(supervised.StateServing)
		want(r, "sent to the last", lines(), r.took(3))
		want(r, "answers", lines("1 context deadline exceeded"), r.read())
	}, retrying)
}

func TestQ4_DeadlineThatEndsWhileItIsSentAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onWrite(1, "2 tools/list", func(ctx context.Context, _ *peertest.Peer) error { <-ctx.Done(); return ctx.Err() })
		r.connect()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r.ask(1, "tools/list", `{}`)
		r.askIn(ctx, 2, "tools/list", `{}`)
		r.ask(3, "tools/list", `{}`)
		r.Last().Die(errCrash)
		pass(999 * time.Millisecond)
		r.wantState(supervised.StateConnecting)
		pass(time.Millisecond)
		r.wantState(supervised.StateServing)
		want(r, "sent again", lines("1 tools/list {}", "3 tools/list {}"), r.took(1))
		want(r, "answers", lines("2 context deadline exceeded"), r.read())
		want(r, "hooks: no failed attempt", lines("close: crash", "reconnect"), r.hooks())
	}, retrying)
}

// A transport that does not look at the context sends the call all the same: then it is in flight as any other.
func TestQ4_DeadlineThatATransportIgnores(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onWrite(1, "1 tools/list", stubborn(time.Second))
		r.connect()
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		r.askIn(ctx, 1, "tools/list", `{}`)
		r.Last().Die(errCrash)
		pass(2 * time.Second)
		r.wantState(supervised.StateServing)
		want(r, "sent again", lines("1 tools/list {}"), r.took(1))
		r.reply(1, `"one"`)
		want(r, "answers", lines(`1 "one"`), r.read())
	}, retrying)
}

func TestQ4_CancelledOnTheWay(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script func(r *rig)
		cancel []any // ids of 1, "1", 2, all of them kept
		after  time.Duration
		state  supervised.State
		took   []string // the second life
		failed []string
	}{
		{
			name:   "Q4 in the gap",
			cancel: []any{1}, after: 50 * time.Millisecond, state: supervised.StateRespawnPending,
			took:   lines(`"1" tools/list {}`, "2 tools/list {}"),
			failed: lines("1 context canceled"),
		},
		{
			name:   "Q4 in the gap, by the other's id",
			cancel: []any{"1"}, after: 50 * time.Millisecond, state: supervised.StateRespawnPending,
			took:   lines("1 tools/list {}", "2 tools/list {}"),
			failed: lines("1 context canceled"),
		},
		{
			name:   "Q4 in the gap, all of them",
			cancel: []any{2, 1, "1"}, after: 50 * time.Millisecond, state: supervised.StateRespawnPending,
			took:   lines(),
			failed: lines("2 context canceled", "1 context canceled", "1 context canceled"),
		},
		{
			name: "Q4 while connecting, before the replacement has started",
			script: func(r *rig) {
				r.onStart(1, stubborn(time.Second))
			},
			cancel: []any{1}, after: 500 * time.Millisecond, state: supervised.StateConnecting,
			took:   lines(`"1" tools/list {}`, "2 tools/list {}"),
			failed: lines("1 context canceled"),
		},
		{
			name: "Q4 while connecting, before it is sent again",
			script: func(r *rig) {
				r.onWrite(1, "1 tools/list", stubborn(time.Second))
			},
			cancel: []any{2}, after: 500 * time.Millisecond, state: supervised.StateConnecting,
			took:   lines("1 tools/list {}", `"1" tools/list {}`),
			failed: lines("2 context canceled"),
		},
		{
			name: "Q4 while connecting, after it was sent again: the replacement is told when it serves",
			script: func(r *rig) {
				r.onWrite(1, "2 tools/list", stubborn(time.Second))
			},
			cancel: []any{1}, after: 500 * time.Millisecond, state: supervised.StateConnecting,
			took:   lines("1 tools/list {}", `"1" tools/list {}`, "2 tools/list {}", `notifications/cancelled {"requestId":1,"reason":"r"}`),
			failed: lines("1 context canceled"),
		},
		{
			name: "Q4 while connecting, while it is being sent again",
			script: func(r *rig) {
				r.onWrite(1, "2 tools/list", stubborn(time.Second))
			},
			cancel: []any{2}, after: 500 * time.Millisecond, state: supervised.StateConnecting,
			took:   lines("1 tools/list {}", `"1" tools/list {}`, "2 tools/list {}", `notifications/cancelled {"requestId":2,"reason":"r"}`),
			failed: lines("2 context canceled"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				if tt.script != nil {
					tt.script(r)
				}
				r.connect()
				r.ask(1, "tools/list", `{}`)
				r.ask("1", "tools/list", `{}`)
				r.ask(2, "tools/list", `{}`)
				r.Last().Die(errCrash)
				pass(tt.after)
				r.wantState(tt.state)
				for _, id := range tt.cancel {
					want(r, "written", "ok", kind(r.cancels(id)))
				}
				pass(2 * time.Second)
				r.wantState(supervised.StateServing)
				want(r, "second life", tt.took, r.took(1))
				want(r, "failed", tt.failed, r.read())
				for _, id := range tt.cancel {
					r.reply(id, `"late"`)
				}
				want(r, "answered once", lines(), r.read())
				want(r, "in flight", 3-len(tt.failed), r.Stats().InFlight)
				want(r, "hooks", lines("close: crash", "reconnect"), r.hooks())
			}, retrying)
		})
	}
}

// A cancellation that a serving peer was told of is not kept, nor is the call: nobody waits for it.
func TestQ4_CancelledBeforeTheDeath(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.ask(2, "tools/list", `{}`)
		r.cancels(1)
		want(r, "first life", lines("1 tools/list {}", "2 tools/list {}", `notifications/cancelled {"requestId":1,"reason":"r"}`), r.took(0))
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		want(r, "second life", lines("2 tools/list {}"), r.took(1))
		want(r, "failed", lines("1 peer lost"), r.read())
	}, retrying)
}

// A replacement that was sent the call, and dies before it serves, takes the cancellation with it.
func TestQ4_CancelledAfterAReSendToAReplacementThatFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onWrite(1, "2 tools/list", func(_ context.Context, p *peertest.Peer) error {
			time.Sleep(time.Second)
			p.Die(errCrash)
			return io.ErrClosedPipe
		})
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.ask(2, "tools/list", `{}`)
		r.Last().Die(errCrash)
		pass(500 * time.Millisecond)
		r.cancels(1)
		pass(2 * time.Second)
		r.wantState(supervised.StateServing)
		want(r, "third life", lines("2 tools/list {}"), r.took(2))
		want(r, "failed", lines("1 context canceled"), r.read())
	}, retrying)
}

func TestQ4_SDKSession(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: 0})
		session := r.sdk(nil, nil)
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		listed := later(func() error { _, err := session.ListTools(ctx, nil); return err })
		synctest.Wait()
		r.Last().Die(errCrash)
		wantIs(r, "the call", <-listed, context.DeadlineExceeded)
		want(r, "returned", 50*time.Millisecond, time.Since(began))
		pass(time.Second)
		want(r, "second life", lines("own initialize", "notifications/initialized"), briefs(r.took(1)))
		want(r, "the session goes on", "ok", kind(session.Ping(context.Background(), nil)))
	}, retrying)
}

// A replacement may die at any point of the re-send; what it was sent stays kept, all of it in order.
func TestQ5_ReplacementThatDiesAtTheReSend(t *testing.T) {
	deaths := map[string]func(ctx context.Context, p *peertest.Peer) error{
		"its Write fails": func(context.Context, *peertest.Peer) error { return io.ErrClosedPipe },
		"it exits under Write": func(ctx context.Context, p *peertest.Peer) error {
			p.Die(errCrash)
			<-ctx.Done()
			return ctx.Err()
		},
		"it exits and Write fails": func(_ context.Context, p *peertest.Peer) error { p.Die(errCrash); return io.ErrClosedPipe },
		"it exits under a Write that ignores its context": func(_ context.Context, p *peertest.Peer) error {
			p.Die(errCrash)
			<-p.Closed()
			return io.ErrClosedPipe
		},
	}
	for name, death := range deaths {
		for nth := 1; nth <= 4; nth++ { // the fourth is the stream
			t.Run(fmt.Sprintf("%s, number %d", name, nth), func(t *testing.T) {
				logger, log := logtest.NewNullLogger()
				inBubble(t, func(r *rig) {
					all := lines("1 tools/list {}", "2 tools/list {}", "3 tools/list {}", "4 subscriptions/listen {}")
					r.onWrite(1, strings.TrimSuffix(all[nth-1], " {}"), death)
					r.connect()
					r.ask(1, "tools/list", `{}`)
					r.ask(2, "tools/list", `{}`)
					r.ask(3, "tools/list", `{}`)
					r.ask(4, "subscriptions/listen", `{}`)
					r.Last().Die(errCrash)
					pass(100 * time.Millisecond)
					want(r, "nothing fails", lines(), r.read())
					want(r, "in flight", 3, r.Stats().InFlight)
					pass(350 * time.Millisecond) // one that breaks is read to its end first (W3)
					r.wantState(supervised.StateServing)
					want(r, "second life", append(lines(), all[:nth-1]...), r.took(1))
					want(r, "third life", all, r.took(2))
					for id := 3; id > 0; id-- {
						r.reply(id, `"yes"`)
					}
					want(r, "answers", lines(`3 "yes"`, `2 "yes"`, `1 "yes"`), r.read())
					told := r.errors()
					wantLen(r, "told of the failed attempt", 1, told)
					want(r, "hooks: one OnClose", lines("close", "error", "reconnect"), briefs(r.hooks()))
					want(r, "ids logged at error", []any{int64(nth)}, logged(log, logrus.ErrorLevel))
				}, retrying, supervised.WithLogger(logger))
			})
		}
	}
}

// One that dies with every byte written, before it serves or after: the calls are kept alike.
func TestQ5_ReplacementThatDiesRightAfterTheReSend(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onWrite(1, "2 tools/list", func(_ context.Context, p *peertest.Peer) error { p.Die(errCrash); return nil })
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.ask(2, "tools/list", `{}`)
		r.Last().Die(errCrash)
		pass(time.Second)
		r.wantState(supervised.StateServing)
		want(r, "third life", lines("1 tools/list {}", "2 tools/list {}"), r.took(2))
		want(r, "nothing fails", lines(), r.read())
	}, retrying)
}

func TestQ5_ReSendThatIsNotWrittenInTime(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onWrite(1, "1 tools/list", func(_ context.Context, p *peertest.Peer) error { <-p.Closed(); return io.ErrClosedPipe })
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.Last().Die(errCrash)
		pass(100*time.Millisecond + time.Second - 1)
		r.wantState(supervised.StateConnecting)
		pass(1)
		told := r.errors()
		wantLen(r, "told", 1, told)
		wantIs(r, "OnError", told[0], context.DeadlineExceeded)
		pass(100 * time.Millisecond)
		r.wantState(supervised.StateServing)
		want(r, "third life", lines("1 tools/list {}"), r.took(2))
		r.reply(1, `"yes"`)
		want(r, "answers", lines(`1 "yes"`), r.read())
	}, retrying, supervised.WithConnectTimeout(time.Second))
}

// The replacement's transport rejects one call: that call fails at once, and nothing else is wrong.
func TestQ5_ReSendThatIsRejected(t *testing.T) {
	rejected := &jsonrpc.Error{Code: -32005, Message: "rejected by transport"}
	logger, log := logtest.NewNullLogger()
	inBubble(t, func(r *rig) {
		r.onWrite(1, "2 tools/list", func(context.Context, *peertest.Peer) error { return fmt.Errorf("not now: %w", rejected) })
		r.onWrite(1, "4 subscriptions/listen", func(context.Context, *peertest.Peer) error { return rejected })
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.ask(2, "tools/list", `{}`)
		r.ask(3, "tools/list", `{}`)
		r.ask(4, "subscriptions/listen", `{}`)
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		r.wantState(supervised.StateServing)
		want(r, "second life", lines("1 tools/list {}", "3 tools/list {}"), r.took(1))
		failed := r.failures()
		wantLen(r, "failed", 1, failed)
		wantIs(r, "the call", failed[0], rejected)
		want(r, "hooks: no failed attempt", lines("close: crash", "reconnect"), r.hooks())
		want(r, "ids logged at error", []any{int64(2), int64(4)}, logged(log, logrus.ErrorLevel))
		// The call is over; the stream is not (R3).
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		want(r, "third life", lines("1 tools/list {}", "3 tools/list {}", "4 subscriptions/listen {}"), r.took(2))
	}, retrying, supervised.WithLogger(logger))
}

func TestQ5_NoReplacementIsComing(t *testing.T) {
	onReSend := func(f func(r *rig)) func(r *rig) {
		return func(r *rig) {
			r.onWrite(1, "2 tools/list", func(ctx context.Context, _ *peertest.Peer) error {
				go f(r)
				<-ctx.Done()
				return ctx.Err()
			})
			r.Last().Die(errCrash)
			pass(time.Second)
		}
	}
	for _, tt := range []struct {
		name   string
		script func(r *rig)
		answer string
	}{
		{"Q5 budget spent at the re-send", onReSend(func(r *rig) { r.Last().Die(errCrash) }), "exhausted, peer lost"},
		{"Q5 budget spent by failed mints", func(r *rig) {
			r.onMint(1, func(context.Context, *peertest.Peer) error { return errCrash })
			r.Last().Die(errCrash)
			pass(time.Second)
		}, "exhausted, peer lost"},
		{"Q5 budget spent after the re-send", func(r *rig) {
			r.Last().Die(errCrash)
			pass(100 * time.Millisecond)
			r.Last().Die(errCrash)
		}, "exhausted, peer lost"},
		{"Q5 Close in the gap", func(r *rig) { r.Last().Die(errCrash); synctest.Wait(); r.closes() }, "closed"},
		{"Q5 Close at the re-send", onReSend(func(r *rig) { r.Transport.Close() }), "closed"},
		{"Q5 Close after the re-send", func(r *rig) {
			r.Last().Die(errCrash)
			pass(100 * time.Millisecond)
			r.closes()
		}, "closed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				r.ask(1, "tools/list", `{}`)
				r.ask(2, "tools/list", `{}`)
				tt.script(r)
				r.wantState(supervised.StateClosed)
				want(r, "answers", lines("1 "+tt.answer, "2 "+tt.answer), r.read())
				want(r, "in flight", 0, r.Stats().InFlight)
				want(r, "minted", true, r.Minted() <= 2)
			}, retrying, supervised.WithMaxRestarts(1))
		})
	}
}

// A call that was answered is never sent again, however close the death.
func TestQ6_AnsweredJustBeforeTheDeath(t *testing.T) {
	for _, process := range []bool{false, true} {
		t.Run(fmt.Sprintf("Q6 process: %t", process), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.Fleet.Process = process
				r.connect()
				r.ask(1, "tools/list", `{}`)
				r.ask(2, "tools/list", `{}`)
				r.Last().Say(
					&jsonrpc.Response{ID: makeID(2), Result: []byte(`"two"`)},
					&jsonrpc.Response{ID: makeID(2), Result: []byte(`"two again"`)},
				)
				r.Last().Die(errCrash)
				pass(time.Second)
				want(r, "answers", lines(`2 "two"`), r.read())
				want(r, "second life", lines("1 tools/list {}"), r.took(1))
			}, retrying)
		})
	}
}

// The exit is seen, the output is held open, and the answer is written while the death waits to be acted on (W3).
func TestQ6_AnsweredAfterTheExit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.Fleet.Process = true
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.Last().Exit(errCrash)
		pass(200 * time.Millisecond)
		r.reply(1, `"one"`)
		pass(time.Second)
		want(r, "answers", lines(`1 "one"`), r.read())
		want(r, "second life", lines(), r.took(1))
	}, retrying)
}

// What the old peer says after its death was acted on answers nothing; the replacement does.
func TestQ6_LateAnswerOfTheOldPeer(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.Process = true
			p.OnKill = func() error {
				p.Say(&jsonrpc.Response{ID: makeID(1), Result: []byte(`"late"`)})
				time.Sleep(3 * time.Second)
				p.Say(&jsonrpc.Response{ID: makeID(1), Result: []byte(`"later"`)})
				return nil
			}
			return nil
		})
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.Last().Exit(errCrash)
		pass(time.Second)
		want(r, "answers", lines(), r.read())
		want(r, "minted while the old one is not gone", 1, r.Minted())
		pass(3 * time.Second)
		r.wantState(supervised.StateServing)
		r.Peer(0).Say(&jsonrpc.Response{ID: makeID(1), Result: []byte(`"too late"`)})
		want(r, "answers", lines(), r.read())
		want(r, "second life", lines("1 tools/list {}"), r.took(1))
		r.reply(1, `"one"`)
		want(r, "answers", lines(`1 "one"`), r.read())
	}, retrying)
}

// Answers pass while the rest is still being sent; the attempt that gave them may fail, they stand.
func TestQ6_AnsweredByAReplacementThatFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onWrite(1, "3 tools/list", func(_ context.Context, p *peertest.Peer) error {
			p.Reply(makeID(1), `"one"`)
			p.Reply(makeID(3), `"three"`) // which it has in part, for all that anybody knows
			time.Sleep(time.Millisecond)
			p.Die(errCrash)
			return io.ErrClosedPipe
		})
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.ask(2, "tools/list", `{}`)
		r.ask(3, "tools/list", `{}`)
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		pass(time.Millisecond)
		want(r, "answers, at once", lines(`1 "one"`, `3 "three"`), r.read())
		pass(time.Second)
		r.wantState(supervised.StateServing)
		want(r, "third life", lines("2 tools/list {}"), r.took(2))
		r.reply(1, `"again"`)
		r.reply(2, `"two"`)
		want(r, "answers", lines(`2 "two"`), r.read())
	}, retrying)
}

// An answer to a call that the replacement was not sent is nobody's: its Write has not begun.
func TestQ6_AnsweredBeforeItIsSentAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onWrite(1, "1 tools/list", func(_ context.Context, p *peertest.Peer) error {
			p.Reply(makeID(2), `"a guess"`)
			time.Sleep(time.Second)
			return nil
		})
		r.connect()
		r.ask(1, "tools/list", `{}`)
		r.ask(2, "tools/list", `{}`)
		r.Last().Die(errCrash)
		pass(2 * time.Second)
		want(r, "answers", lines(), r.read())
		want(r, "second life", lines("1 tools/list {}", "2 tools/list {}"), r.took(1))
		r.reply(2, `"two"`)
		want(r, "answers", lines(`2 "two"`), r.read())
	}, retrying)
}

func TestQ7_PingInFlightAtADeath(t *testing.T) {
	for name, opts := range map[string][]supervised.Option{"Q7 retrying": {retrying}, "Q7 not retrying": nil} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				r.ask(1, "tools/call", `{}`)
				r.ask(2, "ping", `{}`)
				r.ask("three", "ping", ``)
				want(r, "the peer has them", lines("1 tools/call {}", "2 ping {}", `"three" ping`), r.took(0))
				r.Last().Die(errCrash)
				want(r, "answers", lines("1 peer lost", "2 {}", "three {}"), r.read())
				pass(time.Second)
				want(r, "second life", lines(), r.took(1))
				r.reply(2, `{}`)
				want(r, "answered once", lines(), r.read())
				r.ask(4, "ping", `{}`)
				want(r, "a ping while it serves is the peer's", lines("4 ping {}"), r.took(1))
				want(r, "and not ours", lines(), r.read())
				want(r, "Restart", "ok", kind(r.Restart(errCrash)))
				want(r, "answers", lines("4 {}"), r.read())
			}, opts...)
		})
	}
}

func TestQ7_PingWhileAReplacementIsPromised(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(1, func(_ context.Context, p *peertest.Peer) error { time.Sleep(time.Second); return nil })
		r.onStart(1, stubborn(time.Second))
		r.onWrite(1, "9 tools/list", func(_ context.Context, p *peertest.Peer) error {
			time.Sleep(time.Second)
			p.Die(errCrash) // so that a second attempt is needed
			return io.ErrClosedPipe
		})
		r.connect()
		r.ask(9, "tools/list", `{}`)
		r.Last().Die(errCrash)
		id := 10
		ping := func(during string, state supervised.State) {
			r.wantState(state)
			id++
			r.ask(id, "ping", `{}`)
			want(r, "answered "+during, lines(fmt.Sprint(id, " {}")), r.read())
		}
		ping("in the gap", supervised.StateRespawnPending)
		pass(100*time.Millisecond + 500*time.Millisecond)
		ping("while it is minted", supervised.StateConnecting)
		pass(time.Second)
		ping("while it starts", supervised.StateConnecting)
		pass(time.Second)
		ping("while it is sent what was kept", supervised.StateConnecting)
		pass(500 * time.Millisecond)
		ping("after a failed attempt", supervised.StateRespawnPending)
		pass(100 * time.Millisecond)
		r.wantState(supervised.StateServing)
		want(r, "no ping reaches it", lines("9 tools/list {}"), r.took(2))
	}, retrying)
}

// Other calls are refused at the same time, and a ping is no call once nothing is promised any more.
func TestQ7_PingAfterTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(r *rig)
		err  string
	}{
		{"Q7 Close", func(r *rig) { r.closes() }, "closed"},
		{"Q7 Close in the gap", func(r *rig) { r.Last().Die(errCrash); synctest.Wait(); r.closes() }, "closed"},
		{"Q7 budget spent", func(r *rig) {
			r.Last().Die(errCrash)
			pass(time.Second)
			r.Last().Die(errCrash)
		}, "exhausted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				tt.end(r)
				r.wantState(supervised.StateClosed)
				err := r.conn.Write(context.Background(), rawCall(1, "ping", `{}`))
				want(r, "refused", tt.err, kind(err))
				want(r, "answers", lines(), r.read())
			}, supervised.WithMaxRestarts(1))
		})
	}
}

// A ping of which the last peer dies fails with the others: nothing is there to be kept alive (B6).
func TestQ7_PingInFlightAtTheLastDeath(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.dies()
		r.ask(1, "ping", `{}`)
		r.dies()
		want(r, "answers", lines("1 exhausted, peer lost"), r.read())
	}, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
}

// An older session with the SDK's keep-alive at 20 ms lives through gaps of 150 ms, through a start and a handshake
// that take as long, and through a failed attempt. The first ping that fails would close it.
func TestQ7_SDKKeepAlive(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script func(r *rig, s *strict)
		gap    time.Duration
	}{
		{"Q7 delay", func(*rig, *strict) {}, 150 * time.Millisecond},
		{"Q7 slow start", func(r *rig, _ *strict) {
			r.onStart(1, func(context.Context, *peertest.Peer) error { time.Sleep(150 * time.Millisecond); return nil })
		}, 300 * time.Millisecond},
		{"Q7 slow handshake", func(r *rig, s *strict) { s.slow = 150 * time.Millisecond }, 300 * time.Millisecond},
		{"Q7 failed mint", func(r *rig, _ *strict) {
			r.onMint(1, func(context.Context, *peertest.Peer) error { return errCrash })
		}, 300 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				s := &strict{mute: -1}
				r.overStrict(s)
				tt.script(r, s)
				session := r.sdk(&mcp.ClientOptions{KeepAlive: 20 * time.Millisecond}, nil)
				pinged := func() bool {
					return slices.ContainsFunc(r.took(r.Last().Number), func(s string) bool { return strings.Contains(s, " ping") })
				}
				for i := range 3 {
					pass(110 * time.Millisecond)
					want(r, "pings go to the peer", true, pinged())
					r.Last().Die(errCrash)
					died := time.Now()
					r.hooks()
					want(r, "serves again", nil, r.WaitServing(context.Background()))
					if i == 0 {
						want(r, "gap", tt.gap, time.Since(died))
					}
				}
				_, err := session.ListTools(context.Background(), nil)
				want(r, "the session goes on", "ok", kind(err))
			}, supervised.WithRestartDelay(150*time.Millisecond), supervised.WithMaxRestarts(10))
		})
	}
}

// ask writes a call of the client, which must be taken.
func (r *rig) ask(id any, method, params string) {
	r.Helper()
	r.askIn(context.Background(), id, method, params)
}

// askIn is ask with a context.
func (r *rig) askIn(ctx context.Context, id any, method, params string) {
	r.Helper()
	if err := r.conn.Write(ctx, rawCall(id, method, params)); err != nil {
		r.Errorf("%v %s: refused: %v", id, method, err)
	}
}

// cancels writes the client's cancellation of a request.
func (r *rig) cancels(id any) error {
	return r.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%s,"reason":"r"}`, idText(id)))
}

// reply has the newest peer answer a call.
func (r *rig) reply(id any, result string) { r.Last().Reply(makeID(id), result) }

// onWrite has the peer of mint n call f before it takes the message that reads so in brief, and not take it where
// f fails.
func (r *rig) onWrite(n int, message string, f func(ctx context.Context, p *peertest.Peer) error) {
	otherwise := r.Fleet.OnMint
	r.Fleet.OnMint = func(ctx context.Context, p *peertest.Peer) error {
		if otherwise != nil {
			if err := otherwise(ctx, p); err != nil {
				return err
			}
		}
		if p.Number != n {
			return nil
		}
		before := p.OnWrite
		p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
			if before != nil {
				if err := before(ctx, m); err != nil {
					return err
				}
			}
			if brief(m) == message {
				return f(ctx, p)
			}
			return nil
		}
		return nil
	}
}

// took is what the peer of mint n was sent, once nothing moves any more: "1 tools/list {}", `"one" ping`,
// "notifications/initialized {}", "own initialize {...}" for a request of the supervisor's own, "0 {}" for an
// answer.
func (r *rig) took(n int) []string {
	synctest.Wait()
	took := lines()
	for _, m := range r.Peer(n).Got() {
		switch m := m.(type) {
		case *jsonrpc.Request:
			took = append(took, strings.TrimSpace(brief(m)+" "+string(m.Params)))
		case *jsonrpc.Response:
			if m.Error != nil {
				took = append(took, fmt.Sprintf("%s error: %v", idText(m.ID.Raw()), m.Error))
			} else {
				took = append(took, fmt.Sprintf("%s %s", idText(m.ID.Raw()), m.Result))
			}
		}
	}
	return took
}

// brief is a message by its id and its method.
func brief(m jsonrpc.Message) string {
	q, ok := m.(*jsonrpc.Request)
	switch {
	case !ok:
		return ""
	case !q.IsCall():
		return q.Method
	}
	return idText(q.ID.Raw()) + " " + q.Method
}

// briefs cuts lines of what a peer took after the method, and those of a journal after the hook's name.
func briefs(full []string) []string {
	short := lines()
	for _, s := range full {
		s, _, _ = strings.Cut(s, ": ")
		s, _, _ = strings.Cut(s, " {")
		short = append(short, s)
	}
	return short
}

// idText is an id as a message has it. No test has one as long as those of the supervisor.
func idText(id any) string {
	if s, ok := id.(string); ok {
		if len(s) > 24 {
			return "own"
		}
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(id)
}

func rawCall(id any, method, params string) *jsonrpc.Request {
	q := &jsonrpc.Request{ID: makeID(id), Method: method}
	if params != "" {
		q.Params = []byte(params)
	}
	return q
}

func makeID(v any) jsonrpc.ID {
	switch n := v.(type) {
	case int:
		v = float64(n)
	case int64:
		v = float64(n)
	}
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		panic(err)
	}
	return id
}

// logged is the ids in the records of a level.
func logged(log *logtest.Hook, level logrus.Level) []any {
	var ids []any
	for _, e := range log.AllEntries() {
		if e.Level == level {
			ids = append(ids, e.Data["id"])
		}
	}
	return ids
}
