package budget_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/budget"
)

var writeGuide = flag.Bool("guide.write", false, "write the table of traces into docs/guide.md")

// A trace is how long each server of one transport serves: the one that is started at this time since the first
// death; forever: it serves on.
type trace struct {
	name   string
	uptime func(since time.Duration, deaths int) time.Duration
}

const forever = time.Duration(1<<63 - 1)

// traces are those of docs/guide.md.
var traces = []trace{
	{"crash loop", func(time.Duration, int) time.Duration { return 10 * time.Millisecond }},
	{"across an edge", func(_ time.Duration, deaths int) time.Duration {
		// One death, and a window later five more.
		return append([]time.Duration{59500 * time.Millisecond}, 0, 300*time.Millisecond, 0, 0, forever)[min(deaths-1, 5)]
	}},
	{"slow crash loop", func(time.Duration, int) time.Duration { return 61 * time.Second }},
	{"15 minutes' outage", func(since time.Duration, _ int) time.Duration {
		if since < 15*time.Minute {
			return time.Second // what it needs is away
		}
		return forever
	}},
	{"each two hours", func(time.Duration, int) time.Duration { return 2 * time.Hour }},
}

// A contender is a budget as a user would make it, one for each trace.
type contender struct {
	code string // of NewTumbling and so on, as the guide shows it
	make func() budget.Budget
}

var contenders = []contender{
	{"`Tumbling`, 3 in 60 s, after 100 ms: the default", func() budget.Budget {
		return must(budget.NewTumbling(3, time.Minute, 100*time.Millisecond))
	}},
	{"`Sliding`, the same figures", func() budget.Budget {
		return must(budget.NewSliding(3, time.Minute, 100*time.Millisecond))
	}},
	{"`All` of that and a `Sliding`, 10 in 1 h", func() budget.Budget {
		return must(budget.NewAll(
			must(budget.NewSliding(3, time.Minute, 100*time.Millisecond)),
			must(budget.NewSliding(10, time.Hour, 0))))
	}},
	{"`Streak`, 5 in a row, 10 min forgive, after 100 ms", func() budget.Budget {
		return must(budget.NewStreak(5, 10*time.Minute, 100*time.Millisecond))
	}},
	{"`Backoff`, 2 s to 5 min", func() budget.Budget {
		return must(budget.NewBackoff(2*time.Second, 5*time.Minute, budget.WithoutJitter()))
	}},
	{"`All` of that and a `Sliding`, 12 in 1 h", func() budget.Budget {
		return must(budget.NewAll(
			must(budget.NewBackoff(2*time.Second, 5*time.Minute, budget.WithoutJitter())),
			must(budget.NewSliding(12, time.Hour, 0))))
	}},
}

// run plays a trace for a day. It returns how many restarts the budget let through, and whether and when it gave up.
func (tr trace) run(b budget.Budget) (restarts int, gaveUp bool, after time.Duration) {
	const day = 24 * time.Hour
	now, uptime := time.Duration(0), time.Hour // the server before the first death
	for now < day {
		grant, granted := b.Spend(budget.Death{At: origin.Add(now), Uptime: uptime})
		if !granted {
			return restarts, true, now
		}
		restarts++
		now += grant.Delay
		if uptime = tr.uptime(now, restarts); uptime == forever {
			break
		}
		now += uptime
	}
	return restarts, false, 0
}

// tracesTable is the table of docs/guide.md.
func tracesTable() string {
	var table strings.Builder
	table.WriteString("| |")
	for _, tr := range traces {
		fmt.Fprintf(&table, " %s |", tr.name)
	}
	table.WriteString("\n| --- |" + strings.Repeat(" --- |", len(traces)) + "\n")
	for _, c := range contenders {
		fmt.Fprintf(&table, "| %s |", c.code)
		for _, tr := range traces {
			restarts, gaveUp, after := tr.run(c.make())
			cell := fmt.Sprintf("all %d", restarts)
			if gaveUp {
				cell = fmt.Sprintf("%d, the end after %v", restarts, after)
			}
			fmt.Fprintf(&table, " %s |", cell)
		}
		table.WriteString("\n")
	}
	return table.String()
}

// TestGuideShowsTheTraces: the table in docs/guide.md is what the budgets do.
func TestGuideShowsTheTraces(t *testing.T) {
	const guide, begin, end = "../docs/guide.md", "<!-- traces: begin -->\n", "<!-- traces: end -->\n"
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "\r\n", "\n")
	before, rest, opened := strings.Cut(page, begin)
	shown, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s has no table between %q and %q", guide, begin, end)
	}
	want := "\n" + tracesTable() + "\n"
	if *writeGuide {
		if err := os.WriteFile(guide, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("%s, to be written with -guide.write (-want +got):\n%s", guide, diff)
	}
}
