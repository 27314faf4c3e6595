package supervised

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised/budget"
)

// Stats is a snapshot of a transport.
type Stats struct {
	State      State
	Generation int // the number of the newest connection that has served; the first is 0; -1: none has

	Restarts         int // replacements that were minted, all in all, Restart's included
	RestartsInWindow int // how many of the budget's window are spent, as it told at the last death; 0 when that is past

	InFlight int // calls that await their answer, those kept for a replacement included
	Streams  int // subscriptions/listen requests that are open

	// ServerChanged: the server of now answered the replayed handshake with other capabilities, another name or
	// another version than the first did.
	ServerChanged bool

	// LastExit is how the last connection that is gone ended, whether it had served yet or not, with its exit where
	// it had one (errors.As); nil: none has ended yet, or its end had no error.
	LastExit error
	// LastExitCode is the exit code that LastExit has; -1 for a signal, and where there is none.
	LastExitCode int
}

// status is where the lifecycle stands.
type status struct {
	state        State
	reconnecting bool
	failure      *ExhaustedError
	changed      chan struct{} // closed when the next status is posted
}

// A board shows the lifecycle to everybody else. It is written by the lifecycle, which waits for nobody who reads
// it.
type board struct {
	clock interface{ Now() time.Time }
	now   atomic.Pointer[status]
	peer  atomic.Pointer[peer] // that serves: a hint, the ledger's door decides (W6)
	done  chan struct{}        // closed by close

	mu         sync.Mutex
	generation int
	restarts   int
	grant      budget.Grant // the last one
	opened     time.Time    // when the window of grant opened
	lastExit   error
}

func newBoard(clock interface{ Now() time.Time }) *board {
	b := &board{clock: clock, done: make(chan struct{}), generation: -1}
	b.now.Store(&status{changed: make(chan struct{})})
	return b
}

// post replaces the status. The lifecycle alone calls it.
func (b *board) post(s status) {
	s.changed = make(chan struct{})
	close(b.now.Swap(&s).changed)
}

// serve sets the peer that messages go to; nil: there is none.
func (b *board) serve(p *peer) {
	b.peer.Store(p)
	if p != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.generation = p.generation
	}
}

// spent notes what the budget said of a death.
func (b *board) spent(g budget.Grant, granted bool, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if granted && (g.Attempt <= 1 || b.opened.IsZero() || at.Sub(b.opened) > g.Window) {
		b.opened = at
	}
	b.grant = g
}

func (b *board) restarted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.restarts++
}

// exit notes how p, which is gone, ended.
func (b *board) exit(p *peer) {
	err := p.ending()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastExit = err
}

// close says that all is over.
func (b *board) close() { close(b.done) }

// refusal is the error of a message that finds no peer.
func (b *board) refusal() error {
	switch s := b.now.Load(); {
	case s.failure != nil:
		return s.failure
	case s.state == StateClosed:
		return ErrClosed
	default:
		return ErrReconnecting
	}
}

// unavailable is why nothing can be asked of a peer now; nil: one serves.
func (b *board) unavailable() error {
	switch s := b.now.Load(); {
	case s.state == StateIdle, s.state == StateConnecting && !s.reconnecting:
		return ErrNotStarted
	case s.state != StateServing:
		return b.refusal()
	}
	return nil
}

// waitServing returns once a connection serves, the transport is closed for good, or ctx is done.
func (b *board) waitServing(ctx context.Context) error {
	for {
		s := b.now.Load()
		switch s.state {
		case StateServing:
			return nil
		case StateClosed:
			return b.refusal()
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stats fills in what the board knows.
func (b *board) stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{
		State:        b.now.Load().state,
		Generation:   b.generation,
		Restarts:     b.restarts,
		LastExit:     b.lastExit,
		LastExitCode: -1,
	}
	if b.clock.Now().Sub(b.opened) <= b.grant.Window {
		s.RestartsInWindow = b.grant.Attempt
	}
	if code, ok := exitCode(b.lastExit); ok {
		s.LastExitCode = code
	}
	return s
}

// exitCode returns the exit code that is found in a peer's end, by type, as os/exec has it.
func exitCode(err error) (int, bool) {
	var coder interface{ ExitCode() int }
	if !errors.As(err, &coder) {
		return 0, false
	}
	return coder.ExitCode(), true
}

// exitSignal returns the signal that a peer died of, if its end tells one.
func exitSignal(err error) (os.Signal, bool) {
	var signaler interface{ ExitSignal() os.Signal }
	if errors.As(err, &signaler) {
		s := signaler.ExitSignal()
		return s, s != nil
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		if w, ok := e.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			return w.Signal(), true
		}
	}
	return nil, false
}

// logRestart logs that the replacement of p is about to be minted.
func (l *lifecycle) logRestart(p *peer) {
	end := p.ending()
	fields := logrus.Fields{"exit_code": "unknown"}
	if code, ok := exitCode(end); ok {
		fields["exit_code"] = code
	}
	if s, ok := exitSignal(end); ok {
		fields["signal"] = s.String()
	}
	if l.why != "" {
		l.logger.WithFields(fields).Warn(l.why)
		return
	}
	fields["attempt"], fields["budget"] = l.granted.Attempt, l.granted.Max
	l.logger.WithFields(fields).Warn("restarting the peer")
}
