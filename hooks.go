package supervised

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// A Transition is one step of the lifecycle, as OnTransition gets it.
type Transition struct {
	From  State
	Event Event
	Guard string // the guard that held; "": there was none, or the else was taken
	To    State
	Hooks []string // what the step emits, as the lifecycle table names it
	At    time.Time

	// Generation is the number of the connection that the event speaks of: the first that was established
	// is 0. While a connection is being brought up it is the number that it will have.
	Generation int

	// Cause is why: the end of a peer, the error of a failed attempt. Nil where nothing failed.
	Cause error
}

// hooks holds what users registered and calls it: one hook at a time, in the order of the emissions, from a
// goroutine that lives while there is something to call. No lock is held during a call.
type hooks struct {
	logger logrus.FieldLogger

	onClose      registry[func(error)]
	onDrain      registry[func(context.Context)]
	onReconnect  registry[func(context.Context) error]
	onError      registry[func(error)]
	onTransition registry[func(Transition)]

	loose atomic.Int64 // turns that wait and may be without end: those of emitLoose

	mu      sync.Mutex
	queue   []*turn
	running bool // a goroutine is emptying the queue
}

// A turn is what the hooks of one kind are called for once.
type turn struct {
	ready <-chan struct{} // closed when it may run; nil: at once
	run   func()
	done  chan struct{} // closed when it has run
}

// emit queues run behind all that was emitted before, to be run once ready is closed (nil: at once). The
// channel that it returns is closed when run has returned.
func (h *hooks) emit(ready <-chan struct{}, run func()) <-chan struct{} {
	e := newTurn(ready, run)
	h.enqueue(e)
	return e.done
}

func newTurn(ready <-chan struct{}, run func()) *turn {
	return &turn{ready: ready, run: run, done: make(chan struct{})}
}

// enqueue queues turns with nothing between them: what goes wrong in the first is reported behind the last.
func (h *hooks) enqueue(turns ...*turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = append(h.queue, turns...)
	if !h.running {
		h.running = true
		go h.drainQueue()
	}
}

func (h *hooks) drainQueue() {
	var e *turn
	defer func() {
		if e != nil { // a hook ended this goroutine (runtime.Goexit): what is behind it still has its turn
			close(e.done)
			go h.drainQueue()
		}
	}()
	for {
		if e = h.next(); e == nil {
			return
		}
		if e.ready != nil {
			<-e.ready
		}
		e.run()
		close(e.done)
	}
}

// next takes the oldest turn off the queue; nil: there is none, and the goroutine that asked ends.
func (h *hooks) next() *turn {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) == 0 {
		h.queue, h.running = nil, false
		return nil
	}
	e := h.queue[0]
	h.queue[0] = nil
	h.queue = h.queue[1:]
	return e
}

// emitError queues a call of the OnError hooks.
func (h *hooks) emitError(err error) {
	h.emit(nil, func() { h.runError(err) })
}

// looseLimit is how many turns that emitLoose has queued wait: a server may cause as many as it likes, and a hook may
// take as long as it likes.
const looseLimit = 1000

// emitLoose queues run as emit does, or drops it above the limit. It is for what may be told again and again while a
// hook holds up the queue: what connections report, the attempts that fail, handlers that panic. All else is followed
// by an OnClose that a mint waits for, or comes once.
func (h *hooks) emitLoose(run func()) {
	if e := h.looseTurn(run); e != nil {
		h.enqueue(e)
	}
}

// looseTurn returns a turn for what emitLoose is for; nil: it is to be dropped.
func (h *hooks) looseTurn(run func()) *turn {
	if h.loose.Add(1) > looseLimit {
		h.loose.Add(-1)
		return nil
	}
	return newTurn(nil, func() {
		defer h.loose.Add(-1)
		run()
	})
}

// emitReport queues a call of the OnError hooks, or drops it above the limit.
func (h *hooks) emitReport(err error) {
	h.emitLoose(func() { h.runError(err) })
}

func (h *hooks) runError(err error) {
	for f := range h.onError.each() {
		if p := protect("OnError", func() { f(err) }); p != nil {
			h.logger.WithError(p).Error("hook panicked")
		}
	}
}

func (h *hooks) runClose(cause error) {
	for f := range h.onClose.each() {
		h.report(protect("OnClose", func() { f(cause) }))
	}
}

func (h *hooks) runDrain(ctx context.Context) {
	for f := range h.onDrain.each() {
		h.report(protect("OnDrain", func() { f(ctx) }))
	}
}

func (h *hooks) runReconnect(ctx context.Context) {
	for f := range h.onReconnect.each() {
		var err error
		p := protect("OnReconnect", func() { err = f(ctx) })
		if err != nil {
			err = fmt.Errorf("supervised: OnReconnect hook: %w", err)
		}
		h.report(errors.Join(p, err))
	}
}

func (h *hooks) runTransition(t Transition) {
	for f := range h.onTransition.each() {
		t.Hooks = slices.Clone(t.Hooks)
		h.report(protect("OnTransition", func() { f(t) }))
	}
}

// report passes what a hook did wrong to the OnError hooks; nil is nothing.
func (h *hooks) report(err error) {
	if err != nil {
		h.emitError(err)
	}
}

// protect calls f and returns its panic as an error.
func protect(what string, f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("supervised: %s panicked: %w", what, v)
		default:
			err = fmt.Errorf("supervised: %s panicked: %v", what, v)
		}
	}()
	f()
	return nil
}

// A registry holds the hooks of one kind in the order of their registration. The zero value is empty. It is
// safe for concurrent use.
type registry[F any] struct {
	mu  sync.Mutex
	all []*F // replaced, never changed: an emission goes through what it found
}

// add registers f; remove takes it out again, and does nothing the second time.
func (r *registry[F]) add(f F) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := &f
	r.all = append(slices.Clip(r.all), entry)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.Index(r.all, entry); i >= 0 {
			r.all = slices.Delete(slices.Clone(r.all), i, i+1)
		}
	}
}

// any reports whether a hook is registered.
func (r *registry[F]) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all) > 0
}

// each goes through the hooks that are registered now.
func (r *registry[F]) each() func(yield func(F) bool) {
	r.mu.Lock()
	all := r.all
	r.mu.Unlock()
	return func(yield func(F) bool) {
		for _, f := range all {
			if !yield(*f) {
				return
			}
		}
	}
}
