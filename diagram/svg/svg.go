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
	placed, err := layout(plan(g))
	if err != nil {
		return nil, err
	}
	p := painter{g: g}
	if err := p.paint(placed); err != nil {
		return nil, err
	}
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
	g             *graph
	out           strings.Builder
	frame         frame
	width, height float64
}

func (p *painter) put(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

// paint draws what Graphviz has placed: regions under edges, edges under states.
func (p *painter) paint(placed *graph) error {
	bb, err := numbers(placed.BB, 4)
	if err != nil {
		return err
	}
	p.frame = frame{left: bb[0], top: bb[3]}
	p.width, p.height = math.Ceil(bb[2]-bb[0]+2*margin), math.Ceil(bb[3]-bb[1]+2*margin)

	at := make(map[string]object)
	halves := make(map[string][]line)
	for _, o := range placed.Objects {
		at[o.Name] = o
	}
	for _, l := range placed.Edges {
		halves[l.Attr] = append(halves[l.Attr], l)
	}
	for _, o := range p.g.Objects {
		if o.BB != "" {
			if err := p.region(o, at[fmt.Sprintf("cluster_%d", o.ID)]); err != nil {
				return err
			}
		}
	}
	for i, e := range p.g.Edges {
		if err := p.edge(e, halves[strconv.Itoa(i)], at[fmt.Sprintf("l%d", i)]); err != nil {
			return err
		}
	}
	for _, o := range p.g.Objects {
		if o.BB == "" {
			if err := p.node(o, at[fmt.Sprintf("n%d", o.ID)]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *painter) region(o, placed object) error {
	n, err := numbers(placed.BB, 4)
	if err != nil {
		return err
	}
	x, y := n[0]-p.frame.left+margin, p.frame.top-n[3]+margin
	p.put(`<g id="%s" class="%s"><rect x="%s" y="%s" width="%s" height="%s" rx="14"/></g>`,
		escaped(o.Attr), escaped(o.Class), number(x), number(y), number(n[2]-n[0]), number(n[3]-n[1]))
	return nil
}

func (p *painter) node(o, placed object) error {
	c, err := p.frame.point(placed.Pos)
	if err != nil {
		return err
	}
	w, h := size(o)
	left, top := c.x-w/2, c.y-h/2
	p.put(`<g id="%s" class="%s">`, escaped(o.Attr), escaped(o.Class))
	switch {
	case has(o.Class, "start"):
		p.put(`<circle cx="%s" cy="%s" r="%s"/>`, number(c.x), number(c.y), number(w/2))
	case has(o.Class, "choice"):
		p.put(`<path d="M%s %sL%s %sL%s %sL%s %sZ"/>`, number(c.x), number(top), number(left+w), number(c.y), number(c.x), number(top+h), number(left), number(c.y))
	default:
		p.put("<title>%s</title>", escaped(text(o.Label)))
		p.put(`<rect x="%s" y="%s" width="%s" height="%s" rx="10"/>`, number(left), number(top), number(w), number(h))
		if has(o.Class, "end") {
			p.put(`<rect class="inner" x="%s" y="%s" width="%s" height="%s" rx="7"/>`, number(left+4), number(top+4), number(w-8), number(h-8))
		}
		p.text(lines(o.Label), c, w-2*statePadX, stateFont)
	}
	p.put("</g>")
	return nil
}

func (p *painter) edge(e line, halves []line, labelled object) error {
	p.put(`<g id="%s" class="%s">`, escaped(e.Attr), escaped(e.Class))
	ls := lines(e.Label)
	if len(ls) > 0 {
		p.put("<title>%s</title>", escaped(strings.Join(strings.Fields(strings.Join(ls, " ")), " ")))
	}
	for _, half := range halves {
		c, err := p.frame.curve(half.Pos)
		if err != nil {
			return err
		}
		p.put(`<path d="%s"/>`, c.path())
		if c.tip != nil {
			p.put(`<path class="head" d="%s"/>`, c.head())
		}
	}
	if len(ls) > 0 {
		c, err := p.frame.point(labelled.Pos)
		if err != nil {
			return err
		}
		w, _ := labelSize(ls, e.Class)
		p.text(ls, c, w-2*labelPadX, labelFont)
	}
	p.put("</g>")
	return nil
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
