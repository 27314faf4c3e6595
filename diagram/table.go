package diagram

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Markdown returns the table as Markdown: a line for each row, in the order in
// which guards are asked. Where a path is marked there is a column that counts.
func (d *Diagram[S, E]) Markdown() string {
	var b strings.Builder
	line := func(cells ...string) {
		for _, c := range cells {
			b.WriteString("|")
			if c != "" {
				b.WriteString(" " + c)
			}
			b.WriteString(" ")
		}
		b.WriteString("|\n")
	}
	heads := []string{"from", "event", "guard", "to", "emits"}
	rules := []string{"---", "---", "---", "---", "---"}
	if d.count != nil {
		heads, rules = append(heads, "taken"), append(rules, "---")
	}
	line(heads...)
	line(rules...)
	for _, r := range d.rows {
		guard := r.Guard
		if guard == "" && r.Else() {
			guard = "else"
		}
		cells := []string{fmt.Sprint(r.From), fmt.Sprint(r.Event), guard, fmt.Sprint(r.To), strings.Join(r.Hooks, ", ")}
		if d.count != nil {
			cells = append(cells, times(d.count[placeOf(r)]))
		}
		for i := range cells {
			cells[i] = markdown(cells[i])
		}
		line(cells...)
	}
	return b.String()
}

// markdown escapes what would not be shown as it is.
func markdown(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n' || r == '\r':
			b.WriteByte(' ')
			continue
		case r == '&' || r == '<':
			// In an entity, the backslash would do for neither.
			fmt.Fprintf(&b, "&#%d;", r)
			continue
		case strings.ContainsRune("\\`*_[]|~$", r), i == 0 && strings.ContainsRune("#+->", r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Text returns the table in columns of a fixed-width font, a line for each row:
//
//	idle    dial                    -> ringing
//	ringing failed [attempts left]  -> ringing  / report
//	               [else]           -> idle
//
// State and event stand only where they are not those of the line above.
func (d *Diagram[S, E]) Text() string {
	rows := d.rows
	lines := make([][]string, len(rows))
	for i, r := range rows {
		lines[i] = []string{fmt.Sprint(r.From), fmt.Sprint(r.Event), guardOf(r), "-> " + fmt.Sprint(r.To), hooksOf(r)}
		if i > 0 && rows[i-1].From == r.From {
			lines[i][0] = ""
			if rows[i-1].Event == r.Event {
				lines[i][1] = ""
			}
		}
	}
	return columns(lines)
}

// columns sets cells below each other, two spaces apart.
func columns(lines [][]string) string {
	var width [8]int
	for _, cells := range lines {
		for i, c := range cells {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, cells := range lines {
		var line strings.Builder
		for i, c := range cells {
			line.WriteString(c + strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
