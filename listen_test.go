package supervised_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

// listen opens a stream as a client of the SDK does: it writes the request and forgets it.
func (r *rig) listen(id any, params string) error {
	made, err := jsonrpc.MakeID(id)
	if err != nil {
		r.Fatal(err)
	}
	return r.conn.Write(context.Background(), &jsonrpc.Request{ID: made, Method: "subscriptions/listen", Params: json.RawMessage(params)})
}

// sent is what was written to a peer: method, id and params.
func sent(p *peertest.Peer) []string {
	var lines []string
	for _, m := range p.Got() {
		if q, ok := m.(*jsonrpc.Request); ok {
			lines = append(lines, fmt.Sprintf("%s %v %s", q.Method, q.ID.Raw(), q.Params))
		}
	}
	return lines
}

func TestR1_SentAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		tools := `{"notifications":{"toolsListChanged":true},  "_meta":{"a":1}}`
		prompts := `{"notifications":{"promptsListChanged":true},"big":12345678901234567890}`
		want(t, "open", nil, r.listen("one", tools))
		r.call("tools/list") // kept, and later than a stream
		r.call("tools/call") // not kept
		want(t, "open", nil, r.listen(float64(7), prompts))
		want(t, "open", nil, r.listen("three", `{}`))
		want(t, "streams", 3, r.Stats().Streams)
		want(t, "in flight", 2, r.Stats().InFlight)

		streams := lines("subscriptions/listen one "+tools, "subscriptions/listen 7 "+prompts, "subscriptions/listen three {}")
		r.Last().Die(errCrash)
		want(t, "failed", lines("2 peer lost"), r.read())
		want(t, "streams", 3, r.Stats().Streams)
		pass(time.Second)
		want(t, "sent again, behind the kept calls", append(lines("tools/list 1 {}"), streams...), sent(r.Last()))
		r.Last().Reply(number(1), `1`)
		want(t, "answers", lines("1 1"), r.read())

		want(t, "a fourth", nil, r.listen("four", `{}`))
		streams = append(streams, "subscriptions/listen four {}")
		r.Restart(errBoom)
		synctest.Wait()
		want(t, "sent again after a restart", streams, sent(r.Last()))
		r.Last().Die(errCrash)
		pass(time.Second)
		want(t, "sent again and again", streams, sent(r.Last()))
		want(t, "answers", nil, r.read())
		want(t, "streams", 4, r.Stats().Streams)

		r.Last().Say(notice("on the stream"))
		want(t, "its notifications", lines(`notifications/message "on the stream"`), r.read())
	}, supervised.WithRetryLostRequests())
}

func TestR1_BeforeAnythingElse(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnReconnect(func(context.Context) error { return r.notify("notifications/hello", `{}`) })
		r.connect()
		r.listen("one", `{}`)
		r.Last().Die(errCrash)
		pass(time.Second)
		want(t, "sent", lines("subscriptions/listen", "notifications/hello"), r.Last().Methods())
	})
}

// A replacement that fails before or while it is sent the streams leaves them to the one after.
func TestR1_ThroughAFailedReplacement(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnMint = func(_ context.Context, p *peertest.Peer) error {
			switch p.Number {
			case 1:
				return errBoom
			case 2:
				p.OnWrite = func(_ context.Context, m jsonrpc.Message) error {
					if len(p.Got()) > 0 {
						return errCrash
					}
					return nil
				}
			}
			return nil
		}
		r.connect()
		r.listen("one", `{}`)
		r.listen("two", `{}`)
		r.Last().Die(errCrash)
		pass(time.Second)
		r.wantState(supervised.StateServing)
		want(t, "sent", lines("subscriptions/listen one {}", "subscriptions/listen two {}"), sent(r.Last()))
		want(t, "minted", 4, r.Minted())
		want(t, "answers", nil, r.read())
	})
}

// A stream whose request was being written when the peer died is open, and its Write says so.
func TestR1_DiedUnderIt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.Last().OnWrite = func(context.Context, jsonrpc.Message) error { return errCrash }
		want(t, "written", nil, r.listen("one", `{}`))
		pass(time.Second)
		want(t, "sent", lines("subscriptions/listen one {}"), sent(r.Last()))
	})
}
