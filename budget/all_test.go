package budget_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/budget"
)

func newAll(t testing.TB, budgets ...budget.Budget) *budget.All {
	t.Helper()
	return newBudget[*budget.All](t)(budget.NewAll(budgets...))
}

func newSliding(t testing.TB, max int, window, delay time.Duration) *budget.Sliding {
	t.Helper()
	return newBudget[*budget.Sliding](t)(budget.NewSliding(max, window, delay))
}

// One crash each 61 s for a day passes a window of a minute each time. A second, longer one stops it.
func TestAll_ALongWindowStopsASlowCrashLoop(t *testing.T) {
	const gap, day = 61 * time.Second, 24 * time.Hour
	restarts := func(b budget.Budget) (n int) {
		for now := time.Duration(0); now < day; now += gap {
			if _, granted := b.Spend(budget.Death{At: origin.Add(now), Uptime: gap}); !granted {
				break
			}
			n++
		}
		return n
	}
	tumbling := newBudget[*budget.Tumbling](t)(budget.NewTumbling(3, time.Minute, 0))
	short, long := newSliding(t, 3, time.Minute, 0), newSliding(t, 10, time.Hour, 0)
	for _, tt := range []struct {
		name   string
		budget budget.Budget
		want   int
	}{
		{"tumbling", tumbling, 1417},
		{"short", newSliding(t, 3, time.Minute, 0), 1417},
		{"short and long", newAll(t, short, long), 10},
	} {
		if got := restarts(tt.budget); got != tt.want {
			t.Errorf("%s: %d restarts, want %d", tt.name, got, tt.want)
		}
	}
}

func TestAll_ARefusalOfOneSpendsNothingOfTheOthers(t *testing.T) {
	shared := newSliding(t, 5, window, 0)
	mine, yours := newSliding(t, 1, window, 0), newSliding(t, 9, window, 0)
	me, you := newAll(t, shared, mine), newAll(t, yours, shared)
	walk(t, me, step{0, 0, 1, true}) // mine has none left, shared four
	for range 100 {
		walk(t, me, step{0, 0, 1, false})
	}
	walk(t, you, step{0, 0, 2, true}, step{0, 0, 3, true}, step{0, 0, 4, true}, step{0, 0, 5, true})
	for range 100 {
		walk(t, you, step{0, 0, 5, false}) // shared refuses, behind yours
	}
	walk(t, yours, step{0, 0, 5, true}) // by itself: four were spent through the All
}

