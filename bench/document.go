package bench

import (
	"fmt"
	"strings"
)

// The lines between which a document holds what was measured. All else in it is written by hand and stays.
const (
	begin = "<!-- measured: begin -->"
	end   = "<!-- measured: end -->"
)

// Table is rows of cells in Markdown.
func Table(rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line([]string{"row", "ours", "other", "median [min – max]", "required", "holds"})
	line([]string{"---", "---:", "---:", "---:", "---:", "---"})
	for _, cells := range rows {
		line(cells)
	}
	return b.String()
}

// Replace puts measured between the markers of document, each of which must be there once.
func Replace(document, measured string) (string, error) {
	head, rest, ok := strings.Cut(document, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 || strings.Count(document, begin) != 1 || strings.Count(document, end) != 1 {
		return "", fmt.Errorf("bench: want the lines %q and %q in the document, in this order and once", begin, end)
	}
	return head + begin + "\n\n" + strings.TrimSpace(measured) + "\n\n" + end + tail, nil
}
