package svg

import (
	"strings"
	"unicode"
)

// The sizes of what is drawn, in pixels.
const (
	margin       = 16
	regionMargin = 14
	regionReach  = 26 // how much of an edge is seen between its region and its label

	stateFont   = 15
	labelFont   = 12.5
	columnWidth = 0.605 // of a character, in ems: the widest of the common fixed-width fonts
	lineHeight  = 1.28  // in ems

	statePadX, statePadY = 16, 11
	labelPadX, labelPadY = 5, 3

	startSize  = 15
	choiceSize = 20
)

// lines returns the lines of a label of DOT, its escapes resolved.
func lines(label string) []string {
	var all []string
	var b strings.Builder
	broken := false
	escaped := false
	for _, r := range label {
		broken = false
		switch {
		case !escaped && r == '\\':
			escaped = true
			continue
		case escaped && (r == 'l' || r == 'n' || r == 'r'):
			all = append(all, b.String())
			b.Reset()
			broken = true
		default:
			b.WriteRune(r)
		}
		escaped = false
	}
	if !broken && b.Len() > 0 {
		all = append(all, b.String())
	}
	return all
}

// text returns a string of DOT without its escapes.
func text(s string) string { return strings.Join(lines(s), " ") }

// columns is how wide a line is, in characters of a fixed-width font. What such a
// font lacks comes from another: letters of East Asia are twice as wide, and what
// is not known to be narrow is taken for that.
func columns(s string) (n int) {
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Mn, r), unicode.Is(unicode.Cf, r):
		case r < 0x1100, 0x1e00 <= r && r < 0x2e80:
			n++
		default:
			n += 2
		}
	}
	return n
}

func widest(ls []string) (n int) {
	for _, l := range ls {
		n = max(n, columns(l))
	}
	return n
}

// size is how large a node is drawn.
func size(o object) (w, h float64) {
	switch {
	case has(o.Class, "start"):
		return startSize, startSize
	case has(o.Class, "choice"):
		return choiceSize, choiceSize
	}
	ls := lines(o.Label)
	return float64(widest(ls))*stateFont*columnWidth + 2*statePadX, float64(len(ls))*stateFont*lineHeight + 2*statePadY
}

// labelSize is the room that a label has in its edge.
func labelSize(ls []string) (w, h float64) {
	return float64(widest(ls))*labelFont*columnWidth + 2*labelPadX, float64(len(ls))*labelFont*lineHeight + 2*labelPadY
}
