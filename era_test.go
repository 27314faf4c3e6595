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
	slowly := func(d time.Duration) func(context.Context, *peertest.Peer) error {
		return func(context.Context, *peertest.Peer) error { time.Sleep(d); return nil }
	}
	says := func(r *rig) {
		r.Helper()
		want(r, "written", nil, r.notify("notifications/initialized", `{}`))
		synctest.Wait()
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
		{"while the replacement starts", func(r *rig) { r.onStart(1, slowly(time.Second)) }, func(r *rig) {
			r.Last().Die(errCrash)
			pass(500 * time.Millisecond)
			r.wantState(supervised.StateConnecting)
			says(r)
			pass(time.Second)
			r.crashes()
		}, 0},
		{"in its handshake, before the answer", func(r *rig) { r.onWrite(1, "own initialize", slowly(time.Second)) }, func(r *rig) {
			r.Last().Die(errCrash)
			pass(500 * time.Millisecond)
			r.wantState(supervised.StateConnecting)
			says(r)
			pass(time.Second)
			r.crashes()
		}, 0},
		{"in its handshake, while it is told", func(r *rig) { r.onWrite(1, "notifications/initialized", slowly(time.Second)) }, func(r *rig) {
			r.Last().Die(errCrash)
			pass(500 * time.Millisecond)
			r.wantState(supervised.StateConnecting)
			says(r)
			pass(time.Second)
			r.crashes()
		}, 0},
		{"in its handshake, after it was told", func(r *rig) { r.onWrite(1, "2 subscriptions/listen", slowly(time.Second)) }, func(r *rig) {
			r.ask(2, "subscriptions/listen", `{}`)
			r.Last().Die(errCrash)
			pass(500 * time.Millisecond)
			r.wantState(supervised.StateConnecting)
			says(r)
			pass(time.Second)
			r.crashes()
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
				want(r, "told", 1, len(told))
				if len(told) == 0 {
					r.FailNow()
				}
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

// said is what Read has returned since it was asked last, once nothing moves any more: the messages themselves.
func (r *rig) said() []jsonrpc.Message {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.answers
	r.answers = nil
	return said
}

// asked is the requests of servers in what Read has returned since it was asked last; there must be nothing else.
func (r *rig) asked() []*jsonrpc.Request {
	r.Helper()
	var asked []*jsonrpc.Request
	for _, m := range r.said() {
		q, ok := m.(*jsonrpc.Request)
		if !ok || !q.IsCall() {
			r.Errorf("read: %s", line(m))
			continue
		}
		asked = append(asked, q)
	}
	return asked
}

// cancellations is the ids in the notifications/cancelled that Read has returned since it was asked last; there must
// be nothing else.
func (r *rig) cancellations() []jsonrpc.ID {
	r.Helper()
	var ids []jsonrpc.ID
	for _, m := range r.said() {
		q, ok := m.(*jsonrpc.Request)
		if !ok || q.IsCall() || q.Method != "notifications/cancelled" {
			r.Errorf("read: %s", line(m))
			continue
		}
		var p struct {
			RequestID any `json:"requestId"`
		}
		want(r, "its params", nil, json.Unmarshal(q.Params, &p))
		ids = append(ids, makeID(p.RequestID))
	}
	return ids
}

// gives has the client answer a request of a server.
func (r *rig) gives(id jsonrpc.ID, result string) error {
	return r.conn.Write(context.Background(), &jsonrpc.Response{ID: id, Result: json.RawMessage(result)})
}

func TestE2_IDsOfServerRequests(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		seen := map[jsonrpc.ID]bool{}
		ids := []any{0, "0", 1, "", 9007199254740991, -1, "a \"\u00e9\n"}
		for life := range 3 {
			for _, id := range ids {
				r.Last().Say(rawCall(id, "roots/list", `{"_meta": {} }`))
			}
			var restored []string
			asked := r.asked()
			want(r, "asked", len(ids), len(asked))
			for i, q := range asked {
				want(r, "the rest of it", `roots/list {"_meta": {} }`, line(q))
				want(r, fmt.Sprint("used before: ", q.ID.Raw()), false, seen[q.ID])
				seen[q.ID] = true
				restored = append(restored, fmt.Sprintf("%s %d", idText(ids[i]), i))
				if i%2 == 0 {
					want(r, "answered", nil, r.gives(q.ID, fmt.Sprint(i)))
				} else {
					restored[i] = fmt.Sprintf("%s error: no", idText(ids[i]))
					want(r, "answered", nil, r.conn.Write(context.Background(), &jsonrpc.Response{ID: q.ID, Error: errors.New("no")}))
				}
			}
			want(r, "what the server gets", restored, r.took(life))
			r.crashes()
			want(r, "nothing is left to cancel", lines(), r.read())
		}
	}, supervised.WithRestartDelay(0))
}

// A client's own requests and a server's may have the same ids at the same time.
func TestE2_SameIDsInBothDirections(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.ask(0, "tools/call", `{}`)
		r.Last().Say(rawCall(0, "sampling/createMessage", `{}`))
		asked := r.asked()
		want(r, "asked", 1, len(asked))
		want(r, "answered", nil, r.gives(asked[0].ID, `"sample"`))
		r.reply(0, `"tool"`)
		want(r, "the client's answer", lines(`0 "tool"`), r.read())
		want(r, "what the server gets", lines("0 tools/call {}", `0 "sample"`), r.took(0))
	})
}

