package budget_test

import (
	"fmt"
	"time"

	"github.com/seed7990db67/supervised/budget"
)

func ExampleTumbling() {
	b, err := budget.NewTumbling(2, time.Minute, 100*time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}

	start := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, 30 * time.Second, time.Minute, 61 * time.Second} {
		grant, granted := b.Spend(budget.Death{At: start.Add(after)})
		if granted {
			fmt.Printf("%v: restart %d of %d, after %v\n", after, grant.Attempt, grant.Max, grant.Delay)
		} else {
			fmt.Printf("%v: %d restarts in %v are spent\n", after, grant.Attempt, grant.Window)
		}
	}
	// Output:
	// 0s: restart 1 of 2, after 100ms
	// 30s: restart 2 of 2, after 100ms
	// 1m0s: 2 restarts in 1m0s are spent
	// 1m1s: restart 1 of 2, after 100ms
}

// Backoff is a budget without an end: the delay doubles with each death that
// follows a short life, and is small again after a long one.
type Backoff struct{ deaths int }

func (b *Backoff) Spend(d budget.Death) (budget.Grant, bool) {
	if d.Uptime > time.Minute {
		b.deaths = 0
	}
	b.deaths++
	delay := 100 * time.Millisecond << min(b.deaths-1, 8)
	return budget.Grant{Attempt: b.deaths, Delay: delay}, true
}

func ExampleBudget() {
	var b budget.Budget = new(Backoff) // for one supervisor: it has no lock
	for _, uptime := range []time.Duration{time.Hour, 0, 0, time.Hour} {
		grant, _ := b.Spend(budget.Death{Uptime: uptime})
		fmt.Println(grant.Attempt, grant.Delay)
	}
	// Output:
	// 1 100ms
	// 2 200ms
	// 3 400ms
	// 1 100ms
}
