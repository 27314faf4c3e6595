package supervised_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/fsm"
)

var ordersDepth = flag.Int("orders.depth", 0, "how many events TestAllOrders goes; 0: 4 with -short, else 6")

// TestAllOrders goes through every sequence of events that the lifecycle can take, with every outcome of each: of the
// mint, the start, the handshake and the replay, of the guards and of the hooks. After each event all that can be seen
// is held to rules L, D, B, C and H, and to what they say of calls; behind the last one everything is tried that has no
// place there, and nothing may come of it; then the transport is closed.
//
// Each event comes when all that the one before it has set off is at rest. What happens when several come at once is
// left to the walks and to the storm.
func TestAllOrders(t *testing.T) {
	depth := *ordersDepth
	if depth == 0 {
		depth = 6
		if testing.Short() {
			depth = 4
		}
	}
	met := &coverage{rows: map[string]int{}, pairs: map[string]int{}}
	t.Run("each", func(t *testing.T) {
		for _, older := range []bool{false, true} {
			all := orders(newStanding(older), depth)
			for some := range slices.Chunk(all, 1+len(all)/16) {
				t.Run(map[bool]string{false: "newer session", true: "older session"}[older], func(t *testing.T) {
					t.Parallel()
					for few := range slices.Chunk(some, 64) {
						explore(t, older, few, met)
					}
				})
			}
		}
	})
	t.Logf("%d sequences of up to %d events, with %d events and %d transitions in all", met.orders, depth, met.events, met.transitions)
	if !t.Failed() {
		met.check(t, depth)
	}
}

// orders are all sequences of up to depth events, that of none included.
func orders(from standing, depth int) []order {
	all := []order{{}}
	for begin, n := 0, 0; n < depth; n++ {
		end := len(all)
		for _, way := range all[begin:end] {
			at := from
			for _, i := range way {
				at = at.turns()[i].to
			}
			for i := range at.turns() {
				all = append(all, append(slices.Clone(way), byte(i)))
			}
		}
		begin = end
	}
	return all
}

// explore takes some orders, one after the other, in a bubble.
func explore(t *testing.T, older bool, some []order, met *coverage) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range some {
			x, err := newExpedition(older)
			if err != nil {
				t.Fatal(err)
			}
			x.goes(o)
			met.add(x)
			if len(x.faults) > 0 {
				t.Fatalf("order %v:\n  %s\n  WRONG: %s", o, strings.Join(x.way, "\n  "), strings.Join(x.faults, "\n  WRONG: "))
			}
		}
	})
}

// tableRows are the rows of the lifecycle by name.
var tableRows = func() map[string]fsm.Row[supervised.State, supervised.Event] {
	rows := map[string]fsm.Row[supervised.State, supervised.Event]{}
	for _, r := range supervised.Lifecycle().Rows() {
		rows[rowName(r.From, r.Event, r.Guard)] = r
	}
	return rows
}()

func rowName(from supervised.State, e supervised.Event, guard string) string {
	if guard == "" {
		return fmt.Sprintf("%v %v", from, e)
	}
	return fmt.Sprintf("%v %v [%s]", from, e, guard)
}

// unreachable are the pairs of rows that the table alone would allow, and that no transport can take one after the
// other: the guards of the second row ask about what the first has settled.
var unreachable = map[string][]struct{ before, after string }{
	"nothing has served when Connect is called": {
		{rowStart, rowConnectedProbe}, {rowStart, rowConnected},
		{rowStart, rowFailedLeft}, {rowStart, rowFailedSpent}, {rowStart, rowCloseConnecting},
	},
	"a replacement follows one that has served": {
		{rowRespawn, rowConnectedFirst}, {rowRespawn, rowFailedFirst}, {rowRespawn, rowCloseFirst},
	},
	"the probe is answered when the connection after it serves, and is sent but once": {
		{rowConnectedProbe, rowDiedProbe},
	},
	"a replacement was promised, and is withdrawn": {
		{rowFailedSpent, rowGiveUp}, {rowFailedSpent, rowCloseExhausted},
	},
	"the last connection served, and no replacement was promised": {
		{rowDiedSpent, rowGiveUpWithdrawn}, {rowDiedSpent, rowCloseWithdrawn},
	},
}

// A coverage is what of the table was taken.
type coverage struct {
	mu                          sync.Mutex
	orders, events, transitions int
	rows, pairs                 map[string]int
}

func (c *coverage) add(x *expedition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders++
	c.events += len(x.way)
	c.transitions += len(x.rows)
	for i, row := range x.rows {
		c.rows[row]++
		if i > 0 {
			c.pairs[x.rows[i-1]+", "+row]++
		}
	}
}

// coveredAt is the depth at which all of the table that can be reached is.
const coveredAt = 6

// check sees that each row was taken, each guard where it is asked with either answer, and each row behind each other
// one that leads to it, those excepted of which it is known why not: these must not be.
func (c *coverage) check(t *testing.T, depth int) {
	why := map[string]string{}
	for reason, pairs := range unreachable {
		for _, p := range pairs {
			why[p.before+", "+p.after] = reason
		}
	}
	var pairs, answers, rows, unknown []string
	for _, before := range slices.Sorted(maps.Keys(tableRows)) {
		if c.rows[before] > 0 {
			rows = append(rows, before)
		}
		for _, after := range slices.Sorted(maps.Keys(tableRows)) {
			if tableRows[before].To != tableRows[after].From {
				continue
			}
			pair := before + ", " + after
			reason, exempt := why[pair]
			delete(why, pair)
			switch taken := c.pairs[pair] > 0; {
			case taken && exempt:
				t.Errorf("taken, though %s: %s", reason, pair)
			case taken:
				pairs = append(pairs, pair)
			case !exempt:
				unknown = append(unknown, "pair: "+pair)
			}
		}
	}
	for pair := range why {
		t.Errorf("the table has no such pair: %s", pair)
	}
	guards := 0
	for _, asked := range tableRows {
		if asked.Guard == "" {
			continue
		}
		guards += 2
		// It held if its row was taken, and did not if one behind it was.
		for name, r := range tableRows {
			if r.From == asked.From && r.Event == asked.Event && r.Branch >= asked.Branch && c.rows[name] > 0 {
				answers = append(answers, fmt.Sprintf("%v %v: %s: %t", r.From, r.Event, asked.Guard, r.Branch == asked.Branch))
			}
		}
	}
	slices.Sort(answers)
	answers = slices.Compact(answers)
	t.Logf("%d of %d rows; %d of %d pairs of rows, and of the %d others it is known why not; %d of %d answers of guards",
		len(rows), len(tableRows), len(pairs), len(pairs)+len(unknown), countOf(unreachable), len(answers), guards)
	if depth < coveredAt {
		return
	}
	if len(rows) != len(tableRows) || len(answers) != guards || len(unknown) > 0 {
		t.Errorf("not all of the table was taken; not these:\n%s", strings.Join(unknown, "\n"))
	}
}

func countOf[V any](lists map[string][]V) (n int) {
	for _, list := range lists {
		n += len(list)
	}
	return n
}
