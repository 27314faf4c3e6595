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
		for _, s := range d.states {
			if d.inside(s) == inside {
				line("%sstate \"%s\" as %s", indent, mermaid(fmt.Sprint(s)), names[d.ids.state[s]])
			}
		}
	}
	for i, s := range d.states {
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
	type note struct {
		of   string
		text []string
	}
	var notes []note
	for _, e := range edges {
		text := escapedLines(e.label)
		if e.everywhere && len(text) > 1 {
			// A list that is longer than its edge covers what is around it.
			notes = append(notes, note{names[e.head], text})
			text = text[:1]
		}
		if e.emphasis {
			text = append(text[:len(text):len(text)], "(!)")
		}
		line("    %s --> %s : %s", names[e.tail], names[e.head], strings.Join(text, "<br>"))
	}
	for _, n := range notes {
		line("    note right of %s", n.of)
		for _, text := range n.text {
			line("        %s", text)
		}
		line("    end note")
	}
	for _, end := range d.spec.Ends {
		line("    %s --> [*]", names[d.ids.state[end]])
	}
	var current, visited []string
	for _, s := range d.states {
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
	for i, r := range s {
		switch {
		case r == '\n' || r == '\r':
			b.WriteByte(' ')
		case strings.ContainsRune("\"#;:<>{}&%\\`|~*", r), r == 'd' && strings.HasPrefix(s[i:], "direction"):
			// The word is a command there wherever it stands.
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