func TestAll_FiguresOfGrantsAndRefusals(t *testing.T) {
	short, long := newSliding(t, 2, time.Minute, 3), newSliding(t, 3, time.Hour, 1)
	waits := newBudget[*budget.Backoff](t)(budget.NewBackoff(2, 8, budget.WithoutJitter()))
	b := newAll(t, waits, long, short)
	for _, tt := range []struct {
		name string
		at   time.Duration
		want verdict
	}{
		{"one left of short, two of long; short is slower than the back-off", 0,
			verdict{budget.Grant{Attempt: 1, Max: 2, Window: time.Minute, Delay: 3}, true}},
		{"none left of short; the back-off is slower", 1,
			verdict{budget.Grant{Attempt: 2, Max: 2, Window: time.Minute, Delay: 4}, true}},
		{"short refuses", 2,
			verdict{budget.Grant{Attempt: 2, Max: 2, Window: time.Minute, Delay: 3}, false}},
		{"one left of short, none of long", 2 * time.Minute,
			verdict{budget.Grant{Attempt: 3, Max: 3, Window: time.Hour, Delay: 8}, true}},
		{"long refuses", 3 * time.Minute,
			verdict{budget.Grant{Attempt: 3, Max: 3, Window: time.Hour, Delay: 1}, false}},
	} {
		if diff := cmp.Diff(tt.want, spend(b, origin.Add(tt.at))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestAll_TheFirstOfEqualsSpeaks(t *testing.T) {
	first, second := newSliding(t, 1, time.Minute, 0), newSliding(t, 1, time.Hour, 0)
	b := newAll(t, first, second)
	want := budget.Grant{Attempt: 1, Max: 1, Window: time.Minute}
	for _, granted := range []bool{true, false} {
		if diff := cmp.Diff(verdict{want, granted}, spend(b, origin)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// A draw of chance is spent like anything else: where a restart is refused none is made.
func TestAll_ARefusalDrawsNothing(t *testing.T) {
	jitter := func() *budget.Backoff {
		return newBudget[*budget.Backoff](t)(budget.NewBackoff(time.Second, time.Hour, budget.WithSource(rand.NewPCG(1, 2))))
	}
	once, alone := jitter(), jitter()
	b := newAll(t, once, newSliding(t, 1, 10, 0))
	for i := range 5 {
		now := origin.Add(time.Duration(i) * 20)
		want := spend(alone, now).Grant.Delay
		if got := spend(b, now); !got.Granted || got.Grant.Delay != want {
			t.Errorf("restart %d: %+v, want a delay of %v", i, got, want)
		}
		if got := spend(b, now.Add(5)); got.Granted {
			t.Errorf("death %d in one window: %+v", i, got)
		}
	}
}

func TestAll_OfAlls(t *testing.T) {
	one, two := newSliding(t, 4, window, 0), newSliding(t, 5, window, 0)
	b := newAll(t, newAll(t, one, two), one, newAll(t, two)) // each spends once for a death
	walk(t, b, step{0, 0, 1, true}, step{0, 0, 2, true}, step{0, 0, 3, true}, step{0, 0, 4, true}, step{0, 0, 4, false})
	walk(t, two, step{0, 0, 5, true})
	walk(t, one, step{0, 0, 4, false})
}

// A journal is a budget from elsewhere that notes what it was asked.
type journal struct {
	asked []budget.Death
	grant bool
}

func (b *journal) Spend(d budget.Death) (budget.Grant, bool) {
	b.asked = append(b.asked, d)
	return budget.Grant{Attempt: 7, Max: 8, Delay: 9}, b.grant
}

func TestAll_ABudgetFromElsewhereIsAskedLast(t *testing.T) {
	stranger, ours := &journal{}, newSliding(t, 1, window, 0)
	b := newAll(t, stranger, ours)
	refusal := verdict{budget.Grant{Attempt: 7, Max: 8, Delay: 9}, false}
	death := budget.Death{At: origin, Uptime: 3, Cause: errors.New("died")}
	for range 3 { // nothing of ours is spent
		grant, granted := b.Spend(death)
		if diff := cmp.Diff(refusal, verdict{grant, granted}); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if len(stranger.asked) != 3 || stranger.asked[0] != death {
		t.Errorf("the stranger was asked of %+v, want %+v three times", stranger.asked, death)
	}
	stranger.grant = true
	want := verdict{budget.Grant{Attempt: 1, Max: 1, Window: window, Delay: 9}, true}
	if diff := cmp.Diff(want, spend(b, origin)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if spend(b, origin).Granted || len(stranger.asked) != 4 {
		t.Errorf("the stranger was asked %d times, want 4: ours had refused", len(stranger.asked))
	}
}

// A stranger that panics leaves nothing locked and nothing spent.
func TestAll_AStrangerThatPanics(t *testing.T) {
	ours := newSliding(t, 1, window, 0)
	b := newAll(t, ours, panics{})
	func() {
		defer func() {
			if recover() == nil {
				t.Errorf("the panic is gone")
			}
		}()
		spend(b, origin)
	}()
	walk(t, ours, step{0, 0, 1, true})
}

type panics struct{}

func (panics) Spend(budget.Death) (budget.Grant, bool) { panic("out of order") }

// Supervisors that share some budgets and not others, in every order of them, all at once.
func TestAll_SafeForConcurrentUse(t *testing.T) {
	const supervisors, deaths, own, shared = 40, 20, 3, 50
	host := newSliding(t, shared, window, 0)
	other := newBudget[*budget.Streak](t)(budget.NewStreak(1000, window, 0))
	owned := make([]*budget.Tumbling, supervisors)
	granted := make([]int, supervisors)
	var all sync.WaitGroup
	for i := range supervisors {
		owned[i] = newBudget[*budget.Tumbling](t)(budget.NewTumbling(own, window, 0))
		members := []budget.Budget{host, owned[i], other}
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		b := newAll(t, members...)
		all.Go(func() {
			for range deaths {
				if _, ok := b.Spend(at(0)); ok {
					granted[i]++
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for i, n := range granted {
		sum += n
		// What is left is what was not granted.
		for left := own - n; left >= 0; left-- {
			if got := spend(owned[i], origin).Granted; got != (left > 0) {
				t.Errorf("supervisor %d was granted %d of %d, and then %d more: %t", i, n, own, own-n-left+1, got)
			}
		}
	}
	if sum != shared {
		t.Errorf("%d restarts were granted, want the %d of the budget that all share", sum, shared)
	}
	if got := spend(other, origin).Grant.Attempt; got != shared+1 {
		t.Errorf("%d were spent of a budget that refused none, want %d", got-1, shared)
	}
}
