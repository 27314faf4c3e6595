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

// layout has Graphviz lay out a graph. What it says of errors while it draws is not
// heard: once it has refused a text it says so again of each that is well.
func layout(dot string) (*graph, error) {
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
	defer parsed.Close()
	gv, err := graphviz.New(ctx)
	if err != nil {
		return nil, err
	}
	defer gv.Close()
	var out bytes.Buffer
	failed := gv.Render(ctx, parsed, "json", &out)
	g := new(graph)
	if err := json.Unmarshal(out.Bytes(), g); err != nil {
		return nil, errors.Join(failed, fmt.Errorf("what Graphviz says: %w", err))
	}
	return g, nil
}

// plan writes the graph that is laid out in place of g: everything has the size that
// this package draws it with, and a label is a node in the middle of its edge. The
// order of nodes and edges, which Graphviz starts from, is shuffled; pull is how
// strongly a label is drawn to the tail of its edge.
func plan(g *graph, pull int, shuffle func(n int, swap func(i, j int))) string {
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	nodes := func(of []string) {
		shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		for _, line := range of {
			put("%s", line)
		}
	}
	put("digraph {")
	put("graph [compound=true rankdir=TB nodesep=0.26 ranksep=0.28]")
	put("node [shape=box fixedsize=true label=\" \"]")
	for _, o := range g.Objects {
		if has(o.Class, "start") {
			put("%s", planNode(o)) // what comes first is on top
		}
	}
	var outside []string
	for _, o := range g.Objects {
		if o.BB == "" && !has(o.Class, "start") {
			outside = append(outside, planNode(o))
		}
	}
	var edges []string
	back := g.back()
	for i, e := range g.Edges {
		if e.Label == "" {
			edges = append(edges, fmt.Sprintf("n%d -> n%d [id=%d]", e.Tail, e.Head, i))
			continue
		}
		outside = append(outside, planLabel(i, e))
		if c := g.cluster(e.LTail); c >= 0 {
			for _, member := range g.Objects[c].Nodes {
				edges = append(edges, fmt.Sprintf("n%d -> l%d [style=invis weight=0]", member, i))
			}
			edges = append(edges, fmt.Sprintf("l%d -> n%d [id=%d weight=3]", i, e.Head, i))
			continue
		}
		if back[i] {
			// Said the other way round, it leads up.
			edges = append(edges, fmt.Sprintf("n%d -> l%d [id=%d dir=back]\nl%[2]d -> n%[4]d [id=%[3]d dir=none]", e.Head, i, i, e.Tail))
			continue
		}
		edges = append(edges, fmt.Sprintf("n%d -> l%d [id=%d dir=none weight=%d]\nl%[2]d -> n%[5]d [id=%[3]d]", e.Tail, i, i, pull, e.Head))
	}
	nodes(outside)
	nodes(edges)
	put("}")
	return b.String()
}

// back returns the edges that lead back, to where the way from the start came
// through. All others lead down.
func (g *graph) back() map[int]bool {
	found := make(map[int]bool)
	const ( // of a node
		under = 1 // the way from the start to where we are leads through it
		done  = 2
	)
	stage := make(map[int]int)
	var visit func(node int)
	visit = func(node int) {
		stage[node] = under
		for i, e := range g.Edges {
			switch {
			case e.Tail != node:
			case stage[e.Head] == under:
				found[i] = true
			case stage[e.Head] != done:
				visit(e.Head)
			}
		}
		stage[node] = done
	}
	for _, start := range []bool{true, false} {
		for _, o := range g.Objects {
			if o.BB == "" && has(o.Class, "start") == start && stage[o.ID] == 0 {
				visit(o.ID)
			}
		}
	}
	return found
}

func planNode(o object) string {
	w, h := size(o)
	shape := "box"
	switch {
	case has(o.Class, "choice"):
		shape = "diamond"
	case has(o.Class, "start"):
		shape = "circle"
	}
	return fmt.Sprintf("n%d [width=%s height=%s shape=%s]", o.ID, inches(w), inches(h), shape)
}

func planLabel(i int, e line) string {
	w, h := labelSize(lines(e.Label))
	if e.LTail != "" {
		h += 2 * regionReach
	}
	return fmt.Sprintf("l%d [width=%s height=%s]", i, inches(w), inches(h))
}

// cluster returns the number of a cluster by its name, -1 for another name.
func (g *graph) cluster(name string) int {
	for _, c := range g.Objects {
		if c.BB != "" && c.Name == name {
			return c.ID
		}
	}
	return -1
}

func (g *graph) clustered(node int) bool {
	for _, c := range g.Objects {
		if c.BB != "" && inside(c, node) {
			return true
		}
	}
	return false
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

func inches(points float64) string { return strconv.FormatFloat(points/72, 'f', 4, 64) }