// A server that uses an id again before it has its answer gets both.
func TestE2_SameIDTwiceInOneLife(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.Last().Say(rawCall(7, "roots/list", ``), rawCall(7, "roots/list", ``))
		asked := r.asked()
		want(r, "asked", 2, len(asked))
		want(r, "different ids", false, asked[0].ID == asked[1].ID)
		r.gives(asked[1].ID, `"second"`)
		r.gives(asked[0].ID, `"first"`)
		want(r, "what the server gets", lines(`7 "second"`, `7 "first"`), r.took(0))
	})
}

func TestE2_ServersOwnCancellation(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		for life := range 3 {
			for _, id := range []any{0, "0", 5} {
				r.Last().Say(rawCall(id, "sampling/createMessage", `{}`))
			}
			asked := r.asked()
			want(r, "asked", 3, len(asked))
			r.Last().Say(&jsonrpc.Request{Method: "notifications/cancelled", Params: []byte(`{"reason":"enough","requestId":"0","_meta":{"k":[1]}}`)})
			said := r.said()
			want(r, "said", 1, len(said))
			var got map[string]any
			want(r, "params", nil, json.Unmarshal(said[0].(*jsonrpc.Request).Params, &got))
			want(r, "cancelled", map[string]any{
				"requestId": asked[1].ID.Raw(), "reason": "enough", "_meta": map[string]any{"k": []any{1.}},
			}, got)
			// The client need not answer it; if it does, the answer was on its way, and is the server's to drop.
			want(r, "answered late", nil, r.gives(asked[1].ID, `"late"`))
			want(r, "answered", nil, r.gives(asked[0].ID, `"zero"`))
			want(r, "what the server gets", `0 "zero"`, last(r.took(life)))
			r.crashes()
			cancelled := r.cancellations()
			want(r, "5 alone is open", 1, len(cancelled))
			want(r, "cancelled at the death", asked[2].ID.Raw(), cancelled[0].Raw())
		}
	}, supervised.WithRestartDelay(0))
}

// A cancellation that comes with the id of nothing that is open must not hit anything that is.
func TestE2_CancellationOfNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.Last().Say(rawCall(0, "sampling/createMessage", `{}`))
		open := r.asked()[0]
		r.ask(3, "tools/call", `{}`)
		for _, id := range []string{`1`, `"0"`, `3`, `null`, `[]`} {
			r.Last().Say(&jsonrpc.Request{Method: "notifications/cancelled", Params: []byte(`{"requestId":` + id + `}`)})
		}
		for _, m := range r.said() {
			want(r, "it hits the open request", false, strings.Contains(line(m), open.ID.Raw().(string)))
		}
		want(r, "answered", nil, r.gives(open.ID, `"zero"`))
		want(r, "what the server gets", lines("3 tools/call {}", `0 "zero"`), r.took(0))
		r.reply(3, `"three"`)
		want(r, "answers", lines(`3 "three"`), r.read())
	})
}

