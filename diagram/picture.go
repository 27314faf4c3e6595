package diagram

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed7990db67/supervised/fsm"
)

// An edge is one line of the picture.
type edge struct {
	id         string
	classes    []string
	tail, head string // ids
	label      label
	count      int  // how often the path takes it
	branch     bool // leaves a diamond
	otherwise  bool // is the else
	emphasis   bool
	everywhere bool // leaves the region
}

// A label is an edge's text, in lines that are ready to be set.
type label []string

// A diamond is a guarded choice.
type diamond struct {
	id    string
	from  string // the id of the state
	count int
}

// edges returns every edge and every diamond, in the order of the table. The
// edges of the region come last.
func (d *Diagram[S, E]) edges() (edges []edge, diamonds []diamond) {
	for _, r := range d.rows {
		if d.sharing(r.From, r.Event) != nil {
			continue
		}
		from, to := d.ids.state[r.From], d.ids.state[r.To]
		e := edge{id: d.ids.edge[placeOf(r)], tail: from, head: to, count: d.count[placeOf(r)]}
		if r.Branches > 1 {
			first := place[S, E]{r.From, r.Event, 0}
			e.tail = d.ids.choice[first]
			e.branch, e.otherwise = true, r.Else()
			if r.Branch == 0 {
				n := d.passed(r.From, r.Event)
				diamonds = append(diamonds, diamond{e.tail, from, n})
				edges = append(edges, edge{
					id: d.ids.stem[first], classes: []string{"edge", "stem"},
					tail: from, head: e.tail, count: n,
					label: wrap(fmt.Sprint(r.Event), times(n)),
				}.classed())
			}
			e.label = wrap(numbered(r), hooksOf(r), times(e.count))
		} else {
			e.label = wrap(fmt.Sprint(r.Event), guardOf(r), hooksOf(r), times(e.count))
		}
		e.emphasis = r.Guard != "" && slices.Contains(d.options.Emphasis, r.Guard)
		edges = append(edges, e.classed())
	}
	for _, s := range d.shared {
		e := edge{id: d.ids.shared[s.event], tail: "region", head: d.ids.state[s.to], everywhere: true}
		for _, from := range s.from {
			e.count += d.passed(from, s.event)
		}
		e.label = d.sharedLabel(s, e.count)
		edges = append(edges, e.classed())
	}
	return edges, diamonds
}

func (e edge) classed() edge {
	if e.classes == nil {
		e.classes = []string{"edge"}
	}
	for class, has := range map[string]bool{"branch": e.branch, "else": e.otherwise, "emphasis": e.emphasis, "everywhere": e.everywhere, "taken": e.count > 0} {
		if has {
			e.classes = append(e.classes, class)
		}
	}
	slices.Sort(e.classes[1:])
	return e
}

// passed is how often the path leaves a state by an event.
func (d *Diagram[S, E]) passed(from S, event E) (n int) {
	for p, count := range d.count {
		if p.from == from && p.event == event {
			n += count
		}
	}
	return n
}

// visited reports whether the path goes through a state.
func (d *Diagram[S, E]) visited(state S) bool {
	for _, step := range d.path {
		if row, _ := d.row(step); row.From == state || row.To == state {
			return true
		}
	}
	return false
}

// sharedLabel says what an event leads to that is drawn once: in one line where it
// is the same from each state, else for each kind of states in turn.
func (d *Diagram[S, E]) sharedLabel(s shared[S, E], count int) label {
	type kind struct {
		from []string
		rows []fsm.Row[S, E]
	}
	same := func(a, b []fsm.Row[S, E]) bool {
		return slices.EqualFunc(a, b, func(a, b fsm.Row[S, E]) bool {
			return a.Guard == b.Guard && slices.Equal(a.Hooks, b.Hooks)
		})
	}
	var kinds []kind
	for _, from := range s.from {
		var rows []fsm.Row[S, E]
		for _, r := range d.rows {
			if r.From == from && r.Event == s.event {
				rows = append(rows, r)
			}
		}
		i := slices.IndexFunc(kinds, func(k kind) bool { return same(k.rows, rows) })
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, kind{rows: rows})
		}
		kinds[i].from = append(kinds[i].from, fmt.Sprint(from))
	}
	event := fmt.Sprint(s.event)
	if len(kinds) == 1 && len(kinds[0].rows) == 1 {
		r := kinds[0].rows[0]
		return wrap(event, guardOf(r), hooksOf(r), times(count))
	}
	lines := wrap(event, times(count))
	for _, k := range kinds {
		from := strings.Join(k.from, ", ")
		if len(k.rows) > 1 || len(k.rows[0].Hooks) > 0 {
			from += ":"
		}
		if len(k.rows) == 1 {
			lines = append(lines, wrapped(listWidth, "", "    ", from, guardOf(k.rows[0]), hooksOf(k.rows[0]))...)
			continue
		}
		lines = append(lines, wrapped(listWidth, "", "    ", from)...)
		for _, r := range k.rows {
			lines = append(lines, wrapped(listWidth, "  ", "    ", numbered(r), hooksOf(r))...)
		}
	}
	return lines
}

