package diagram

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/seed7990db67/supervised/fsm"
)

// identities are the ids of what is drawn. They are the same in DOT and SVG, and
// depend on nothing but the names in the table.
type identities[S, E comparable] struct {
	state  map[S]string
	choice map[place[S, E]]string // of branch 0
	stem   map[place[S, E]]string // of branch 0
	edge   map[place[S, E]]string
	shared map[E]string
}

// identify gives everything its id. Where two names differ in nothing that a slug
// keeps, the second gets a number.
func identify[S, E comparable](t fsm.Table[S, E]) identities[S, E] {
	ids := identities[S, E]{
		state:  make(map[S]string),
		choice: make(map[place[S, E]]string),
		stem:   make(map[place[S, E]]string),
		edge:   make(map[place[S, E]]string),
		shared: make(map[E]string),
	}
	taken := map[string]bool{"start": true, "edge-start": true, "region": true}
	unique := func(format string, parts ...any) string {
		id := fmt.Sprintf(format, parts...)
		for n := 2; taken[id]; n++ {
			id = fmt.Sprintf(format+"_%d", append(parts, n)...)
		}
		taken[id] = true
		return id
	}
	for _, s := range t.States() {
		ids.state[s] = unique("state-%s", slug(s))
	}
	for _, e := range t.Events() {
		ids.shared[e] = unique("edge-everywhere-%s", slug(e))
	}
	for _, r := range t.Rows() {
		if r.Branch == 0 {
			ids.choice[placeOf(r)] = unique("choice-%s-%s", slug(r.From), slug(r.Event))
			ids.stem[placeOf(r)] = unique("edge-%s-%s", slug(r.From), slug(r.Event))
		}
		ids.edge[placeOf(r)] = unique("edge-%s-%s-%d", slug(r.From), slug(r.Event), r.Branch)
	}
	return ids
}

// slug keeps the letters and digits of a name, in lower case, with a hyphen in
// place of what is between them.
func slug(v any) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(fmt.Sprint(v)) {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			gap = b.Len() > 0
			continue
		case gap:
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "x"
	}
	return b.String()
}

// StateID returns the id that the state has in DOT and SVG, "state-" and its
// name with hyphens in place of all that is neither letter nor digit; empty for
// a state that the table does not have.
func (d *Diagram[S, E]) StateID(state S) string { return d.ids.state[state] }

// EdgeIDs returns the ids in DOT and SVG of what a step passes through: its edge,
// after the way to the diamond and the diamond where its choice has one. Where
// the event is drawn once for a region, that edge. The error is about a step that
// is not in the table.
//
// The edges of a choice are edge-STATE-EVENT, the diamond choice-STATE-EVENT,
// and edge-STATE-EVENT-BRANCH, the branches counted from 0; an edge without a
// choice is branch 0. The edge of a region is edge-everywhere-EVENT.
func (d *Diagram[S, E]) EdgeIDs(step Step[S, E]) ([]string, error) {
	row, err := d.row(step)
	if err != nil {
		return nil, fmt.Errorf("diagram: %w", err)
	}
	if d.sharing(row.From, row.Event) != nil {
		return []string{d.ids.shared[row.Event]}, nil
	}
	edge := d.ids.edge[placeOf(row)]
	if row.Branches == 1 {
		return []string{edge}, nil
	}
	first := place[S, E]{row.From, row.Event, 0}
	return []string{d.ids.stem[first], d.ids.choice[first], edge}, nil
}
