package supervised

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/seed7990db67/supervised/fsm"
	"github.com/seed7990db67/supervised/fsm/fsmtest"
)

// matrix is the lifecycle written out by hand, apart from the table: for each state and each event, for the
// values of the guards (1 holds, 0 does not, - either), the next state and the hooks in order, or that the pair is
// refused.
var matrix = fsmtest.Matrix{
	Guards: []string{guardFirst, guardAfterProbe, guardClosing, guardProbeUnanswered, guardBudgetLeft, guardWithdrawn},
	Lines: `
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
`,
}

// matrixCells is how many cells the matrix has: it leaves out none.
var matrixCells = len(stateNames) * len(eventNames) * 1 << len(matrix.Guards)

func TestLifecycleAgainstMatrix(t *testing.T) {
	if err := Lifecycle().Check(lifecycleSpec); err != nil {
		t.Fatal(err)
	}
	report := fsmtest.Compare(Lifecycle(), matrix)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Cells != matrixCells {
		t.Errorf("want %d cells, got %d", matrixCells, report.Cells)
	}
	t.Log(report)
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
	fire := func(state State, e Event, holds func(guard string) bool) (row, error) {
		m, err := fsm.NewMachine(Lifecycle(), lifecycleSpec, guards)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range walks[state] {
			if _, err := m.Fire(s.event, s.facts); err != nil {
				t.Fatal(err)
			}
		}
		r, err := m.Fire(e, facts{
			first:           holds(guardFirst),
			afterProbe:      holds(guardAfterProbe),
			closing:         holds(guardClosing),
			probeUnanswered: holds(guardProbeUnanswered),
			budgetLeft:      holds(guardBudgetLeft),
			withdrawn:       holds(guardWithdrawn),
		})
		switch refused := new(fsm.RefusedError[State, Event]); {
		case err == nil && (r.From != state || r.Event != e || r.To != m.State()):
			t.Errorf("%v took %v by the row %v, %v and went to %v", state, e, r.From, r.Event, m.State())
		case errors.As(err, &refused) && m.State() != state:
			t.Errorf("%v refused %v and went to %v", state, e, m.State())
		}
		return r, err
	}
	report := fsmtest.CompareFunc(Lifecycle().States(), Lifecycle().Events(), matrix, fire)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Cells != matrixCells {
		t.Errorf("want %d cells, got %d", matrixCells, report.Cells)
	}
}

// TestEachMutationOfTheLifecycleIsSeen changes each row of the table in each way that a slip of the hand could,
// and sees the comparison with the matrix fail.
func TestEachMutationOfTheLifecycleIsSeen(t *testing.T) {
	mutations := 0
	mutate := func(r row, what string, change func(tb table)) {
		tb := Lifecycle()
		change(tb)
		mutations++
		if len(fsmtest.Compare(tb, matrix).Differences) == 0 {
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
	if err := fsmtest.Compare(Lifecycle(), matrix).Err(); err != nil {
		t.Errorf("a caller's change reached the lifecycle:\n%v", err)
	}
}