// guardOf, hooksOf and numbered are the parts of a label in UML's order: the
// event, [guard], / hooks. A branch has its number in place of the event.
func guardOf[S, E comparable](r fsm.Row[S, E]) string {
	switch {
	case r.Guard != "":
		return "[" + r.Guard + "]"
	case r.Else():
		return "[else]"
	}
	return ""
}

func hooksOf[S, E comparable](r fsm.Row[S, E]) string {
	if len(r.Hooks) == 0 {
		return ""
	}
	return "/ " + strings.Join(r.Hooks, ", ")
}

func numbered[S, E comparable](r fsm.Row[S, E]) string {
	return fmt.Sprintf("%d %s", r.Branch+1, guardOf(r))
}

// times is the mark of an edge that was taken.
func times(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("×%d", n)
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}

// How many characters a line of a label has before it is broken; that of a label
// that lists several states may be longer.
const lineWidth, listWidth = 22, 34

// wrap sets the parts of a label. A line that would get too long is broken before a
// part, or inside one that is too long itself: at its spaces.
func wrap(parts ...string) label {
	return wrapped(lineWidth, "", "", parts...)
}

// wrapped sets the parts with one indentation for the first line and one for those
// after it.
func wrapped(width int, first, rest string, parts ...string) label {
	var lines label
	indent, line := first, ""
	add := func(piece string) {
		switch {
		case line == "":
			line = piece
		case utf8.RuneCountInString(indent+line+" "+piece) <= width:
			line += " " + piece
		default:
			lines = append(lines, indent+line)
			indent, line = rest, piece
		}
	}
	for _, part := range parts {
		switch {
		case part == "":
		case utf8.RuneCountInString(rest+part) <= width:
			add(part)
		default:
			part, slash := strings.CutPrefix(part, "/ ")
			for i, word := range strings.Fields(part) {
				if slash && i == 0 {
					word = "/ " + word
				}
				add(word)
			}
		}
	}
	return append(lines, indent+line)
}

// words is the whole table as a text to be read aloud.
func (d *Diagram[S, E]) words() string {
	if d.options.Description != "" {
		return d.options.Description
	}
	var b strings.Builder
	if d.started() {
		fmt.Fprintf(&b, "It starts in %v. ", d.spec.Start)
	}
	if len(d.spec.Ends) > 0 {
		fmt.Fprintf(&b, "It ends in %s. ", strings.Join(printed(d.spec.Ends), " or "))
	}
	for _, r := range d.rows {
		fmt.Fprintf(&b, "From %v, %v", r.From, r.Event)
		switch {
		case r.Guard != "":
			fmt.Fprintf(&b, ", if %s,", r.Guard)
		case r.Else():
			b.WriteString(" otherwise")
		}
		fmt.Fprintf(&b, " leads to %v", r.To)
		if len(r.Hooks) > 0 {
			fmt.Fprintf(&b, " and calls %s", strings.Join(r.Hooks, ", "))
		}
		switch n := d.count[placeOf(r)]; n {
		case 0:
		case 1:
			b.WriteString(", taken once")
		default:
			fmt.Fprintf(&b, ", taken %d times", n)
		}
		b.WriteString(". ")
	}
	for _, s := range d.states {
		if d.current[s] {
			fmt.Fprintf(&b, "Now it is in %v. ", s)
		}
	}
	return strings.TrimRight(b.String(), " ")
}
