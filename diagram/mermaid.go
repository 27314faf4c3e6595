package diagram

import (
	"fmt"
	"strings"
)

// Mermaid returns the picture as a state diagram of Mermaid (stateDiagram-v2),
// which GitHub and GitLab show in place of a block of code marked mermaid. Mermaid
// cannot make an edge dashed or heavy: emphasis is a word there, in the label.
func (d *Diagram[S, E]) Mermaid() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	edges, diamonds := d.edges()
	names := make(map[string]string) // id to the name in this text
	declare := func(indent string, inside bool) {
		for _, s := range d.table.States() {
			if d.inside(s) == inside {
				line("%sstate \"%s\" as %s", indent, mermaid(fmt.Sprint(s)), names[d.ids.state[s]])
			}
		}
	}
	for i, s := range d.table.States() {
		names[d.ids.state[s]] = fmt.Sprintf("s%d", i)
	}
	for i, c := range diamonds {
		names[c.id] = fmt.Sprintf("c%d", i)
	}
	names["region"] = "region"

	line("---")
	line("title: %s", yaml(d.options.Title))
	line("---")
	line("stateDiagram-v2")
	declare("    ", false)
	indent := "    "
	if len(d.shared) > 0 {
		var events []string
		for _, s := range d.shared {
			events = append(events, mermaid(fmt.Sprint(s.event)))
		}
		line("    state \"accepts %s\" as region {", strings.Join(events, ", "))
		indent = "        "
		declare(indent, true)
	}
	for _, c := range diamonds {
		line("%sstate %s <<choice>>", indent, names[c.id])
	}
	if len(d.shared) > 0 {
		line("    }")
	}
	if d.started() {
		line("    [*] --> %s", names[d.ids.state[d.spec.Start]])
	}
	for _, e := range edges {
		text := strings.Join(escapedLines(e.label), "<br>")
		if e.emphasis {
			text += " (!)"
		}
		line("    %s --> %s : %s", names[e.tail], names[e.head], text)
	}
	for _, end := range d.spec.Ends {
		line("    %s --> [*]", names[d.ids.state[end]])
	}
	var current, visited []string
	for _, s := range d.table.States() {
		switch name := names[d.ids.state[s]]; {
		case d.current[s]:
			current = append(current, name)
		case d.visited(s):
			visited = append(visited, name)
		}
	}
	if len(visited) > 0 {
		line("    classDef visited stroke-width:3px")
		line("    class %s visited", strings.Join(visited, ","))
	}
	if len(current) > 0 {
		line("    classDef current stroke-width:5px,font-weight:bold")
		line("    class %s current", strings.Join(current, ","))
	}
	return b.String()
}

func escapedLines(l label) []string {
	lines := make([]string, len(l))
	for i, text := range l {
		lines[i] = mermaid(text)
	}
	return lines
}

// mermaid escapes what means something in a text of Mermaid, in the way that it
// has for that: # and the number of the character.
func mermaid(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\r':
			b.WriteByte(' ')
		case strings.ContainsRune("\"#;:<>{}&%\\`|~*_-", r) && r != '-' && r != '_':
			fmt.Fprintf(&b, "#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// yaml quotes a text for the lines before a diagram.
func yaml(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ").Replace(s) + `"`
}
