package fsmtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed7990db67/supervised/fsm"
	"github.com/seed7990db67/supervised/fsm/fsmtest"
)

type (
	table  = fsm.Table[string, string]
	choice = fsm.Choice[string]
)

// lift has a choice of three, so that the order of guards matters, and names that have to be quoted.
func lift() table {
	return table{
		"at rest": {
			"call": choice{
				{Guard: "overloaded", To: "at rest", Hooks: []string{"buzz", "light up"}},
				{Guard: "here", To: "at rest", Hooks: []string{"open"}},
				{To: "moving"},
			},
			"halt": choice{{To: "refused"}},
		},
		"moving": {
			"arrived": choice{{To: "at rest", Hooks: []string{"open"}}},
			"halt":    choice{{To: "refused", Hooks: []string{"buzz"}}},
		},
	}
}

var liftMatrix = fsmtest.Matrix{
	Guards: []string{"here", "overloaded"},
	Lines: `
# The lift of the house, state by state.
"at rest"  call     -1  "at rest"  buzz "light up"
"at rest"  call     10  "at rest"  open
"at rest"  call     00  moving
"at rest"  arrived  -   refused
"at rest"  halt     --  "refused"

moving     call     -   refused
moving     arrived  -   "at rest"  open
moving     halt     -   "refused"  buzz

"refused"  call     -   refused
"refused"  arrived  -   refused
"refused"  halt     -   refused
`}

func TestNothingDiffers(t *testing.T) {
	want := &fsmtest.Report{
		Cells: 3 * 3 * 4,
		Rows: []fsmtest.Coverage{
			{Row: `"at rest" call [overloaded]`, Cells: 2},
			{Row: `"at rest" call [here]`, Cells: 1},
			{Row: `"at rest" call [else]`, Cells: 1},
			{Row: `"at rest" halt`, Cells: 4},
			{Row: `moving arrived`, Cells: 4},
			{Row: `moving halt`, Cells: 4},
		},
	}
	got := fsmtest.Compare(lift(), liftMatrix)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
	if err := got.Err(); err != nil {
		t.Errorf("Err: %v", err)
	}
}

