package supervised

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/benbjohnson/clock"
)

// Close ends supervision for good: nothing is minted any more, and a respawn that is pending is called off. It
// returns when the last peer is gone and Done is closed, and the OnDrain hooks that it runs have returned; other
// hooks that it emitted may still be running.
//
// Where a connection serves, the OnDrain hooks run first, on this goroutine, and calls still go through; then
// the connection is closed, what is still in flight fails with ErrClosed, and OnClose follows. Where nothing
// serves, all of that is at once.
//
// It is idempotent, and safe to call from many goroutines at once and from hooks; inside OnDrain it returns at
// once, since what it would wait for waits for the hook. The error is that of the connection's own Close, and
// only the first call returns it.
func (t *Transport) Close() error {
	l := t.life
	if l.drainers.here() {
		return nil
	}
	asked := make(chan struct{})
	var d *drain
	var mine *peer // the one whose own Close may have an error for this call
	l.post(func() {
		if !l.closeErrTaken {
			l.closeErrTaken, mine = true, l.serving
		}
		d = l.askClose()
		close(asked)
	})
	<-asked
	if d != nil {
		d.run()
	}
	<-l.board.done
	if mine == nil {
		return nil
	}
	return mine.closeError()
}

// closeLater does what Close does, and waits for nothing: the hooks are called from the hook goroutine.
func (t *Transport) closeLater() {
	l := t.life
	l.post(func() {
		if d := l.askClose(); d != nil {
			d.limitWait()
			l.hooks.emit(nil, d.run)
		}
	})
}

// A drain is the turn of the OnDrain hooks while a connection still serves. The connection is closed when they
// have returned, or when the drain timeout, which runs from the call of Close, is over (C2).
type drain struct {
	life    *lifecycle
	ctx     context.Context
	cancel  context.CancelFunc
	claimed atomic.Bool
	waiting atomic.Pointer[clock.Timer] // bounds the wait for a turn; nil: the drain timeout does
}

// newDrain begins the drain of p. It is a step of the lifecycle.
func (l *lifecycle) newDrain(p *peer) *drain {
	d := &drain{life: l}
	d.ctx, d.cancel = l.drainContext(p.live)
	context.AfterFunc(d.ctx, func() { l.post(l.closeNow) })
	return d
}

// run calls the hooks on this goroutine, unless they were called or are being called on another.
func (d *drain) run() {
	if !d.claimed.CompareAndSwap(false, true) {
		return
	}
	if t := d.waiting.Load(); t != nil {
		t.Stop()
	}
	defer d.cancel()
	defer d.life.drainers.enter()()
	d.life.hooks.runDrain(d.ctx)
}

// limitWait bounds how long the drain may wait for its turn behind a hook that blocks. With a drain timeout, that
// does.
func (d *drain) limitWait() {
	if d.life.drainTimeout == 0 {
		t := d.life.clock.AfterFunc(DefaultDrainTimeout, func() {
			if !d.claimed.Load() {
				d.life.post(d.life.closeNow)
			}
		})
		if !d.waiting.CompareAndSwap(nil, t) {
			t.Stop()
		}
	}
}

// drainers knows the goroutines that are inside the OnDrain hooks of a transport. Close called there must not
// wait for the drain to end, and Close called elsewhere meanwhile must: nothing but the goroutine tells the two
// apart.
type drainers struct {
	mu  sync.Mutex
	ids []string
}

// enter marks this goroutine until leave is called.
func (d *drainers) enter() (leave func()) {
	id := goroutineID()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids = append(d.ids, id)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ids = slices.Delete(d.ids, slices.Index(d.ids, id), 1+slices.Index(d.ids, id))
	}
}

// here reports whether this goroutine is marked.
func (d *drainers) here() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ids) > 0 && slices.Contains(d.ids, goroutineID())
}

// goroutineID is the number in the first line of the goroutine's stack trace, "goroutine 7 [running]:".
func goroutineID() string {
	var buf [64]byte
	fields := bytes.Fields(buf[:runtime.Stack(buf[:], false)])
	return string(fields[1])
}
