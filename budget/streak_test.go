package budget_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/budget"
)

const stretch = 10 * time.Minute

func TestStreak(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"counts what does not serve for long", []step{
			{0, 0, 1, true}, {time.Second, 0, 2, true}, {time.Minute, time.Second, 3, true}, {time.Hour, 0, 3, false},
		}},
		{"a nanosecond short of the stretch", []step{{0, 0, 1, true}, {stretch - 1, stretch - 1, 2, true}}},
		{"the stretch itself forgives", []step{{0, 0, 1, true}, {1, 0, 2, true}, {stretch + 1, stretch, 1, true}, {stretch + 2, 0, 2, true}}},
		{"however slow, a row is a row", []step{
			{0, 0, 1, true}, {stretch, stretch - 1, 2, true}, {2 * stretch, stretch - 1, 3, true}, {3 * stretch, stretch - 1, 3, false},
		}},
		{"forgives after it has refused", []step{
			{0, 0, 1, true}, {1, 0, 2, true}, {2, 0, 3, true}, {3, 0, 3, false}, {stretch + 2, stretch, 1, true},
		}},
		{"a refusal is no part of the row", []step{
			{0, 0, 1, true}, {0, 0, 2, true}, {0, 0, 3, true}, {stretch - 1, 0, 3, false}, {stretch, stretch, 1, true},
		}},
		{"the first of all may have served for long", []step{{time.Hour, time.Hour, 1, true}, {time.Hour, 0, 2, true}}},
		{"shared: long service while others were dying forgives nothing", []step{
			{time.Hour, 0, 1, true}, {time.Hour + stretch - 1, time.Hour, 2, true}, {time.Hour + 2*stretch - 1, time.Hour, 1, true},
		}},
		{"shared: the latest counts, not what was heard last", []step{
			{time.Hour, 0, 1, true}, {0, 0, 2, true}, {time.Hour + stretch - 1, time.Hour, 3, true},
		}},
		{"shared: late news of long service forgives nothing", []step{{time.Hour, 0, 1, true}, {0, 2 * time.Hour, 2, true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			walk(t, newBudget[*budget.Streak](t)(budget.NewStreak(3, stretch, delay)), tt.steps...)
		})
	}
}

func TestStreak_GrantsCarryTheFigures(t *testing.T) {
	b := newBudget[*budget.Streak](t)(budget.NewStreak(1, stretch, delay))
	want := budget.Grant{Attempt: 1, Max: 1, Delay: delay}
	for _, granted := range []bool{true, false} {
		if diff := cmp.Diff(verdict{want, granted}, spend(b, origin)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}
