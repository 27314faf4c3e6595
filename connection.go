package supervised

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/internal/wire"
)

const notificationCancelled = "notifications/cancelled"

// A connection is the one logical connection that Connect returns, over all the peers that there will be. It
// implements mcp.Connection and nothing more (X3).
type connection struct{ t *Transport }

// SessionID is that of the connection that serves, "" where none does or it has none.
func (c *connection) SessionID() string {
	if p := c.t.life.board.peer.Load(); p != nil {
		return p.conn.SessionID()
	}
	return ""
}

// Read returns the next message: the messages of one peer after the other. It is for one caller at a time.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	return c.t.life.ledger.read(ctx)
}

// Write sends m to the peer that serves, or refuses it at once. It may be called concurrently.
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	if answer, is := m.(*jsonrpc.Response); m == nil || ok && r == nil || is && answer == nil {
		return errNilMessage
	}
	p := c.t.life.board.peer.Load()
	if p == nil {
		return c.t.life.board.refusal()
	}
	if ok && r.IsCall() {
		return c.writeCall(ctx, p, r)
	}
	if ok && r.Method == notificationCancelled {
		if id, ok := cancelledID(r); ok {
			c.t.life.ledger.cancelled(id)
		}
	}
	err := p.conn.Write(ctx, m)
	if err == nil || writersOwn(ctx, m, err) {
		return err
	}
	p.broke(err)
	return peerLost(err)
}

// writeCall sends a call, which is registered first (W6). Where the connection ends under it, the ledger answers
// it, and that is no error here (W7).
func (c *connection) writeCall(ctx context.Context, p *peer, r *jsonrpc.Request) error {
	entry, err := c.t.life.ledger.register(p.generation, ctx, r)
	switch {
	case err == errSealed:
		return c.t.life.board.refusal()
	case err != nil:
		return err
	}
	err = p.conn.Write(ctx, r)
	switch {
	case err == nil:
		return nil
	case !writersOwn(ctx, r, err):
		p.broke(err)
		return nil
	case !c.t.life.ledger.withdraw(entry):
		return nil
	}
	return err
}

// Close closes the transport. It waits for nothing and calls no hook itself: the SDK calls it with a lock held
// that a hook may want (C8). Read ends when the peer is gone.
func (c *connection) Close() error {
	c.t.closeLater()
	return nil
}

// cancelledID is the id of the request that a notifications/cancelled is about.
func cancelledID(r *jsonrpc.Request) (jsonrpc.ID, bool) {
	raw, ok := wire.Member(r.Params, "requestId")
	if !ok {
		return jsonrpc.ID{}, false
	}
	return wire.ID(raw)
}
