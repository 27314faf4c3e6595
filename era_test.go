package supervised_test

import (
	"context"
	"encoding/json"
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
)

// A strict server speaks protocol 2025-11-25 and insists on its handshake: before notifications/initialized it
// refuses whatever else it is asked.
type strict struct {
	hello  func(life int) string // the result of initialize; nil: hello2025
	result map[string]string     // of other methods; without one: {}
	mute   int                   // the life that answers nothing but handshake and pings; -1: none
	slow   time.Duration         // how long initialize takes
	refuse []string              // methods that it answers with an error
}

const hello2025 = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"strict","version":"1"}}`

// overStrict has every peer be such a server.
func (r *rig) overStrict(s *strict) {
	r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
		p.Answer = func(q *jsonrpc.Request) *jsonrpc.Response { return s.answer(p, q) }
		return nil
	}
}

func (s *strict) answer(p *peertest.Peer, q *jsonrpc.Request) *jsonrpc.Response {
	a := &jsonrpc.Response{ID: q.ID, Result: json.RawMessage(`{}`)}
	switch {
	case q.Method == "server/discover", slices.Contains(s.refuse, q.Method):
		a.Result, a.Error = nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
	case q.Method == "initialize":
		a.Result = json.RawMessage(hello2025)
		if s.hello != nil {
			a.Result = json.RawMessage(s.hello(p.Number))
		}
		if s.slow > 0 {
			time.AfterFunc(s.slow, func() { p.Say(a) })
			return nil
		}
	case q.Method == "ping":
	case q.Method == "subscriptions/listen":
		return nil
	case !slices.Contains(p.Methods(), "notifications/initialized"):
		a.Result, a.Error = nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "not initialized"}
	case p.Number == s.mute:
		return nil
	default:
		if result, ok := s.result[q.Method]; ok {
			a.Result = json.RawMessage(result)
		}
	}
	return a
}

// sdk is a session of the SDK's client over the rig's transport; shape may prepare the client.
func (r *rig) sdk(o *mcp.ClientOptions, shape func(*mcp.Client)) *mcp.ClientSession {
	r.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, o)
	if shape != nil {
		shape(client)
	}
	session, err := client.Connect(context.Background(), r.Transport, nil)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { session.Close() }) // the keep-alive goes on until then
	return session
}

// initParams is what a client may well send; not a byte of it is anybody's to change.
const initParams = "{ \"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"roots\":{}} ,\"clientInfo\":{\"name\":\"\\u00e9\",\"version\":\"1\"},\"n\":1e400 }"

// A handshake as a client makes it, which the replacement is given in the same words.
const (
	ownInitialize = "own initialize " + initParams
	initialized   = "notifications/initialized {}"
)

// shakesHands has the client make its handshake, under the id 1.
func (r *rig) shakesHands() {
	r.Helper()
	r.ask(1, "initialize", initParams)
	want(r, "answer to initialize", 1, len(r.read()))
	want(r, "initialized", nil, r.notify("notifications/initialized", `{}`))
}

// crashes has the newest peer die, and waits for its replacement.
func (r *rig) crashes() {
	r.Helper()
	r.Last().Die(errCrash)
	synctest.Wait()
	want(r, "serves again", nil, r.WaitServing(context.Background()))
	synctest.Wait()
}

func TestE1_HandshakeIsReplayed(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1})
		r.connect()
		r.shakesHands()
		r.ask(2, "tools/list", `{}`)
		want(r, "answers", lines("2 {}"), r.read())
		want(r, "first life", lines("1 initialize "+initParams, initialized, "2 tools/list {}"), r.took(0))
		for life := 1; life <= 3; life++ {
			r.crashes()
			want(r, "nothing of that reaches the client", lines(), r.read())
			r.ask(2, "tools/list", `{}`)
			want(r, "answers", lines("2 {}"), r.read())
			want(r, "the next life", lines(ownInitialize, initialized, "2 tools/list {}"), r.took(life))
		}
		want(r, "changed", false, r.Stats().ServerChanged)
	})
}

// Before the replacement serves: calls that were kept come behind the handshake, and OnReconnect behind both.
func TestE1_BeforeAnythingElse(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: 0})
		r.OnReconnect(func(context.Context) error { return r.notify("notifications/mine", `{}`) })
		r.connect()
		r.shakesHands()
		r.ask(2, "tools/list", `{}`)
		r.ask(3, "resources/read", `{}`)
		r.crashes()
		want(r, "second life", lines(ownInitialize, initialized, "2 tools/list {}", "3 resources/read {}", "notifications/mine {}"), r.took(1))
		want(r, "answers", lines("2 {}", "3 {}"), r.read())
	}, retrying)
}

// Ids of the supervisor's own are its alone, over all lives; answers under them are nobody else's, late ones and
// doubled ones included.
func TestE1_OwnIDs(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1})
		r.connect()
		r.shakesHands()
		r.ask(2, "logging/setLevel", `{"level":"info"}`)
		r.ask(3, "resources/subscribe", `{"uri":"a"}`)
		r.read()
		seen := map[jsonrpc.ID]bool{}
		for life := 1; life <= 5; life++ {
			r.crashes()
			for _, m := range r.Last().Got() {
				q := m.(*jsonrpc.Request)
				if !q.IsCall() {
					continue
				}
				_, text := q.ID.Raw().(string)
				want(r, "a string", true, text)
				want(r, "used before", false, seen[q.ID])
				seen[q.ID] = true
			}
			for id := range seen { // of this life and of all before it
				r.Last().Reply(id, `"again"`)
				r.Last().Say(&jsonrpc.Response{ID: id, Error: errors.New("no")})
			}
			want(r, "what the client gets of it", lines(), r.read())
			r.wantState(supervised.StateServing)
		}
		want(r, "ids", 3*5, len(seen))
	}, supervised.WithMaxRestarts(10))
}

// Each life gets notifications/initialized once, whenever the client says it.
func TestE1_InitializedOnceInEachLife(t *testing.T) {
	says := func(r *rig) {
		r.Helper()
		want(r, "written", nil, r.notify("notifications/initialized", `{}`))
		synctest.Wait()
	}
	whileConnecting := func(r *rig) {
		r.Helper()
		r.Last().Die(errCrash)
		pass(500 * time.Millisecond)
		r.wantState(supervised.StateConnecting)
		says(r)
		pass(time.Second)
		r.crashes()
	}
	for _, tt := range []struct {
		name   string
		script func(r *rig)
		run    func(r *rig) // from the answer to initialize on; three lives
		first  int          // how many the first life got
	}{
		{"in time", nil, func(r *rig) {
			says(r)
			r.crashes()
			r.crashes()
		}, 1},
		{"in the gap", nil, func(r *rig) {
			r.Last().Die(errCrash)
			r.wantState(supervised.StateRespawnPending)
			says(r)
			pass(time.Second)
			r.crashes()
		}, 0},
		{"while the replacement starts", func(r *rig) { r.onStart(1, stubborn(time.Second)) }, whileConnecting, 0},
		{"in its handshake, before the answer", func(r *rig) { r.onWrite(1, "own initialize", stubborn(time.Second)) }, whileConnecting, 0},
		{"in its handshake, while it is told", func(r *rig) { r.onWrite(1, "notifications/initialized", stubborn(time.Second)) }, whileConnecting, 0},
		{"in its handshake, after it was told", func(r *rig) { r.onWrite(1, "2 subscriptions/listen", stubborn(time.Second)) }, func(r *rig) {
			r.ask(2, "subscriptions/listen", `{}`)
			whileConnecting(r)
		}, 0},
		{"when it serves", nil, func(r *rig) {
			r.crashes()
			says(r)
			r.crashes()
		}, 0},
		{"inside OnReconnect", nil, func(r *rig) {
			remove := r.OnReconnect(func(context.Context) error { return r.notify("notifications/initialized", `{}`) })
			r.crashes()
			remove()
			r.crashes()
		}, 0},
		{"after two deaths", nil, func(r *rig) {
			r.crashes()
			r.crashes()
			says(r)
		}, 0},
		{"never", nil, func(r *rig) {
			r.crashes()
			r.crashes()
		}, 0},
	} {
		t.Run("E1 "+tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.overStrict(&strict{mute: -1})
				if tt.script != nil {
					tt.script(r)
				}
				r.connect()
				r.ask(1, "initialize", initParams)
				want(r, "answer to initialize", lines("1 "+hello2025), r.read())
				tt.run(r)
				r.wantState(supervised.StateServing)
				want(r, "lives", 3, r.Minted())
				for life, times := range []int{tt.first, 1, 1} {
					want(r, fmt.Sprint("told, in life ", life), times, counted(briefs(r.took(life)))["notifications/initialized"])
				}
				for life := 1; life < 3; life++ {
					want(r, "handshake", lines("own initialize", "notifications/initialized"), briefs(r.took(life))[:2])
				}
				r.ask(3, "tools/list", `{}`)
				want(r, "answers", lines("3 {}"), r.read())
			})
		})
	}
}

// The handshake that was not complete at a death goes on with the replacement: the client gets its answer from that
// one, and tells it notifications/initialized, once.
func TestE1_InitializeInFlight(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := &strict{mute: -1, slow: time.Second}
		r.overStrict(s)
		r.connect()
		r.ask(1, "initialize", initParams)
		r.crashes()
		want(r, "answers", lines(), r.read())
		want(r, "second life", lines("1 initialize "+initParams), r.took(1))
		pass(500 * time.Millisecond)
		r.crashes()
		want(r, "third life", lines("1 initialize "+initParams), r.took(2))
		pass(time.Second)
		want(r, "answers", lines("1 "+hello2025), r.read())
		want(r, "initialized", nil, r.notify("notifications/initialized", `{}`))
		want(r, "third life", lines("1 initialize "+initParams, initialized), r.took(2))
		s.slow = 0
		r.crashes()
		want(r, "fourth life, by the supervisor", lines(ownInitialize, initialized), r.took(3))
		want(r, "answers", lines(), r.read())
	})
}

// Its answer passes while the replacement is still being prepared, and so does what the client says to that.
func TestE1_InitializeAnsweredWhileConnecting(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: 1})
		r.onWrite(0, "1 initialize", func(_ context.Context, p *peertest.Peer) error { p.Answer = nil; return nil })
		r.onWrite(1, "2 subscriptions/listen", func(context.Context, *peertest.Peer) error { time.Sleep(time.Second); return nil })
		r.OnReconnect(func(context.Context) error { return r.notify("notifications/mine", `{}`) })
		r.connect()
		r.ask(1, "initialize", initParams)
		r.ask(2, "subscriptions/listen", `{}`)
		r.Last().Die(errCrash)
		pass(500 * time.Millisecond)
		r.wantState(supervised.StateConnecting)
		want(r, "answers", lines("1 "+hello2025), r.read())
		want(r, "initialized", nil, r.notify("notifications/initialized", `{}`))
		pass(time.Second)
		r.wantState(supervised.StateServing)
		want(r, "second life", lines("1 initialize "+initParams, "2 subscriptions/listen {}", initialized, "notifications/mine {}"), r.took(1))
		r.crashes()
		want(r, "third life", lines(ownInitialize, initialized, "2 subscriptions/listen {}", "notifications/mine {}"), r.took(2))
	})
}

func TestE1_InitializeInFlightIsCancelled(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.ask(1, "initialize", initParams)
		r.Last().Die(errCrash)
		synctest.Wait()
		r.cancels(1)
		pass(time.Second)
		r.wantState(supervised.StateServing)
		want(r, "second life", lines(), r.took(1))
		want(r, "answers", lines("1 context canceled"), r.read())
	})
}

// A handshake that the server refused is none.
func TestE1_RefusedHandshakeIsNotReplayed(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1, refuse: []string{"initialize"}})
		r.connect()
		r.ask(1, "initialize", initParams)
		want(r, "answers", lines("1 method not found"), r.read())
		r.crashes()
		want(r, "second life", lines(), r.took(1))
	})
}

// A replacement whose handshake goes wrong is a failed attempt: killed, told to OnError, paid for by the budget, with
// no OnClose. What was kept stays kept.
func TestE1_HandshakeThatFails(t *testing.T) {
	refusal := &jsonrpc.Error{Code: -32600, Message: "not you"}
	die := func(_ context.Context, p *peertest.Peer) error { p.Answer = nil; p.Die(errCrash); return nil }
	for _, tt := range []struct {
		name   string
		script func(r *rig)
		takes  time.Duration
		err    error  // is matched, or
		text   string // is contained
	}{
		{name: "E1 refused", script: func(r *rig) {
			r.answers1("initialize", func(q *jsonrpc.Request) *jsonrpc.Response { return &jsonrpc.Response{ID: q.ID, Error: refusal} })
		}, err: refusal},
		{name: "E1 older protocol", script: func(r *rig) {
			r.answers1("initialize", func(q *jsonrpc.Request) *jsonrpc.Response {
				return &jsonrpc.Response{ID: q.ID, Result: json.RawMessage(strings.Replace(hello2025, "2025-11-25", "2025-06-18", 1))}
			})
		}, text: "2025-06-18"},
		{name: "E1 newer protocol", script: func(r *rig) {
			r.answers1("initialize", func(q *jsonrpc.Request) *jsonrpc.Response {
				return &jsonrpc.Response{ID: q.ID, Result: json.RawMessage(strings.Replace(hello2025, "2025-11-25", "2026-07-28", 1))}
			})
		}, text: "2026-07-28"},
		{name: "E1 no protocol", script: func(r *rig) {
			r.answers1("initialize", func(q *jsonrpc.Request) *jsonrpc.Response {
				return &jsonrpc.Response{ID: q.ID, Result: json.RawMessage(`{}`)}
			})
		}, text: "protocol"},
		{name: "E1 silent", script: func(r *rig) {
			r.answers1("initialize", func(*jsonrpc.Request) *jsonrpc.Response { return nil })
		}, takes: 30 * time.Second, err: context.DeadlineExceeded},
		{name: "E1 answers something else", script: func(r *rig) {
			r.answers1("initialize", func(*jsonrpc.Request) *jsonrpc.Response {
				return &jsonrpc.Response{ID: makeID(1), Result: json.RawMessage(hello2025)} // the client's own, of long ago
			})
		}, takes: 30 * time.Second, err: context.DeadlineExceeded},
		{name: "E1 does not read", script: func(r *rig) {
			r.onWrite(1, "own initialize", func(ctx context.Context, _ *peertest.Peer) error { <-ctx.Done(); return ctx.Err() })
		}, takes: 30 * time.Second, err: context.DeadlineExceeded},
		{name: "E1 dies of initialize", script: func(r *rig) { r.onWrite(1, "own initialize", die) }, err: errCrash},
		{name: "E1 dies of initialized", script: func(r *rig) {
			r.onWrite(1, "notifications/initialized", func(ctx context.Context, p *peertest.Peer) error { p.Die(errCrash); <-ctx.Done(); return ctx.Err() })
		}, err: errCrash},
		{name: "E1 dies of setLevel", script: func(r *rig) {
			r.onWrite(1, "own logging/setLevel", func(ctx context.Context, p *peertest.Peer) error { p.Die(errCrash); <-ctx.Done(); return ctx.Err() })
		}, err: errCrash},
		{name: "E1 does not read setLevel", script: func(r *rig) {
			r.onWrite(1, "own logging/setLevel", func(ctx context.Context, _ *peertest.Peer) error { <-ctx.Done(); return ctx.Err() })
		}, takes: 30 * time.Second, err: context.DeadlineExceeded},
		{name: "E1 dies of subscribe", script: func(r *rig) {
			r.onWrite(1, "own resources/subscribe", func(context.Context, *peertest.Peer) error { return io.ErrClosedPipe })
		}, takes: 250 * time.Millisecond, err: io.ErrClosedPipe},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.overStrict(&strict{mute: 0})
				tt.script(r)
				r.connect()
				r.shakesHands()
				r.ask(2, "logging/setLevel", `{"level":"info"}`)
				r.ask(3, "resources/subscribe", `{"uri":"a"}`)
				r.reply(2, `{}`)
				r.reply(3, `{}`)
				r.ask(4, "tools/list", `{}`)
				r.ask(5, "tools/call", `{}`)
				r.read()
				r.Last().Die(errCrash)
				want(r, "failed", lines("5 peer lost"), r.read())
				pass(100 * time.Millisecond)
				if tt.takes > 0 {
					r.wantState(supervised.StateConnecting)
					pass(tt.takes - 1)
					r.wantState(supervised.StateConnecting)
					pass(1)
				}
				r.wantState(supervised.StateRespawnPending)
				want(r, "promised", true, r.Reconnecting())
				want(r, "killed", true, closed(r.Peer(1)))
				told := r.errors()
				wantLen(r, "told", 1, told)
				if tt.err != nil {
					wantIs(r, "OnError", told[0], tt.err)
				}
				if !strings.Contains(told[0].Error(), tt.text) {
					r.Errorf("%q is not in %v", tt.text, told[0])
				}
				want(r, "spent", 2, r.Stats().RestartsInWindow)
				want(r, "hooks", lines("close", "error"), briefs(r.hooks()))
				want(r, "kept calls were not sent to it", false, slices.Contains(r.took(1), "4 tools/list {}"))
				want(r, "the generation that serves", 0, r.Stats().Generation)

				pass(100 * time.Millisecond)
				r.wantState(supervised.StateServing)
				want(r, "third life", lines(
					ownInitialize, initialized, `own logging/setLevel {"level":"info"}`, `own resources/subscribe {"uri":"a"}`, "4 tools/list {}",
				), r.took(2))
				want(r, "answers", lines("4 {}"), r.read())
				want(r, "hooks", lines("reconnect"), r.hooks())
			}, retrying)
		})
	}
}

func TestE1_HandshakeThatFailsSpendsTheBudget(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1, hello: func(life int) string {
			if life > 0 {
				return `{}`
			}
			return hello2025
		}})
		r.connect()
		r.shakesHands()
		r.Last().Die(errCrash)
		pass(time.Minute)
		r.wantState(supervised.StateClosed)
		want(r, "lives", 4, r.Minted())
		want(r, "hooks", lines("close", "error", "error", "error", "error", "close"), briefs(r.hooks()))
		want(r, "Err", "exhausted", kind(r.Err()))
	})
}

// Without a connect timeout a replacement may take as long as it likes, and Close ends that.
func TestE1_NoConnectTimeout(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1})
		r.answers1("initialize", func(*jsonrpc.Request) *jsonrpc.Response { return nil })
		r.connect()
		r.shakesHands()
		r.Last().Die(errCrash)
		pass(24 * time.Hour)
		r.wantState(supervised.StateConnecting)
		r.closes()
		want(r, "hooks", lines("close: crash", "close"), r.hooks())
	}, supervised.WithConnectTimeout(0))
}

// A step of a session before the death: a request, and how it ended.
type step struct{ method, params, end string }

// What is renewed is what the server of before had granted and the client has not taken back.
func TestE1_WhatIsSetAgain(t *testing.T) {
	const (
		granted  = `{}`
		refused  = "refused"
		pending  = "pending"  // not answered before the death
		rejected = "rejected" // by the transport
	)
	level := func(l, end string) step { return step{"logging/setLevel", `{ "level":"` + l + `"}`, end} }
	subscribe := func(u, end string) step { return step{"resources/subscribe", `{"uri": "` + u + `"}`, end} }
	unsubscribe := func(u, end string) step { return step{"resources/unsubscribe", `{"uri":"` + u + `" }`, end} }
	levelled := func(l string) string { return `own logging/setLevel { "level":"` + l + `"}` }
	subscribed := func(u string) string { return `own resources/subscribe {"uri": "` + u + `"}` }
	for _, tt := range []struct {
		name  string
		steps []step
		again []string
	}{
		{"nothing", nil, lines()},
		{"a level", []step{level("info", granted)}, lines(levelled("info"))},
		{"the last level", []step{level("info", granted), level("debug", granted)}, lines(levelled("debug"))},
		{"the last level that was accepted", []step{level("info", granted), level("loud", refused)}, lines(levelled("info"))},
		{"no level that was refused", []step{level("loud", refused)}, lines()},
		{"no level in flight", []step{level("info", granted), level("debug", pending)}, lines(levelled("info"))},
		{"the same level twice", []step{level("info", granted), level("debug", granted), level("info", granted)}, lines(levelled("info"))},
		{"subscriptions, in order", []step{subscribe("b", granted), subscribe("a", granted), subscribe("c", granted)},
			lines(subscribed("b"), subscribed("a"), subscribed("c"))},
		{"the level first", []step{subscribe("a", granted), level("info", granted)}, lines(levelled("info"), subscribed("a"))},
		{"no subscription that was refused", []step{subscribe("a", refused), subscribe("b", granted)}, lines(subscribed("b"))},
		{"no subscription in flight", []step{subscribe("a", pending), subscribe("b", granted)}, lines(subscribed("b"))},
		{"a subscription once", []step{subscribe("a", granted), subscribe("a", granted)}, lines(subscribed("a"))},
		{"a subscription that was refused the second time", []step{subscribe("a", granted), subscribe("a", refused)}, lines(subscribed("a"))},
		{"no subscription that was ended", []step{subscribe("a", granted), subscribe("b", granted), unsubscribe("a", granted)}, lines(subscribed("b"))},
		{"one that was ended, made twice", []step{subscribe("a", granted), subscribe("a", granted), unsubscribe("a", granted)}, lines()},
		{"one that was ended and made again", []step{subscribe("a", granted), unsubscribe("a", granted), subscribe("a", granted)}, lines(subscribed("a"))},
		{"the end of one that was not there", []step{subscribe("a", granted), unsubscribe("b", granted)}, lines(subscribed("a"))},
		{"one whose end the server refused", []step{subscribe("a", granted), unsubscribe("a", refused)}, lines(subscribed("a"))},
		{"one whose end was not sent", []step{subscribe("a", granted), unsubscribe("a", rejected)}, lines(subscribed("a"))},
		{"uris that differ in their escapes alone", []step{
			{"resources/subscribe", `{"uri":"\u0061"}`, granted}, unsubscribe("a", granted),
		}, lines()},
	} {
		t.Run("E1 "+tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
					p.OnWrite = func(_ context.Context, m jsonrpc.Message) error {
						if q := m.(*jsonrpc.Request); q.Extra == rejected {
							return &jsonrpc.Error{Code: -32005, Message: "rejected"}
						}
						return nil
					}
					p.Answer = func(q *jsonrpc.Request) *jsonrpc.Response {
						switch a := (&jsonrpc.Response{ID: q.ID, Result: json.RawMessage(granted)}); {
						case q.Method == "initialize":
							a.Result = json.RawMessage(hello2025)
							return a
						case q.Extra == pending:
							return nil
						case q.Extra == refused:
							a.Result, a.Error = nil, errors.New("no")
							return a
						default:
							return a
						}
					}
					return nil
				}
				r.connect()
				r.shakesHands()
				for i, s := range tt.steps {
					q := rawCall(2+i, s.method, s.params)
					q.Extra = s.end
					err := r.conn.Write(context.Background(), q)
					want(r, "taken", s.end != rejected, err == nil)
					synctest.Wait()
				}
				for life := 1; life <= 3; life++ {
					r.crashes()
					want(r, "handshake", lines(ownInitialize, initialized), r.took(life)[:2])
					want(r, fmt.Sprint("set again, in life ", life), append(lines(), tt.again...), append(lines(), r.took(life)[2:]...))
				}
			})
		})
	}
}

// Requests that overlap count in the order of the answers: with the server in order, what was asked last.
func TestE1_SubscriptionsThatOverlap(t *testing.T) {
	for _, tt := range []struct {
		name    string
		methods []string // of requests for one resource, written before any is answered
		again   int
	}{
		{"E1 subscribe, unsubscribe", lines("resources/subscribe", "resources/unsubscribe"), 0},
		{"E1 subscribe, unsubscribe, subscribe", lines("resources/subscribe", "resources/unsubscribe", "resources/subscribe"), 1},
		{"E1 subscribe, subscribe, unsubscribe", lines("resources/subscribe", "resources/subscribe", "resources/unsubscribe"), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
					p.Answer = func(q *jsonrpc.Request) *jsonrpc.Response {
						if q.Method == "initialize" {
							return &jsonrpc.Response{ID: q.ID, Result: json.RawMessage(hello2025)}
						}
						return nil
					}
					return nil
				}
				r.connect()
				r.shakesHands()
				for i, method := range tt.methods {
					r.ask(2+i, method, `{"uri":"a"}`)
				}
				for i := range tt.methods {
					r.reply(2+i, `{}`)
				}
				want(r, "answers", len(tt.methods), len(r.read()))
				r.crashes()
				want(r, "set again", tt.again, len(r.took(1))-2)
			})
		})
	}
}

// The end of a subscription is the same in a later life as in the one that it was made in.
func TestE1_TakenBackInALaterLife(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1})
		r.connect()
		r.shakesHands()
		r.ask(2, "resources/subscribe", `{"uri":"a"}`)
		r.ask(3, "resources/subscribe", `{"uri":"b"}`)
		r.ask(4, "logging/setLevel", `{"level":"info"}`)
		r.read()
		r.crashes()
		r.ask(5, "resources/unsubscribe", `{"uri":"a"}`)
		r.ask(6, "logging/setLevel", `{"level":"debug"}`)
		r.read()
		r.crashes()
		want(r, "third life", lines(ownInitialize, initialized, `own logging/setLevel {"level":"debug"}`, `own resources/subscribe {"uri":"b"}`), r.took(2))
	})
}

// A replacement that refuses what the one before granted serves all the same; that is logged, without a word of the
// user's.
func TestE1_RefusedRenewals(t *testing.T) {
	for name, script := range map[string]func(r *rig, method string){
		"answered with an error": func(r *rig, method string) {
			r.answers1(method, func(q *jsonrpc.Request) *jsonrpc.Response {
				return &jsonrpc.Response{ID: q.ID, Error: errors.New("secret")}
			})
		},
		"answered with an error, late": func(r *rig, method string) {
			r.answers1(method, func(q *jsonrpc.Request) *jsonrpc.Response {
				time.AfterFunc(time.Minute, func() { r.Last().Say(&jsonrpc.Response{ID: q.ID, Error: errors.New("secret")}) })
				return nil
			})
		},
		"rejected by the transport": func(r *rig, method string) {
			r.onWrite(1, "own "+method, func(context.Context, *peertest.Peer) error {
				return &jsonrpc.Error{Code: -32005, Message: "secret"}
			})
		},
	} {
		for _, method := range []string{"logging/setLevel", "resources/subscribe"} {
			t.Run("E1 "+name+" "+method, func(t *testing.T) {
				logger, log := logtest.NewNullLogger()
				inBubble(t, func(r *rig) {
					r.overStrict(&strict{mute: -1})
					script(r, method)
					r.connect()
					r.shakesHands()
					r.ask(2, "logging/setLevel", `{"level":"secret"}`)
					r.ask(3, "resources/subscribe", `{"uri":"secret"}`)
					r.ask(4, "resources/subscribe", `{"uri":"secret too"}`)
					r.read()
					log.Reset()
					r.Last().Die(errCrash)
					pass(100 * time.Millisecond)
					r.wantState(supervised.StateServing)
					pass(time.Hour)
					want(r, "hooks", lines("close: crash", "reconnect"), r.hooks())
					want(r, "restarts", 1, r.Stats().Restarts)
					want(r, "what the client gets of it", lines(), r.read())
					refusals := 0
					for _, e := range log.AllEntries() {
						text, _ := e.String()
						want(r, "a secret in "+text, false, strings.Contains(text, "secret"))
						if e.Level <= logrus.WarnLevel && !strings.Contains(text, "restarting") {
							refusals++
						}
					}
					times := map[string]int{"logging/setLevel": 1, "resources/subscribe": 2}[method]
					want(r, "refusals in the log", times, refusals)
				}, supervised.WithLogger(logger))
			})
		}
	}
}

// A server that pings before it answers is answered for the client, which may not be there to do it.
func TestE1_PingOfTheServer(t *testing.T) {
	ping := func(_ context.Context, p *peertest.Peer) error {
		p.Say(rawCall("p", "ping", ``), rawCall(0, "ping", `{}`))
		time.Sleep(time.Second)
		return nil
	}
	for _, message := range []string{
		"own initialize", "notifications/initialized", "own logging/setLevel", "own resources/subscribe", "4 tools/list",
	} {
		t.Run("E1 at "+message, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.overStrict(&strict{mute: 0})
				r.onWrite(1, message, ping)
				r.connect()
				r.shakesHands()
				r.ask(2, "logging/setLevel", `{"level":"info"}`)
				r.ask(3, "resources/subscribe", `{"uri":"a"}`)
				r.reply(2, `{}`)
				r.reply(3, `{}`)
				r.ask(4, "tools/list", `{}`)
				r.read()
				r.Last().Die(errCrash)
				pass(500 * time.Millisecond)
				r.wantState(supervised.StateConnecting)
				pongs := slices.DeleteFunc(r.took(1), func(s string) bool { return s != `"p" {}` && s != `0 {}` })
				slices.Sort(pongs)
				want(r, "answered at once", lines(`"p" {}`, `0 {}`), pongs)
				pass(time.Second)
				r.wantState(supervised.StateServing)
				want(r, "what the client gets", lines("4 {}"), r.read())
			}, retrying)
		})
	}
}

// Under the SDK's client, which fails to connect at the first thing that goes wrong.
func TestE1_SDKHandshakeOverADeath(t *testing.T) {
	for _, tt := range []struct {
		name, message string
		die           func(ctx context.Context, p *peertest.Peer) error
	}{
		{"E1 initialize is read, and not answered", "2 initialize", func(_ context.Context, p *peertest.Peer) error {
			p.Answer = nil
			time.AfterFunc(time.Second, func() { p.Die(errCrash) })
			return nil
		}},
		{"E1 the Write of initialize fails", "2 initialize", func(_ context.Context, p *peertest.Peer) error {
			p.Die(errCrash)
			return io.ErrClosedPipe
		}},
		{"E1 it dies with its answer", "2 initialize", func(_ context.Context, p *peertest.Peer) error {
			time.AfterFunc(0, func() { p.Die(errCrash) })
			return nil
		}},
		{"E1 the Write of initialized fails", "notifications/initialized", func(_ context.Context, p *peertest.Peer) error {
			p.Die(errCrash)
			return io.ErrClosedPipe
		}},
		{"E1 initialized is the last that it reads", "notifications/initialized", func(_ context.Context, p *peertest.Peer) error {
			p.Die(errCrash)
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.overStrict(&strict{mute: -1})
				r.onWrite(0, tt.message, tt.die)
				session := r.sdk(nil, nil)
				pass(time.Second)
				r.wantState(supervised.StateServing)
				want(r, "lives", 2, r.Minted())
				_, err := session.ListTools(context.Background(), nil)
				want(r, "a call", "ok", kind(err))
				want(r, "told, in the second life", 1, counted(briefs(r.took(1)))["notifications/initialized"])
			})
		})
	}
}

// answers1 has the first replacement answer a method otherwise.
func (r *rig) answers1(method string, f func(*jsonrpc.Request) *jsonrpc.Response) {
	otherwise := r.Fleet.OnMint
	r.Fleet.OnMint = func(ctx context.Context, p *peertest.Peer) error {
		if err := otherwise(ctx, p); err != nil || p.Number != 1 {
			return err
		}
		before := p.Answer
		p.Answer = func(q *jsonrpc.Request) *jsonrpc.Response {
			if q.Method == method {
				return f(q)
			}
			return before(q)
		}
		return nil
	}
}

// closed reports whether a peer was closed or killed.
func closed(p *peertest.Peer) bool {
	select {
	case <-p.Closed():
		return true
	default:
		return false
	}
}
