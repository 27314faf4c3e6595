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
	var turns []*turn
	add := func(ready <-chan struct{}, run func()) { turns = append(turns, newTurn(ready, run)) }
	for _, hook := range hooks {
		switch hook {
		case hookDrain:
			if !o.drained {
				add(nil, func() {
					ctx, cancel := l.drainContext(context.Background())
					defer cancel()
					l.hooks.runDrain(ctx)
				})
			}
		case hookClose:
			add(o.gone, func() { l.hooks.runClose(o.closeCause()) })
		case hookReconnect:
			add(nil, func() { l.hooks.runReconnect(o.peer.settled) })
		case hookError:
			if e := l.hooks.looseTurn(func() { l.hooks.runError(o.cause) }); e != nil {
				turns = append(turns, e)
			}
		case hookExhausted:
			failure := l.failure
			add(nil, func() { l.hooks.runError(failure) })
		}
	}
	if len(turns) == 0 {
		return nil
	}
	l.hooks.enqueue(turns...)
	return turns[len(turns)-1].done
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