// The client is told that nobody waits any more, in order: behind the requests, before what the next life says.
func TestE2_DeadServersRequestsAreCancelled(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		for i := range 3 {
			r.Last().Say(rawCall(i, "elicitation/create", `{}`))
		}
		asked := r.asked()
		r.gives(asked[1].ID, `{}`)
		r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
			p.Say(rawCall(0, "elicitation/create", `{"life":1}`))
			return nil
		})
		r.Last().Say(rawCall(3, "elicitation/create", `{}`)) // with its last breath
		r.Last().Die(errCrash)
		pass(time.Second)
		said := r.said()
		want(r, "said", 5, len(said))
		first := said[0].(*jsonrpc.Request)
		want(r, "the last request", "elicitation/create", first.Method)
		open := map[any]bool{asked[0].ID.Raw(): true, asked[2].ID.Raw(): true, first.ID.Raw(): true}
		for _, m := range said[1:4] {
			q := m.(*jsonrpc.Request)
			want(r, "then", "notifications/cancelled", q.Method)
			var p map[string]any
			json.Unmarshal(q.Params, &p)
			want(r, "one that was open", true, open[p["requestId"]])
			delete(open, p["requestId"])
		}
		want(r, "then the next life", `elicitation/create {"life":1}`, line(said[4]))
	})
}

// Late answers to a dead server are swallowed, whenever they come: no error, and no peer gets them, the one least of
// all that has asked under the same id.
func TestE2_LateAnswers(t *testing.T) {
	slow := func(context.Context, *peertest.Peer) error { time.Sleep(time.Second); return nil }
	for _, tt := range []struct {
		name  string
		until func(r *rig)
		state supervised.State
	}{
		{"E2 in the gap", func(r *rig) { r.Last().Die(errCrash) }, supervised.StateRespawnPending},
		{"E2 while the replacement starts", func(r *rig) {
			r.onStart(1, slow)
			r.Last().Die(errCrash)
			pass(500 * time.Millisecond)
		}, supervised.StateConnecting},
		{"E2 in its handshake", func(r *rig) {
			r.onWrite(1, "own initialize", slow)
			r.Last().Die(errCrash)
			pass(500 * time.Millisecond)
		}, supervised.StateConnecting},
		{"E2 in the next life", func(r *rig) { r.crashes() }, supervised.StateServing},
		{"E2 in the life after that", func(r *rig) { r.crashes(); r.crashes() }, supervised.StateServing},
		{"E2 when it was restarted", func(r *rig) { r.Restart(errCrash) }, supervised.StateServing},
		{"E2 after Close", func(r *rig) { r.closes() }, supervised.StateClosed},
		{"E2 after Close in the gap", func(r *rig) {
			r.Last().Die(errCrash)
			synctest.Wait()
			r.closes()
		}, supervised.StateClosed},
		{"E2 after the budget's end", func(r *rig) {
			r.Fleet.OnMint = func(context.Context, *peertest.Peer) error { return errCrash }
			r.Last().Die(errCrash)
			pass(time.Minute)
		}, supervised.StateClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.overStrict(&strict{mute: -1})
				r.connect()
				r.shakesHands()
				r.Last().Say(rawCall(0, "roots/list", ``), rawCall("x", "roots/list", ``))
				asked := r.asked()
				tt.until(r)
				r.wantState(tt.state)
				want(r, "cancelled", 2, len(r.cancellations()))
				serving := tt.state == supervised.StateServing
				if serving {
					r.Last().Say(rawCall(0, "roots/list", ``))
				}
				next := r.asked()
				for range 2 {
					want(r, "answered", nil, r.gives(asked[0].ID, `"late"`))
					want(r, "answered", nil, r.conn.Write(context.Background(), &jsonrpc.Response{ID: asked[1].ID, Error: errors.New("late")}))
				}
				if serving {
					want(r, "answered", nil, r.gives(next[0].ID, `"in time"`))
				}
				pass(2 * time.Second)
				for life := range r.Minted() {
					got := lines()
					for _, s := range r.took(life) {
						if !strings.Contains(s, "initialize") {
							got = append(got, s)
						}
					}
					wanted := lines()
					if serving && life == r.Minted()-1 {
						wanted = lines(`0 "in time"`)
					}
					want(r, fmt.Sprint("answers that life ", life, " gets"), wanted, got)
				}
			})
		})
	}
}

