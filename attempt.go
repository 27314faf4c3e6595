package supervised

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// spawn begins an attempt, beside the lifecycle. It is bounded by a context, that of Connect for the first
// connection, and by a timeout for a replacement; 0: none.
func (l *lifecycle) spawn(bound context.Context, timeout time.Duration) {
	p := newPeer(l.next, l.values, l.clock)
	l.peer = p
	last := l.last
	go func() {
		err := l.bringUp(p, bound, timeout, last)
		if err != nil {
			p.doom(err)
			if p.conn == nil {
				p.retired()
			} else {
				l.kill(p)
			}
		}
		l.post(func() { l.broughtUp(p, err) })
	}()
}

// bringUp mints and starts p and sends it what it must be sent, all of it in the time that there is.
func (l *lifecycle) bringUp(p *peer, bound context.Context, timeout time.Duration, last mcp.Transport) error {
	release := p.bind(bound, timeout)
	defer release()
	if err := p.mint(l.factory, last); err != nil {
		return err
	}
	if err := p.start(); err != nil {
		return err
	}
	p.whenEnded(p.cancel)
	agreed, kept := l.ledger.hear(p.generation, l.pong(p))
	p.watch(l.ledger, func(err error) {
		if p.live.Err() == nil { // else it is superseded (W4)
			l.hooks.emitReport(err)
		}
	})
	if agreed.handshake != nil || len(kept) > 0 {
		// Beside this, so that a connection whose Write ignores its context holds up nothing: it is closed.
		prepared := make(chan error, 1)
		go func() { prepared <- l.prepare(p, agreed, kept) }()
		select {
		case err := <-prepared:
			if err != nil {
				return err
			}
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
	if !release() {
		return context.Cause(p.ctx)
	}
	return nil
}

// broughtUp: the attempt p has ended, and where err is not nil there is nothing left of it.
func (l *lifecycle) broughtUp(p *peer, err error) {
	if p.transport != nil {
		l.last = p.transport
	}
	if p.conn != nil {
		l.next = p.generation + 1
	}
	switch connecting := p == l.peer && l.machine.State() == StateConnecting; {
	case connecting && err == nil:
		l.connected(p)
	case connecting:
		l.connectFailed(p, err)
	case err == nil:
		p.doom(nil)
		go l.kill(p) // it came up while it was being called off
	}
}
