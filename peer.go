package supervised

import (
	"context"
	"errors"
	"fmt"
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

	reading *reading      // to read it; nil until it has started
	drained chan struct{} // closed by whoever read last
	gone    chan struct{} // closed by retired: no process of it lives

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

// watch begins to take what the connection says, and to look for its end. report gets what ended nothing.
func (p *peer) watch(l *ledger, report func(error)) {
	p.reading = newReading(p, l)
	l.reading.Store(p.reading)
	if r, ok := p.conn.(Reporter); ok {
		r.OnReport(report)
	}
	if e, ok := p.conn.(Exiter); ok {
		go func() {
			select {
			case <-e.Exited():
				p.sign(func() { p.exited = true })
				p.reading.hurry()
			case <-p.gone:
			}
		}()
	}
	go p.pump()
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
