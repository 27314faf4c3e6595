package svg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// A scene is a graph with everything in its place. Lengths are pixels.
type scene struct {
	width, height float64
	regions       []placedNode
	nodes         []placedNode
	edges         []placedEdge
}

type placedNode struct {
	object
	box
}

type placedEdge struct {
	line
	label  box // of its text, with some room; empty where it has none
	curves []curve
}

// attempts is how many layouts are tried. What Graphviz finds depends on the order
// of what it is told, and a hundred orders are enough for one with few crossings.
const attempts = 120

// best returns the layout in which least is wrong.
func best(g *graph) (*painter, error) {
	random := rand.New(rand.NewPCG(1, 1)) // the same each time
	shuffle := func(int, func(i, j int)) {}
	var found *scene
	least := math.Inf(1)
	for i := range attempts {
		placed, err := layout(plan(g, 1+i%3, shuffle))
		if err != nil {
			return nil, err
		}
		s, err := arrange(g, placed)
		if err != nil {
			return nil, err
		}
		if f := s.faults(); f < least {
			found, least = s, f
		}
		shuffle = random.Shuffle
	}
	return &painter{scene: found}, nil
}

// arrange reads where Graphviz has placed the elements of g.
func arrange(g, placed *graph) (*scene, error) {
	s := new(scene)
	at := make(map[string]string)
	for _, o := range placed.Objects {
		at[o.Name] = o.Pos
	}
	around := func(name string, w, h float64) (box, error) {
		c, err := parsePoint(at[name])
		return box{c.x - w/2, c.y - h/2, c.x + w/2, c.y + h/2}, err
	}
	for _, o := range g.Objects {
		if o.BB != "" {
			continue
		}
		w, h := size(o)
		b, err := around(fmt.Sprintf("n%d", o.ID), w, h)
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, placedNode{o, b})
	}
	halves := make(map[string][]line)
	for _, l := range placed.Edges {
		halves[l.Attr] = append(halves[l.Attr], l)
	}
	for i, l := range g.Edges {
		e := placedEdge{line: l}
		for _, half := range halves[strconv.Itoa(i)] {
			c, err := parseCurve(half.Pos)
			if err != nil {
				return nil, err
			}
			if c.tip == nil {
				e.curves = append([]curve{c}, e.curves...) // from the tail to the label, however it was said
				continue
			}
			e.curves = append(e.curves, c)
		}
		if ls := lines(l.Label); len(ls) > 0 {
			w, h := labelSize(ls)
			b, err := around(fmt.Sprintf("l%d", i), w, h)
			if err != nil {
				return nil, err
			}
			e.label = b
		}
		s.edges = append(s.edges, e)
	}
	for _, o := range g.Objects {
		if o.BB != "" {
			r := placedNode{o, s.around(o)}
			s.regions = append(s.regions, r)
			for i, e := range s.edges {
				if e.LTail == r.Name {
					s.edges[i].leave(r.box)
				}
			}
		}
	}
	s.fit()
	return s, nil
}

// around is a box around the members of a region and the edges between them.
func (s *scene) around(region object) box {
	b := nowhere
	for _, n := range s.nodes {
		if inside(region, n.ID) {
			b = b.and(n.box)
		}
	}
	for _, e := range s.edges {
		if e.LTail == "" && inside(region, e.Tail) && inside(region, e.Head) {
			b = b.and(e.bounds())
		}
	}
	return b.grown(regionMargin)
}

// leave draws the edge of a region from its border to the label, and on from there to
// what Graphviz has drawn: it has left room around the label.
func (e *placedEdge) leave(region box) {
	x := min(max(e.label.centre().x, region.left+3*regionMargin), region.right-3*regionMargin)
	from := point{x, region.bottom}
	if e.Label == "" {
		return
	}
	to := e.label.border(from)
	for i := range e.curves {
		c := &e.curves[i]
		at := e.label.border(c.points[0])
		c.points = append([]point{at, at, c.points[0]}, c.points...)
	}
	e.curves = append([]curve{{points: []point{from, from, to, to}}}, e.curves...)
}

