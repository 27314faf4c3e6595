package supervised

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/fsm"
)

// matrix is the lifecycle written out by hand, apart from the table: for each state and each event, for the
// values of the guards in the order
//
//	first, after the probe, closing, probe unanswered, budget left, withdrawn
//
// (1 holds, 0 does not, - either), the next state and the hooks in order, or that the pair is refused. Each
// state, event and valuation is on one line.
const matrix = `
idle            start          ------ connecting
idle            connected      ------ refused
idle            connect-failed ------ refused
idle            peer-died      ------ refused
idle            restart        ------ refused
idle            respawn        ------ refused
idle            give-up        ------ refused
idle            close          ------ closed          onDrain onClose

connecting      start          ------ refused
connecting      connected      1----- serving
connecting      connected      01---- serving
connecting      connected      00---- serving         onReconnect
connecting      connect-failed 1----- idle
connecting      connect-failed 0---1- respawn-pending onError
connecting      connect-failed 0---0- exhausted       onError onError(exhausted)
connecting      peer-died      ------ refused
connecting      restart        ------ refused
connecting      respawn        ------ refused
connecting      give-up        ------ refused
connecting      close          1----- closed          onDrain onClose
connecting      close          0----- closed          onClose

serving         start          ------ refused
serving         connected      ------ refused
serving         connect-failed ------ refused
serving         peer-died      --1--- closed          onClose
serving         peer-died      --01-- respawn-pending
serving         peer-died      --001- respawn-pending onClose
serving         peer-died      --000- exhausted       onClose onError(exhausted)
serving         restart        ------ respawn-pending onClose
serving         respawn        ------ refused
serving         give-up        ------ refused
serving         close          ------ closed          onDrain onClose

respawn-pending start          ------ refused
respawn-pending connected      ------ refused
respawn-pending connect-failed ------ refused
respawn-pending peer-died      ------ refused
respawn-pending restart        ------ refused
respawn-pending respawn        ------ connecting
respawn-pending give-up        ------ refused
respawn-pending close          ------ closed          onClose

exhausted       start          ------ refused
exhausted       connected      ------ refused
exhausted       connect-failed ------ refused
exhausted       peer-died      ------ refused
exhausted       restart        ------ refused
exhausted       respawn        ------ refused
exhausted       give-up        -----1 closed          onClose
exhausted       give-up        -----0 closed
exhausted       close          -----1 closed          onClose
exhausted       close          -----0 closed

closed          start          ------ refused
closed          connected      ------ refused
closed          connect-failed ------ refused
closed          peer-died      ------ refused
closed          restart        ------ refused
closed          respawn        ------ refused
closed          give-up        ------ refused
closed          close          ------ refused
`

// outcome is what one state, event and valuation of the guards leads to.
type outcome struct {
	To      string
	Hooks   []string
	Refused string // the error's text
}

// valuations are all values of the guards, with the pattern that the matrix has for each.
func valuations(yield func(string, facts) bool) {
	for v := range 1 << 6 {
		bit := func(i int) bool { return v>>(5-i)&1 == 1 }
		f := facts{first: bit(0), afterProbe: bit(1), closing: bit(2), probeUnanswered: bit(3), budgetLeft: bit(4), withdrawn: bit(5)}
		if !yield(fmt.Sprintf("%06b", v), f) {
			return
		}
	}
}

// expected reads the matrix: "state event valuation" to outcome.
func expected(t *testing.T) map[string]outcome {
	t.Helper()
	want := make(map[string]outcome)
	for line := range strings.Lines(matrix) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		state, event, pattern, to := fields[0], fields[1], fields[2], fields[3]
		for v := range valuations {
			if !fits(pattern, v) {
				continue
			}
			o := outcome{To: to, Hooks: fields[4:]}
			if to == "refused" {
				o = outcome{Refused: fmt.Sprintf("fsm: state %s does not accept event %s", state, event)}
			}
			cell := strings.Join([]string{state, event, v}, " ")
			if _, twice := want[cell]; twice {
				t.Fatalf("the matrix has %s twice", cell)
			}
			want[cell] = o
		}
	}
	if cells := len(stateNames) * len(eventNames) * 1 << 6; len(want) != cells {
		t.Fatalf("the matrix has %d cells of %d", len(want), cells)
	}
	return want
}

// fits reports whether a valuation is one of those that a pattern stands for.
func fits(pattern, valuation string) bool {
	for i := range pattern {
		if pattern[i] != '-' && pattern[i] != valuation[i] {
			return false
		}
	}
	return true
}

// walked asks a table for each cell, with the guards that the machine has.
func walked(tb table) map[string]outcome {
	got := make(map[string]outcome)
	for s := range stateNames {
		for e := range eventNames {
			walkPair(tb, State(s), Event(e), func(cell string, o outcome) bool { got[cell] = o; return true })
		}
	}
	return got
}

// walkPair asks a table for each cell of one state and event.
func walkPair(tb table, s State, e Event, yield func(cell string, o outcome) bool) {
	for v, f := range valuations {
		holds := func(guard string) bool {
			p, known := guards[guard]
			return known && p(f)
		}
		r, err := tb.Next(s, e, holds)
		o := outcome{To: r.To.String(), Hooks: r.Hooks}
		if err != nil {
			o = outcome{Refused: err.Error()}
		}
		if !yield(s.String()+" "+e.String()+" "+v, o) {
			return
		}
	}
}

func diff(want, got map[string]outcome) string {
	return cmp.Diff(want, got, hooksAsText)
}

// hooksAsText compares hooks in their order; none is none, nil or not.
var hooksAsText = cmp.Transformer("hooks", func(h []string) string { return strings.Join(h, " ") })

