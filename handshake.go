package supervised

import (
	"context"
	"encoding/json"
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
	if err := p.tell(&jsonrpc.Request{ID: id, Method: methodInitialize, Params: s.handshake.params}); err != nil {
		return err
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
	initialized := l.ledger.greeted(changed)
	if initialized == nil {
		initialized = &jsonrpc.Request{Method: notificationInitialized}
	}
	if err := p.tell(initialized); err != nil {
		return err
	}
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
	refused := func() {
		l.logger.WithField("method", method).Error("the replacement refuses what the server before it granted")
	}
	id := l.ledger.ask(func(r *jsonrpc.Response) {
		if r.Error != nil {
			go refused()
		}
	})
	err := p.tell(&jsonrpc.Request{ID: id, Method: method, Params: params})
	if err != nil && p.ctx.Err() == nil {
		refused()
		return nil
	}
	return err
}

// tell writes a message of the supervisor's own to a peer that is being prepared. Where the error is about that
// message alone, the peer's context goes on.
func (p *peer) tell(m jsonrpc.Message) error {
	err := p.conn.Write(p.ctx, m)
	switch {
	case err == nil:
		return nil
	case p.ctx.Err() == nil && writersOwn(p.ctx, m, err):
		return fmt.Errorf("supervised: handshake: %w", err)
	}
	return p.broken(err)
}

// broken says that a Write to a peer that is being prepared has failed, and waits for what it had written before
// that to be read (W3). It returns how the peer ended.
func (p *peer) broken(err error) error {
	p.broke(err)
	<-p.ctx.Done()
	return context.Cause(p.ctx)
}

// pongLimit is how many pings of a replacement are being answered at a time. Of one that pings on and does not read,
// the rest is for the client, when it serves.
const pongLimit = 16

// pong answers pings of p while it is being prepared, for the client. It waits for nothing, and reports false for one
// that it leaves to the client.
func (l *lifecycle) pong(p *peer) func(jsonrpc.ID) bool {
	slots := make(chan struct{}, pongLimit)
	return func(id jsonrpc.ID) bool {
		select {
		case slots <- struct{}{}:
		default:
			return false
		}
		go func() {
			defer func() { <-slots }()
			answer := emptyResult(id)
			if err := p.conn.Write(p.ctx, answer); err != nil && !writersOwn(p.ctx, answer, err) {
				p.broke(err)
			}
		}()
		return true
	}
}
