package supervised_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

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
			wantLen(r, "asked", len(ids), asked)
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
		wantLen(r, "asked", 1, asked)
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
		wantLen(r, "asked", 2, asked)
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
			wantLen(r, "asked", 3, asked)
			r.Last().Say(&jsonrpc.Request{Method: "notifications/cancelled", Params: []byte(`{"reason":"enough","requestId":"0","_meta":{"k":[1]}}`)})
			said := r.said()
			wantLen(r, "said", 1, said)
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
			wantLen(r, "5 alone is open", 1, cancelled)
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
		wantLen(r, "said", 5, said)
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
		wantLen(r, "said", 3, said)
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
			//lint:ignore SA1019 deprecated by the protocol of now, and what older servers ask for
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

// last is the last of a list; "": it is empty.
func last(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[len(s)-1]
}
