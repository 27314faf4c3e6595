package budget

import (
	"fmt"
	"sync"
	"time"
)

// Tumbling allows a number of restarts in a window of time. The window opens at
// the death that brings the first of them, not at some origin of the clock. A
// death inside it spends one restart, or is refused once all are spent; exactly
// on the far edge is inside. The first death past the edge opens a fresh window.
//
// So the windows do not slide, and up to 2·max − 1 restarts can fall into one
// window's width where two of them meet: all but the first of the old one just
// before its edge, and all of the new one just after. That is the price of a rule
// that can be told in a sentence and needs no list of deaths.
//
// A Tumbling is safe for concurrent use and may be shared by several
// supervisors. Deaths may then arrive out of order: one that lies before the
// opening of the window counts as inside it. The zero value refuses every
// restart; NewTumbling makes one that grants some.
type Tumbling struct {
	max           int
	window, delay time.Duration

	mu     sync.Mutex
	opened time.Time // of the window; meaningless while nothing is spent
	spent  int       // restarts in the window, at most max
}

// NewTumbling returns a budget of max restarts, at least 1, in a window, which
// is positive. Each is granted with the same delay, which may be 0. The error
// names the argument that is out of range, and its value.
func NewTumbling(max int, window, delay time.Duration) (*Tumbling, error) {
	switch {
	case max < 1:
		return nil, fmt.Errorf("budget: max restarts %d: want at least 1", max)
	case window <= 0:
		return nil, fmt.Errorf("budget: restart window %v: want a positive duration", window)
	case delay < 0:
		return nil, fmt.Errorf("budget: restart delay %v: want 0 or more", delay)
	}
	return &Tumbling{max: max, window: window, delay: delay}, nil
}

// Spend implements [Budget]. Of the death it looks at the time alone, and of that
// only at the distance from other deaths. In a refusal the grant's Attempt equals
// its Max.
func (t *Tumbling) Spend(d Death) (Grant, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	// Sub rather than a comparison with the edge: it prefers the monotonic
	// readings, and a death before the opening gives a negative distance.
	if t.spent == 0 || d.At.Sub(t.opened) > t.window {
		t.opened, t.spent = d.At, 0
	}
	granted := t.spent < t.max
	if granted {
		t.spent++
	}
	return Grant{Attempt: t.spent, Max: t.max, Window: t.window, Delay: t.delay}, granted
}
