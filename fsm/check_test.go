package fsm_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/fsm"
)

func TestCheckAcceptsAGoodTable(t *testing.T) {
	if err := line().Check(lineSpec); err != nil {
		t.Errorf("the line's table is refused:\n%v", err)
	}
}

func TestCheckAcceptsAnEndThatTakesAnEventInItsStride(t *testing.T) {
	table := line()
	table[over] = map[event]fsm.Choice[state]{hangUp: {{To: over}}}
	if err := table.Check(lineSpec); err != nil {
		t.Errorf("an event from the end to itself is refused:\n%v", err)
	}
}

// Each row breaks the good table in one way and expects that finding, and no
// other.
func TestCheckFindings(t *testing.T) {
	type (
		table = fsm.Table[state, event]
		spec  = fsm.Spec[state, event]
	)
	for _, tt := range []struct {
		name string
		edit func(table, *spec)
		want []string
	}{
		{
			"empty choice",
			func(t table, _ *spec) { t[talking][failed] = nil },
			[]string{`fsm: state talking, event failed: the choice is empty`},
		},
		{
			"the last branch is guarded",
			func(t table, _ *spec) {
				t[talking][failed] = fsm.Choice[state]{{Guard: "wrong number", To: idle}}
			},
			[]string{`fsm: state talking, event failed: no else: the last branch has the guard "wrong number"`},
		},
		{
			"an unguarded branch is not the last",
			func(t table, _ *spec) { t[dialing][failed][0].Guard = "" },
			[]string{`fsm: state dialing, event failed: branch 0 has no guard and is not the last: those after it are never taken`},
		},
		{
			"the same guard twice",
			func(t table, _ *spec) { t[dialing][failed][1].Guard = "wrong number" },
			[]string{`fsm: state dialing, event failed: branch 1 asks the guard "wrong number" again`},
		},
		{
			"a hook without a name",
			func(t table, _ *spec) { t[dialing][failed][2].Hooks = []string{"report", ""} },
			[]string{`fsm: state dialing, event failed: branch 2 has a hook without a name`},
		},
		{
			"a state that nothing leads to",
			func(t table, _ *spec) { t[dialing][answered][0].To = dialing },
			[]string{`fsm: state talking: not reachable from the start, idle`},
		},
		{
			"a state that leads to no end",
			func(t table, s *spec) {
				t[talking][hangUp][0].To = talking
			},
			[]string{`fsm: state talking: no end is reachable from it`},
		},
		{
			"a way out of an end",
			func(t table, _ *spec) {
				t[over] = map[event]fsm.Choice[state]{dial: {{To: dialing}}}
			},
			[]string{`fsm: state over, event dial: leads out of an end, to dialing`},
		},
		{
			"an event that is not accepted everywhere",
			func(t table, s *spec) { s.Everywhere = []event{hangUp, failed} },
			[]string{
				`fsm: state idle, event failed: not accepted, though every state but an end has to`,
				`fsm: state talking, event failed: not accepted, though every state but an end has to`,
			},
		},
		{
			"no end",
			func(_ table, s *spec) { s.Ends, s.Everywhere = nil, nil },
			[]string{`fsm: no end is given`},
		},
		{
			"several faults",
			func(t table, s *spec) {
				t[talking][failed] = nil
				t[dialing][failed][1].Guard = "wrong number"
				t[dialing][failed][2].Guard = "wrong number"
				delete(t[idle], hangUp)
			},
			[]string{
				`fsm: state dialing, event failed: branch 1 asks the guard "wrong number" again`,
				`fsm: state dialing, event failed: no else: the last branch has the guard "wrong number"`,
				`fsm: state dialing, event failed: branch 2 asks the guard "wrong number" again`,
				`fsm: state talking, event failed: the choice is empty`,
				`fsm: state idle, event hang-up: not accepted, though every state but an end has to`,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Often enough to see an order that depends on a map's.
			for range 20 {
				table, spec := line(), lineSpec
				tt.edit(table, &spec)
				if diff := cmp.Diff(tt.want, findings(table.Check(spec))); diff != "" {
					t.Fatalf("findings (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestCheckFindingsAboutNames(t *testing.T) {
	type spec = fsm.Spec[string, any]
	for _, tt := range []struct {
		name  string
		table fsm.Table[string, any]
		spec  spec
		want  []string
	}{
		{
			"a state without a name",
			fsm.Table[string, any]{"": {"go": {{To: "end"}}}},
			spec{Start: "", Ends: []string{"end"}},
			[]string{`fsm: state "": its printed name is empty`},
		},
		{
			"an event without a name",
			fsm.Table[string, any]{"start": {"": {{To: "end"}}}},
			spec{Start: "start", Ends: []string{"end"}},
			[]string{`fsm: event "": its printed name is empty`},
		},
		{
			"three events of one name",
			fsm.Table[string, any]{"start": {1: {{To: "end"}}, "1": {{To: "end"}}, uint(1): {{To: "end"}}}},
			spec{Start: "start", Ends: []string{"end"}},
			[]string{`fsm: event 1: more than one has this printed name`},
		},
		{
			"a start that is not in the table",
			fsm.Table[string, any]{"start": {"go": {{To: "end"}}}},
			spec{Start: "strat", Ends: []string{"end"}},
			[]string{`fsm: start strat: the table has no such state`},
		},
		{
			"an end that is not in the table",
			fsm.Table[string, any]{"start": {"go": {{To: "end"}}}},
			spec{Start: "start", Ends: []string{"end", "edn"}},
			[]string{`fsm: end edn: the table has no such state`},
		},
		{
			"the nil table",
			nil,
			spec{Start: "start", Ends: []string{"end"}},
			[]string{`fsm: start start: the table has no such state`, `fsm: end end: the table has no such state`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, findings(tt.table.Check(tt.spec))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// findings returns the lines of a joined error.
func findings(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}
