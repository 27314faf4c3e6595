package budget_test

import (
	"reflect"
	"testing"

	"github.com/seed7990db67/supervised/budget"
)

// Each constructor names what is wrong and its value, and hands out nothing with it.
func TestConstructorsRefuse(t *testing.T) {
	of := func(b budget.Budget, err error) func() (budget.Budget, error) {
		return func() (budget.Budget, error) { return b, err }
	}
	tally1, tally2 := &tally{max: 1}, &tally{max: 2}
	sliding := newSliding(t, 1, window, 0)
	for _, tt := range []struct {
		want string
		got  func() (budget.Budget, error)
	}{
		{"budget: max restarts 0: want at least 1", of(budget.NewSliding(0, window, delay))},
		{"budget: max restarts -1: want at least 1", of(budget.NewSliding(-1, window, delay))},
		{"budget: restart window 0s: want a positive duration", of(budget.NewSliding(1, 0, delay))},
		{"budget: restart window -1m0s: want a positive duration", of(budget.NewSliding(1, -window, delay))},
		{"budget: restart delay -1ns: want 0 or more", of(budget.NewSliding(1, window, -1))},
		{"budget: max restarts 0: want at least 1", of(budget.NewStreak(0, stretch, delay))},
		{"budget: stretch of uptime 0s: want a positive duration", of(budget.NewStreak(1, 0, delay))},
		{"budget: restart delay -1ns: want 0 or more", of(budget.NewStreak(1, stretch, -1))},
		{"budget: first delay 0s: want a positive duration", of(budget.NewBackoff(0, delay))},
		{"budget: longest delay 99ns: want at least the first, 100ns", of(budget.NewBackoff(100, 99))},
		{"budget: nil BackoffOption", of(budget.NewBackoff(1, 1, nil))},
		{"budget: WithSource(nil)", of(budget.NewBackoff(1, 1, budget.WithSource(nil)))},
		{"budget: stretch of uptime 0s: want a positive duration", of(budget.NewBackoff(1, 1, budget.WithStretch(0)))},
		{"budget: NewAll of no budgets: want at least 1", of(budget.NewAll())},
		{"budget: NewAll: budget 2 is nil", of(budget.NewAll(sliding, nil))},
		{"budget: NewAll: budget 1 is nil", of(budget.NewAll((*budget.Sliding)(nil), sliding))},
		{"budget: NewAll: budgets 2 (*budget_test.tally) and 3 (*budget_test.tally) can be asked only by spending: want at most one such",
			of(budget.NewAll(sliding, tally1, tally2))},
		{"budget: NewAll: budgets 1 (budget_test.box) and 2 (budget_test.box) can be asked only by spending: want at most one such",
			of(budget.NewAll(box{list{1}}, box{list{1}}))},
	} {
		t.Run(tt.want, func(t *testing.T) {
			b, err := tt.got()
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v", err)
			}
			if !reflect.ValueOf(b).IsNil() {
				t.Errorf("a budget came with the error")
			}
		})
	}
}

func TestConstructorsAccept(t *testing.T) {
	sliding, stranger := newSliding(t, 1, 1, 0), &tally{max: 1}
	inner := newAll(t, stranger)
	for name, f := range map[string]func() error{
		"the smallest window":                func() error { _, err := budget.NewSliding(1, 1, 0); return err },
		"the smallest stretch":               func() error { _, err := budget.NewStreak(1, 1, 0); return err },
		"the smallest delay":                 func() error { _, err := budget.NewBackoff(1, 1, budget.WithStretch(1)); return err },
		"one budget":                         func() error { _, err := budget.NewAll(sliding); return err },
		"one from elsewhere, twice":          func() error { _, err := budget.NewAll(stranger, sliding, inner); return err },
		"a value that is not to be compared": func() error { _, err := budget.NewAll(sliding, sliding, list{1}); return err },
		"a value that cannot be nil":         func() error { _, err := budget.NewAll(panics{}); return err },
	} {
		if err := f(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A box can be compared with another, unless what is in it cannot.
type box struct{ budget.Budget }

// A list is a budget that cannot be compared with another.
type list []int

func (list) Spend(budget.Death) (budget.Grant, bool) { return budget.Grant{}, true }

// What was not validated grants nothing, where a limit is meant; an All of nothing has none.
func TestZeroValues(t *testing.T) {
	for _, tt := range []struct {
		budget budget.Budget
		want   bool
	}{
		{new(budget.Tumbling), false},
		{new(budget.Sliding), false},
		{new(budget.Streak), false},
		{new(budget.Backoff), true},
		{new(budget.All), true},
	} {
		for range 2 {
			if got := spend(tt.budget, origin); got.Granted != tt.want || got.Grant.Delay != 0 || got.Grant.Max != 0 {
				t.Errorf("%T: %+v, want granted %t and no figures", tt.budget, got, tt.want)
			}
		}
	}
}
