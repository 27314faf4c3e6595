package supervised

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// hear begins generation: its peer is heard, with all but answers held back, and nothing may be written to it
// but the handshake and the replay. Pong answers a ping of its own meanwhile. It returns what the replay needs:
// the session, and the requests that were kept: calls, then streams, each in the order of their first sending.
func (l *ledger) hear(generation int, pong func(jsonrpc.ID) bool) (session, []*call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inbox.ended() {
		return session{}, nil
	}
	l.generation, l.heard, l.holding, l.pong = generation, true, true, pong
	l.preparing, l.prepared = context.WithCancel(context.Background())
	if l.session.handshake != nil {
		l.told = generation // by the replay
	}
	var replay []*call
	for c := range l.flight.all() {
		if c != l.probe { // never sent again (E3)
			replay = append(replay, c)
		}
	}
	for c := range l.streams.all() {
		replay = append(replay, c)
	}
	return l.session, replay
}

// ask registers a request of the supervisor's own, whose answer then gets: under the ledger's lock, or never.
func (l *ledger) ask(then func(*jsonrpc.Response)) jsonrpc.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.nextID()
	if l.own == nil {
		l.own = make(map[jsonrpc.ID]func(*jsonrpc.Response))
	}
	l.own[id] = then
	return id
}

// resend binds c to generation, right before it is written again. It reports false where that is not to be: the
// call was cancelled, its context is done (it is answered with that error, Q4), or the generation is over.
func (l *ledger) resend(generation int, c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.in == nil || !l.heard || generation != l.generation {
		return false
	}
	if err := c.ctx.Err(); err != nil && c.in == &l.flight {
		l.fail(c, err)
		return false
	}
	c.generation = generation
	c.free()
	return true
}

// hold has release, which ends the context of the Write of c to generation, called when c is over or is to be sent
// once more; now, where that has come already.
func (l *ledger) hold(generation int, c *call, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.in == nil || c.generation != generation {
		release()
		return
	}
	c.free()
	c.release = release
}

// refuse answers a call that was kept and that generation does not take, with err. A stream stays (R3).
func (l *ledger) refuse(generation int, c *call, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.in == &l.flight && c.generation == generation {
		l.fail(c, err)
	}
}

// greeted notes how the replacement answered the handshake, and that it will be told notifications/initialized:
// it returns what the client said, if it has said it.
func (l *ledger) greeted(changed bool) *jsonrpc.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session.changed = changed
	return l.session.initialized
}

// initialized notes that the client says notifications/initialized. It reports whether the peer of generation is
// to be told: not if the replay tells it, and not in the gap, since the replacement will be told. Where that is to
// be asked once more, it returns when: at the end of wait, which is nil otherwise.
func (l *ledger) initialized(generation int, n *jsonrpc.Request) (tell bool, wait context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session.handshake == nil || l.inbox.ended() {
		return true, nil
	}
	again := l.session.initialized != nil && l.session.initialized != n
	l.session.initialized = n
	switch {
	case !l.heard, l.told == l.generation && !again:
		return false, nil
	case l.door && generation == l.generation:
		l.told = l.generation
		return true, nil
	case l.door || l.holding:
		return false, l.preparing // over already where there is a door: generation was superseded
	}
	return true, nil // Close is ending the peer, and refuses
}

// admit lets calls in to the generation that is heard. What was held back stays so until release.
func (l *ledger) admit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door = true
	l.prepared()
}

// release passes what was held back. It returns the cancellations of what was replayed and then cancelled, to be
// written now.
func (l *ledger) release() []*jsonrpc.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding = false
	for _, m := range l.inbox.release() {
		switch m := m.(type) {
		case *jsonrpc.Response:
			l.settle(m)
		case *jsonrpc.Request:
			l.route(m)
		}
	}
	signal(l.room)
	return l.takeRecalled()
}

// owed returns what must be written to the replacement before it serves: the end of a handshake that was the
// client's own, if the client has said it, and the cancellations of what was replayed and then cancelled.
func (l *ledger) owed() []*jsonrpc.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	owed := l.takeRecalled()
	if n := l.session.initialized; n != nil && l.heard && l.told != l.generation {
		l.told = l.generation
		owed = slices.Insert(owed, 0, n)
	}
	return owed
}

// takeRecalled takes the cancellations of what was replayed and then cancelled; l.mu is held.
func (l *ledger) takeRecalled() []*jsonrpc.Request {
	recalled := l.recalled
	l.recalled = nil
	return recalled
}

// replay writes to p what was kept for it. A request that p refuses fails with that, and a stream stays for the
// peer after it (R3); where the connection breaks, all of it stays (Q5).
func (l *lifecycle) replay(p *peer, calls []*call) error {
	for _, c := range calls {
		if !l.ledger.resend(p.generation, c) {
			continue
		}
		life := c.ctx
		if c.request.Method == methodListen {
			life = context.WithoutCancel(life) // a stream ends by what R2 lists, and by nothing else
		}
		ctx, cancel := context.WithCancelCause(life)
		stop := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
		release := func() { stop(); cancel(nil) }
		err := p.conn.Write(ctx, c.request)
		if err == nil {
			// Some transports read the answer under the context of the Write: it ends with the call, not before.
			l.ledger.hold(p.generation, c, release)
			continue
		}
		release()
		l.logger.WithField("id", c.request.ID.Raw()).Error("the replacement did not take a request that was kept for it")
		if p.ctx.Err() != nil || !writersOwn(ctx, c.request, err) {
			return p.broken(err)
		}
		if done := c.ctx.Err(); done != nil {
			err = done
		}
		l.ledger.refuse(p.generation, c, err)
	}
	for owed := l.ledger.owed(); len(owed) > 0; owed = l.ledger.owed() {
		for _, n := range owed {
			if err := p.tell(n); err != nil && p.ctx.Err() != nil {
				return err
			}
		}
	}
	return nil
}

// recall writes to p the cancellations of what was replayed to it and then cancelled.
func (l *lifecycle) recall(p *peer, cancellations []*jsonrpc.Request) {
	for _, n := range cancellations {
		if err := p.conn.Write(p.live, n); err != nil && !writersOwn(p.live, n, err) {
			p.broke(err)
			return
		}
	}
}
