package bench

import "fmt"

// A Row of the table compares two contenders of a contest.
type Row struct {
	Contest     string
	Of          Quantity
	Ours        string
	Other       string // "": Ours stands alone
	Requirement Requirement
}

// Name is what a row is found by.
func (r Row) Name() string {
	switch r.Other {
	case "":
		return fmt.Sprintf("%s: %s, %s", r.Contest, r.Of.Name, r.Ours)
	}
	return fmt.Sprintf("%s: %s, %s vs %s", r.Contest, r.Of.Name, r.Ours, r.Other)
}

// Required reports whether the row must reach anything.
func (r Row) Required() bool { return r.Requirement.kind != none }

// Judge compares the samples of a contest's contenders.
func (r Row) Judge(samples map[string][]Sample) Verdict {
	return r.Requirement.judge(r.Of.all(samples[r.Ours]), r.Of.all(samples[r.Other]))
}

// Cells are the columns of the table: row, ours, other, ratio, required, holds.
func (r Row) Cells(v Verdict) []string {
	cells := []string{r.Name(), r.Of.text(v.Ours.Median), "—", r.Requirement.figure(r.Of, v), r.Requirement.text(r.Of), "—"}
	if r.Other != "" {
		cells[2] = r.Of.text(v.Other.Median)
	}
	if r.Required() {
		cells[5] = map[bool]string{true: "yes", false: "no"}[v.Holds]
	}
	return cells
}

// Rows are the table: first what is required of us, load by load, then how the peers compare besides.
func Rows() []Row {
	var rows []Row
	row := func(contest fmt.Stringer, of Quantity, other Peer, r Requirement) {
		rows = append(rows, Row{contest.String(), of, string(Supervised), string(other), r})
	}
	for _, l := range Loads() {
		switch {
		case l.Kind == PingPong && l.Size == small:
			row(l, Time, Bare, Requirement{kind: atMost, limit: 1.2})
			row(l, Time, Command, Requirement{kind: atMost, limit: 0.5})
			row(l, Allocs, "", Requirement{kind: inAll, limit: 8})
			row(l, Bytes, "", Requirement{kind: inAll, limit: 1 << 10})
		case l.Kind == Pipelined && l.Size == small:
			row(l, Time, Bare, Requirement{kind: atMost, limit: 1.8})
			row(l, Rate, Command, Requirement{kind: atLeast, limit: 15})
		case l.Kind == Pipelined && l.Size == large:
			row(l, Time, Bare, Requirement{kind: atMost, limit: 1.5})
		case l.Kind == ToolCall:
			row(l, Time, Command, Requirement{kind: atMost, limit: 0.9})
			row(l, Bytes, Command, Requirement{kind: atMost, limit: 0.6})
		}
		row(l, Time, Unsupervised, Requirement{kind: atMostOr, limit: 1.15, slack: 400})
		row(l, Allocs, Unsupervised, Requirement{kind: noMore, limit: 1})
	}
	special := func(contest string, of Quantity, ours, other string, r Requirement) {
		rows = append(rows, Row{contest, of, ours, other, r})
	}
	ours := string(Supervised)
	special("death", Time, ours, "Wait", Requirement{kind: atMost, limit: 1.5})
	special("restart", Time, ours, "fork, exec, initialize", Requirement{kind: atMost, limit: 1.1})
	special("round trip, calls in flight", Time, fmt.Sprintf(inFlight, plenty), fmt.Sprintf(inFlight, few), Requirement{kind: atMost, limit: 1.3})
	special("replay", Time, fmt.Sprintf(kept, plenty), fmt.Sprintf(kept, fair), Requirement{kind: atMost, limit: 12})
	special("1,000 idle", Bytes, ours, "wrapped alone", Requirement{kind: noMore, limit: 12 << 10})
	special("1,000 idle", Goroutines, ours, "wrapped alone", Requirement{kind: noMore, limit: 2})
	special("state transition", Time, ours, "looplab/fsm", Requirement{kind: atMost, limit: 1.5})

	listed := make(map[string]bool)
	for _, r := range rows {
		listed[r.Name()] = true
	}
	for _, l := range Loads() {
		for _, other := range l.Peers() {
			r := Row{Contest: l.String(), Of: Time, Ours: ours, Other: string(other)}
			if other != Supervised && !listed[r.Name()] && !(l.Kind == Pipelined && l.Size == small && other == Command) {
				rows = append(rows, r)
			}
		}
	}
	return rows
}
