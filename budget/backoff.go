package budget

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Backoff is a delay that grows while peers keep dying. It refuses nothing: by
// itself it is a budget without an end, and beside others in an [All] it is the
// delay of their restarts, of which the longest counts.
//
// The n-th restart in a row waits for a time that is drawn evenly from
//
//	0 to min(longest, first·2ⁿ⁻¹), both included
//
// which is the "full jitter" of Marc Brooker's "Exponential Backoff And Jitter"
// (AWS Architecture Blog, 2015): of the ways of spreading that it compares, the
// one with the least work for the least time. Peers that died together, of one
// host or of many, then do not come up together, again and again. Half the
// ceiling is the mean; the next delay can be shorter than the last. WithoutJitter
// has each restart wait for the whole ceiling.
//
// A row ends as that of a [Streak] does, with a peer that had served for long
// enough, by default twice the longest delay: the kubelet's rule for containers,
// 10 s doubled up to 5 minutes and afresh after 10 minutes of running.
//
// A Backoff is safe for concurrent use. Supervisors that share one share the row
// (see [Streak]), so that each death makes the next delay of all of them longer;
// to spread the restarts of many, give each its own. The zero value grants every
// restart at once.
type Backoff struct {
	first, longest, stretch time.Duration
	steady                  bool // no jitter
	random                  *rand.Rand

	lock guard
	row  row
}

// A BackoffOption changes how NewBackoff builds a Backoff. Where one is given
// twice, the last counts.
type BackoffOption func(*Backoff) error

// NewBackoff returns a budget that grants every restart. The ceiling of its delay
// is first, which is positive, then twice as long each time, up to longest, which
// is at least first. The error names the argument that is out of range, and its
// value.
func NewBackoff(first, longest time.Duration, opts ...BackoffOption) (*Backoff, error) {
	if err := checkPositive("first delay", first); err != nil {
		return nil, err
	}
	if longest < first {
		return nil, fmt.Errorf("budget: longest delay %v: want at least the first, %v", longest, first)
	}
	b := &Backoff{first: first, longest: longest, stretch: twice(longest)}
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("budget: nil BackoffOption")
		}
		if err := opt(b); err != nil {
			return nil, err
		}
	}
	if b.random == nil {
		b.random = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return b, nil
}

// WithoutJitter has every restart wait for the whole of its ceiling.
func WithoutJitter() BackoffOption {
	return func(b *Backoff) error {
		b.steady = true
		return nil
	}
}

// WithSource sets where the jitter comes from: by default a generator of this
// Backoff's own with a random seed. The source is asked under the lock of the
// Backoff, for each restart that is granted, and so need not be safe for
// concurrent use unless others use it too.
func WithSource(source rand.Source) BackoffOption {
	return func(b *Backoff) error {
		if source == nil {
			return errors.New("budget: WithSource(nil)")
		}
		b.random = rand.New(source)
		return nil
	}
}

// WithStretch sets how long a peer must have served to end a row: by default
// twice the longest delay. It is positive.
func WithStretch(d time.Duration) BackoffOption {
	return func(b *Backoff) error {
		b.stretch = d
		return checkPositive("stretch of uptime", d)
	}
}

// Spend implements [Budget]. It grants every restart. Of the death it looks at the
// time and at the uptime. The grant's Attempt is the number of the restart in the
// row; there is no Max and no Window.
func (b *Backoff) Spend(d Death) (Grant, bool) { return spend(b, d) }

func (b *Backoff) guard() *guard { return &b.lock }

// look leaves out the delay: it is drawn once, for a restart that is granted.
func (b *Backoff) look(d Death) (Grant, bool) {
	return Grant{Attempt: b.row.next(d, b.stretch)}, true
}

func (b *Backoff) take(d Death) Grant {
	grant, _ := b.look(d)
	b.row.add(d, b.stretch)
	grant.Delay = b.ceiling(grant.Attempt)
	if !b.steady && grant.Delay > 0 {
		grant.Delay = time.Duration(b.random.Uint64N(uint64(grant.Delay) + 1))
	}
	return grant
}

// ceiling returns the longest delay that the n-th restart in a row may get.
func (b *Backoff) ceiling(n int) time.Duration {
	ceiling := b.first
	for range n - 1 {
		if ceiling >= b.longest {
			break
		}
		ceiling = twice(ceiling)
	}
	return min(ceiling, b.longest)
}

// twice returns 2·d, or the longest duration that there is.
func twice(d time.Duration) time.Duration {
	const most = time.Duration(1<<63 - 1)
	if d > most/2 {
		return most
	}
	return 2 * d
}
