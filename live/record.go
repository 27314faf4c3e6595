package live

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/stdio"
)

const (
	maxTransitions = 100
	maxExits       = 20

	maxText   = 2 << 10 // bytes of an error's text
	maxStderr = 8 << 10 // bytes of the end of a stderr, what stdio keeps
)

// A record is what the page has been told of a transport.
type record struct {
	name      string
	transport *supervised.Transport
	changed   func() // called with no lock held

	mu          sync.Mutex
	version     int          // counts the changes of the two below
	transitions []transition // the newest is the last
	exits       []exit       // the newest is the last
	ending      transition   // the last one that named onClose: what OnClose speaks of
}

// A transition is a step that was taken, and the row of the table that it was.
type transition struct {
	supervised.Transition
	Branch int    // of the row
	Why    string // the cause, to be shown; "": there was none
}

// An exit is how a server ended.
type exit struct {
	At         time.Time
	Generation int
	Code       int  // where Coded
	Coded      bool // the end has an exit code
	Signal     os.Signal
	Text       string // the whole error
	Stderr     string // the end of it
}

// listen registers the hooks.
func (r *record) listen() (forget func()) {
	onTransition := r.transport.OnTransition(r.step)
	onClose := r.transport.OnClose(r.end)
	return func() { onTransition(); onClose() }
}

// step writes a transition down.
func (r *record) step(t supervised.Transition) {
	s := transition{Transition: t, Branch: branch(t)}
	if t.Cause != nil {
		s.Why = visible(head(t.Cause.Error(), maxText))
	}
	s.Cause = nil // may hold anything, and for long
	r.note(func() {
		r.transitions = append(r.transitions, s)
		switch {
		case slices.Contains(t.Hooks, hookClose):
			r.ending = s // OnClose follows, and knows more of the exit
		case t.Cause != nil && (t.Event == supervised.EventConnectFailed || t.Event == supervised.EventPeerDied):
			r.exits = append(r.exits, exitOf(t.Cause, s))
		}
	})
}

// end writes down how a connection that served has ended. It is called as well where a replacement is withdrawn, which
// is no exit, and with nil where Close was the end.
func (r *record) end(cause error) {
	r.note(func() {
		if cause != nil && r.ending.From == supervised.StateServing {
			r.exits = append(r.exits, exitOf(cause, r.ending))
		}
	})
}

// note changes the record and tells the viewers.
func (r *record) note(change func()) {
	r.mu.Lock()
	change()
	r.version++
	r.transitions = newest(r.transitions, maxTransitions)
	r.exits = newest(r.exits, maxExits)
	r.mu.Unlock()
	r.changed()
}

// read returns what is written down, the newest first.
func (r *record) read() (version int, transitions []transition, exits []exit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	transitions, exits = slices.Clone(r.transitions), slices.Clone(r.exits)
	slices.Reverse(transitions)
	slices.Reverse(exits)
	return r.version, transitions, exits
}

// newest returns the last n of list, and lets go of the others.
func newest[E any](list []E, n int) []E {
	return slices.Delete(list, 0, max(0, len(list)-n))
}

// exitOf reads the end of a server as the transport does: by type, whoever made the error.
func exitOf(cause error, of transition) exit {
	e := exit{At: of.At, Generation: of.Generation, Text: visible(head(cause.Error(), maxText))}
	var coder interface{ ExitCode() int }
	if errors.As(cause, &coder) {
		e.Code, e.Coded = coder.ExitCode(), true
	}
	var signaler interface{ ExitSignal() os.Signal }
	if errors.As(cause, &signaler) {
		e.Signal = signaler.ExitSignal()
	}
	if process, ok := errors.AsType[*stdio.ExitError](cause); ok {
		e.Stderr = visible(tail(process.Stderr, maxStderr))
	}
	return e
}
