// Package diagram draws the tables of package fsm.
//
//	d, err := diagram.New(table, spec, diagram.Options{Title: "A door"})
//	...
//	fmt.Print(d.Mermaid())
//
// One [Diagram] has several forms, each a text, and the same bytes whenever the
// table is the same:
//
//   - [Diagram.DOT], for Graphviz; package svg below this one makes an SVG of it
//   - [Diagram.Mermaid], for a README
//   - [Diagram.Markdown], a table
//   - [Diagram.Text], a table for a terminal or a doc comment
//
// # How to read it
//
// Edges are labelled in UML's order: event [guard] / hooks. A choice is a small
// diamond; its branches are numbered in the order in which the guards are asked,
// and the last is the else, dashed. A filled dot leads to the start, and an end has
// a double border. A dashed region is around the states that accept an event which
// leads them all to the same end, and one dotted edge leaves it, in place of one
// from each state; where what happens differs, its label says it for each.
// Edges that [Options] emphasise are heavy.
//
// # A path
//
// [Diagram.At] marks states as current, and [Diagram.Taken] a path of transitions:
// how often each edge was taken is in its label. [Diagram.Sequence] is the path
// itself, step by step, as a sequence diagram of Mermaid.
//
// # Names
//
// States, events, guards and hooks may have any printed names: quotes, spaces,
// line breaks and letters of all scripts come out right in each form.
// [Diagram.StateID] and [Diagram.EdgeIDs] say what a state and a step are called in
// DOT and SVG.
package diagram
