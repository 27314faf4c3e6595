package diagram

import (
	"fmt"
	"strings"
)

// DOT returns the picture in the language of Graphviz. The same diagram gives the
// same bytes. Package svg, below this one, makes the SVG of it; Graphviz itself
// draws it too, less carefully.
func (d *Diagram[S, E]) DOT() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	edges, diamonds := d.edges()

	line("digraph %s {", quote(d.options.Title))
	line("\tgraph [id=\"lifecycle\" class=\"lifecycle\" compound=true rankdir=TB fontname=\"monospace\" comment=%s]", quote(d.words()))
	line("\tnode [shape=box style=rounded fontname=\"monospace\" fontsize=14]")
	line("\tedge [fontname=\"monospace\" fontsize=12]")
	line("")
	if d.started() {
		line("\tstart [id=\"start\" class=\"start\" shape=circle style=filled fillcolor=black width=0.2 fixedsize=true label=\"\"]")
	}
	for _, s := range d.states {
		if !d.inside(s) {
			line("\t%s", d.dotState(s))
		}
	}
	if len(d.shared) > 0 {
		line("\tsubgraph cluster_region {")
		line("\t\tgraph [id=\"region\" class=\"region\" style=\"dashed,rounded\" label=\"\"]")
		for _, s := range d.states {
			if d.inside(s) {
				line("\t\t%s", d.dotState(s))
			}
		}
		for _, c := range diamonds {
			line("\t\t%s", dotDiamond(c))
		}
		line("\t}")
	} else {
		for _, c := range diamonds {
			line("\t%s", dotDiamond(c))
		}
	}
	line("")
	if d.started() {
		line("\tstart -> %s [id=\"edge-start\" class=\"edge initial\" label=\"\"]", quote(d.ids.state[d.spec.Start]))
	}
	for _, e := range edges {
		line("\t%s", d.dotEdge(e))
	}
	line("}")
	return b.String()
}

func (d *Diagram[S, E]) dotState(s S) string {
	classes, more := "state", ""
	if d.end(s) {
		classes += " end"
		more += " peripheries=2"
	}
	if d.visited(s) {
		classes += " visited"
		more += " penwidth=2"
	}
	if d.current[s] {
		classes += " current"
		more += " style=\"rounded,filled\" fillcolor=black fontcolor=white"
	}
	id := quote(d.ids.state[s])
	return fmt.Sprintf("%s [id=%s class=%s label=%s%s]", id, id, quote(classes), quote(fmt.Sprint(s)), more)
}

func dotDiamond(c diamond) string {
	classes := "choice"
	if c.count > 0 {
		classes += " taken"
	}
	return fmt.Sprintf("%s [id=%[1]s class=%s shape=diamond style=solid width=0.25 height=0.25 fixedsize=true label=\"\"]", quote(c.id), quote(classes))
}

func (d *Diagram[S, E]) dotEdge(e edge) string {
	tail, more := e.tail, ""
	if e.everywhere {
		// Graphviz knows no edge of a cluster: it leaves a state inside, and is cut
		// at the border.
		tail = d.ids.state[d.shared[0].from[len(d.shared[0].from)-1]]
		more += " ltail=cluster_region style=dotted"
	}
	if e.otherwise {
		more += " style=dashed"
	}
	switch {
	case e.emphasis && e.count > 0:
		more += " penwidth=4"
	case e.emphasis || e.count > 0:
		more += " penwidth=3"
	}
	if e.everywhere || len(e.label) > 1 {
		// Lines set flush left, each ended by \l.
		return fmt.Sprintf("%s -> %s [id=%s class=%s label=%s%s]", quote(tail), quote(e.head), quote(e.id), quote(strings.Join(e.classes, " ")), quoteLines(e.label), more)
	}
	return fmt.Sprintf("%s -> %s [id=%s class=%s label=%s%s]", quote(tail), quote(e.head), quote(e.id), quote(strings.Join(e.classes, " ")), quote(e.label[0]), more)
}

// quote makes a string of DOT. A backslash begins an escape there, so that it is
// doubled; a line that is broken goes on in the next.
func quote(s string) string { return `"` + escape(s) + `"` }

func quoteLines(lines label) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(escape(line) + `\l`)
	}
	return `"` + b.String() + `"`
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r\n", `\n`, "\n", `\n`, "\r", `\n`).Replace
