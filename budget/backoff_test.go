package budget_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/budget"
)

// delays has as many peers die at once, and returns the delays of their replacements.
func delays(t testing.TB, b budget.Budget, n int) (got []time.Duration) {
	t.Helper()
	for i := range n {
		grant, granted := b.Spend(at(0))
		if want := (budget.Grant{Attempt: i + 1, Delay: grant.Delay}); !granted || grant != want {
			t.Errorf("restart %d: granted %t, %+v", i+1, granted, grant)
		}
		got = append(got, grant.Delay)
	}
	return got
}

func TestBackoff_Ceilings(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	for _, tt := range []struct {
		name           string
		first, longest time.Duration
		want           []time.Duration
	}{
		{"doubles up to the longest", 100, 1000, []time.Duration{100, 200, 400, 800, 1000, 1000}},
		{"meets the longest exactly", 100, 400, []time.Duration{100, 200, 400, 400}},
		{"the first is the longest", 7, 7, []time.Duration{7, 7, 7}},
		{"does not overflow", most/2 + 1, most, []time.Duration{most/2 + 1, most, most}},
		{"nor just below", most / 2, most, []time.Duration{most / 2, most - 1, most, most}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBudget[*budget.Backoff](t)(budget.NewBackoff(tt.first, tt.longest, budget.WithoutJitter()))
			if diff := cmp.Diff(tt.want, delays(t, b, len(tt.want))); diff != "" {
				t.Errorf("delays (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBackoff_RowsEnd(t *testing.T) {
	steady := func(opts ...budget.BackoffOption) budget.Budget {
		return newBudget[*budget.Backoff](t)(budget.NewBackoff(time.Second, stretch/2, opts...))
	}
	long := []step{{0, 0, 1, true}, {1, 0, 2, true}, {stretch, stretch - 1, 3, true}, {2 * stretch, stretch, 1, true}}
	t.Run("after twice the longest delay", func(t *testing.T) { walk(t, steady(), long...) })
	t.Run("after a stretch of one's own", func(t *testing.T) {
		walk(t, steady(budget.WithStretch(5)), step{0, 0, 1, true}, step{4, 4, 2, true}, step{9, 5, 1, true}, step{14, 4, 2, true})
	})
	t.Run("where twice the longest is too long to say", func(t *testing.T) {
		b := newBudget[*budget.Backoff](t)(budget.NewBackoff(1, math.MaxInt64))
		walk(t, b, step{0, 0, 1, true}, step{math.MaxInt64, math.MaxInt64 - 1, 2, true})
		b = newBudget[*budget.Backoff](t)(budget.NewBackoff(1, math.MaxInt64))
		walk(t, b, step{0, 0, 1, true}, step{math.MaxInt64, math.MaxInt64, 1, true})
	})
}

// Full jitter: each delay from nothing to the ceiling, and none more often than another.
func TestBackoff_JitterIsEven(t *testing.T) {
	const rounds, ceiling = 10_000, 4
	b := newBudget[*budget.Backoff](t)(budget.NewBackoff(ceiling, ceiling, budget.WithSource(rand.NewPCG(1, 2))))
	count := make(map[time.Duration]int)
	for _, d := range delays(t, b, rounds) {
		count[d]++
	}
	for d, n := range count {
		if share := rounds / (ceiling + 1); d < 0 || d > ceiling || n < share*9/10 || n > share*11/10 {
			t.Errorf("a delay of %d came %d times in %d, want about %d", d, n, rounds, share)
		}
	}
	if len(count) != ceiling+1 {
		t.Errorf("delays and how often they came: %v, want each from 0 to %d", count, ceiling)
	}
}

func TestBackoff_TheSourceDecides(t *testing.T) {
	of := func(opts ...budget.BackoffOption) []time.Duration {
		return delays(t, newBudget[*budget.Backoff](t)(budget.NewBackoff(time.Second, time.Hour, opts...)), 20)
	}
	if diff := cmp.Diff(of(budget.WithSource(rand.NewPCG(1, 2))), of(budget.WithSource(rand.NewPCG(1, 2)))); diff != "" {
		t.Errorf("two of one seed differ:\n%s", diff)
	}
	if cmp.Equal(of(), of()) {
		t.Errorf("two without a source of their own have the same delays")
	}
}

func TestBackoff_TheZeroValueGrantsAtOnce(t *testing.T) {
	var b budget.Backoff
	for range 3 {
		if diff := cmp.Diff(verdict{budget.Grant{Attempt: 1}, true}, spend(&b, origin)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}
