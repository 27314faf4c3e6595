package diagram

import (
	"fmt"
	"strings"
)

// Sequence returns the path that [Diagram.Taken] was given as a sequence diagram of
// Mermaid: a lifeline for each state that it passes through, in the order of the
// table, and an arrow for each step, with the step's note where it has one.
func (d *Diagram[S, E]) Sequence() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	names := make(map[S]string)
	line("---")
	line("title: %s", yaml(d.options.Title))
	line("---")
	line("sequenceDiagram")
	line("    autonumber")
	for i, s := range d.states {
		if d.visited(s) {
			names[s] = fmt.Sprintf("s%d", i)
			line("    participant %s as %s", names[s], mermaid(fmt.Sprint(s)))
		}
	}
	for _, step := range d.path {
		row, _ := d.row(step) // Taken has looked it up
		line("    %s->>%s: %s", names[row.From], names[row.To], mermaid(join(fmt.Sprint(row.Event), guardOf(row), hooksOf(row))))
		if step.Note != "" {
			line("    Note over %s: %s", names[row.To], strings.ReplaceAll(mermaid(step.Note), "\n", " "))
		}
	}
	return b.String()
}
