package supervised

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Factory mints the transport of one connection: a new one at each call. It starts nothing. It is called once at a
// time, unless a call outlives its context.
//
// The context carries the values of the context of Connect. It lives as long as the connection that comes of
// it, so exec.CommandContext(ctx, ...) is right; while that is being brought up, it also ends with the context
// of Connect (the first connection) or the connect timeout (a replacement). The error of a factory is a failed
// attempt, as is a nil transport, the transport that it returned before, or a panic.
type Factory func(ctx context.Context) (mcp.Transport, error)

// A Transport keeps one logical connection alive over peers that die. It is an mcp.Transport: a client of the
// SDK connects to it as to the transport that it supervises. Make one with New; it serves one Connect that
// succeeds. All methods may be called from any goroutine at any time, hooks included.
type Transport struct {
	life *lifecycle
}

// New returns a transport that gets its connections from factory. It starts nothing. The error names each
// option that is wrong, and its value.
func New(factory Factory, opts ...Option) (*Transport, error) {
	if factory == nil {
		return nil, errors.New("supervised: New(nil): a factory is needed")
	}
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	l, err := newLifecycle(factory, o)
	if err != nil {
		return nil, err
	}
	return &Transport{life: l}, nil
}

// Connect mints and starts the first connection, and returns the logical connection over it and all that come
// after. The context bounds this alone: cancelling it later touches nothing. Its values reach every factory
// call.
//
// If the connection cannot be minted or started, that error is returned, and Connect may be called again.
// Otherwise a second call fails with ErrAlreadyStarted; after Close, or when it was closed meanwhile, with
// ErrClosed; after the budget was spent, with the *ExhaustedError.
func (t *Transport) Connect(ctx context.Context) (mcp.Connection, error) {
	started := make(chan error, 1)
	t.life.post(func() { t.life.start(ctx, started) })
	if err := <-started; err != nil {
		return nil, err
	}
	return &connection{t}, nil
}

// State returns where the lifecycle stands.
func (t *Transport) State() State { return t.life.board.now.Load().state }

// Reconnecting reports whether a replacement is promised and does not serve yet. It is true from the moment
// that a replacement is decided on, inside OnClose of the death already.
func (t *Transport) Reconnecting() bool { return t.life.board.now.Load().reconnecting }

// WaitServing returns nil once a connection serves, also one that Close is draining; before Connect it waits for
// that. It returns ErrClosed or the *ExhaustedError when the
// transport is closed for good, and the context's error when that ends first.
func (t *Transport) WaitServing(ctx context.Context) error { return t.life.board.waitServing(ctx) }

// Restart ends the connection that serves as a death would, with cause, which must not be nil: for a server that
// hangs. It spends none of the budget and waits for no delay, and returns once it is decided. Where nothing
// serves it does nothing and returns ErrNotStarted, ErrReconnecting, ErrClosed or the *ExhaustedError.
func (t *Transport) Restart(cause error) error {
	if cause == nil {
		return errors.New("supervised: Restart(nil): a cause is needed")
	}
	decided := make(chan error, 1)
	t.life.post(func() { decided <- t.life.restart(cause) })
	return <-decided
}

// Done is closed when the transport is closed for good and its last peer is gone.
func (t *Transport) Done() <-chan struct{} { return t.life.board.done }

// Err returns nil until Done is closed; then the *ExhaustedError if the budget was spent, and nil if Close was
// the end.
func (t *Transport) Err() error {
	select {
	case <-t.life.board.done:
	default:
		return nil
	}
	if f := t.life.board.now.Load().failure; f != nil {
		return f
	}
	return nil
}

// Stats returns a snapshot.
func (t *Transport) Stats() Stats {
	s := t.life.board.stats()
	s.InFlight, s.Streams = t.life.ledger.counts()
	s.ServerChanged = t.life.ledger.view().changed
	return s
}

// OnClose registers f to be called once for each connection that served and has ended, when its peer is gone,
// with the cause: in a death that of a process, an *stdio.ExitError is found in it with errors.As. It is called
// once more for a replacement that was promised and then withdrawn, and for a transport that was closed before
// it served. The cause is nil where Close was the end.
//
// The replacement is minted when f has returned. Close called inside f withdraws it.
//
// As for all hooks: f is registered once, before or after Connect, and outlives every respawn. Hooks are called
// one at a time, in the order of the transitions and of their registration, without a lock; a hook may call
// any method. A hook that panics is reported to OnError. remove is idempotent; during an emission f may still
// be called once. A nil f is not called.
func (t *Transport) OnClose(f func(cause error)) (remove func()) {
	return add(&t.life.hooks.onClose, f)
}

// OnDrain registers f to be called when Close begins, while the connection still serves and calls go through;
// also where Close comes before anything has served. The context ends when the connection does, and after
// WithDrainTimeout; the connection is closed then, whether f has returned or not.
//
// Alone of all hooks it runs on the goroutine that called Close, and may overlap with another. In it, Close
// returns at once. See OnClose for what is true of all hooks.
func (t *Transport) OnDrain(f func(ctx context.Context)) (remove func()) {
	return add(&t.life.hooks.onDrain, f)
}

// OnReconnect registers f to be called once for each replacement that serves, after the OnClose of the one that
// it replaces. What f writes reaches the replacement. The context ends when that connection ends or Close is
// called. An error is reported to OnError and changes nothing else. See OnClose for what is true of all hooks.
func (t *Transport) OnReconnect(f func(ctx context.Context) error) (remove func()) {
	return add(&t.life.hooks.onReconnect, f)
}

// OnError registers f to be called with what went wrong and is nobody's answer: a replacement that failed, what
// a connection reported of itself, a hook that failed or panicked, a peer that had to be abandoned, and at the
// end the *ExhaustedError. Nothing waits for it but the hooks behind it, and so a replacement for the OnClose hooks
// among them. What connections report, attempts that fail and handlers that panic are told up to a thousand turns behind
// what runs; what is beyond that is dropped. See OnClose for what is true of all hooks.
func (t *Transport) OnError(f func(error)) (remove func()) {
	return add(&t.life.hooks.onError, f)
}

// OnTransition registers f to be called with each transition, before the hooks that it emits (but OnDrain, where
// that ran before the event). Of the attempts of a server that cannot be started, those are dropped that would wait
// behind a thousand such turns. See OnClose for what is true of all hooks.
func (t *Transport) OnTransition(f func(Transition)) (remove func()) {
	return add(&t.life.hooks.onTransition, f)
}

// add registers f unless it is nil.
func add[F any](r *registry[F], f F) (remove func()) {
	if isNil(f) {
		return func() {}
	}
	return r.add(f)
}
