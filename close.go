package supervised

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync"
)

// Close ends supervision for good: nothing is minted any more, and a respawn that is pending is called off. It
// returns when the last peer is gone and Done is closed; hooks that it emitted may still be running.
//
// Where a connection serves, the OnDrain hooks run first, on this goroutine, and calls still go through; then
// the connection is closed, what is still in flight fails with ErrClosed, and OnClose follows. Where nothing
// serves, all of that is at once.
//
// It is idempotent, and safe to call from many goroutines at once and from hooks; inside OnDrain it returns at
// once, since what it would wait for waits for the hook. The error is that of the connection's own Close, and
// only the first call returns it.
func (t *Transport) Close() error {
	if t.drainers.here() {
		return nil
	}
	asked := make(chan func(), 1)
	var p *peer
	t.life.post(func() {
		if p = t.life.askClose(); p != nil {
			asked <- t.drainer(p)
			return
		}
		asked <- nil
	})
	if drain := <-asked; drain != nil {
		drain()
	}
	<-t.life.board.done
	if p == nil {
		return nil
	}
	return p.closeError()
}

// closeLater does what Close does, and waits for nothing: the hooks are called from the hook goroutine.
func (t *Transport) closeLater() {
	t.life.post(func() {
		if p := t.life.askClose(); p != nil {
			t.life.hooks.emit(nil, t.drainer(p))
		}
	})
}

// drainer returns what runs the OnDrain hooks while p serves. The connection is closed when they have returned,
// or when the drain timeout, which runs from now, is over (C2).
func (t *Transport) drainer(p *peer) func() {
	ctx, cancel := t.life.drainContext(p.live)
	context.AfterFunc(ctx, func() { t.life.post(t.life.closeNow) })
	return func() {
		defer cancel()
		defer t.drainers.enter()()
		t.life.hooks.runDrain(ctx)
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
