package fsm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	looplab "github.com/looplab/fsm"
)

// ErrBusy is the answer to a Fire while another is running: from a second
// goroutine, or from inside a guard. Nothing has changed.
var ErrBusy = errors.New("fsm: busy: one Fire at a time, and none from a guard")

// Machine runs a table. Guards are predicates over an input I, whatever the
// caller wants its guards to see of an event and of the world.
//
// State may be called from any goroutine at any time. Fire is for one goroutine
// at a time. The zero Machine is of no use; [NewMachine] and
// [Program.Machine] make one.
type Machine[S, E comparable, I any] struct {
	program *Program[S, E, I]
	state   atomic.Pointer[S] // stored by Fire alone

	firing sync.Mutex   // tried, never waited for
	engine *looplab.FSM // guarded by firing; in the state that state points to
}

type pair[S, E comparable] struct {
	state S
	event E
}

// step is a row with everything that Fire needs for it, so that nothing is
// formatted or looked up by name there.
type step[S, E comparable, I any] struct {
	row   Row[S, E]
	name  string       // the row's own event, in the engine
	holds func(I) bool // nil: no guard
}

// A Program is a table that was checked, with its guards: what all machines that run it have in common. It never
// changes, and may be used from any goroutine. The zero Program is of no use; Compile makes one.
type Program[S, E comparable, I any] struct {
	start   S
	choices map[pair[S, E]][]step[S, E, I]
	events  looplab.Events
}

// Compile returns the program of a copy of the table: changes made to the table
// later are not seen.
//
// Guards gives the predicate of each guard that the table names. A predicate
// answers one question about the input and changes nothing; it must not call
// Fire.
//
// The error joins what [Table.Check] found with a finding for each guard that
// has no predicate and each predicate that no branch names, which is how a
// misspelt name shows up.
func Compile[S, E comparable, I any](t Table[S, E], spec Spec[S, E], guards map[string]func(I) bool) (*Program[S, E, I], error) {
	if err := errors.Join(t.Check(spec), checkGuards(t.Guards(), guards)); err != nil {
		return nil, err
	}
	p := &Program[S, E, I]{start: spec.Start, choices: make(map[pair[S, E]][]step[S, E, I])}
	for _, row := range t.Rows() {
		from, to := fmt.Sprint(row.From), fmt.Sprint(row.To)
		// Unlike the table's event, this one says which branch: the engine has no
		// choice left to make. It carries the state as well, so that an engine in
		// another state than ours would refuse it rather than take another row.
		name := fmt.Sprintf("%s %v#%d", from, row.Event, row.Branch)
		p.events = append(p.events, looplab.EventDesc{Name: name, Src: []string{from}, Dst: to})

		at := pair[S, E]{row.From, row.Event}
		p.choices[at] = append(p.choices[at], step[S, E, I]{row, name, guards[row.Guard]})
	}
	return p, nil
}

// Machine returns a machine in the start state.
func (p *Program[S, E, I]) Machine() *Machine[S, E, I] {
	m := &Machine[S, E, I]{program: p, engine: looplab.NewFSM(fmt.Sprint(p.start), p.events, nil)}
	m.state.Store(&p.start)
	return m
}

// NewMachine returns a machine in the start state, for a table that one machine
// runs. It is [Compile], with its errors, and then [Program.Machine].
func NewMachine[S, E comparable, I any](t Table[S, E], spec Spec[S, E], guards map[string]func(I) bool) (*Machine[S, E, I], error) {
	p, err := Compile(t, spec, guards)
	if err != nil {
		return nil, err
	}
	return p.Machine(), nil
}

func checkGuards[I any](named []string, guards map[string]func(I) bool) error {
	var found []error
	for _, guard := range named {
		if guards[guard] == nil {
			found = append(found, fmt.Errorf("fsm: guard %q: it has no predicate", guard))
		}
	}
	for _, guard := range slices.Sorted(maps.Keys(guards)) {
		if !slices.Contains(named, guard) {
			found = append(found, fmt.Errorf("fsm: guard %q: it has a predicate, but no branch names it", guard))
		}
	}
	return errors.Join(found...)
}

// State returns the state that the machine is in. While a Fire runs that is the
// state it started from, until its row is taken.
func (m *Machine[S, E, I]) State() S {
	return *m.state.Load()
}

// Fire takes the event to the next state and returns the row that it took. Of
// the guards it asks as many as it needs, in the order of the branches, each with
// the input. The row is the caller's own, and so are its hooks to run, after Fire
// has returned.
//
// The error is [ErrBusy] while another Fire runs, also when the caller is a
// guard of that one, and a [*RefusedError] where the state does not accept the
// event. In either case, and when a guard panics, the state is what it was and
// the machine remains usable.
func (m *Machine[S, E, I]) Fire(event E, in I) (Row[S, E], error) {
	// Fire never waits. A guard that fires would wait for itself, and two
	// goroutines that fire at once have no order that either could rely on.
	if !m.firing.TryLock() {
		return Row[S, E]{}, ErrBusy
	}
	defer m.firing.Unlock() // deferred for the guard that panics

	from := m.State()
	steps := m.program.choices[pair[S, E]{from, event}]
	for i := range steps {
		step := &steps[i]
		if step.holds != nil && !step.holds(in) {
			continue
		}
		if err := m.advance(step.name); err != nil {
			return Row[S, E]{}, err
		}
		m.state.Store(&step.row.To)
		row := step.row
		row.Hooks = slices.Clone(row.Hooks)
		return row, nil
	}
	return Row[S, E]{}, &RefusedError[S, E]{State: from, Event: event}
}

// advance has the engine take one row. Its context never ends: a cancelled one
// would leave the engine halfway through the transition for good.
func (m *Machine[S, E, I]) advance(name string) error {
	err := m.engine.Event(context.Background(), name)
	if err == nil {
		return nil
	}
	if _, same := errors.AsType[looplab.NoTransitionError](err); same {
		return nil // a row that leads back to where it starts
	}
	return fmt.Errorf("fsm: the table and its engine disagree: %w", err)
}