// TestEachMutationIsReported changes the table in one way, and wants that reported, and nothing else.
func TestEachMutationIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		change func(table)
		want   string // the report, without its first line
	}{
		"another target": {
			func(l table) { l["at rest"]["call"][1].To = "moving" },
			`different (-matrix +got):
"at rest" call 10   # line 4
	- "at rest" open
	+ moving open   # by row "at rest" call [here]`,
		},
		"a hook less": {
			func(l table) { l["at rest"]["call"][0].Hooks = []string{"buzz"} },
			`different (-matrix +got):
"at rest" call -1   # line 3
	- "at rest" buzz "light up"
	+ "at rest" buzz   # by row "at rest" call [overloaded]`,
		},
		"hooks turned round": {
			func(l table) { slices.Reverse(l["at rest"]["call"][0].Hooks) },
			`different (-matrix +got):
"at rest" call -1   # line 3
	- "at rest" buzz "light up"
	+ "at rest" "light up" buzz   # by row "at rest" call [overloaded]`,
		},
		"a hook more": {
			func(l table) { l["at rest"]["halt"][0].Hooks = []string{"buzz"} },
			`different (-matrix +got):
"at rest" halt -   # line 7
	- "refused"
	+ "refused" buzz   # by row "at rest" halt`,
		},
		"guards turned round": {
			func(l table) { c := l["at rest"]["call"]; c[0], c[1] = c[1], c[0] },
			`different (-matrix +got):
"at rest" call 11   # line 3
	- "at rest" buzz "light up"
	+ "at rest" open   # by row "at rest" call [here]`,
		},
		"a branch less": {
			func(l table) { l["at rest"]["call"] = slices.Delete(l["at rest"]["call"], 1, 2) },
			`different (-matrix +got):
"at rest" call 10   # line 4
	- "at rest" open
	+ moving   # by row "at rest" call [else]`,
		},
		"no else": {
			func(l table) { l["at rest"]["call"] = l["at rest"]["call"][:2] },
			`different (-matrix +got):
"at rest" call 00   # line 5
	- moving
	+ refused`,
		},
		"a guard twice": {
			func(l table) { l["at rest"]["call"][1].Guard = "overloaded" },
			`different (-matrix +got):
"at rest" call 10   # line 4
	- "at rest" open
	+ moving   # by row "at rest" call [else]
never taken:
"at rest" call [overloaded]`,
		},
		"a guard without a column": {
			func(l table) { l["at rest"]["call"][1].Guard = "there" },
			`faults of the matrix:
the table asks the guard "there", for which the patterns have no column
different (-matrix +got):
"at rest" call 10   # line 4
	- "at rest" open
	+ moving   # by row "at rest" call [else]
never taken:
"at rest" call [there]`,
		},
		"a pair more": {
			func(l table) { l["moving"]["call"] = choice{{Guard: "here", To: "at rest"}, {To: "moving"}} },
			`different (-matrix +got):
moving call 0-   # line 9
	- refused
	+ moving   # by row moving call [else]
moving call 1-   # line 9
	- refused
	+ "at rest"   # by row moving call [here]`,
		},
		"a pair less, and with it the event": {
			func(l table) { delete(l["moving"], "arrived") },
			`faults of the matrix:
line 6: there is no event arrived
different (-matrix +got):
moving arrived -   # line 10
	- "at rest" open
	+ refused`,
		},
		"a state more": {
			func(l table) { l["at rest"]["halt"][0].To = "stuck" },
			`different (-matrix +got):
"at rest" halt -   # line 7
	- "refused"
	+ stuck   # by row "at rest" halt
left out:
stuck arrived -
stuck call -
stuck halt -`,
		},
		"a state less": {
			func(l table) {
				l["at rest"]["halt"][0].To = "moving"
				l["moving"]["halt"][0].To = "moving"
			},
			`faults of the matrix:
line 13: there is no state "refused"
different (-matrix +got):
"at rest" halt -   # line 7
	- "refused"
	+ moving   # by row "at rest" halt
moving halt -   # line 11
	- "refused" buzz
	+ moving buzz   # by row moving halt`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := lift()
			test.change(l)
			report := fsmtest.Compare(l, liftMatrix)
			if report.Err() == nil {
				t.Error("Err is nil")
			}
			_, got, _ := strings.Cut(report.String(), "\n")
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("report (-want +got):\n%s", d)
			}
		})
	}
}

// TestMatrixFaults: what is wrong with the matrix is said, and what can be compared is compared.
func TestMatrixFaults(t *testing.T) {
	tiny := table{"on": {"press": choice{{To: "off"}}}}
	for name, test := range map[string]struct {
		guards []string
		lines  string
		want   []string
	}{
		"too few words":      {lines: "on press -", want: []string{"line 1: want a state, an event, a pattern of the guards and a next state"}},
		"a pattern too long": {lines: "on press 10 off", want: []string{"line 1: the pattern 10 is not of the length of the guards, 0"}},
		"a pattern of another alphabet": {
			guards: []string{"a", "b"}, lines: "\non press 1x off",
			want: []string{`line 2: the pattern 1x has a 'x'; it is made of 1, 0 and -`},
		},
		"an open quote":         {lines: `on "press - off`, want: []string{"line 1: a quote is not closed"}},
		"refused, with a hook":  {lines: "on press - refused click", want: []string{"line 1: what is refused names no hooks"}},
		"a cell on two lines":   {guards: []string{"a", "b"}, lines: "on press 1- off\non press 00 off\non press -1 off", want: []string{"lines 1 and 3: both have on press 11"}},
		"a state nobody knows":  {lines: "no press - refused", want: []string{"line 1: there is no state no"}},
		"an event nobody knows": {lines: "on pres - refused", want: []string{"line 1: there is no event pres"}},
		"too many guards":       {guards: strings.Fields("a b c d e f g h i j k l m n o p q"), want: []string{"17 guards are too many, 16 are the limit"}},
		"a guard twice":         {guards: []string{"a", "b", "a"}, want: []string{`the guard "a" has two columns`}},
	} {
		t.Run(name, func(t *testing.T) {
			report := fsmtest.Compare(tiny, fsmtest.Matrix{Guards: test.guards, Lines: test.lines})
			if d := cmp.Diff(test.want, report.Faults); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
			if report.Err() == nil {
				t.Error("Err is nil")
			}
		})
	}
}

