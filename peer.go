package supervised

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised/internal/wire"
)

// How long the parts of a peer's end may take.
const (
	lingerTimeout = 250 * time.Millisecond // W3: from the first sign of an end to acting on it
	killTimeout   = 5 * time.Second        // D4: from SIGKILL to the process being gone
	closeTimeout  = 30 * time.Second       // D4: the connection's own Close, and a start that must be waited for
)

// An Exiter is a connection of a process that can be seen to end, whatever its pipes say. A connection that
// Connect of a supervised transport returned is asked for it by type.
type Exiter interface {
	// Exited is closed when the process is gone.
	Exited() <-chan struct{}
	// ExitErr says how it ended, once Exited is closed; nil is not an answer, exit status 0 included.
	ExitErr() error
}

// A Killer is a connection that can be ended at once, without the courtesy of its Close.
type Killer interface {
	// Kill returns when the peer is gone.
	Kill() error
}

// A Reporter is a connection that can tell what went wrong on it without ending it, such as a line on stdout
// that is no message.
type Reporter interface {
	// OnReport sets where to tell it. It is called once, before the first Read.
	OnReport(func(error))
}

// A peer is one connection that the factory made, from its mint to its being gone.
type peer struct {
	generation int
	clock      clock.Clock

	// ctx is what the factory and the transport's Connect get: it lives as long as the connection (L4).
	ctx    context.Context
	cancel context.CancelCauseFunc

	transport mcp.Transport
	conn      mcp.Connection // nil until it has started

	live       context.Context // ends when the connection is to be retired
	endLive    context.CancelFunc
	settled    context.Context // ends with live, or as soon as Close is called: what OnReconnect gets (H2)
	endSettled context.CancelFunc
	servedAt   time.Time

	drained chan struct{} // closed by read when it ends
	gone    chan struct{} // closed by retire, or by bringUp where nothing came up: no process of it lives

	mu       sync.Mutex
	readErr  error // what ended Read; nil: it goes on
	writeErr error // the first failure of a Write that is the connection's
	exited   bool  // Exited is closed
	linger   *clock.Timer
	over     bool  // the end is to be acted on, or the lifecycle has decided on it
	cause    error // why, as it was known then; nil: Close
	notify   func(cause error)
	closeErr error // of the connection's own Close
}

