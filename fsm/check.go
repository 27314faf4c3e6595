package fsm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Spec says what a table has to be like, beside being well formed. All of it is
// checked, so Start and at least one end are needed.
type Spec[S, E comparable] struct {
	// Start is the state that a machine begins in.
	Start S
	// Ends are the states in which a lifecycle is over. Nothing leads out of
	// one. An end may still accept an event that leads back to it.
	Ends []S
	// Everywhere are the events that every state but an end accepts.
	Everywhere []E
}

// Check returns nil for a table that a machine can run, and otherwise every
// fault that it found, joined, one a line and each with the state or the event
// that it is about:
//
//   - a choice that is empty, that has no else (its last branch is guarded), that
//     has a branch after an unguarded one, or that asks the same guard twice;
//   - a hook without a name;
//   - a state that cannot be reached from the start;
//   - a state from which no end can be reached;
//   - a way out of an end;
//   - a state that is no end and does not accept an event of Everywhere;
//   - a start or an end that the table does not know, or no end at all;
//   - states or events whose printed names are empty or not distinct: the
//     machine, and whoever draws or logs the table, tells them apart by name.
func (t Table[S, E]) Check(spec Spec[S, E]) error {
	return errors.Join(slices.Concat(
		checkNames("state", t.States()),
		checkNames("event", t.Events()),
		t.checkChoices(),
		t.checkPaths(spec),
		t.checkEnds(spec),
		t.checkEverywhere(spec),
	)...)
}

func checkNames[K comparable](kind string, values []K) (found []error) {
	count := make(map[string]int)
	for _, v := range values {
		name := fmt.Sprint(v)
		count[name]++
		switch {
		case name == "":
			found = append(found, fmt.Errorf("fsm: %s %#v: its printed name is empty", kind, v))
		case count[name] == 2: // once for any number of them
			found = append(found, fmt.Errorf("fsm: %s %s: more than one has this printed name", kind, name))
		}
	}
	return found
}

func (t Table[S, E]) checkChoices() (found []error) {
	for _, from := range ordered(maps.Keys(t)) {
		for _, event := range ordered(maps.Keys(t[from])) {
			for _, fault := range t[from][event].faults() {
				found = append(found, fmt.Errorf("fsm: state %v, event %v: %w", from, event, fault))
			}
		}
	}
	return found
}

// faults returns what is wrong with a choice by itself.
func (c Choice[S]) faults() (found []error) {
	if len(c) == 0 {
		return []error{errors.New("the choice is empty")}
	}
	asked := make(map[string]bool)
	for i, branch := range c {
		last := i == len(c)-1
		switch {
		case branch.Guard == "" && !last:
			found = append(found, fmt.Errorf("branch %d has no guard and is not the last: those after it are never taken", i))
		case branch.Guard != "" && last:
			found = append(found, fmt.Errorf("no else: the last branch has the guard %q", branch.Guard))
		}
		if branch.Guard != "" && asked[branch.Guard] {
			found = append(found, fmt.Errorf("branch %d asks the guard %q again", i, branch.Guard))
		}
		asked[branch.Guard] = true
		if slices.Contains(branch.Hooks, "") {
			found = append(found, fmt.Errorf("branch %d has a hook without a name", i))
		}
	}
	return found
}

// checkPaths looks for states that a lifecycle cannot get into, or cannot end
// from.
func (t Table[S, E]) checkPaths(spec Spec[S, E]) (found []error) {
	states := t.States()
	if !slices.Contains(states, spec.Start) {
		// No state is reachable from there. One finding says so better than one
		// for each of them.
		return []error{fmt.Errorf("fsm: start %v: the table has no such state", spec.Start)}
	}
	forth, back := make(map[S][]S), make(map[S][]S)
	for _, row := range t.Rows() {
		forth[row.From] = append(forth[row.From], row.To)
		back[row.To] = append(back[row.To], row.From)
	}
	reachable, ending := closure(forth, spec.Start), closure(back, spec.Ends...)
	for _, state := range states {
		if !reachable[state] {
			found = append(found, fmt.Errorf("fsm: state %v: not reachable from the start, %v", state, spec.Start))
		}
		if !ending[state] && len(spec.Ends) > 0 {
			found = append(found, fmt.Errorf("fsm: state %v: no end is reachable from it", state))
		}
	}
	return found
}

// closure returns the states that steps lead to from any of the given ones,
// these included.
func closure[S comparable](steps map[S][]S, from ...S) map[S]bool {
	seen := make(map[S]bool)
	for todo := slices.Clone(from); len(todo) > 0; {
		state := todo[0]
		todo = todo[1:]
		if !seen[state] {
			seen[state] = true
			todo = append(todo, steps[state]...)
		}
	}
	return seen
}

func (t Table[S, E]) checkEnds(spec Spec[S, E]) (found []error) {
	if len(spec.Ends) == 0 {
		return []error{errors.New("fsm: no end is given")}
	}
	states := t.States()
	for _, end := range spec.Ends {
		if !slices.Contains(states, end) {
			found = append(found, fmt.Errorf("fsm: end %v: the table has no such state", end))
		}
	}
	for _, row := range t.Rows() {
		if slices.Contains(spec.Ends, row.From) && row.To != row.From {
			found = append(found, fmt.Errorf("fsm: state %v, event %v: leads out of an end, to %v", row.From, row.Event, row.To))
		}
	}
	return found
}

func (t Table[S, E]) checkEverywhere(spec Spec[S, E]) (found []error) {
	for _, state := range t.States() {
		if slices.Contains(spec.Ends, state) {
			continue
		}
		for _, event := range spec.Everywhere {
			// An empty choice accepts nothing, but has its own finding.
			if _, accepted := t[state][event]; !accepted {
				found = append(found, fmt.Errorf("fsm: state %v, event %v: not accepted, though every state but an end has to", state, event))
			}
		}
	}
	return found
}
