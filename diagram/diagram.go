package diagram

import (
	"fmt"
	"slices"

	"github.com/seed7990db67/supervised/fsm"
)

// Options say what a table does not. The zero value is good.
type Options struct {
	// Title names the picture. Empty: "Lifecycle".
	Title string
	// Description is what a screen reader says after the title. Empty: the whole
	// table in words.
	Description string
	// Emphasis are guards whose edges stand out.
	Emphasis []string
}

// A Diagram is a table about to be drawn. It never changes: [Diagram.At] and
// [Diagram.Taken] return another one. Its methods may be called from several
// goroutines. The zero value is of no use; [New] makes one.
type Diagram[S, E comparable] struct {
	table   fsm.Table[S, E]
	rows    []fsm.Row[S, E] // of the table, and its states
	states  []S
	spec    fsm.Spec[S, E]
	options Options
	ids     identities[S, E]

	shared  []shared[S, E] // the events that are drawn once for all states that accept them
	current map[S]bool
	path    []Step[S, E]
	count   map[place[S, E]]int // how often the path takes each row
}

// A Step is one transition that was made: the row of the table with this state,
// event and guard.
type Step[S, E comparable] struct {
	From  S
	Event E
	// Guard is the guard that held; empty where there was none, or for the else.
	Guard string
	// Note is said beside the step in a sequence: when it was, or why. May be empty.
	Note string
}

// place is where a row stands in its table.
type place[S, E comparable] struct {
	from   S
	event  E
	branch int
}

func placeOf[S, E comparable](r fsm.Row[S, E]) place[S, E] {
	return place[S, E]{r.From, r.Event, r.Branch}
}

// shared is an event that all states of the region accept and that leads to the
// same state from each.
type shared[S, E comparable] struct {
	event E
	from  []S
	to    S
}

// New prepares a table to be drawn. Of the spec it takes the start, the ends and
// the events that are accepted everywhere: such an event is drawn once, from a
// region around the states that accept it, if it leads them all to one state
// outside. No part of the spec is needed; [fsm.Table.Check] is not called, so
// that an unfinished table can be looked at.
//
// The error says what cannot be drawn: two states, or two events, of one printed
// name, or an empty one; a start, an end or a guard in the options that the table
// does not have.
func New[S, E comparable](table fsm.Table[S, E], spec fsm.Spec[S, E], options Options) (*Diagram[S, E], error) {
	d := &Diagram[S, E]{table: clone(table), spec: spec, options: options}
	d.spec.Ends = slices.Clone(spec.Ends)
	d.options.Emphasis = slices.Clone(options.Emphasis)
	if d.options.Title == "" {
		d.options.Title = "Lifecycle"
	}
	d.rows, d.states = d.table.Rows(), d.table.States()
	states := d.states
	for kind, names := range map[string][]string{"state": printed(states), "event": printed(d.table.Events())} {
		for i, name := range names {
			if name == "" || slices.Contains(names[:i], name) {
				return nil, fmt.Errorf("diagram: %s %q: a printed name must be there once", kind, name)
			}
		}
	}
	var none S
	if spec.Start != none && !slices.Contains(states, spec.Start) {
		return nil, fmt.Errorf("diagram: start %v: the table has no such state", spec.Start)
	}
	for _, end := range spec.Ends {
		if !slices.Contains(states, end) {
			return nil, fmt.Errorf("diagram: end %v: the table has no such state", end)
		}
	}
	for _, guard := range options.Emphasis {
		if !slices.Contains(d.table.Guards(), guard) {
			return nil, fmt.Errorf("diagram: emphasis %q: the table has no such guard", guard)
		}
	}
	d.ids = identify(d.table)
	d.share()
	return d, nil
}

// At returns the diagram with a state marked as the current one, in addition to
// any that are. The error is about a state that the table does not have.
func (d *Diagram[S, E]) At(state S) (*Diagram[S, E], error) {
	if !slices.Contains(d.states, state) {
		return nil, fmt.Errorf("diagram: %v: the table has no such state", state)
	}
	marked := *d
	marked.current = map[S]bool{state: true}
	for s := range d.current {
		marked.current[s] = true
	}
	return &marked, nil
}

// Taken returns the diagram with a path of transitions marked and counted, in
// place of any that was. A path need not hang together: of a long run, the last
// steps will do. The error is about the first step that is not in the table.
func (d *Diagram[S, E]) Taken(path ...Step[S, E]) (*Diagram[S, E], error) {
	marked := *d
	marked.path = slices.Clone(path)
	marked.count = make(map[place[S, E]]int)
	for i, step := range path {
		row, err := d.row(step)
		if err != nil {
			return nil, fmt.Errorf("diagram: step %d: %w", i+1, err)
		}
		marked.count[placeOf(row)]++
	}
	return &marked, nil
}

// row returns the row that a step has taken.
func (d *Diagram[S, E]) row(step Step[S, E]) (fsm.Row[S, E], error) {
	for _, row := range d.rows {
		if row.From == step.From && row.Event == step.Event && row.Guard == step.Guard {
			return row, nil
		}
	}
	return fsm.Row[S, E]{}, fmt.Errorf("the table has no row %v, %v, [%s]", step.From, step.Event, step.Guard)
}

// share finds the events to be drawn once. They all have the same region.
func (d *Diagram[S, E]) share() {
	for _, event := range d.table.Events() {
		if !slices.Contains(d.spec.Everywhere, event) {
			continue
		}
		s := shared[S, E]{event: event}
		together := true
		for _, row := range d.rows {
			if row.Event != event || d.end(row.From) {
				continue
			}
			if len(s.from) == 0 {
				s.to = row.To
			}
			together = together && row.To == s.to
			if !slices.Contains(s.from, row.From) {
				s.from = append(s.from, row.From)
			}
		}
		together = together && len(s.from) > 1 && !slices.Contains(s.from, s.to)
		if len(d.shared) > 0 {
			together = together && slices.Equal(s.from, d.shared[0].from)
		}
		if together {
			d.shared = append(d.shared, s)
		}
	}
}

// sharing returns the shared event that stands for a row; nil: the row has an
// edge of its own.
func (d *Diagram[S, E]) sharing(from S, event E) *shared[S, E] {
	for i, s := range d.shared {
		if s.event == event && slices.Contains(s.from, from) {
			return &d.shared[i]
		}
	}
	return nil
}

// inside reports whether a state is in the region.
func (d *Diagram[S, E]) inside(state S) bool {
	return len(d.shared) > 0 && slices.Contains(d.shared[0].from, state)
}

func (d *Diagram[S, E]) end(state S) bool { return slices.Contains(d.spec.Ends, state) }

// started reports whether the start is a state of the table. It is not where the
// spec was left out.
func (d *Diagram[S, E]) started() bool { return slices.Contains(d.states, d.spec.Start) }

func clone[S, E comparable](t fsm.Table[S, E]) fsm.Table[S, E] {
	c := make(fsm.Table[S, E], len(t))
	for from, events := range t {
		c[from] = make(map[E]fsm.Choice[S], len(events))
		for event, choice := range events {
			branches := slices.Clone(choice)
			for i := range branches {
				branches[i].Hooks = slices.Clone(branches[i].Hooks)
			}
			c[from][event] = branches
		}
	}
	return c
}

func printed[K any](values []K) []string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = fmt.Sprint(v)
	}
	return names
}
