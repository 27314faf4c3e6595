package fsmtest

import (
	"errors"
	"fmt"
	"strings"
)

// Report is what a comparison has found.
type Report struct {
	// Cells is how many there are: states times events times valuations of the
	// guards.
	Cells int
	// Differences are the cells in which the matrix and what it was compared with
	// disagree.
	Differences []Difference
	// Missing are the cells that no line of the matrix has. They were not
	// compared.
	Missing []Cells
	// Rows are the rows of the table, in the order of [fsm.Table.Rows].
	Rows []Coverage
	// Faults are what is wrong with the matrix itself: a line that cannot be read,
	// a cell that is on two lines, a state, an event or a guard that only one side
	// knows.
	Faults []string
}

// Cells are those of one state and event for the guards that a pattern means.
type Cells struct {
	State, Event string
	Guards       string // as in [Matrix.Lines]
	Number       int    // how many cells these are, at least 1
}

// String returns the cells as a line of a [Matrix] begins.
func (c Cells) String() string { return words(c.State, c.Event) + " " + c.Guards }

// Difference is one thing that is not as the matrix has it.
type Difference struct {
	Cells
	Line int    // of Matrix.Lines; the first is 1
	Row  string // the row that was taken; "": refused, or there is no table
	Want Outcome
	Got  Outcome
}

// String returns the difference as a diff.
func (d Difference) String() string {
	by := ""
	if d.Row != "" {
		by = "   # by row " + d.Row
	}
	return fmt.Sprintf("%v   # line %d\n\t- %v\n\t+ %v%s", d.Cells, d.Line, d.Want, d.Got, by)
}

// Coverage is how a row of the table fared.
type Coverage struct {
	// Row is the state, the event and the guard of the row.
	Row string
	// Cells is how many cells took the row, of those that the matrix has.
	Cells int
}

// taken counts the cells that took a row.
func (r *Report) taken(row string, cells int) {
	for i := range r.Rows {
		if r.Rows[i].Row == row {
			r.Rows[i].Cells += cells
			return // of two with one name the first is the one that is taken
		}
	}
}

func (r *Report) fault(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// Covered returns how many rows some cell took.
func (r *Report) Covered() int {
	n := 0
	for _, row := range r.Rows {
		if row.Cells > 0 {
			n++
		}
	}
	return n
}

// Err returns nil where the matrix is whole, nothing differs and each row was
// taken. Otherwise its text is that of String.
func (r *Report) Err() error {
	if len(r.Differences)+len(r.Missing)+len(r.Faults) == 0 && r.Covered() == len(r.Rows) {
		return nil
	}
	return errors.New(r.String())
}

// String returns all that was found, a summary first. Cells of one state and
// event that differ in the same way stand together.
func (r *Report) String() string {
	differ, missing := 0, 0
	for _, d := range r.Differences {
		differ += d.Number
	}
	for _, m := range r.Missing {
		missing += m.Number
	}
	var b strings.Builder
	fmt.Fprintf(&b, "fsmtest: %d of %d cells differ, the matrix leaves out %d", differ, r.Cells, missing)
	if r.Rows != nil {
		fmt.Fprintf(&b, "; %d of %d rows were taken", r.Covered(), len(r.Rows))
	}
	section := func(title string, n int, each func(i int) string) {
		if n > 0 {
			fmt.Fprintf(&b, "\n%s:", title)
		}
		for i := range n {
			fmt.Fprintf(&b, "\n%s", each(i))
		}
	}
	section("faults of the matrix", len(r.Faults), func(i int) string { return r.Faults[i] })
	section("different (-matrix +got)", len(r.Differences), func(i int) string { return r.Differences[i].String() })
	section("left out", len(r.Missing), func(i int) string { return r.Missing[i].String() })
	var idle []string
	for _, row := range r.Rows {
		if row.Cells == 0 {
			idle = append(idle, row.Row)
		}
	}
	section("never taken", len(idle), func(i int) string { return idle[i] })
	return b.String()
}