// TestAsManyGuardsAsMayBe: the limit itself is not over it.
func TestAsManyGuardsAsMayBe(t *testing.T) {
	tiny := table{"on": {"press": choice{{To: "off"}}}}
	report := fsmtest.Compare(tiny, fsmtest.Matrix{
		Guards: strings.Fields("a b c d e f g h i j k l m n o p"),
		Lines:  "on press - off\noff press 1--------------- refused\noff press 0--------------- refused",
	})
	if err := report.Err(); err != nil || report.Cells != 2<<16 {
		t.Errorf("%d cells, want %d; %v", report.Cells, 2<<16, err)
	}
}

// TestWhatNobodyKnowsIsRefused, also where the zero values of states and events are some that the table knows.
func TestWhatNobodyKnowsIsRefused(t *testing.T) {
	report := fsmtest.Compare(fsm.Table[int, int]{0: {0: fsm.Choice[int]{{To: 0}}}},
		fsmtest.Matrix{Lines: "0 0 - 0\n0 7 - refused\n7 0 - refused\n7 7 - refused"})
	want := []string{"line 2: there is no event 7", "line 3: there is no state 7"}
	if d := cmp.Diff(want, report.Faults); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
	if len(report.Differences) > 0 {
		t.Errorf("differs: %v", report.Differences)
	}
}

// TestFewPatterns: a guard that settles half of the cells divides them first.
func TestFewPatterns(t *testing.T) {
	for _, test := range []struct {
		lines   string
		missing []string
	}{
		{"on press 0-0 on\non press 100 on", []string{"--1", "110"}},
		{"on press 0-1 on\non press 101 on", []string{"111", "--0"}},
	} {
		report := fsmtest.Compare(table{"on": {"press": choice{{To: "on"}}}},
			fsmtest.Matrix{Guards: []string{"a", "b", "c"}, Lines: test.lines})
		var missing []string
		for _, cells := range report.Missing {
			missing = append(missing, cells.Guards)
		}
		if d := cmp.Diff(test.missing, missing); d != "" {
			t.Errorf("missing beside\n%s\n(-want +got):\n%s", test.lines, d)
		}
	}
}

// TestCompareFuncTellsRefusalsApart: a refusal is an error that says of what; anything else is a difference.
func TestCompareFuncTellsRefusalsApart(t *testing.T) {
	matrix := fsmtest.Matrix{Lines: "on press - refused\noff press - refused\nout press - refused\nold press - on"}
	report := fsmtest.CompareFunc([]string{"on", "off", "out", "old"}, []string{"press"}, matrix,
		func(from, event string, _ func(string) bool) (fsm.Row[string, string], error) {
			switch from {
			case "on":
				return fsm.Row[string, string]{}, fmt.Errorf("wrapped: %w", &fsm.RefusedError[string, string]{State: from, Event: event})
			case "off":
				return fsm.Row[string, string]{}, &fsm.RefusedError[string, string]{State: "on", Event: event}
			case "out":
				return fsm.Row[string, string]{}, errors.New("no power")
			}
			return fsm.Row[string, string]{To: "on"}, nil
		})
	const want = `fsmtest: 2 of 4 cells differ, the matrix leaves out 0
different (-matrix +got):
off press -   # line 2
	- refused
	+ error: fsm: state on does not accept event press
out press -   # line 3
	- refused
	+ error: no power`
	if d := cmp.Diff(want, report.String()); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
}

