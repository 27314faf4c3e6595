package supervised

import (
	"context"
	"errors"
	"time"

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
	if nothing(m) {
		return errNilMessage
	}
	r, ok := m.(*jsonrpc.Request)
	switch {
	case !ok:
		return c.answer(ctx, m.(*jsonrpc.Response)) // there is no third kind
	case r.IsCall():
		return c.call(ctx, entry{request: r, ctx: ctx})
	}
	return c.notify(ctx, r)
}

// nothing reports whether m is nil, or a nil request or answer.
func nothing(m jsonrpc.Message) bool {
	switch m := m.(type) {
	case *jsonrpc.Request:
		return m == nil
	case *jsonrpc.Response:
		return m == nil
	}
	return m == nil
}

// call sends a call, which is registered first (W6). Where the connection ends under it, the ledger answers or
// keeps it, and that is no error here (W7).
func (c *connection) call(ctx context.Context, e entry) error {
	l := c.t.life
	p, registered, err := c.register(e)
	if err == errSealed {
		err = l.board.refusal()
		if e.request.Method == methodPing && err == ErrReconnecting {
			if l.ledger.answerPing(e.request.ID) {
				return nil
			}
			err = l.board.refusal()
		}
	}
	if err != nil {
		return err
	}
	if e.request.Method == methodDiscover && l.ledger.probing(registered) {
		l.watchProbe(p)
	}
	err = p.conn.Write(ctx, e.request)
	switch {
	case err == nil && e.end != nil:
		l.ledger.hold(p.generation, registered, e.end)
		return nil
	case err == nil:
		registered.written.Store(true)
		return nil
	case !writersOwn(ctx, e.request, err):
		p.broke(err)
		return nil
	}
	withdrawn, tell := l.ledger.withdraw(registered, p.generation)
	if !withdrawn {
		return nil
	}
	if tell != nil {
		c.tell(tell)
	}
	return err
}

// tellTimeout bounds telling a server that does not read that a request is over.
const tellTimeout = 5 * time.Second

// tell writes a cancellation of the supervisor's own to the server, if there is one: who is gone needs not be told.
func (c *connection) tell(n *jsonrpc.Request) {
	ctx, cancel := c.t.life.clock.WithTimeout(context.Background(), tellTimeout)
	defer cancel()
	_ = c.cancel(ctx, n)
}

// register takes a call in for the peer that serves. It fails with errSealed where none does.
func (c *connection) register(e entry) (*peer, *call, error) {
	for {
		p := c.t.life.board.peer.Load()
		if p == nil {
			return nil, nil, errSealed
		}
		registered, err := c.t.life.ledger.register(p.generation, e)
		if err == errSealed && c.t.life.board.peer.Load() != p {
			continue // p was superseded between the two
		}
		return p, registered, err
	}
}

// notify sends a notification. Two are the ledger's affair as well, and may end there: a cancellation, and the
// end of the handshake.
func (c *connection) notify(ctx context.Context, n *jsonrpc.Request) error {
	switch n.Method {
	case notificationCancelled:
		return c.cancel(ctx, n)
	case notificationInitialized:
		return c.initialized(ctx, n)
	}
	return c.send(ctx, c.t.life.board.peer.Load(), n)
}

// cancel sends the cancellation of a request to the peer that has it, if there is one.
func (c *connection) cancel(ctx context.Context, n *jsonrpc.Request) error {
	for {
		p := c.t.life.board.peer.Load()
		switch tell, stale := c.t.life.ledger.cancel(p.number(), n); {
		case stale:
			continue // the request has moved on to a newer peer than p
		case !tell:
			return nil
		}
		return c.send(ctx, p, n)
	}
}

// initialized sends the end of the handshake. The supervisor says it to a replacement that is given the handshake;
// to one that got the client's own initialize it goes when that serves, which is waited for.
func (c *connection) initialized(ctx context.Context, n *jsonrpc.Request) error {
	l := c.t.life
	for {
		p := l.board.peer.Load()
		tell, wait := l.ledger.initialized(p.number(), n)
		if wait != nil {
			select {
			case <-wait.Done():
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if !tell {
			return nil
		}
		err := c.send(ctx, p, n)
		if errors.Is(err, ErrReconnecting) || errors.Is(err, ErrPeerLost) {
			return nil // the one after it is given the handshake
		}
		return err
	}
}

// answer sends the answer to a request of the server; that to one of a server that is gone is swallowed (E2).
func (c *connection) answer(ctx context.Context, r *jsonrpc.Response) error {
	p := c.t.life.board.peer.Load()
	r = c.t.life.ledger.answerUpcall(p.number(), r)
	if r == nil {
		return nil
	}
	return c.send(ctx, p, r)
}

// send writes to p what awaits no answer; nil: there is no peer now.
func (c *connection) send(ctx context.Context, p *peer, m jsonrpc.Message) error {
	if p == nil {
		return c.t.life.board.refusal()
	}
	err := p.conn.Write(ctx, m)
	if err == nil || writersOwn(ctx, m, err) {
		return err
	}
	return p.lost(err)
}

// Close closes the transport. It waits for nothing and calls no hook itself: the SDK calls it with a lock held
// that a hook may want (C8). Read ends when the peer is gone.
func (c *connection) Close() error {
	c.t.closeLater()
	return nil
}
