package bench

import "fmt"

// A Requirement is what a row must reach. The zero value requires nothing and shows the ratio.
type Requirement struct {
	kind  kind
	limit float64
	slack float64 // atMostOr: this much more is enough, however large the ratio
}

type kind int

const (
	none     kind = iota
	atMost        // limit times the other
	atMostOr      // limit times the other, or slack more
	atLeast       // limit times the other
	noMore        // than limit more than the other
	inAll         // at most limit, whatever the other
)

// A Verdict is how a row stands.
type Verdict struct {
	Ours, Other Spread // Other is zero where there is none
	Compared    Spread // their ratio; their difference where that is what is required
	More        Spread // the difference
	Holds       bool
	Tolerable   bool // holds, or misses a ratio by no more than half
}

// tolerance is how much worse than required a ratio may be before the short form in CI fails: a machine of CI is
// busy. Counts are the same on any machine, and get none.
const tolerance = 1.5

func (r Requirement) judge(ours, other []float64) Verdict {
	v := Verdict{Ours: spread(ours)}
	if r.kind == inAll {
		v.Holds = v.Ours.Median <= r.limit
		v.Tolerable = v.Holds
		return v
	}
	v.Other = spread(other)
	v.Compared = spread(pairwise(ours, other, ratio))
	v.More = spread(pairwise(ours, other, difference))
	holds := func(tolerance float64) bool {
		switch r.kind {
		case atMost:
			return v.Compared.Median <= r.limit*tolerance
		case atMostOr:
			return v.Compared.Median <= r.limit*tolerance || v.More.Median <= r.slack*tolerance
		case atLeast:
			return v.Compared.Median*tolerance >= r.limit
		case noMore:
			return v.More.Median <= r.limit
		}
		return true
	}
	v.Holds, v.Tolerable = holds(1), holds(tolerance)
	return v
}

// text is the requirement as the table has it.
func (r Requirement) text(q Quantity) string {
	switch r.kind {
	case atMost:
		return fmt.Sprintf("≤ %g", r.limit)
	case atMostOr:
		return fmt.Sprintf("≤ %g or %s more", r.limit, q.text(r.slack))
	case atLeast:
		return fmt.Sprintf("≥ %g", r.limit)
	case noMore:
		return fmt.Sprintf("≤ %s more", q.text(r.limit))
	case inAll:
		return fmt.Sprintf("≤ %s", q.text(r.limit))
	}
	return "—"
}

// figure is what the table has to compare with that.
func (r Requirement) figure(q Quantity, v Verdict) string {
	switch r.kind {
	case inAll:
		return "—"
	case noMore:
		return fmt.Sprintf("%s more [%s – %s]", q.text(v.More.Median), q.text(v.More.Min), q.text(v.More.Max))
	case atMostOr:
		return fmt.Sprintf("%s, %s more", ratios(v.Compared), q.text(v.More.Median))
	}
	return ratios(v.Compared)
}

func ratios(s Spread) string {
	return fmt.Sprintf("%.3g [%.3g – %.3g]", s.Median, s.Min, s.Max)
}