func TestLifecycleAgainstMatrix(t *testing.T) {
	want := expected(t)
	if err := Lifecycle().Check(lifecycleSpec); err != nil {
		t.Fatal(err)
	}
	if d := diff(want, walked(Lifecycle())); d != "" {
		t.Errorf("the table is not the matrix (-matrix +table):\n%s", d)
	}
}

// TestMachineAgainstMatrix takes each cell on the machine itself, brought to the state by a walk of its own.
func TestMachineAgainstMatrix(t *testing.T) {
	type step struct {
		event Event
		facts facts
	}
	// How to get to each state from idle.
	walks := map[State][]step{
		StateIdle:           nil,
		StateConnecting:     {{EventStart, facts{}}},
		StateServing:        {{EventStart, facts{}}, {EventConnected, facts{first: true}}},
		StateRespawnPending: {{EventStart, facts{}}, {EventConnected, facts{first: true}}, {EventRestart, facts{}}},
		StateExhausted:      {{EventStart, facts{}}, {EventConnectFailed, facts{}}},
		StateClosed:         {{EventClose, facts{}}},
	}
	got := make(map[string]outcome)
	for state, walk := range walks {
		for e := range eventNames {
			for v, f := range valuations {
				m, err := fsm.NewMachine(Lifecycle(), lifecycleSpec, guards)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range walk {
					if _, err := m.Fire(s.event, s.facts); err != nil {
						t.Fatal(err)
					}
				}
				r, err := m.Fire(Event(e), f)
				o := outcome{To: m.State().String(), Hooks: r.Hooks}
				var refused *fsm.RefusedError[State, Event]
				if errors.As(err, &refused) {
					if d := cmp.Diff(fsm.RefusedError[State, Event]{State: state, Event: Event(e)}, *refused); d != "" {
						t.Errorf("refusal (-want +got):\n%s", d)
					}
					if m.State() != state {
						t.Errorf("%v refused %v and went to %v", state, Event(e), m.State())
					}
					o = outcome{Refused: err.Error()}
				} else if err != nil {
					t.Fatal(err)
				}
				got[fmt.Sprintf("%v %v %s", state, Event(e), v)] = o
			}
		}
	}
	if d := diff(expected(t), got); d != "" {
		t.Errorf("the machine is not the matrix (-matrix +machine):\n%s", d)
	}
}

// TestEachMutationOfTheLifecycleIsSeen changes each row of the table in each way that a slip of the hand could,
// and sees the comparison with the matrix fail.
func TestEachMutationOfTheLifecycleIsSeen(t *testing.T) {
	want := expected(t)
	mutations := 0
	mutate := func(r row, what string, change func(tb table)) {
		tb := Lifecycle()
		change(tb)
		mutations++
		seen := false
		walkPair(tb, r.From, r.Event, func(cell string, o outcome) bool {
			seen = !cmp.Equal(want[cell], o, hooksAsText)
			return !seen
		})
		if !seen {
			t.Errorf("%v, %v, [%s]: %s: nothing failed", r.From, r.Event, r.Guard, what)
		}
	}
	at := func(tb table, r row) *fsm.Branch[State] { return &tb[r.From][r.Event][r.Branch] }

	for _, r := range Lifecycle().Rows() {
		for s := range stateNames {
			if State(s) != r.To {
				mutate(r, "to "+State(s).String(), func(tb table) { at(tb, r).To = State(s) })
			}
		}
		for _, guard := range append(slices.Sorted(maps.Keys(guards)), "never") {
			if guard != r.Guard && !r.Else() {
				mutate(r, "guard "+guard, func(tb table) { at(tb, r).Guard = guard })
			}
		}
		for i, hook := range r.Hooks {
			mutate(r, "without "+hook, func(tb table) { at(tb, r).Hooks = slices.Delete(at(tb, r).Hooks, i, i+1) })
		}
		for _, hook := range []string{hookClose, hookDrain, hookReconnect, hookError, hookExhausted} {
			mutate(r, "also "+hook, func(tb table) { at(tb, r).Hooks = append(at(tb, r).Hooks, hook) })
		}
		if len(r.Hooks) > 1 {
			mutate(r, "hooks turned round", func(tb table) { slices.Reverse(at(tb, r).Hooks) })
		}
		mutate(r, "row deleted", func(tb table) {
			tb[r.From][r.Event] = slices.Delete(tb[r.From][r.Event], r.Branch, r.Branch+1)
			if len(tb[r.From][r.Event]) == 0 {
				delete(tb[r.From], r.Event)
			}
		})
	}
	t.Logf("%d mutations", mutations)
}

// TestGuardsAskOneQuestionEach: each guard reads the fact that it is named for, and no other.
func TestGuardsAskOneQuestionEach(t *testing.T) {
	truths := map[string]facts{
		guardFirst:           {first: true},
		guardAfterProbe:      {afterProbe: true},
		guardClosing:         {closing: true},
		guardProbeUnanswered: {probeUnanswered: true},
		guardBudgetLeft:      {budgetLeft: true},
		guardWithdrawn:       {withdrawn: true},
	}
	for name, guard := range guards {
		for of, f := range truths {
			if guard(f) != (name == of) {
				t.Errorf("guard %q on the fact of %q: %t", name, of, guard(f))
			}
		}
	}
}

func TestLifecycleIsACopy(t *testing.T) {
	Lifecycle()[StateServing][EventPeerDied][0].To = StateIdle
	Lifecycle()[StateIdle][EventClose][0].Hooks[0] = "x"
	if d := diff(expected(t), walked(Lifecycle())); d != "" {
		t.Errorf("a caller's change reached the lifecycle:\n%s", d)
	}
}
