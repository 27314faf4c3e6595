package fsmtest

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/seed7990db67/supervised/fsm"
)

// Compare asks a table for each cell: each state and event that the table or the
// matrix knows, for each valuation of the guards.
//
// What a table must be beside that is the affair of [fsm.Table.Check].
func Compare[S, E comparable](table fsm.Table[S, E], matrix Matrix) *Report {
	c := newComparison(table.States(), table.Events(), matrix, table.Next)
	for _, guard := range table.Guards() {
		if !slices.Contains(matrix.Guards, guard) {
			c.report.fault("the table asks the guard %q, for which the patterns have no column", guard)
		}
	}
	for _, row := range table.Rows() {
		c.report.Rows = append(c.report.Rows, Coverage{Row: rowName(row)})
	}
	// A guard that neither the choice asks nor a line mentions changes nothing: one
	// valuation stands for all that differ in such guards.
	c.asked = func(s S, e E) (guards uint) {
		for _, branch := range table[s][e] {
			if i := slices.Index(matrix.Guards, branch.Guard); i >= 0 {
				guards |= 1 << i
			}
		}
		return guards
	}
	c.run()
	return c.report
}

// CompareFunc asks next for each cell, once for each valuation of all guards. It
// has to bring whatever it tests into the state from, have it take the event
// while those guards hold that holds returns true for, and return what came of
// that: To and Hooks of the row are compared. A refusal is a [*fsm.RefusedError]
// that names the state and the event. Any other error is a difference.
//
// States or events that print the same are one; [fsm.Table.Check] finds them. The
// report has no coverage of rows.
func CompareFunc[S, E comparable](states []S, events []E, matrix Matrix,
	next func(from S, event E, holds func(guard string) bool) (fsm.Row[S, E], error)) *Report {
	c := newComparison(states, events, matrix, next)
	c.asked = func(S, E) uint { return 1<<len(matrix.Guards) - 1 }
	c.run()
	return c.report
}

// A comparison fills in a report.
type comparison[S, E comparable] struct {
	matrix Matrix
	lines  map[pair][]line
	states names[S]
	events names[E]
	next   func(S, E, func(string) bool) (fsm.Row[S, E], error)
	asked  func(S, E) uint // the guards that next may ask
	report *Report
}

// A pair is a state and an event by name.
type pair struct{ state, event string }

// names are values in order, and each by its printed name. What only the matrix
// knows has a name and no value.
type names[V comparable] struct {
	order []string
	value map[string]V
}

func (n *names[V]) add(name string) (added bool) {
	if slices.Contains(n.order, name) {
		return false
	}
	n.order = append(n.order, name)
	return true
}

func namesOf[V comparable](values []V) names[V] {
	n := names[V]{value: make(map[string]V)}
	for _, v := range values {
		n.add(fmt.Sprint(v))
		n.value[fmt.Sprint(v)] = v
	}
	return n
}

func newComparison[S, E comparable](states []S, events []E, matrix Matrix,
	next func(S, E, func(string) bool) (fsm.Row[S, E], error)) *comparison[S, E] {
	c := &comparison[S, E]{
		matrix: matrix,
		lines:  make(map[pair][]line),
		states: namesOf(states),
		events: namesOf(events),
		next:   next,
		report: &Report{},
	}
	lines, faults := matrix.read()
	c.report.Faults = faults
	for _, l := range lines {
		if c.states.add(l.state) {
			c.report.fault("line %d: there is no state %s", l.number, words(l.state))
		}
		if c.events.add(l.event) {
			c.report.fault("line %d: there is no event %s", l.number, words(l.event))
		}
		p := pair{l.state, l.event}
		c.lines[p] = append(c.lines[p], l)
	}
	return c
}

func (c *comparison[S, E]) run() {
	if len(c.matrix.Guards) > maxGuards {
		return
	}
	for _, state := range c.states.order {
		for _, event := range c.events.order {
			c.compare(pair{state, event})
		}
	}
}

// compare asks for the cells of one state and event.
func (c *comparison[S, E]) compare(p pair) {
	var guards uint
	s, known := c.states.value[p.state]
	if e, knownToo := c.events.value[p.event]; known && knownToo {
		guards = c.asked(s, e)
	}
	lines := c.lines[p]
	for _, l := range lines {
		guards |= l.care
	}
	each := 1 << (len(c.matrix.Guards) - bits.OnesCount(guards)) // the cells that a valuation stands for

	type kind struct { // of difference
		line     int
		got, row string
	}
	var missing []uint
	var kinds []kind
	different := make(map[kind][]uint)
	outcomes := make(map[kind]Outcome)
	for v := range subsets(guards) {
		c.report.Cells += each
		i := slices.IndexFunc(lines, func(l line) bool { return l.has(v) })
		if i < 0 {
			missing = append(missing, v)
			continue
		}
		got, row := c.ask(p, v)
		c.report.taken(row, each)
		if got.equal(lines[i].want) {
			continue
		}
		k := kind{i, got.String(), row}
		if different[k] == nil {
			kinds = append(kinds, k)
			outcomes[k] = got
		}
		different[k] = append(different[k], v)
	}

	cells := func(m masked) Cells {
		return Cells{p.state, p.event, c.matrix.pattern(m), 1 << (len(c.matrix.Guards) - bits.OnesCount(m.care))}
	}
	for _, m := range cover(missing, guards, masked{}) {
		c.report.Missing = append(c.report.Missing, cells(m))
	}
	for _, k := range kinds {
		for _, m := range cover(different[k], guards, masked{}) {
			c.report.Differences = append(c.report.Differences, Difference{
				Cells: cells(m),
				Line:  lines[k.line].number,
				Want:  lines[k.line].want,
				Got:   outcomes[k],
				Row:   k.row,
			})
		}
	}
}

// ask returns what comes of one cell, and the row that was taken.
func (c *comparison[S, E]) ask(p pair, v uint) (o Outcome, row string) {
	s, known := c.states.value[p.state]
	e, knownToo := c.events.value[p.event]
	if !known || !knownToo {
		return Outcome{Refused: true}, ""
	}
	r, err := c.next(s, e, func(guard string) bool {
		i := slices.Index(c.matrix.Guards, guard)
		return i >= 0 && v>>i&1 == 1
	})
	if err == nil {
		if c.report.Rows != nil {
			row = rowName(r)
		}
		return Outcome{To: fmt.Sprint(r.To), Hooks: r.Hooks}, row
	}
	if refusal, ok := errors.AsType[*fsm.RefusedError[S, E]](err); ok && refusal.State == s && refusal.Event == e {
		return Outcome{Refused: true}, ""
	}
	return Outcome{failure: err.Error()}, ""
}

// rowName returns a row without what it leads to.
func rowName[S, E comparable](r fsm.Row[S, E]) string {
	name := words(fmt.Sprint(r.From), fmt.Sprint(r.Event))
	switch {
	case r.Guard != "":
		name += " [" + r.Guard + "]"
	case r.Else():
		name += " [else]"
	}
	return name
}
