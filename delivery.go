package supervised

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised/internal/wire"
)

// deliver takes what the peer of generation said: an answer settles its call, the rest goes to Read. It waits
// while the inbox is full, and reports false where the generation is not heard any more or ctx is done.
func (l *ledger) deliver(ctx context.Context, generation int, m jsonrpc.Message) bool {
	for {
		l.mu.Lock()
		heard, taken := l.take(generation, m)
		l.mu.Unlock()
		if !heard {
			signal(l.room) // the token may have been meant for the peer that came after
		}
		if taken || !heard {
			return heard
		}
		select {
		case <-l.room:
		case <-ctx.Done():
			return false
		}
	}
}

// take takes in one message, if there is room for it; l.mu is held.
func (l *ledger) take(generation int, m jsonrpc.Message) (heard, taken bool) {
	if !l.heard || generation != l.generation {
		return false, false
	}
	if r := l.reading.Load(); r != nil {
		r.wanted = l.waiting > 0
	}
	switch m := m.(type) {
	case *jsonrpc.Response:
		// The answer to a kept call passes at once. That to a stream waits behind the stream's deliveries, and that to
		// a call which came in with the door open behind what was said before it.
		if l.holding && (l.door || l.openStream(m.ID) != nil) {
			l.inbox.hold(m)
			break
		}
		l.settle(m)
	case *jsonrpc.Request:
		switch {
		case l.holding && m.Method == methodPing && m.IsCall() && l.pong(m.ID):
		case l.holding && l.inbox.load.Load() < heldLimit:
			l.inbox.hold(m)
		case !l.holding && l.inbox.load.Load()+l.upcalls.load < inboxLimit:
			l.route(m)
		default:
			// With the door shut for good nobody may read again, and the peer must be able to end.
			return true, !l.holding && !l.door
		}
	}
	return true, true
}

// settle finds the call that an answer is for; l.mu is held. An answer that no call awaits was given before, or
// answers nothing that was asked.
func (l *ledger) settle(r *jsonrpc.Response) {
	if l.probe != nil && l.probe.generation == l.generation && l.probe.request.ID != r.ID {
		l.settleProbe() // whoever answers something has come through the probe
	}
	c := l.calls.get(r.ID)
	if c == nil {
		if then, ok := l.own[r.ID]; ok {
			delete(l.own, r.ID)
			then(r)
		}
		return
	}
	if c.generation != l.generation {
		return
	}
	l.remove(c)
	if c.stream != nil {
		c.stream.end(r.Error)
		return
	}
	l.session.answered(c.request, r)
	l.push(r)
	l.recycle(c)
}

// route passes a request or a notification of the peer to whom it is for; l.mu is held.
func (l *ledger) route(m *jsonrpc.Request) {
	switch {
	case m.IsCall():
		m = l.upcalls.up(m)
	case m.Method == notificationCancelled:
		id, ok := cancelledID(m)
		if !ok {
			break
		}
		if up := l.upcalls.cancelled(m, id); up != nil {
			m = up
			break
		}
		if l.streamCancelled(id) {
			return
		}
	case l.handles > 0 && m.Method != notificationProgress:
		if c := l.subscriber(m); c != nil {
			l.offer(c, m)
			return
		}
	}
	l.push(m)
}

// endStreams ends the streams that messages which are not delivered any more end; l.mu is held.
func (l *ledger) endStreams(ms []jsonrpc.Message) {
	asked := make(map[jsonrpc.ID]bool) // ids of the peer's own requests: what cancels one of those ends no stream
	for _, m := range ms {
		switch m := m.(type) {
		case *jsonrpc.Response:
			l.settle(m)
		case *jsonrpc.Request:
			if m.IsCall() {
				asked[m.ID] = true
				continue
			}
			if m.Method != notificationCancelled {
				continue
			}
			if id, ok := cancelledID(m); ok && !asked[id] {
				l.streamCancelled(id)
			}
		}
	}
}

// openStream is the stream that is open by that id, nil where there is none; l.mu is held.
func (l *ledger) openStream(id jsonrpc.ID) *call {
	c := l.calls.get(id)
	if c == nil || c.in != &l.streams {
		return nil
	}
	return c
}

// streamCancelled ends the stream id, which the server has cancelled; l.mu is held. It reports whether that was
// one with a Stream.
func (l *ledger) streamCancelled(id jsonrpc.ID) bool {
	c := l.openStream(id)
	if c == nil {
		return false
	}
	l.remove(c)
	if c.stream == nil {
		return false
	}
	c.stream.end(ErrStreamClosed)
	return true
}

// subscriber is the call of the Stream that a notification is for; nil: it is for the client.
func (l *ledger) subscriber(m *jsonrpc.Request) *call {
	raw, ok := wire.Path(m.Params, "_meta", mcp.MetaKeySubscriptionID)
	if !ok {
		return nil
	}
	id, ok := wire.ID(raw)
	if !ok {
		return nil
	}
	c := l.calls.get(id)
	if c == nil || c.stream == nil {
		return nil
	}
	return c
}

// offer gives a delivery to its stream, which ends if it is too far behind; l.mu is held.
func (l *ledger) offer(c *call, m *jsonrpc.Request) {
	if m.Method == notificationAcknowledged {
		c.stream.acknowledge(m)
		return
	}
	if !c.stream.offer(m) {
		l.remove(c)
		c.stream.overrun()
	}
}

// push passes m to Read; l.mu is held.
func (l *ledger) push(m jsonrpc.Message) {
	l.inbox.push(m)
	l.rouse()
}

// answerUpcall is what an answer of the client to a request of the server looks like to the peer of generation;
// nil: it is for one that is gone.
func (l *ledger) answerUpcall(generation int, r *jsonrpc.Response) *jsonrpc.Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.upcalls.given(r.ID) && (!l.heard || generation != l.generation) {
		return nil
	}
	down := l.upcalls.down(r)
	signal(l.room) // its id weighs no more
	return down
}

// inject passes notifications of the supervisor's own to Read, while generation is heard.
func (l *ledger) inject(generation int, notices []*jsonrpc.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.heard || generation != l.generation {
		return
	}
	for _, n := range notices {
		l.push(n)
	}
}

// signal leaves a token in c, unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
