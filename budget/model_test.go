package budget_test

import (
	"cmp"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed7990db67/supervised/budget"
)

// A model is what a budget's documentation says, worked out anew for each death from all that were granted
// before it, in the order in which they arrived. Deaths that were refused play no part: a refusal changes nothing.
type model func(granted []budget.Death, d budget.Death) (budget.Grant, bool)

// origin is what times in a test count from. It is nothing special to a budget.
var origin = time.Date(2026, time.March, 29, 1, 59, 59, 999_999_999, time.UTC)

func at(d time.Duration) budget.Death { return budget.Death{At: origin.Add(d)} }

func since(d budget.Death) time.Duration { return d.At.Sub(origin) }

// tumblingModel cuts the history into windows from its start.
func tumblingModel(max int, window, delay time.Duration) model {
	return func(granted []budget.Death, d budget.Death) (budget.Grant, bool) {
		var deaths []time.Duration
		for _, g := range append(slices.Clone(granted), d) {
			deaths = append(deaths, since(g))
		}
		attempt := len(lastWindow(deaths, window))
		return budget.Grant{Attempt: min(attempt, max), Max: max, Window: window, Delay: delay}, attempt <= max
	}
}

// slidingModel counts, for each window that begins with a restart, how many it holds.
func slidingModel(max int, window, delay time.Duration) model {
	return func(granted []budget.Death, d budget.Death) (budget.Grant, bool) {
		var restarts []time.Duration // when each is counted
		for _, g := range append(slices.Clone(granted), d) {
			t := since(g)
			for _, r := range restarts {
				if r-t > window {
					t = slices.Max(restarts) - window
				}
			}
			restarts = append(restarts, t)
		}
		this := restarts[len(restarts)-1]
		var most []int
		for _, begin := range restarts {
			holds := func(t time.Duration) bool { return t >= begin && t-begin <= window }
			if !holds(this) {
				continue
			}
			n := 0
			for _, r := range restarts {
				if holds(r) {
					n++
				}
			}
			most = append(most, n)
		}
		attempt := slices.Max(most)
		return budget.Grant{Attempt: min(attempt, max), Max: max, Window: window, Delay: delay}, attempt <= max
	}
}

// inRow is the number in the row of the last of these deaths: it counts back to the one that ended a row.
func inRow(deaths []budget.Death, stretch time.Duration) int {
	for i := len(deaths) - 1; i >= 0; i-- {
		forgives := deaths[i].Uptime >= stretch
		for _, before := range deaths[:i] {
			if since(deaths[i])-since(before) < stretch {
				forgives = false
			}
		}
		if forgives {
			return len(deaths) - i
		}
	}
	return len(deaths)
}

func streakModel(max int, stretch, delay time.Duration) model {
	return func(granted []budget.Death, d budget.Death) (budget.Grant, bool) {
		n := inRow(append(slices.Clone(granted), d), stretch)
		return budget.Grant{Attempt: min(n, max), Max: max, Delay: delay}, n <= max
	}
}

// backoffModel draws from a generator of its own; nil: no jitter. It draws whenever it is asked, so it is to be asked
// for what is granted alone.
func backoffModel(first, longest, stretch time.Duration, random *rand.Rand) model {
	return func(granted []budget.Death, d budget.Death) (budget.Grant, bool) {
		n := inRow(append(slices.Clone(granted), d), stretch)
		exact := new(big.Int).Lsh(big.NewInt(int64(first)), uint(n-1))
		ceiling := longest
		if exact.Cmp(big.NewInt(int64(longest))) < 0 {
			ceiling = time.Duration(exact.Int64())
		}
		if random != nil {
			ceiling = time.Duration(random.Uint64N(uint64(ceiling) + 1))
		}
		return budget.Grant{Attempt: n, Delay: ceiling}, true
	}
}

// A tally is a budget from elsewhere: so many restarts, for ever.
type tally struct{ spent, max int }

func (b *tally) Spend(budget.Death) (budget.Grant, bool) {
	if b.spent == b.max {
		return budget.Grant{Attempt: b.max, Max: b.max}, false
	}
	b.spent++
	return budget.Grant{Attempt: b.spent, Max: b.max}, true
}

func tallyModel(max int) model {
	return func(granted []budget.Death, _ budget.Death) (budget.Grant, bool) {
		n := len(granted) + 1
		return budget.Grant{Attempt: min(n, max), Max: max}, n <= max
	}
}

// A dice throws the numbers that a property is tried with: rapid's, or those of a fuzzer.
type dice interface {
	roll(what string, from, to int64) int64
}

type rapidDice struct{ *rapid.T }

func (d rapidDice) roll(what string, from, to int64) int64 {
	return rapid.Int64Range(from, to).Draw(d.T, what)
}

// A byteDice makes its numbers of a fuzzer's bytes; from the end of them on it throws the lowest.
type byteDice struct{ data []byte }

func (d *byteDice) roll(_ string, from, to int64) int64 {
	var n uint64
	span := uint64(to-from) + 1
	for width := span - 1; width > 0 && len(d.data) > 0; width >>= 8 {
		n = n<<8 | uint64(d.data[0])
		d.data = d.data[1:]
	}
	if span == 0 {
		return from + int64(n)
	}
	return from + int64(n%span)
}

// A pair is a budget and what it is held to.
type pair struct {
	budget  budget.Budget
	model   model
	granted []budget.Death
}

