package supervised_test

import (
	"context"
	"encoding/json"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised/internal/peertest"
)

// onMint scripts mint n.
func (r *rig) onMint(n int, f func(ctx context.Context, p *peertest.Peer) error) {
	r.Fleet.OnMint = onPeer(n, f, r.Fleet.OnMint)
}

// onStart scripts the start of the peer of mint n.
func (r *rig) onStart(n int, f func(ctx context.Context, p *peertest.Peer) error) {
	r.Fleet.OnStart = onPeer(n, f, r.Fleet.OnStart)
}

func onPeer(n int, f, otherwise func(context.Context, *peertest.Peer) error) func(context.Context, *peertest.Peer) error {
	return func(ctx context.Context, p *peertest.Peer) error {
		switch {
		case p.Number == n:
			return f(ctx, p)
		case otherwise != nil:
			return otherwise(ctx, p)
		}
		return nil
	}
}

// failures is the errors in what Read has returned since it was asked last, once nothing moves any more.
func (r *rig) failures() []error {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, m := range r.answers {
		if a, ok := m.(*jsonrpc.Response); ok && a.Error != nil {
			errs = append(errs, a.Error)
		}
	}
	r.answers = nil
	return errs
}

// readError is what ended Read, once nothing moves any more; nil: it goes on.
func (r *rig) readError() error {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readErr
}

// later calls f beside the test, and returns where its error comes.
func later(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// wantPending checks that what later called is still at it, once nothing moves any more.
func wantPending(r *rig, what string, done <-chan error) {
	r.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		r.Errorf("%s: it has returned %v", what, err)
	default:
	}
}

// session is a session of the SDK's client over peers that answer as a server does, the calls of tools excepted:
// those are never answered.
func (r *rig) session() *mcp.ClientSession {
	r.Helper()
	otherwise := r.Fleet.OnMint
	r.Fleet.OnMint = func(ctx context.Context, p *peertest.Peer) error {
		p.Answer = serve2025
		if otherwise != nil {
			return otherwise(ctx, p)
		}
		return nil
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
	session, err := client.Connect(context.Background(), r.Transport, nil)
	if err != nil {
		r.Fatal(err)
	}
	return session
}

// serve2025 answers as a server before protocol 2026-07-28 does.
func serve2025(q *jsonrpc.Request) *jsonrpc.Response {
	answer := &jsonrpc.Response{ID: q.ID}
	switch q.Method {
	case "initialize":
		answer.Result = json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"server","version":"1"}}`)
	case "ping":
		answer.Result = json.RawMessage(`{}`)
	case "tools/call":
		return nil
	default:
		answer.Error = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
	}
	return answer
}

// callTool calls a tool, which serve2025 never answers.
func callTool(session *mcp.ClientSession) error {
	_, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "tool"})
	return err
}

// connectIsClosed begins to connect, and checks in the end that Connect was told of Close.
func (r *rig) connectIsClosed() {
	connecting := r.connecting()
	r.Cleanup(func() { want(r, "Connect", "closed", kind(<-connecting)) })
}
