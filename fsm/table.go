package fsm

import (
	"fmt"
	"maps"
	"slices"
)

// Table is a lifecycle: for each state, what each event leads to.
//
// A pair of state and event that is not in the table is refused. A state with
// no events, an end, may be left out as a key; it is a state of the table as
// soon as a branch leads to it.
//
// The nil table is empty, and [Table.Check] refuses it. Methods only read: a
// table may be used by several goroutines as long as none changes it.
type Table[S, E comparable] map[S]map[E]Choice[S]

// Choice is where one event leads from one state: its branches in the order in
// which their guards are asked. The last has no guard; of several, it is the
// else.
type Choice[S comparable] []Branch[S]

// Branch is one way that a choice can go.
type Branch[S comparable] struct {
	// Guard names the condition under which the branch is taken. Empty: it is
	// taken unless one before it was.
	Guard string
	// To is the state that the branch leads to, which may be the one it starts
	// from.
	To S
	// Hooks names what the caller is to do once the branch was taken, in this
	// order.
	Hooks []string
}

// Row is one line of a table: one branch, with the state and the event that it
// belongs to.
type Row[S, E comparable] struct {
	From  S
	Event E
	// Branch is the row's place in its choice, counted from 0, and Branches the
	// number of branches that the choice has.
	Branch, Branches int
	// Guard is empty in the else of a choice, and in an only branch.
	Guard string
	To    S
	// Hooks is what the caller is to do once the row was taken.
	Hooks []string
}

// Else reports whether the row is the last of several, taken when no guard
// above it holds. The only branch of a choice is no else: it has no
// alternative.
func (r Row[S, E]) Else() bool {
	return r.Branches > 1 && r.Branch == r.Branches-1
}

// Rows returns the table line by line, ordered by state, then event, then
// branch. States and events come in the order of their values where these are
// integers, which is the order of their declaration, and in the order of their
// printed names otherwise. The rows are the caller's own.
func (t Table[S, E]) Rows() []Row[S, E] {
	var rows []Row[S, E]
	for _, from := range ordered(maps.Keys(t)) {
		for _, event := range ordered(maps.Keys(t[from])) {
			for branch := range t[from][event] {
				rows = append(rows, t.row(from, event, branch))
			}
		}
	}
	return rows
}

// row returns one line of the table, sharing no memory with it.
func (t Table[S, E]) row(from S, event E, branch int) Row[S, E] {
	choice := t[from][event]
	b := choice[branch]
	return Row[S, E]{
		From:     from,
		Event:    event,
		Branch:   branch,
		Branches: len(choice),
		Guard:    b.Guard,
		To:       b.To,
		Hooks:    slices.Clone(b.Hooks),
	}
}

// States returns every state that the table names, as a key or as a target, in
// the order of [Table.Rows].
func (t Table[S, E]) States() []S {
	states := make(map[S]bool)
	for from := range t {
		states[from] = true
	}
	for _, row := range t.Rows() {
		states[row.To] = true
	}
	return ordered(maps.Keys(states))
}

// Events returns every event that some state accepts, in the order of
// [Table.Rows].
func (t Table[S, E]) Events() []E {
	events := make(map[E]bool)
	for _, choices := range t {
		for event := range choices {
			events[event] = true
		}
	}
	return ordered(maps.Keys(events))
}

// Guards returns the name of every guard, sorted, each once.
func (t Table[S, E]) Guards() []string {
	var names []string
	for _, row := range t.Rows() {
		if row.Guard != "" {
			names = append(names, row.Guard)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Hooks returns the name of every hook, sorted, each once.
func (t Table[S, E]) Hooks() []string {
	var names []string
	for _, row := range t.Rows() {
		names = append(names, row.Hooks...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Next returns the row that the event takes from a state: the first of the
// choice that has no guard, or whose guard holds. It asks holds for one guard
// after the other, no further than it has to, and for none where the choice has
// none; holds may then be nil.
//
// The error is a [*RefusedError] where the table has no such pair, and, in a
// table that [Table.Check] would have refused, where the choice has no else and
// no guard holds.
func (t Table[S, E]) Next(from S, event E, holds func(guard string) bool) (Row[S, E], error) {
	for i, branch := range t[from][event] {
		if branch.Guard == "" || holds(branch.Guard) {
			return t.row(from, event, i), nil
		}
	}
	return Row[S, E]{}, &RefusedError[S, E]{State: from, Event: event}
}

// RefusedError says that a state does not accept an event. Nothing has changed.
// It is always returned as a pointer.
type RefusedError[S, E comparable] struct {
	State S
	Event E
}

// Error names the state and the event.
func (e *RefusedError[S, E]) Error() string {
	return fmt.Sprintf("fsm: state %v does not accept event %v", e.State, e.Event)
}
