package budget

import (
	"slices"
	"time"
)

// Sliding allows a number of restarts in any window of time, wherever that
// begins: a death is refused if a window can be laid so that it holds this one
// and max restarts that were granted. Both edges are inside:
//
//	granted at t if no t' has |{granted s: t' ≤ s ≤ t' + window} ∪ {t}| > max
//
// which is, for deaths that arrive in order, while fewer than max restarts were
// granted since t − window.
//
// This is the rule of an OTP supervisor (intensity restarts in a period; the
// supervisor module of Erlang/OTP, which forgets what was before now − period).
// With a second, longer window beside it ([All]) it also stops a slow crash
// loop, of which every short window sees but one.
//
// A Sliding remembers at most 2·max times of death. It is safe for concurrent use
// and may be shared by several supervisors. Deaths may then arrive out of order,
// and each is judged where it lies; only one that lies more than a window before
// the latest restart is judged as if it lay a window before that, since what was
// then is forgotten. The zero value refuses every restart.
type Sliding struct {
	max           int
	window, delay time.Duration

	lock    guard
	granted []time.Time // in order, those of the last two windows
}

// NewSliding returns a budget of max restarts, at least 1, in any window, which
// is positive. Each is granted with the same delay, which may be 0. The error
// names the argument that is out of range, and its value.
func NewSliding(max int, window, delay time.Duration) (*Sliding, error) {
	if err := checkWindow(max, window, delay); err != nil {
		return nil, err
	}
	return &Sliding{max: max, window: window, delay: delay}, nil
}

// Spend implements [Budget]. Of the death it looks at the time alone, and of that
// only at the distance from other deaths. The grant's Attempt is the number of
// restarts in the fullest window that holds this one; in a refusal it equals Max.
func (s *Sliding) Spend(d Death) (Grant, bool) { return spend(s, d) }

func (s *Sliding) guard() *guard { return &s.lock }

func (s *Sliding) look(d Death) (Grant, bool) {
	at := s.counted(d.At)
	attempt := s.fullest(at, s.place(at))
	granted := attempt <= s.max
	return Grant{Attempt: min(attempt, s.max), Max: s.max, Window: s.window, Delay: s.delay}, granted
}

func (s *Sliding) take(d Death) Grant {
	grant, _ := s.look(d)
	at := s.counted(d.At)
	s.granted = slices.Insert(s.granted, s.place(at), at)
	s.forget()
	return grant
}

// counted returns the time that a death at this time is counted at.
func (s *Sliding) counted(at time.Time) time.Time {
	if len(s.granted) == 0 {
		return at
	}
	latest := s.granted[len(s.granted)-1]
	if latest.Sub(at) > s.window {
		return latest.Add(-s.window)
	}
	return at
}

// place returns where in granted a restart at this time belongs, behind those of
// the same time.
func (s *Sliding) place(at time.Time) int {
	i := len(s.granted)
	for i > 0 && s.granted[i-1].Sub(at) > 0 { // from the end: most deaths arrive in order
		i--
	}
	return i
}

// fullest returns how many restarts the fullest window holds that holds one at
// this time too, whose place is i; that one counts.
func (s *Sliding) fullest(at time.Time, i int) int {
	first := i // the window that begins with it is the earliest that holds this one
	for first > 0 && at.Sub(s.granted[first-1]) <= s.window {
		first--
	}
	most, end := 0, i
	for begin := first; begin <= i; begin++ {
		opens := at
		if begin < i {
			opens = s.granted[begin]
		}
		for end < len(s.granted) && s.granted[end].Sub(opens) <= s.window {
			end++
		}
		most = max(most, end-begin+1)
	}
	return most
}

// forget drops what no later death can share a window with: none is counted at
// more than a window before the latest.
func (s *Sliding) forget() {
	latest, old := s.granted[len(s.granted)-1], 0
	// Two windows, said so that the largest duration does not overflow.
	for latest.Sub(s.granted[old])-s.window > s.window {
		old++
	}
	s.granted = slices.Delete(s.granted, 0, old)
}