func newPeer(generation int, values context.Context, c clock.Clock) *peer {
	p := &peer{generation: generation, clock: c, drained: make(chan struct{}), gone: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(values)
	p.live, p.endLive = context.WithCancel(p.ctx)
	p.settled, p.endSettled = context.WithCancel(p.live)
	return p
}

// bind ends the peer's context with bound too, and after d where that is not 0, until release is called.
// Release reports false where the context has ended for one of those reasons.
func (p *peer) bind(bound context.Context, d time.Duration) (release func() bool) {
	stop := context.AfterFunc(bound, func() { p.cancel(bothCauses(bound)) })
	if d == 0 {
		return stop
	}
	timer := p.clock.AfterFunc(d, func() { p.cancel(errConnectTimeout) })
	return func() bool {
		inTime := timer.Stop()
		return stop() && inTime
	}
}

// bothCauses is the error of a context that has ended, in which its cause is found as well.
func bothCauses(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// errConnectTimeout matches context.DeadlineExceeded.
var errConnectTimeout = fmt.Errorf("supervised: connect timeout: %w", context.DeadlineExceeded)

// number is the peer's generation; -1 for none.
func (p *peer) number() int {
	if p == nil {
		return -1
	}
	return p.generation
}

// mint calls the factory. It does not wait for one that ignores its context: what such a factory returns later
// is never started (C1).
func (p *peer) mint(f Factory, last mcp.Transport) error {
	type result struct {
		transport mcp.Transport
		err       error
	}
	minted := make(chan result, 1)
	begun := make(chan struct{})
	go func() {
		r := result{err: errors.New("supervised: the factory ended its goroutine")}
		defer func() { minted <- r }()
		over := context.Cause(p.ctx)
		close(begun)
		if over != nil {
			r.err = over
			return
		}
		if err := protect("factory", func() { r.transport, r.err = f(p.ctx) }); err != nil {
			r = result{err: err}
		}
	}()
	<-begun // what ends the context after this finds a call of the factory that has begun
	select {
	case r := <-minted:
		switch {
		case r.err != nil:
			return p.because(r.err)
		case isNil(r.transport):
			return errors.New("supervised: the factory returned a nil transport")
		case same(r.transport, last):
			return fmt.Errorf("supervised: the factory returned the same %T twice: it must make one for each connection", r.transport)
		}
		p.transport = r.transport
		return context.Cause(p.ctx)
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// because is err, with the reason for which the peer's context has ended, if it has: a factory or a transport
// that honours its context can tell no more than that it was cancelled.
func (p *peer) because(err error) error {
	if cause := context.Cause(p.ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// same reports whether a and b are one transport: the same pointer, to something that has a size (pointers to
// two things without one may be equal).
func same(a, b mcp.Transport) bool {
	if a == nil || b == nil {
		return false
	}
	t := reflect.TypeOf(a)
	return t.Kind() == reflect.Pointer && t.Elem().Size() > 0 && a == b
}

// start connects the transport. Where the context ends first, it waits for the connection all the same, so
// that there are never two peers (D4), up to closeTimeout.
func (p *peer) start() error {
	type result struct {
		conn mcp.Connection
		err  error
	}
	started := make(chan result, 1)
	go func() {
		r := result{err: fmt.Errorf("supervised: Connect of %T ended its goroutine", p.transport)}
		defer func() { started <- r }()
		if err := protect("Connect", func() { r.conn, r.err = p.transport.Connect(p.ctx) }); err != nil {
			r = result{err: err}
		}
	}()
	var r result
	select {
	case r = <-started:
	case <-p.ctx.Done():
		late := p.clock.Timer(closeTimeout)
		defer late.Stop()
		select {
		case r = <-started:
		case <-late.C:
			go func() {
				if r := <-started; r.err == nil && !isNil(r.conn) {
					_ = r.conn.Close() // nobody is left to tell
				}
			}()
			return fmt.Errorf("%w: %w", context.Cause(p.ctx), errAbandonedStart)
		}
	}
	if r.err == nil && isNil(r.conn) {
		return fmt.Errorf("supervised: Connect of %T returned a nil connection", p.transport)
	}
	if r.err != nil {
		return p.because(r.err)
	}
	p.conn = r.conn
	return context.Cause(p.ctx)
}

var (
	errAbandonedStart = fmt.Errorf("supervised: its Connect has not returned after %v and was abandoned", closeTimeout)
	errAbandonedKill  = fmt.Errorf("supervised: the peer is not gone %v after it was killed and was abandoned", killTimeout)
	errAbandonedClose = fmt.Errorf("supervised: Close of the connection has not returned after %v and was abandoned", closeTimeout)
)

// watch begins to take what the connection says, and to look for its end. report gets what ended nothing.
func (p *peer) watch(l *ledger, report func(error)) {
	if r, ok := p.conn.(Reporter); ok {
		r.OnReport(report)
	}
	if e, ok := p.conn.(Exiter); ok {
		go func() {
			select {
			case <-e.Exited():
				p.sign(func() { p.exited = true })
			case <-p.gone:
			}
		}()
	}
	go p.read(l)
}

// read passes what the peer says to the ledger, until one of them ends.
func (p *peer) read(l *ledger) {
	defer close(p.drained)
	for {
		m, err := p.conn.Read(p.ctx)
		if err == nil && nothing(m) {
			err = fmt.Errorf("supervised: Read of %T returned nothing", p.conn)
		}
		if err != nil {
			p.sign(func() { p.readErr = err })
			return
		}
		if !l.deliver(p.ctx, p.generation, m) {
			return
		}
	}
}

// broke says that a Write failed, for a reason that is the connection's.
func (p *peer) broke(err error) {
	p.sign(func() {
		if p.writeErr == nil {
			p.writeErr = err
		}
	})
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
		abandoned := errAbandonedClose
		if k, ok := p.conn.(Killer); ok {
			if _, returned := p.within(killTimeout, k.Kill); !returned {
				abandoned = errors.Join(abandoned, errAbandonedKill)
			}
		}
		return abandoned
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeErr = err
	return nil
}

// drain waits until all is read that a peer which is gone had written, up to lingerTimeout (W3).
func (p *peer) drain() {
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

// writersOwn reports whether err of a Write concerns the writer alone, and not the connection: its context, a
// rejection by the transport, or a message that cannot be encoded (D1).
func writersOwn(ctx context.Context, m jsonrpc.Message, err error) bool {
	if errors.Is(err, &jsonrpc.Error{Code: codeRejected}) {
		return true
	}
	if done := ctx.Err(); done != nil {
		if errors.Is(err, done) || errors.Is(err, context.Cause(ctx)) || errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
	}
	if _, ok := errors.AsType[*wire.EncodeError](err); ok {
		return true
	}
	_, unencodable := jsonrpc.EncodeMessage(m)
	return unencodable != nil
}
