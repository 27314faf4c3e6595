package supervised

import (
	"errors"
	"fmt"
	"io"
	"time"
)

var (
	errAbandonedStart = fmt.Errorf("supervised: its Connect has not returned after %v and was abandoned", closeTimeout)
	errAbandonedKill  = fmt.Errorf("supervised: the peer is not gone %v after it was killed and was abandoned", killTimeout)
	errSlowClose      = fmt.Errorf("supervised: Close of the connection has not returned after %v; the peer was killed", closeTimeout)
	errAbandonedClose = fmt.Errorf("supervised: Close of the connection has not returned after %v and was abandoned", closeTimeout)
)

// broke says that a Write failed, for a reason that is the connection's.
func (p *peer) broke(err error) {
	p.sign(func() {
		if p.writeErr == nil {
			p.writeErr = err
		}
	})
	p.reading.hurry()
}

// lost says that a Write of something that awaits no answer failed for a reason that is the connection's, and
// returns what its writer is told.
func (p *peer) lost(err error) error {
	p.broke(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over && p.cause == nil {
		return ErrClosed
	}
	return peerLost(err)
}

// sign notes a sign of the peer's end. It is acted on once all is read that the peer had written and its exit
// is known, or lingerTimeout after the first sign (W3).
func (p *peer) sign(note func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	note()
	_, exits := p.conn.(Exiter)
	switch {
	case p.readErr != nil && (p.exited || !exits):
		p.end()
	case p.linger == nil:
		p.linger = p.clock.AfterFunc(lingerTimeout, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.over {
				p.end()
			}
		})
	}
}

// end settles why the peer ended, and says so once; p.mu is held.
func (p *peer) end() {
	p.over = true
	if p.linger != nil {
		p.linger.Stop()
	}
	p.cause = p.endCause()
	if p.notify != nil {
		p.notify(p.cause)
	}
}

// endCause is what is known of the peer's end; p.mu is held. A failed Write counts where nothing else does:
// a process that has exited, or that has closed its output, reads nothing either.
func (p *peer) endCause() error {
	if p.exited {
		if end := join(p.readErr, p.conn.(Exiter).ExitErr()); end != nil {
			return end
		}
		return errExited
	}
	first := p.readErr
	if p.writeErr != nil && (first == nil || first == io.EOF) {
		first = p.writeErr
	}
	return join(first, p.closeErr)
}

// errExited is the end of a process whose connection says nothing of how it exited.
var errExited = errors.New("supervised: the peer has exited")

// whenEnded has f called when the end of the peer is to be acted on, with what is known of it: now, if it has
// come. The f set last counts; it must not wait for anything.
func (p *peer) whenEnded(f func(cause error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		f(p.cause)
		return
	}
	p.notify = f
}

// doom says that the lifecycle has decided on the end of the peer, and why; nil: Close was called. What the
// peer shows from now on is a consequence of that.
func (p *peer) doom(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.cause = true, cause
	if p.linger != nil {
		p.linger.Stop()
	}
	p.endLive()
}

// closeError is what the connection's own Close returned, where Close was the end.
func (p *peer) closeError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return nil
	}
	return p.closeErr
}

// ending is how the peer ended, as far as it is known by now: its cause and the exit of its process.
func (p *peer) ending() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.conn.(Exiter); ok {
		select {
		case <-e.Exited():
			return join(p.cause, e.ExitErr())
		default:
		}
	}
	return join(p.cause, p.closeErr)
}

// kill ends the peer at once and returns when it is gone. What went wrong on the way, or had to be abandoned, is
// the error.
func (p *peer) kill() error {
	p.cancel(errRetired)
	k, ok := p.conn.(Killer)
	if !ok {
		return p.shut()
	}
	began := p.clock.Now()
	err, returned := p.within(killTimeout, k.Kill)
	switch {
	case !returned:
		err = errAbandonedKill
	case err == nil || p.clock.Since(began) < killTimeout:
		return errors.Join(err, p.shut())
	}
	go p.conn.Close() // what of it can still be released
	return err
}

// errRetired is why the context of a connection that is over has ended.
var errRetired = errors.New("supervised: the connection was retired")

// shut ends the peer by its connection's own Close, with all the time that it takes. What had to be abandoned
// is the error; that of Close itself is kept in closeErr.
func (p *peer) shut() error {
	err, returned := p.within(closeTimeout, p.conn.Close)
	if !returned {
		k, ok := p.conn.(Killer)
		if !ok {
			return errAbandonedClose
		}
		if _, returned := p.within(killTimeout, k.Kill); !returned {
			return errors.Join(errAbandonedClose, errAbandonedKill)
		}
		return errSlowClose
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeErr = err
	return nil
}

// readOut waits until all is read that a peer which is gone had written, up to lingerTimeout (W3).
func (p *peer) readOut() {
	limit := p.clock.Timer(lingerTimeout)
	defer limit.Stop()
	select {
	case <-p.drained:
	case <-limit.C:
	}
}

// within calls f and waits for it for up to d. It reports false where f has not returned by then; f goes on.
func (p *peer) within(d time.Duration, f func() error) (err error, returned bool) {
	done := make(chan error, 1)
	go func() {
		err := errors.New("supervised: the connection ended its goroutine")
		defer func() { done <- err }()
		if p := protect("connection", func() { err = f() }); p != nil {
			err = p
		}
	}()
	limit := p.clock.Timer(d)
	defer limit.Stop()
	select {
	case err := <-done:
		return err, true
	case <-limit.C:
		return nil, false
	}
}

// retired is the last word on the peer: it is gone.
func (p *peer) retired() {
	p.cancel(errRetired)
	close(p.gone)
}