// TestAgainstEachCell compares a table with a matrix that was made of another table and lacks lines. What is found
// with patterns is what is found by going through all cells one by one.
func TestAgainstEachCell(t *testing.T) {
	states, events, guards := []string{"off", "on", "out"}, []string{"press", "turn"}, []string{"a", "b", "c"}
	valuations := func(yield func(pattern string, holds func(string) bool) bool) {
		for v := range 1 << len(guards) {
			holds := func(guard string) bool { return v>>slices.Index(guards, guard)&1 == 1 }
			if !yield(fmt.Sprintf("%d%d%d", v&1, v>>1&1, v>>2&1), holds) {
				return
			}
		}
	}
	draw := func(t *rapid.T, what string) table {
		branch := func(guard string) fsm.Branch[string] {
			return fsm.Branch[string]{
				Guard: guard,
				To:    rapid.SampledFrom(states).Draw(t, what+" target"),
				Hooks: rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 2).Draw(t, what+" hooks"),
			}
		}
		l := table{"off": {}, "on": {}, "out": {}}
		for _, s := range states {
			for _, e := range events {
				if s == "on" && rapid.Bool().Draw(t, what+" refuses") { // the others accept: each event is known
					continue
				}
				for _, guard := range rapid.Permutation(guards).Draw(t, what+" guards")[:rapid.IntRange(0, 3).Draw(t, what+" branches")] {
					l[s][e] = append(l[s][e], branch(guard))
				}
				l[s][e] = append(l[s][e], branch(""))
			}
		}
		return l
	}
	rapid.Check(t, func(t *rapid.T) {
		got, want := draw(t, "table"), draw(t, "matrix")
		outcome := func(l table, s, e string, holds func(string) bool) string {
			row, err := l.Next(s, e, holds)
			if err != nil {
				return "refused"
			}
			return strings.TrimSpace(row.To + " " + strings.Join(row.Hooks, " "))
		}
		const differs, missing = 1, 2
		verdicts := make(map[string]int) // by cell
		var lines strings.Builder
		for _, s := range states {
			for _, e := range events {
				for pattern, holds := range valuations {
					cell := s + " " + e + " " + pattern
					if rapid.IntRange(0, 9).Draw(t, "left out") == 0 {
						verdicts[cell] = missing
						continue
					}
					if outcome(got, s, e, holds) != outcome(want, s, e, holds) {
						verdicts[cell] = differs
					}
					fmt.Fprintln(&lines, cell, outcome(want, s, e, holds))
				}
			}
		}

		matrix := fsmtest.Matrix{Guards: guards, Lines: lines.String()}
		for name, report := range map[string]*fsmtest.Report{
			"Compare":     fsmtest.Compare(got, matrix),
			"CompareFunc": fsmtest.CompareFunc(states, events, matrix, got.Next),
		} {
			if len(report.Faults) > 0 || report.Cells != 48 {
				t.Errorf("%s: %d cells, faults %q", name, report.Cells, report.Faults)
			}
			found := make(map[string]int)
			note := func(c fsmtest.Cells, verdict int) {
				n := 0
				for pattern := range valuations {
					if !fits(c.Guards, pattern) {
						continue
					}
					cell := c.State + " " + c.Event + " " + pattern
					if n++; found[cell] != 0 {
						t.Errorf("%s reports %s twice", name, cell)
					}
					found[cell] = verdict
				}
				if n != c.Number {
					t.Errorf("%s: %v are %d cells, not %d", name, c, n, c.Number)
				}
			}
			for _, d := range report.Differences {
				note(d.Cells, differs)
			}
			for _, m := range report.Missing {
				note(m, missing)
			}
			if d := cmp.Diff(verdicts, found); d != "" {
				t.Errorf("%s (-want +got):\n%s\n%v\n%s", name, d, report, &lines)
			}
		}
	})
}

// fits reports whether a valuation is one of those that a pattern means.
func fits(pattern, valuation string) bool {
	for i := range valuation {
		if pattern != "-" && pattern[i] != '-' && pattern[i] != valuation[i] {
			return false
		}
	}
	return true
}
