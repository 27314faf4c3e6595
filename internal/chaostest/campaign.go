//go:build unix

package chaostest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// A Campaign is a row of rounds, in both eras by turns.
type Campaign struct {
	Seed           uint64
	Deaths, Calls  int // at least
	Rounds         int // 0: one for each 25 deaths
	Parallel       int // how many rounds run at a time; 0: one
	ConnectTimeout time.Duration
	Log            io.Writer // gets a line for each round; nil: nobody does
}

// Run runs the campaign until something is wrong. The error names the seed, and where the books are.
func (c Campaign) Run() (Figures, error) {
	if c.Rounds == 0 {
		c.Rounds = max(2, c.Deaths/25)
	}
	var sum Figures
	for i := 0; i < c.Rounds; {
		n := min(max(1, c.Parallel), c.Rounds-i)
		f, err := c.together(i, n, Round{
			Deaths: (c.Deaths - sum.Deaths + c.Rounds - i - 1) / (c.Rounds - i),
			Calls:  (c.Calls - sum.Calls + c.Rounds - i - 1) / (c.Rounds - i),
		})
		sum.add(f)
		if err != nil {
			return sum, fmt.Errorf("seed %d: %w", c.Seed, err)
		}
		i += n
	}
	return sum, nil
}

// together runs n rounds like this one at a time, the first of them being the round of number first.
func (c Campaign) together(first, n int, like Round) (Figures, error) {
	var (
		check   = watchLeaks()
		rounds  sync.WaitGroup
		figures = make([]Figures, n)
		errs    = make([]error, n)
	)
	for i := range n {
		rounds.Go(func() {
			round := like
			round.Seed, round.Old, round.ConnectTimeout = c.Seed+uint64(first+i)<<32, (first+i)%2 == 1, c.ConnectTimeout
			if round.Dir, errs[i] = os.MkdirTemp("", "chaos"); errs[i] != nil {
				return
			}
			began := time.Now()
			figures[i], errs[i] = round.run(check.anchors, nil)
			if c.Log != nil {
				f := figures[i]
				fmt.Fprintf(c.Log, "round %d: %d deaths, %d attempts that failed, %d calls, %v\n",
					first+i, f.Deaths, f.Attempts, f.Calls, time.Since(began).Round(time.Millisecond))
			}
			if errs[i] != nil {
				errs[i] = fmt.Errorf("round %d, books in %s:\n%w", first+i, round.Dir, errs[i])
				return
			}
			errs[i] = os.RemoveAll(round.Dir)
		})
	}
	rounds.Wait()
	var sum Figures
	for _, f := range figures {
		sum.add(f)
	}
	return sum, errors.Join(append(errs, check.settled())...)
}

func (f *Figures) add(g Figures) {
	f.Rounds += g.Rounds
	f.Calls += g.Calls
	f.Refused += g.Refused
	f.Deaths += g.Deaths
	f.Attempts += g.Attempts
	f.Executions += g.Executions
	f.Resent += g.Resent
	f.Notifications += g.Notifications
	f.Delivered += g.Delivered
	f.Owed += g.Owed
	f.Upcalls += g.Upcalls
	f.Ends = plus(f.Ends, g.Ends)
	f.Faults = plus(f.Faults, g.Faults)
}

func plus(a, b map[string]int) map[string]int {
	if a == nil {
		a = make(map[string]int)
	}
	for k, n := range b {
		a[k] += n
	}
	return a
}

// Print writes the figures as a table.
func (f Figures) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, n int) { fmt.Fprintf(t, "%s\t%d\n", name, n) }
	row("rounds", f.Rounds)
	row("deaths of servers that served", f.Deaths)
	row("attempts to replace one that failed", f.Attempts)
	row("calls that were sent", f.Calls)
	row("calls that were refused, no server being up", f.Refused)
	row("executions in the servers' ledgers", f.Executions)
	row("of these of a kept read, once more", f.Resent)
	row("notifications that were sent", f.Notifications)
	row("of these owed", f.Owed)
	row("of these delivered", f.Delivered)
	row("requests of servers to the client", f.Upcalls)
	for _, name := range slices.Sorted(maps.Keys(f.Ends)) {
		row("end: "+name, f.Ends[name])
	}
	for _, name := range slices.Sorted(maps.Keys(f.Faults)) {
		row("fault: "+name, f.Faults[name])
	}
	_ = t.Flush()
}
