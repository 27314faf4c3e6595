package svg

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A point is a place in the picture, in pixels; y grows downwards.
type point struct{ x, y float64 }

func (p point) moved(by point) point { return point{p.x + by.x, p.y + by.y} }

// A box is an upright rectangle.
type box struct{ left, top, right, bottom float64 }

// nowhere is the box that adds nothing to another.
var nowhere = box{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}

func (b box) centre() point { return point{(b.left + b.right) / 2, (b.top + b.bottom) / 2} }

func (b box) grown(by float64) box { return box{b.left - by, b.top - by, b.right + by, b.bottom + by} }

func (b box) moved(by point) box {
	return box{b.left + by.x, b.top + by.y, b.right + by.x, b.bottom + by.y}
}

// and is the box around two.
func (b box) and(o box) box {
	return box{min(b.left, o.left), min(b.top, o.top), max(b.right, o.right), max(b.bottom, o.bottom)}
}

func (b box) holds(p point) bool {
	return b.left < p.x && p.x < b.right && b.top < p.y && p.y < b.bottom
}

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// border is where the way from a point outside to the centre comes to the box.
func (b box) border(from point) point {
	c := b.centre()
	dx, dy := from.x-c.x, from.y-c.y
	t := min(math.Abs((b.right-b.left)/2/dx), math.Abs((b.bottom-b.top)/2/dy), 1)
	return point{c.x + dx*t, c.y + dy*t}
}

// A curve is a Bézier spline of Graphviz, with the tip of its arrow if it has one.
type curve struct {
	points []point
	tip    *point
}

// parseCurve reads what Graphviz writes for an edge, [s,X,Y ][e,X,Y ]X,Y X,Y ...,
// where s and e are the tip of the arrow at the first point and the last.
func parseCurve(pos string) (curve, error) {
	var c curve
	for _, field := range strings.Fields(pos) {
		end, xy, tip := strings.Cut(field, ",")
		if tip = tip && (end == "s" || end == "e"); !tip {
			xy = field
		}
		p, err := parsePoint(xy)
		switch {
		case err != nil:
			return curve{}, err
		case tip:
			c.tip = &p
		default:
			c.points = append(c.points, p)
		}
	}
	if strings.HasPrefix(pos, "s,") {
		slices.Reverse(c.points)
	}
	if len(c.points) < 4 || len(c.points)%3 != 1 {
		return curve{}, fmt.Errorf("an edge of %d points: %q", len(c.points), pos)
	}
	return c, nil
}

// parsePoint reads X,Y. Graphviz's y grows upwards.
func parsePoint(text string) (point, error) {
	left, up, _ := strings.Cut(text, ",")
	x, err := strconv.ParseFloat(left, 64)
	if err != nil {
		return point{}, err
	}
	y, err := strconv.ParseFloat(up, 64)
	return point{x, -y}, err
}

// trace is the curve as points that are close together.
func (c curve) trace() (trace []point) {
	const steps = 24
	for i := 0; i+3 < len(c.points); i += 3 {
		p, q, r, s := c.points[i], c.points[i+1], c.points[i+2], c.points[i+3]
		for k := range steps + 1 {
			t := float64(k) / steps
			u := 1 - t
			at := func(p, q, r, s float64) float64 { return u*u*u*p + 3*u*u*t*q + 3*u*t*t*r + t*t*t*s }
			trace = append(trace, point{at(p.x, q.x, r.x, s.x), at(p.y, q.y, r.y, s.y)})
		}
	}
	if c.tip != nil {
		trace = append(trace, *c.tip)
	}
	return trace
}

// measure returns the length of a trace and how far it turns.
func measure(trace []point) (length, turn float64) {
	last := math.NaN()
	for i := range trace[1:] {
		dx, dy := trace[i+1].x-trace[i].x, trace[i+1].y-trace[i].y
		step := math.Hypot(dx, dy)
		if step == 0 {
			continue
		}
		length += step
		heading := math.Atan2(dy, dx)
		if !math.IsNaN(last) {
			turn += math.Abs(math.Remainder(heading-last, 2*math.Pi))
		}
		last = heading
	}
	return length, turn
}

// crossings counts where two traces cross.
func crossings(a, b []point) (n int) {
	for i := range a[1:] {
		for j := range b[1:] {
			if cross(a[i], a[i+1], b[j], b[j+1]) {
				n++
			}
		}
	}
	return n
}

func cross(a, b, c, d point) bool {
	side := func(p, q, r point) float64 { return (q.x-p.x)*(r.y-p.y) - (q.y-p.y)*(r.x-p.x) }
	return side(a, b, c)*side(a, b, d) < 0 && side(c, d, a)*side(c, d, b) < 0
}

// beside counts the points of a trace that are hard to tell from the other one.
func beside(a, b []point) (n int) {
	const apart = 6
	for _, p := range a {
		for _, q := range b {
			if math.Abs(p.x-q.x) < apart && math.Abs(p.y-q.y) < apart {
				n++
				break
			}
		}
	}
	return n
}
