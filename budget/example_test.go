package budget_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// misconfigured is a budget for a server that exits with status 78 where its
// configuration is wrong: another start would find the same one.
type misconfigured struct{ budget.Budget }

func (m misconfigured) Spend(d budget.Death) (budget.Grant, bool) {
	var exit interface{ ExitCode() int }
	if errors.As(d.Cause, &exit) && exit.ExitCode() == 78 {
		return budget.Grant{}, false
	}
	return m.Budget.Spend(d)
}

type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
func (e exitStatus) ExitCode() int { return int(e) }

func ExampleBudget() {
	window, err := budget.NewTumbling(3, time.Minute, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	var b budget.Budget = misconfigured{window}
	for _, status := range []exitStatus{1, 1, 78} {
		_, granted := b.Spend(budget.Death{Cause: status})
		fmt.Println(status, granted)
	}
	// Output:
	// exit status 1 true
	// exit status 1 true
	// exit status 78 false
}

// must returns v, and ends the program on an error.
func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleSliding() {
	b := must(budget.NewSliding(2, time.Minute, 0))
	start := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, 59 * time.Second, time.Minute, 61 * time.Second, 62 * time.Second} {
		grant, granted := b.Spend(budget.Death{At: start.Add(after)})
		fmt.Printf("%v: %t, %d of %d in %v\n", after, granted, grant.Attempt, grant.Max, grant.Window)
	}
	// Output:
	// 0s: true, 1 of 2 in 1m0s
	// 59s: true, 2 of 2 in 1m0s
	// 1m0s: false, 2 of 2 in 1m0s
	// 1m1s: true, 2 of 2 in 1m0s
	// 1m2s: false, 2 of 2 in 1m0s
}

func ExampleStreak() {
	b := must(budget.NewStreak(3, 10*time.Minute, 0))
	now := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	for _, uptime := range []time.Duration{time.Second, time.Second, time.Hour, time.Second} {
		now = now.Add(uptime)
		grant, _ := b.Spend(budget.Death{At: now, Uptime: uptime})
		fmt.Printf("served for %v: restart %d of %d\n", uptime, grant.Attempt, grant.Max)
	}
	// Output:
	// served for 1s: restart 1 of 3
	// served for 1s: restart 2 of 3
	// served for 1h0m0s: restart 1 of 3
	// served for 1s: restart 2 of 3
}

func ExampleBackoff() {
	ceiling := must(budget.NewBackoff(100*time.Millisecond, time.Second, budget.WithoutJitter()))
	spread := must(budget.NewBackoff(100*time.Millisecond, time.Second, budget.WithSource(rand.NewPCG(1, 2))))
	for range 5 {
		most, _ := ceiling.Spend(budget.Death{})
		drawn, _ := spread.Spend(budget.Death{})
		fmt.Println(drawn.Delay.Round(time.Millisecond), "of at most", most.Delay)
	}
	// Output:
	// 77ms of at most 100ms
	// 123ms of at most 200ms
	// 314ms of at most 400ms
	// 637ms of at most 800ms
	// 234ms of at most 1s
}

func ExampleAll() {
	b := must(budget.NewAll(
		must(budget.NewSliding(3, time.Minute, 0)), // stops a crash loop
		must(budget.NewSliding(10, time.Hour, 0)),  // stops a slow one
		must(budget.NewBackoff(time.Second, 5*time.Minute, budget.WithoutJitter())),
	))

	// A server that dies each 61 seconds: no minute sees more than one death.
	const uptime = 61 * time.Second
	now := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	for {
		now = now.Add(uptime)
		grant, granted := b.Spend(budget.Death{At: now, Uptime: uptime})
		if !granted {
			fmt.Printf("%d restarts in %v are spent\n", grant.Attempt, grant.Window)
			break
		}
		now = now.Add(grant.Delay)
	}
	// Output:
	// 10 restarts in 1h0m0s are spent
}
