package svg

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-graphviz"
)

// graph is what Graphviz says of a graph that it has laid out. Lengths are points,
// widths and heights of nodes inches; y grows upwards.
type graph struct {
	Name    string
	Comment string
	BB      string
	Objects []object // subgraphs, then nodes, numbered by ID
	Edges   []line
}

type object struct {
	ID            int `json:"_gvid"`
	Name          string
	Attr          string `json:"id"`
	Class         string
	Label         string
	BB            string // of a cluster
	Pos           string // of a node
	Width, Height string
	Nodes         []int // of a cluster
}

type line struct {
	Tail, Head int
	Attr       string `json:"id"`
	Class      string
	Label      string
	LTail      string
	Pos        string
}

// engine is held while Graphviz works: it is one instance for the process.
var engine sync.Mutex

// layout has Graphviz lay out a graph.
func layout(dot string) (g *graph, err error) {
	engine.Lock()
	defer engine.Unlock()
	ctx := context.Background()
	parsed, err := graphviz.ParseBytes([]byte(dot))
	if err != nil {
		return nil, err
	}
	if parsed == nil {
		return nil, errors.New("no graph")
	}
	defer func() { err = errors.Join(err, parsed.Close()) }()
	gv, err := graphviz.New(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gv.Close()) }()
	var out bytes.Buffer
	if err := gv.Render(ctx, parsed, "json", &out); err != nil {
		return nil, err
	}
	g = new(graph)
	if err := json.Unmarshal(out.Bytes(), g); err != nil {
		return nil, fmt.Errorf("what Graphviz says: %w", err)
	}
	return g, nil
}

// plan writes the graph that is laid out in place of g: everything has the size that
// this package draws it with, and a label is a node in the middle of its edge.
func plan(g *graph) string {
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put("digraph {")
	put("graph [compound=true rankdir=TB nodesep=0.22 ranksep=0.26]")
	put("node [shape=box fixedsize=true label=\" \"]")
	node := func(o object) {
		w, h := size(o)
		shape := ""
		switch {
		case has(o.Class, "choice"):
			shape = " shape=diamond"
		case has(o.Class, "start"):
			shape = " shape=circle"
		}
		put("n%d [width=%s height=%s%s]", o.ID, inches(w), inches(h), shape)
	}
	in := make(map[int]bool)
	for _, c := range g.Objects {
		if c.BB == "" {
			continue
		}
		put("subgraph cluster_%d {", c.ID)
		put("graph [margin=%d]", regionMargin)
		for _, id := range c.Nodes {
			in[id] = true
			node(g.Objects[id])
		}
		for i, e := range g.Edges {
			if e.LTail == "" && inside(c, e.Tail) && inside(c, e.Head) {
				putLabel(put, i, e)
			}
		}
		put("}")
	}
	for _, o := range g.Objects {
		if o.BB == "" && !in[o.ID] {
			node(o)
		}
	}
	for i, e := range g.Edges {
		clip := ""
		for _, c := range g.Objects {
			if c.BB != "" && c.Name == e.LTail {
				clip = fmt.Sprintf(" ltail=cluster_%d", c.ID)
			}
		}
		if len(lines(e.Label)) == 0 {
			put("n%d -> n%d [id=%d%s]", e.Tail, e.Head, i, clip)
			continue
		}
		putLabel(put, i, e)
		put("n%d -> l%d [id=%d dir=none%s]", e.Tail, i, i, clip)
		put("l%d -> n%d [id=%d]", i, e.Head, i)
	}
	put("}")
	return b.String()
}

func putLabel(put func(string, ...any), i int, e line) {
	if ls := lines(e.Label); len(ls) > 0 {
		w, h := labelSize(ls, e.Class)
		put("l%d [width=%s height=%s]", i, inches(w), inches(h))
	}
}

func inside(cluster object, node int) bool {
	for _, id := range cluster.Nodes {
		if id == node {
			return true
		}
	}
	return false
}

func has(classes, class string) bool {
	for _, c := range strings.Fields(classes) {
		if c == class {
			return true
		}
	}
	return false
}

// A point is a place in the picture, in pixels; y grows downwards.
type point struct{ x, y float64 }

// A curve is a Bézier spline of Graphviz, with the tip of its arrow if it has one.
type curve struct {
	points []point
	tip    *point
}

// points reads what Graphviz writes for an edge: [e,X,Y ]X,Y X,Y ...
func (f frame) curve(pos string) (curve, error) {
	var c curve
	for _, field := range strings.Fields(pos) {
		text, tip := strings.CutPrefix(field, "e,")
		p, err := f.point(text)
		if err != nil {
			return curve{}, err
		}
		if tip {
			c.tip = &p
			continue
		}
		c.points = append(c.points, p)
	}
	if len(c.points) < 4 || len(c.points)%3 != 1 {
		return curve{}, fmt.Errorf("an edge of %d points: %q", len(c.points), pos)
	}
	return c, nil
}

// A frame turns Graphviz's coordinates into those of the picture.
type frame struct{ left, top float64 }

func (f frame) point(text string) (point, error) {
	n, err := numbers(text, 2)
	if err != nil {
		return point{}, err
	}
	return point{n[0] - f.left + margin, f.top - n[1] + margin}, nil
}

func numbers(text string, count int) ([]float64, error) {
	fields := strings.Split(text, ",")
	if len(fields) != count {
		return nil, fmt.Errorf("want %d numbers: %q", count, text)
	}
	n := make([]float64, count)
	for i, field := range fields {
		var err error
		if n[i], err = strconv.ParseFloat(field, 64); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func inches(points float64) string { return strconv.FormatFloat(points/72, 'f', 4, 64) }
