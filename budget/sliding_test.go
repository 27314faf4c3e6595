package budget_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed7990db67/supervised/budget"
)

// newBudget returns the budget that a constructor made.
func newBudget[B budget.Budget](t testing.TB) func(b B, err error) B {
	return func(b B, err error) B {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// A step is a death, and what is to come of it.
type step struct {
	at      time.Duration
	uptime  time.Duration
	attempt int
	granted bool
}

// walk has a budget be asked of each death in turn.
func walk(t *testing.T, b budget.Budget, steps ...step) {
	t.Helper()
	for _, s := range steps {
		grant, granted := b.Spend(budget.Death{At: origin.Add(s.at), Uptime: s.uptime})
		got := step{s.at, s.uptime, grant.Attempt, granted}
		if got != s {
			t.Errorf("want %+v, got %+v", s, got)
		}
	}
}

func TestSliding_EdgesAreExact(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"a nanosecond before the far edge", []step{{0, 0, 1, true}, {window / 2, 0, 2, true}, {window - 1, 0, 2, false}}},
		{"on the far edge", []step{{0, 0, 1, true}, {window / 2, 0, 2, true}, {window, 0, 2, false}}},
		{"a nanosecond past it", []step{{0, 0, 1, true}, {window / 2, 0, 2, true}, {window + 1, 0, 2, true}}},
		{"where the second one leaves", []step{
			{0, 0, 1, true}, {window / 2, 0, 2, true}, {window + 1, 0, 2, true},
			{window + window/2, 0, 2, false}, {window + window/2 + 1, 0, 2, true},
		}},
		{"all at once, and all gone at once", []step{
			{0, 0, 1, true}, {0, 0, 2, true}, {0, 0, 2, false}, {window, 0, 2, false},
			{window + 1, 0, 1, true}, {window + 1, 0, 2, true}, {window + 1, 0, 2, false},
		}},
		{"a refusal is not counted", []step{
			{0, 0, 1, true}, {1, 0, 2, true}, {window, 0, 2, false}, {window, 0, 2, false}, {window + 1, 0, 2, true},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			walk(t, newBudget[*budget.Sliding](t)(budget.NewSliding(2, window, delay)), tt.steps...)
		})
	}
}

// Late news is judged where it lies, among what was granted before it and after it.
func TestSliding_DeathsOutOfOrder(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"between two, on the edge of the one and past that of the other", []step{
			{0, 0, 1, true}, {2*window + 1, 0, 1, true}, {window + 1, 0, 2, true},
		}},
		{"on the edge of the one behind it", []step{
			{0, 0, 1, true}, {0, 0, 2, true}, {2 * window, 0, 1, true}, {window, 0, 2, false}, {window + 1, 0, 2, true},
		}},
		{"before all others, on the edge of the last", []step{
			{window, 0, 1, true}, {window, 0, 2, true}, {0, 0, 2, false},
		}},
		{"more than a window late, judged a window before the latest", []step{
			{3 * window, 0, 1, true}, {0, 0, 2, true}, {window, 0, 2, false}, {2 * window, 0, 2, false},
			{3 * window, 0, 2, false}, {3*window + 1, 0, 2, true},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			walk(t, newBudget[*budget.Sliding](t)(budget.NewSliding(2, window, delay)), tt.steps...)
		})
	}
}

// The case of B3, in which a window that tumbles lets 2·max − 1 through.
func TestSliding_NeverMoreThanMaxAcrossAnEdge(t *testing.T) {
	b := newBudget[*budget.Sliding](t)(budget.NewSliding(3, window, delay))
	walk(t, b,
		step{0, 0, 1, true}, step{window, 0, 2, true}, step{window, 0, 3, true},
		step{window + 1, 0, 3, true}, step{window + 1, 0, 3, false}, step{window + 2, 0, 3, false},
		step{2*window + 1, 0, 2, true})
}

// Whatever the deaths, as long as none is more than a window late: no window holds more than max restarts.
func TestSliding_NeverMoreThanMaxInAnyWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		max := rapid.IntRange(1, 4).Draw(rt, "max")
		window := time.Duration(rapid.IntRange(1, 20).Draw(rt, "window"))
		late := rapid.IntRange(0, int(window)).Draw(rt, "late")
		b, err := budget.NewSliding(max, window, 0)
		if err != nil {
			rt.Fatal(err)
		}
		var latest time.Duration
		var restarts []time.Duration
		for range rapid.IntRange(1, 60).Draw(rt, "deaths") {
			next := latest + time.Duration(rapid.IntRange(-late, 12).Draw(rt, "gap"))
			_, granted := b.Spend(at(next))
			refused := !granted
			if granted {
				restarts, latest = append(restarts, next), larger(latest, next)
			}
			most := 0
			for _, begin := range restarts {
				n := 0
				for _, r := range restarts {
					if begin <= r && r <= begin+window {
						n++
					}
				}
				most = larger(most, n)
			}
			if most > max {
				rt.Fatalf("%d restarts in a window of %d: %d", most, window, restarts)
			}
			if refused && most < max {
				rt.Fatalf("refused at %d, though no window of %d holds %d: %d", next, window, max, restarts)
			}
		}
	})
}

// larger is max, where a parameter hides that.
func larger[N int | time.Duration](x, y N) N { return max(x, y) }

func TestSliding_TheLongestWindow(t *testing.T) {
	b := newBudget[*budget.Sliding](t)(budget.NewSliding(1, math.MaxInt64, 0))
	walk(t, b, step{0, 0, 1, true}, step{math.MaxInt64, 0, 1, false}, step{-1 << 62, 0, 1, false})
}

func TestSliding_AStepOfTheWallClockChangesNothing(t *testing.T) {
	start := time.Now()
	for _, stepped := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		b := newBudget[*budget.Sliding](t)(budget.NewSliding(1, window, delay))
		for _, tt := range []struct {
			at      time.Time
			granted bool
		}{
			{start, true},
			{stepWall(t, start.Add(window), stepped), false},
			{stepWall(t, start.Add(window+1), stepped), true},
			{start.Add(2*window + 1), false}, // the step is taken back
			{start.Add(2*window + 2), true},
		} {
			if got := spend(b, tt.at).Granted; got != tt.granted {
				t.Errorf("wall clock stepped by %v, death %v after the first: granted %t, want %t",
					stepped, tt.at.Sub(start), got, tt.granted)
			}
		}
	}
}

func TestSliding_GrantsCarryTheFigures(t *testing.T) {
	b := newBudget[*budget.Sliding](t)(budget.NewSliding(1, window, delay))
	want := budget.Grant{Attempt: 1, Max: 1, Window: window, Delay: delay}
	for _, granted := range []bool{true, false} {
		if diff := cmp.Diff(verdict{want, granted}, spend(b, origin)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}
