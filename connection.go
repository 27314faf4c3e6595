package supervised

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

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
	switch m := m.(type) {
	case *jsonrpc.Request:
		switch {
		case m == nil:
			return errNilMessage
		case m.IsCall():
			return c.call(ctx, &call{request: m, ctx: ctx})
		}
		return c.notify(ctx, m)
	case *jsonrpc.Response:
		if m == nil {
			return errNilMessage
		}
		return c.answer(ctx, m)
	}
	return errNilMessage
}

// call sends a call, which is registered first (W6). Where the connection ends under it, the ledger answers or
// keeps it, and that is no error here (W7).
func (c *connection) call(ctx context.Context, entry *call) error {
	l := c.t.life
	p := l.board.peer.Load()
	err := errSealed
	if p != nil {
		err = l.ledger.register(p.generation, entry)
	}
	if err == errSealed {
		err = l.board.refusal()
		if entry.request.Method == methodPing && err == ErrReconnecting {
			l.ledger.answerPing(entry.request.ID)
			return nil
		}
	}
	if err != nil {
		return err
	}
	if entry.request.Method == methodDiscover && l.ledger.probing(entry) {
		l.watchProbe(p)
	}
	err = p.conn.Write(ctx, entry.request)
	switch {
	case err == nil:
		return nil
	case !writersOwn(ctx, entry.request, err):
		p.broke(err)
		return nil
	case !l.ledger.withdraw(entry):
		return nil
	}
	return err
}

// notify sends a notification. Two are the ledger's affair as well, and may end there: a cancellation, and the
// end of the handshake.
func (c *connection) notify(ctx context.Context, n *jsonrpc.Request) error {
	tell := true
	switch n.Method {
	case notificationCancelled:
		tell = c.t.life.ledger.cancel(n)
	case notificationInitialized:
		tell = c.t.life.ledger.initialized(n)
	}
	if !tell {
		return nil
	}
	return c.send(ctx, n)
}

// answer sends the answer to a request of the server; that to one of a server that is gone is swallowed (E2).
func (c *connection) answer(ctx context.Context, r *jsonrpc.Response) error {
	r = c.t.life.ledger.answerUpcall(r)
	if r == nil {
		return nil
	}
	return c.send(ctx, r)
}

// send writes what awaits no answer.
func (c *connection) send(ctx context.Context, m jsonrpc.Message) error {
	p := c.t.life.board.peer.Load()
	if p == nil {
		return c.t.life.board.refusal()
	}
	err := p.conn.Write(ctx, m)
	if err == nil || writersOwn(ctx, m, err) {
		return err
	}
	p.broke(err)
	return peerLost(err)
}

// Close closes the transport. It waits for nothing and calls no hook itself: the SDK calls it with a lock held
// that a hook may want (C8). Read ends when the peer is gone.
func (c *connection) Close() error {
	c.t.closeLater()
	return nil
}