// fit moves everything to where the picture begins, and sets its size.
func (s *scene) fit() {
	all := nowhere
	for _, n := range slices.Concat(s.nodes, s.regions) {
		all = all.and(n.box)
	}
	for _, e := range s.edges {
		all = all.and(e.bounds())
	}
	by := point{margin - all.left, margin - all.top}
	s.width, s.height = math.Ceil(all.right-all.left+2*margin), math.Ceil(all.bottom-all.top+2*margin)
	for _, nodes := range [][]placedNode{s.nodes, s.regions} {
		for i := range nodes {
			nodes[i].box = nodes[i].box.moved(by)
		}
	}
	for i := range s.edges {
		e := &s.edges[i]
		e.label = e.label.moved(by)
		for _, c := range e.curves {
			for j := range c.points {
				c.points[j] = c.points[j].moved(by)
			}
			if c.tip != nil {
				*c.tip = c.tip.moved(by)
			}
		}
	}
}

// bounds is the box around an edge and its label.
func (e placedEdge) bounds() box {
	b := nowhere
	if e.Label != "" {
		b = e.label
	}
	for _, p := range e.trace() {
		b = b.and(box{p.x, p.y, p.x, p.y})
	}
	return b
}

// readme is how many pixels wide a picture may be that a README shows as it is.
const readme = 860

// What is wrong with a layout, weighed.
const (
	costTouch    = 1000 // text under a line, or a line through a node
	costCrossing = 10
	costArea     = 20 // a million square pixels
	costLength   = 10 // a thousand pixels of line
	costTurn     = 6  // half a turn of an edge
	costWidth    = 25 // a hundred pixels more than a README has room for
	costBeside   = 2  // a point of an edge that another one runs beside
)

// faults weighs what is wrong with a layout.
func (s *scene) faults() float64 {
	cost := float64(len(s.touches()))*costTouch + s.width*s.height/1e6*costArea
	cost += max(s.width-readme, 0) / 100 * costWidth
	var traces [][]point
	for _, e := range s.edges {
		trace := e.trace()
		length, turn := measure(trace)
		cost += length/1000*costLength + turn/math.Pi*costTurn
		for _, other := range traces {
			cost += float64(crossings(trace, other))*costCrossing + float64(beside(trace, other))*costBeside
		}
		traces = append(traces, trace)
	}
	return cost
}

// touches names each pair of a label and what is on it, and of a node and an edge of
// others that runs through it.
func (s *scene) touches() (found []string) {
	for _, e := range s.edges {
		for _, n := range s.nodes {
			if n.ID != e.Tail && n.ID != e.Head && slices.ContainsFunc(e.trace(), n.grown(4).holds) {
				found = append(found, e.Attr+" and "+n.Attr)
			}
		}
	}
	for i, e := range s.edges {
		if e.Label == "" {
			continue
		}
		text := box{e.label.left + 2, e.label.top + 1, e.label.right - 2, e.label.bottom - 1}
		say := func(what string) { found = append(found, fmt.Sprintf("the label of %s and %s", e.Attr, what)) }
		for j, other := range s.edges {
			if slices.ContainsFunc(other.trace(), text.holds) {
				say(other.Attr)
			}
			if i < j && other.Label != "" && text.meets(other.label) {
				say("the label of " + other.Attr)
			}
		}
		for _, n := range s.nodes {
			if text.meets(n.box) {
				say(n.Attr)
			}
		}
		for _, r := range s.regions {
			within := r.left < text.left && text.right < r.right && r.top < text.top && text.bottom < r.bottom
			if text.meets(r.box) && !within {
				say(r.Attr)
			}
		}
		if text.left < 0 || text.top < 0 || text.right > s.width || text.bottom > s.height {
			say("the margin")
		}
	}
	return found
}

// trace is an edge as points that are close together, from its tail to its head.
func (e placedEdge) trace() (trace []point) {
	for _, c := range e.curves {
		trace = append(trace, c.trace()...)
	}
	return trace
}
