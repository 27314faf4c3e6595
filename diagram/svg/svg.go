package svg

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Render draws the DOT of a diagram and returns the SVG. It may be called from
// several goroutines, which then wait for each other. The error says what Graphviz
// did not understand.
func Render(dot string) ([]byte, error) {
	drawing, err := render(dot)
	if err != nil {
		return nil, fmt.Errorf("svg: %w", err)
	}
	return drawing, nil
}

func render(dot string) ([]byte, error) {
	g, err := layout(dot)
	if err != nil {
		return nil, err
	}
	p, err := best(g)
	if err != nil {
		return nil, err
	}
	p.paint()
	var b strings.Builder
	width, height := number(p.width), number(p.height)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="lifecycle" role="img" aria-labelledby="lifecycle-title lifecycle-desc" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" data-dot-sha256="%s" %s>`+"\n",
		width, height, sum(dot), selfEmpty)
	fmt.Fprintf(&b, "<title id=\"lifecycle-title\">%s</title>\n", escaped(text(g.Name)))
	fmt.Fprintf(&b, "<desc id=\"lifecycle-desc\">%s</desc>\n", escaped(text(g.Comment)))
	fmt.Fprintf(&b, "<style>\n%s</style>\n", style)
	fmt.Fprintf(&b, "<rect class=\"paper\" width=\"%s\" height=\"%s\"/>\n", width, height)
	b.WriteString(p.out.String())
	b.WriteString("</svg>\n")
	return []byte(seal(b.String())), nil
}

// selfEmpty stands for the SVG's own hash while that is taken.
const selfEmpty = `data-sha256=""`

func seal(drawing string) string {
	return strings.Replace(drawing, selfEmpty, `data-sha256="`+sum(drawing)+`"`, 1)
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// A painter writes the elements of a picture.
type painter struct {
	*scene
	out strings.Builder
}

func (p *painter) put(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

// paint draws regions under edges, and edges under states.
func (p *painter) paint() {
	for _, r := range p.regions {
		p.put(`<g id="%s" class="%s"><rect x="%s" y="%s" width="%s" height="%s" rx="14"/></g>`,
			escaped(r.Attr), escaped(r.Class), number(r.left), number(r.top), number(r.right-r.left), number(r.bottom-r.top))
	}
	for _, e := range p.edges {
		p.edge(e)
	}
	for _, n := range p.nodes {
		p.node(n)
	}
}

func (p *painter) node(n placedNode) {
	w, h := n.right-n.left, n.bottom-n.top
	c := n.centre()
	p.put(`<g id="%s" class="%s">`, escaped(n.Attr), escaped(n.Class))
	switch {
	case has(n.Class, "start"):
		p.put(`<circle cx="%s" cy="%s" r="%s"/>`, number(c.x), number(c.y), number(w/2))
	case has(n.Class, "choice"):
		p.put(`<path d="M%s %sL%s %sL%s %sL%s %sZ"/>`, number(c.x), number(n.top), number(n.right), number(c.y), number(c.x), number(n.bottom), number(n.left), number(c.y))
	default:
		p.put("<title>%s</title>", escaped(text(n.Label)))
		p.put(`<rect x="%s" y="%s" width="%s" height="%s" rx="10"/>`, number(n.left), number(n.top), number(w), number(h))
		if has(n.Class, "end") {
			p.put(`<rect class="inner" x="%s" y="%s" width="%s" height="%s" rx="7"/>`, number(n.left+4), number(n.top+4), number(w-8), number(h-8))
		}
		p.text(lines(n.Label), c, w-2*statePadX, stateFont)
	}
	p.put("</g>")
}

func (p *painter) edge(e placedEdge) {
	p.put(`<g id="%s" class="%s">`, escaped(e.Attr), escaped(e.Class))
	ls := lines(e.Label)
	if len(ls) > 0 {
		p.put("<title>%s</title>", escaped(strings.Join(strings.Fields(strings.Join(ls, " ")), " ")))
	}
	for _, c := range e.curves {
		p.put(`<path d="%s"/>`, c.path())
		if c.tip != nil {
			p.put(`<path class="head" d="%s"/>`, c.head())
		}
	}
	if len(ls) > 0 {
		p.text(ls, e.label.centre(), e.label.right-e.label.left-2*labelPadX, labelFont)
	}
	p.put("</g>")
}

// text sets lines around a centre: one alone in the middle, several flush left.
func (p *painter) text(ls []string, c point, width, font float64) {
	baseline := c.y - float64(len(ls))*font*lineHeight/2 + font*0.98
	for i, l := range ls {
		y := number(baseline + float64(i)*font*lineHeight)
		if len(ls) == 1 {
			p.put(`<text x="%s" y="%s" text-anchor="middle">%s</text>`, number(c.x), y, escaped(l))
			continue
		}
		words := strings.TrimLeft(l, " ")
		x := c.x - width/2 + float64(len(l)-len(words))*font*columnWidth
		p.put(`<text x="%s" y="%s">%s</text>`, number(x), y, escaped(words))
	}
}

func (c curve) path() string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%s %s", number(c.points[0].x), number(c.points[0].y))
	for i := 1; i < len(c.points); i += 3 {
		b.WriteString("C")
		for j, q := range c.points[i : i+3] {
			if j > 0 {
				b.WriteString(" ")
			}
			fmt.Fprintf(&b, "%s %s", number(q.x), number(q.y))
		}
	}
	return b.String()
}

// head is the arrow from the end of the curve to its tip.
func (c curve) head() string {
	from := c.points[len(c.points)-1]
	dx, dy := c.tip.x-from.x, c.tip.y-from.y
	length := math.Hypot(dx, dy)
	if length == 0 {
		return "M" + number(from.x) + " " + number(from.y) + "Z"
	}
	const half = 4.5
	nx, ny := -dy/length*half, dx/length*half
	return fmt.Sprintf("M%s %sL%s %sL%s %sZ", number(from.x+nx), number(from.y+ny), number(c.tip.x), number(c.tip.y), number(from.x-nx), number(from.y-ny))
}

// number is a length with a precision that is the same everywhere.
func number(f float64) string {
	s := strconv.FormatFloat(f, 'f', 1, 64)
	if s == "-0.0" {
		return "0"
	}
	return strings.TrimSuffix(s, ".0")
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
