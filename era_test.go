package supervised_test

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

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