// What a replacement asks before it serves waits until it does; with one that never serves it is gone, and nothing
// of it is seen.
func TestE2_RequestsOfAReplacementThatFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1})
		r.onWrite(1, "own initialize", func(ctx context.Context, p *peertest.Peer) error {
			p.Say(rawCall(0, "roots/list", `{"life":1}`))
			time.Sleep(time.Second)
			p.Die(errCrash)
			<-ctx.Done()
			return ctx.Err()
		})
		r.onWrite(2, "own initialize", func(_ context.Context, p *peertest.Peer) error {
			p.Say(rawCall(0, "roots/list", `{"life":2,"a":1}`), rawCall(1, "roots/list", `{"life":2,"b":1}`),
				&jsonrpc.Request{Method: "notifications/cancelled", Params: []byte(`{"requestId":1}`)})
			time.Sleep(time.Second)
			return nil
		})
		r.connect()
		r.shakesHands()
		r.Last().Die(errCrash)
		pass(500 * time.Millisecond)
		want(r, "while the first prepares", lines(), r.read())
		pass(time.Second)
		want(r, "when that has failed", lines(), r.read())
		r.wantState(supervised.StateConnecting)
		pass(time.Second)
		r.wantState(supervised.StateServing)
		said := r.said()
		want(r, "said", 3, len(said))
		want(r, "first", `roots/list {"life":2,"a":1}`, line(said[0]))
		want(r, "second", `roots/list {"life":2,"b":1}`, line(said[1]))
		want(r, "third", true, strings.Contains(line(said[2]), said[1].(*jsonrpc.Request).ID.Raw().(string)))
		want(r, "answered", nil, r.gives(said[0].(*jsonrpc.Request).ID, `"roots"`))
		want(r, "what it gets", `0 "roots"`, last(r.took(2)))
	})
}

// The ids that are given out lead nowhere where nobody has them: an answer that the client makes up is the peer's to
// judge, under whatever id it has.
func TestE2_AnswerToNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		want(r, "written", nil, r.gives(makeID(77), `"unasked"`))
		want(r, "what the server gets", lines(`77 "unasked"`), r.took(0))
	})
}

// A server that asks roots/list with the id 0 in each of its lives is answered each time, also while the client is
// still at its answer to the life before. The SDK never answers a request under an id that it is still handling.
func TestE2_SDKHandlerOfTheLifeBeforeStillRuns(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1})
		cancelled := make(chan int, 10)
		release := make(chan struct{})
		life := 0
		session := r.sdk(nil, func(c *mcp.Client) {
			c.AddRoots(&mcp.Root{URI: "file:///root"})
			c.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, q mcp.Request) (mcp.Result, error) {
					if method == "roots/list" && life != 3 {
						mine := life
						<-ctx.Done()
						cancelled <- mine
						<-release // it does not heed its context
					}
					return next(ctx, method, q)
				}
			})
		})
		for life = 0; life < 3; life++ {
			r.Last().Say(rawCall(0, "roots/list", ``))
			synctest.Wait()
			r.crashes()
			want(r, "cancelled: the handler of life", life, <-cancelled)
		}
		r.Last().Say(rawCall(0, "roots/list", ``))
		synctest.Wait()
		want(r, "the handlers still run, and life 3 has its answer", `0 {"roots":[{"uri":"file:///root"}]}`, last(r.took(3)))
		close(release)
		synctest.Wait()
		for life := range 4 {
			times := 0
			if life == 3 {
				times = 1
			}
			want(r, fmt.Sprint("answers that life ", life, " gets"), times, counted(r.took(life))[`0 {"roots":[{"uri":"file:///root"}]}`])
		}
		want(r, "the session goes on", "ok", kind(session.Ping(context.Background(), nil)))
	}, supervised.WithRestartDelay(0))
}

// last is the last of a list; "": it is empty.
func last(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[len(s)-1]
}
