package budget

import "time"

// Streak allows a number of restarts in a row. A peer that had served for long
// enough ends the row, and what was spent is forgiven:
//
//	n = 1 where uptime ≥ stretch, else n + 1
//	granted while n ≤ max
//
// It asks how well the replacements do, not how often they are needed: a peer
// that dies once a day may do so for ever, one whose replacements all fail is
// given up on after max of them however slowly they do it, and a failure that
// is over after a few attempts costs nothing later. With a stretch under a
// minute it passes a peer that dies each minute, which is what a long window is
// for ([Sliding], and [All] to have both).
//
// Supervisord counts in this way: startretries serial failures of a program that
// ran for less than startsecs are the end. Kubernetes forgives in this way: the
// restart back-off of a container starts afresh when it has run for 10 minutes.
//
// A Streak is safe for concurrent use and may be shared by several supervisors.
// They then share the row: one peer's long service forgives nothing while others
// were dying, so what ends it is a peer that had served for the stretch with no
// restart granted to any of them in that time. For one supervisor that is the
// same as the rule above, since its peers do not overlap. The order in which
// deaths arrive makes no difference to that: the latest counts. The zero value
// refuses every restart.
type Streak struct {
	max            int
	stretch, delay time.Duration

	lock guard
	row  row
}

// NewStreak returns a budget of max restarts, at least 1, between two stretches
// of uptime, each of which is positive. Each restart is granted with the same
// delay, which may be 0. The error names the argument that is out of range, and
// its value.
func NewStreak(max int, stretch, delay time.Duration) (*Streak, error) {
	if err := checkMax(max); err != nil {
		return nil, err
	}
	if err := checkPositive("stretch of uptime", stretch); err != nil {
		return nil, err
	}
	if err := checkDelay(delay); err != nil {
		return nil, err
	}
	return &Streak{max: max, stretch: stretch, delay: delay}, nil
}

// Spend implements [Budget]. Of the death it looks at the time and at the uptime.
// The grant's Attempt is the number of the restart in the row, in a refusal its
// Max; there is no Window.
func (s *Streak) Spend(d Death) (Grant, bool) { return spend(s, d) }

func (s *Streak) guard() *guard { return &s.lock }

func (s *Streak) look(d Death) (Grant, bool) {
	attempt := s.row.next(d, s.stretch)
	return Grant{Attempt: min(attempt, s.max), Max: s.max, Delay: s.delay}, attempt <= s.max
}

func (s *Streak) take(d Death) Grant {
	grant, _ := s.look(d)
	s.row.add(d, s.stretch)
	return grant
}

// A row is the restarts that were granted since the last peer that served for
// long enough. The zero value is empty.
type row struct {
	length int
	latest time.Time // of the deaths that were granted; meaningless while the row is empty
}

// next returns the number in the row that a restart after d would have.
func (r *row) next(d Death, stretch time.Duration) int {
	if d.Uptime >= stretch && (r.length == 0 || d.At.Sub(r.latest) >= stretch) {
		return 1
	}
	return r.length + 1
}

// add has d be granted.
func (r *row) add(d Death, stretch time.Duration) {
	next := r.next(d, stretch)
	if r.length == 0 || d.At.Sub(r.latest) > 0 {
		r.latest = d.At
	}
	r.length = next
}
