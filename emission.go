package supervised

import (
	"context"
)

// An occasion is what the hooks of a transition are told of.
type occasion struct {
	peer    *peer
	cause   error
	gone    <-chan struct{} // OnClose waits for it; nil: for nothing
	drained bool            // the OnDrain hooks were called before the event (C2)
}

// emit queues the hooks that a row names. The channel that it returns is closed when the last of them has been
// called; nil: there is none.
func (l *lifecycle) emit(hooks []string, o occasion) (done <-chan struct{}) {
	for _, hook := range hooks {
		switch hook {
		case hookDrain:
			if !o.drained {
				done = l.hooks.emit(nil, func() {
					ctx, cancel := l.drainContext(context.Background())
					defer cancel()
					l.hooks.runDrain(ctx)
				})
			}
		case hookClose:
			done = l.hooks.emit(o.gone, func() { l.hooks.runClose(o.closeCause()) })
		case hookReconnect:
			done = l.hooks.emit(nil, func() { l.hooks.runReconnect(o.peer.settled) })
		case hookError:
			done = l.hooks.emitLoose(func() { l.hooks.runError(o.cause) })
		case hookExhausted:
			failure := l.failure
			done = l.hooks.emit(nil, func() { l.hooks.runError(failure) })
		}
	}
	return done
}

// closeCause is what OnClose gets: the cause, with what has become known of the peer's exit since.
func (o occasion) closeCause() error {
	if o.cause == nil || o.gone == nil {
		return o.cause
	}
	return o.peer.ending()
}

// drainContext is what the OnDrain hooks get.
func (l *lifecycle) drainContext(parent context.Context) (context.Context, context.CancelFunc) {
	if l.drainTimeout == 0 {
		return context.WithCancel(parent)
	}
	return l.clock.WithTimeout(parent, l.drainTimeout)
}
