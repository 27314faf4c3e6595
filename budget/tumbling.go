package budget

import (
	"time"
)

// Tumbling allows a number of restarts in a window of time. The window opens at
// the death that brings the first of them, not at some origin of the clock. A
// death inside it spends one restart, or is refused once all are spent; exactly
// on the far edge is inside. The first death past the edge opens a fresh window:
//
//	n(t) = n + 1 where t − opened ≤ window, else 1 and opened = t
//	granted while n(t) ≤ max
//
// So the windows do not slide, and up to 2·max − 1 restarts can fall into one
// window's width where two of them meet: all but the first of the old one just
// before its edge, and all of the new one just after. That is the price of a rule
// that can be told in a sentence and needs no list of deaths; [Sliding] pays it.
// The rate limit of systemd's units (StartLimitBurst= starts in
// StartLimitIntervalSec=, systemd.unit(5)) opens and closes its window in the
// same way.
//
// A Tumbling is safe for concurrent use and may be shared by several
// supervisors. Deaths may then arrive out of order: one that lies before the
// opening of the window counts as inside it. The zero value refuses every
// restart; NewTumbling makes one that grants some.
type Tumbling struct {
	max           int
	window, delay time.Duration

	lock   guard
	opened time.Time // of the window; meaningless while nothing is spent
	spent  int       // restarts in the window, at most max
}

// NewTumbling returns a budget of max restarts, at least 1, in a window, which
// is positive. Each is granted with the same delay, which may be 0. The error
// names the argument that is out of range, and its value.
func NewTumbling(max int, window, delay time.Duration) (*Tumbling, error) {
	if err := checkWindow(max, window, delay); err != nil {
		return nil, err
	}
	return &Tumbling{max: max, window: window, delay: delay}, nil
}

// Spend implements [Budget]. Of the death it looks at the time alone, and of that
// only at the distance from other deaths. In a refusal the grant's Attempt equals
// its Max.
func (t *Tumbling) Spend(d Death) (Grant, bool) { return spend(t, d) }

func (t *Tumbling) guard() *guard { return &t.lock }

func (t *Tumbling) look(d Death) (Grant, bool) {
	spent := t.inWindow(d)
	granted := spent < t.max
	if granted {
		spent++
	}
	return Grant{Attempt: spent, Max: t.max, Window: t.window, Delay: t.delay}, granted
}

func (t *Tumbling) take(d Death) Grant {
	grant, _ := t.look(d)
	if grant.Attempt == 1 {
		t.opened = d.At
	}
	t.spent = grant.Attempt
	return grant
}

// inWindow returns how many restarts were spent in the window that d lies in.
func (t *Tumbling) inWindow(d Death) int {
	// Sub rather than a comparison with the edge: it prefers the monotonic
	// readings, and a death before the opening gives a negative distance.
	if d.At.Sub(t.opened) > t.window {
		return 0
	}
	return t.spent
}
