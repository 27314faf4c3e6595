package supervised

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// prepare gives p, which has started, what a fresh process cannot know: the handshake of an older session and
// what was set after it (E1), then the calls and the streams that were kept.
func (l *lifecycle) prepare(p *peer, s session, kept []*call) error {
	if s.handshake != nil {
		if err := l.shakeHands(p, s); err != nil {
			return err
		}
	}
	return l.replay(p, kept)
}

// shakeHands replays the handshake that the client had with the first server.
func (l *lifecycle) shakeHands(p *peer, s session) error {
	answered := make(chan *jsonrpc.Response, 1)
	id := l.ledger.ask(func(r *jsonrpc.Response) { answered <- r })
	err := p.conn.Write(p.ctx, &jsonrpc.Request{ID: id, Method: methodInitialize, Params: s.handshake.params})
	if err != nil {
		return fmt.Errorf("supervised: handshake: %w", err)
	}
	var answer *jsonrpc.Response
	select {
	case answer = <-answered:
	case <-p.ctx.Done():
		return fmt.Errorf("supervised: handshake: %w", context.Cause(p.ctx))
	}
	if answer.Error != nil {
		return fmt.Errorf("supervised: handshake refused: %w", answer.Error)
	}
	if got, want := text(answer.Result, "protocolVersion"), s.protocol(); got != want {
		return fmt.Errorf("supervised: handshake: the replacement speaks protocol %q, the session %q", got, want)
	}
	changed := differs(s.handshake.result, answer.Result)
	if changed {
		l.logger.Warn("the server has changed")
	}
	initialized := s.initialized
	if initialized == nil {
		initialized = &jsonrpc.Request{Method: notificationInitialized}
	}
	if err := p.conn.Write(p.ctx, initialized); err != nil {
		return fmt.Errorf("supervised: handshake: %w", err)
	}
	l.ledger.announced(p.generation, changed)
	if s.logLevel != nil {
		if err := l.renew(p, methodSetLevel, s.logLevel); err != nil {
			return err
		}
	}
	for _, params := range s.subscriptions {
		if err := l.renew(p, methodSubscribe, params); err != nil {
			return err
		}
	}
	return nil
}

// renew sends p a request that a server before it has granted. A refusal is logged, and is no failed attempt.
func (l *lifecycle) renew(p *peer, method string, params json.RawMessage) error {
	id := l.ledger.ask(func(r *jsonrpc.Response) {
		if r.Error != nil {
			go l.logger.WithField("method", method).Error("the replacement refuses what the server before it granted")
		}
	})
	if err := p.conn.Write(p.ctx, &jsonrpc.Request{ID: id, Method: method, Params: params}); err != nil {
		return fmt.Errorf("supervised: handshake: %w", err)
	}
	return nil
}

// replay writes to p what was kept for it. A request that p refuses fails with that, and a stream stays for the
// peer after it (R3); where the connection breaks, all of it stays (Q5).
func (l *lifecycle) replay(p *peer, calls []*call) error {
	for _, c := range calls {
		if !l.ledger.resend(p.generation, c) {
			continue
		}
		ctx, cancel := context.WithCancelCause(c.ctx)
		stop := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
		err := p.conn.Write(ctx, c.request)
		stop()
		cancel(nil)
		if err == nil {
			continue
		}
		l.logger.WithField("id", c.request.ID.Raw()).Error("the replacement did not take a request that was kept for it")
		if p.ctx.Err() != nil || !writersOwn(ctx, c.request, err) {
			return fmt.Errorf("supervised: replay: %w", err)
		}
		if done := c.ctx.Err(); done != nil {
			err = done
		}
		l.ledger.refuse(c, err)
	}
	return nil
}

// pong answers a ping of p while it is being prepared, for the client.
func (l *lifecycle) pong(p *peer) func(jsonrpc.ID) {
	return func(id jsonrpc.ID) {
		if err := p.conn.Write(p.ctx, emptyResult(id)); err != nil && p.ctx.Err() == nil {
			p.broke(err)
		}
	}
}

// errProbe is how a peer ends that was killed for leaving the probe unanswered, and what the probe is answered
// with when the one after it serves. The client falls back to the older handshake.
var (
	errProbeTimeout    = errors.New("supervised: server/discover was not answered in time")
	errProbeUnanswered = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "supervised: the server did not answer server/discover"}
)

// watchProbe bounds the wait for the answer to the probe, which is about to be written to p (E3).
func (l *lifecycle) watchProbe(p *peer) {
	if l.probeTimeout == 0 {
		return
	}
	l.ledger.timeProbe(l.clock.AfterFunc, l.probeTimeout, func() {
		l.post(func() {
			if !l.closing && l.ledger.probing(nil) {
				l.peerDied(p, errProbeTimeout)
			}
		})
	})
}

// refreshed are the notifications that have the client drop what it has cached of the lists that the server has
// (X2).
func (s *session) refreshed() []*jsonrpc.Request {
	var notices []*jsonrpc.Request
	for _, list := range []string{"tools", "prompts", "resources"} {
		if s.capability(list) {
			notices = append(notices, &jsonrpc.Request{Method: "notifications/" + list + "/list_changed"})
		}
	}
	return notices
}