// newPair rolls a budget of this package with durations up to most.
func newPair(t rapid.TB, d dice, most int64) *pair {
	p := new(pair)
	var err error
	restarts := int(d.roll("max", 1, 5))
	length := time.Duration(d.roll("window or stretch", 1, most))
	delay := time.Duration(d.roll("delay", 0, most))
	switch d.roll("kind", 0, 3) {
	case 0:
		p.budget, err = budget.NewTumbling(restarts, length, delay)
		p.model = tumblingModel(restarts, length, delay)
	case 1:
		p.budget, err = budget.NewSliding(restarts, length, delay)
		p.model = slidingModel(restarts, length, delay)
	case 2:
		p.budget, err = budget.NewStreak(restarts, length, delay)
		p.model = streakModel(restarts, length, delay)
	case 3:
		longest := time.Duration(d.roll("longest", max(1, int64(delay)), most))
		first := max(1, delay)
		opts := []budget.BackoffOption{budget.WithStretch(length)}
		var random *rand.Rand
		if seed := uint64(d.roll("seed", 0, 10)); seed > 0 {
			opts = append(opts, budget.WithSource(rand.NewPCG(seed, 0)))
			random = rand.New(rand.NewPCG(seed, 0))
		} else {
			opts = append(opts, budget.WithoutJitter())
		}
		p.budget, err = budget.NewBackoff(first, longest, opts...)
		p.model = backoffModel(first, longest, length, random)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A supervisor asks some of the budgets, at once where they are several.
type supervisor struct {
	members []*pair
	budget  budget.Budget
}

// want is the model's answer for a supervisor. Like the budget's it is spent in all members, or in none.
func (s *supervisor) want(d budget.Death) verdict {
	var grants []budget.Grant
	for _, stranger := range []bool{false, true} { // which is asked last
		for _, m := range s.members {
			if _, is := m.budget.(*tally); is != stranger {
				continue
			}
			if _, is := m.budget.(*budget.Backoff); is {
				continue // never refuses, and draws
			}
			if grant, granted := m.model(m.granted, d); !granted {
				return verdict{grant, false}
			}
		}
	}
	for _, m := range s.members {
		grant, _ := m.model(m.granted, d)
		grants = append(grants, grant)
		m.granted = append(m.granted, d)
	}
	left := func(g budget.Grant) int {
		if g.Max == 0 {
			return 1 << 30
		}
		return g.Max - g.Attempt
	}
	sum := slices.MinFunc(grants, func(x, y budget.Grant) int { return cmp.Compare(left(x), left(y)) })
	for _, g := range grants {
		sum.Delay = max(sum.Delay, g.Delay)
	}
	return verdict{sum, true}
}

// agree has supervisors share some budgets, each its own choice of them, and compares each answer with the model's.
func agree(t rapid.TB, d dice) {
	var pool []*pair
	for range d.roll("budgets", 1, 4) {
		pool = append(pool, newPair(t, d, 12))
	}
	if most := int(d.roll("tally", 0, 6)); most > 0 {
		pool = append(pool, &pair{budget: &tally{max: most}, model: tallyModel(most)})
	}
	var supervisors []*supervisor
	for range d.roll("supervisors", 1, 3) {
		s := new(supervisor)
		var budgets []budget.Budget
		for range d.roll("members", 1, 4) {
			m := pool[d.roll("member", 0, int64(len(pool)-1))]
			budgets = append(budgets, m.budget)
			if !slices.Contains(s.members, m) {
				s.members = append(s.members, m)
			}
		}
		if s.budget = budgets[0]; len(budgets) > 1 {
			all, err := budget.NewAll(budgets...)
			if err != nil {
				t.Fatal(err)
			}
			s.budget = all
		}
		supervisors = append(supervisors, s)
	}
	inOrder := d.roll("in order", 0, 1) == 1
	var now int64
	for i := range d.roll("deaths", 1, 40) {
		if inOrder {
			now += d.roll("gap", 0, 8)
		} else {
			now = d.roll("at", 0, 50)
		}
		death := at(time.Duration(now))
		death.Uptime = time.Duration(d.roll("uptime", 0, 15))
		s := supervisors[d.roll("supervisor", 0, int64(len(supervisors)-1))]
		want := s.want(death)
		grant, granted := s.budget.Spend(death)
		if diff := gocmp.Diff(want, verdict{grant, granted}); diff != "" {
			t.Fatalf("death %d, at %d after %d, asked of %T (-model +budget):\n%s", i, now, death.Uptime, s.budget, diff)
		}
	}
}

// agreeAlone is one budget, with times and durations of any size.
func agreeAlone(t rapid.TB, d dice) {
	most := int64(1)<<d.roll("bits", 1, 62) - 1
	p := newPair(t, d, most)
	s := &supervisor{members: []*pair{p}, budget: p.budget}
	for i := range d.roll("deaths", 1, 24) {
		death := at(time.Duration(d.roll("at", 0, most)))
		death.Uptime = time.Duration(d.roll("uptime", 0, most))
		want := s.want(death)
		grant, granted := p.budget.Spend(death)
		if diff := gocmp.Diff(want, verdict{grant, granted}); diff != "" {
			t.Fatalf("death %d, at %v after %v, asked of %T (-model +budget):\n%s", i, death.At, death.Uptime, p.budget, diff)
		}
	}
}

func TestBudgetsAgreeWithTheirModels(t *testing.T) {
	t.Run("alone", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { agreeAlone(rt, rapidDice{rt}) })
	})
	t.Run("together", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { agree(rt, rapidDice{rt}) })
	})
}

func FuzzBudget(f *testing.F) {
	seedFuzz(f)
	f.Fuzz(func(t *testing.T, data []byte) { agreeAlone(t, &byteDice{data}) })
}

func FuzzAll(f *testing.F) {
	seedFuzz(f)
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, &byteDice{data}) })
}

// seedFuzz starts a fuzzer with some inputs that reach everything.
func seedFuzz(f *testing.F) {
	for seed := range uint64(16) {
		random := rand.NewPCG(seed, 0)
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(random.Uint64())
		}
		f.Add(data)
	}
}
