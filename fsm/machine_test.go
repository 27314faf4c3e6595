package fsm_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed7990db67/supervised/fsm"
)

// call is what the guards of the line see.
type call struct {
	wrongNumber  bool
	attemptsLeft int
}

func lineGuards() map[string]func(call) bool {
	return map[string]func(call) bool{
		"wrong number":  func(c call) bool { return c.wrongNumber },
		"attempts left": func(c call) bool { return c.attemptsLeft > 0 },
	}
}

func newLine(t testing.TB, guards map[string]func(call) bool) *fsm.Machine[state, event, call] {
	t.Helper()
	m, err := fsm.NewMachine(line(), lineSpec, guards)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMachineTellsTheStory(t *testing.T) {
	m := newLine(t, lineGuards())
	wantState(t, idle, m)
	for _, step := range []struct {
		event event
		in    call
		to    state
		hooks []string
	}{
		{event: dial, to: dialing},
		{event: failed, in: call{attemptsLeft: 1}, to: dialing, hooks: []string{"report"}},
		{event: failed, in: call{attemptsLeft: 1, wrongNumber: true}, to: idle},
		{event: dial, to: dialing},
		{event: answered, to: talking, hooks: []string{"greet"}},
		{event: hangUp, to: over, hooks: []string{"say goodbye"}},
	} {
		got, err := m.Fire(step.event, step.in)
		if err != nil {
			t.Fatalf("%v: %v", step.event, err)
		}
		if diff := cmp.Diff(step.hooks, got.Hooks); diff != "" {
			t.Errorf("hooks on %v (-want +got):\n%s", step.event, diff)
		}
		wantState(t, step.to, m)
	}
}

func TestMachineRefusesWhatTheTableDoesNotHold(t *testing.T) {
	m := newLine(t, lineGuards())
	_, err := m.Fire(answered, call{})
	want := &fsm.RefusedError[state, event]{State: idle, Event: answered}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	wantState(t, idle, m)
	mustFire(t, m, dial)
}

func TestMachineAsksNoMoreGuardsThanItNeeds(t *testing.T) {
	var asked []string
	guard := func(name string, holds bool) func(call) bool {
		return func(call) bool { asked = append(asked, name); return holds }
	}
	m := newLine(t, map[string]func(call) bool{
		"wrong number":  guard("wrong number", true),
		"attempts left": guard("attempts left", true),
	})
	mustFire(t, m, dial)
	mustFire(t, m, failed)
	if diff := cmp.Diff([]string{"wrong number"}, asked); diff != "" {
		t.Errorf("guards asked (-want +got):\n%s", diff)
	}
}

func TestMachineRunsACopyOfTheTable(t *testing.T) {
	table := line()
	m, err := fsm.NewMachine(table, lineSpec, lineGuards())
	if err != nil {
		t.Fatal(err)
	}
	table[idle][dial][0] = fsm.Branch[state]{To: over}
	table[dialing][answered][0].Hooks[0] = "changed"
	delete(table, talking)

	mustFire(t, m, dial)
	if got := mustFire(t, m, answered); !cmp.Equal([]string{"greet"}, got.Hooks) {
		t.Errorf("hooks %q, want those of the table as it was", got.Hooks)
	}
	mustFire(t, m, hangUp)
	wantState(t, over, m)
}

func TestRowsOfFireShareNothingWithTheMachine(t *testing.T) {
	m := newLine(t, lineGuards())
	for range 2 {
		mustFire(t, m, dial)
		got, err := m.Fire(failed, call{attemptsLeft: 1})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"report"}, got.Hooks); diff != "" {
			t.Errorf("hooks (-want +got):\n%s", diff)
		}
		got.Hooks[0] = "changed"
		if _, err := m.Fire(failed, call{wrongNumber: true}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewMachineRefuses(t *testing.T) {
	table := line()
	delete(table[idle], hangUp)
	_, err := fsm.NewMachine(table, lineSpec, map[string]func(call) bool{
		"wrong number": nil,
		"atempts left": func(call) bool { return true },
		"":             func(call) bool { return true },
	})
	want := []string{
		`fsm: state idle, event hang-up: not accepted, though every state but an end has to`,
		`fsm: guard "attempts left": it has no predicate`,
		`fsm: guard "wrong number": it has no predicate`,
		`fsm: guard "": it has a predicate, but no branch names it`,
		`fsm: guard "atempts left": it has a predicate, but no branch names it`,
	}
	if diff := cmp.Diff(want, findings(err)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestFireFromInsideAGuardIsRefused(t *testing.T) {
	var m *fsm.Machine[state, event, call]
	var nested error
	guards := lineGuards()
	guards["wrong number"] = func(call) bool {
		wantState(t, dialing, m) // State is for everyone, here as well
		_, nested = m.Fire(hangUp, call{})
		return false
	}
	m = newLine(t, guards)
	mustFire(t, m, dial)
	mustFire(t, m, failed)
	if !errors.Is(nested, fsm.ErrBusy) {
		t.Errorf("the nested Fire: error %v, want ErrBusy", nested)
	}
	wantState(t, over, m)
}

func TestFireFromAnotherGoroutineIsRefused(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	guards := lineGuards()
	guards["wrong number"] = func(call) bool {
		close(asked)
		<-answer
		return true
	}
	m := newLine(t, guards)
	mustFire(t, m, dial)

	fired := make(chan error)
	go func() {
		_, err := m.Fire(failed, call{})
		fired <- err
	}()
	<-asked
	if _, err := m.Fire(hangUp, call{}); !errors.Is(err, fsm.ErrBusy) {
		t.Errorf("the second Fire: error %v, want ErrBusy", err)
	}
	wantState(t, dialing, m)
	close(answer)
	if err := <-fired; err != nil {
		t.Errorf("the first Fire: %v", err)
	}
	wantState(t, idle, m)
}

func TestAGuardThatPanicsChangesNothing(t *testing.T) {
	guards := lineGuards()
	guards["attempts left"] = func(call) bool { panic("no answer") }
	m := newLine(t, guards)
	mustFire(t, m, dial)

	func() {
		defer func() {
			if got := recover(); got != "no answer" {
				t.Errorf("recovered %v, want the guard's own panic", got)
			}
		}()
		_, _ = m.Fire(failed, call{})
	}()
	wantState(t, dialing, m)
	mustFire(t, m, answered)
	wantState(t, talking, m)
}

func TestStateMayBeReadWhileFiring(t *testing.T) {
	m := newLine(t, lineGuards())
	done := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			select {
			case <-done:
				return
			default:
				_ = m.State().String()
			}
		}
	}()
	for range 1000 {
		mustFire(t, m, dial)
		if _, err := m.Fire(failed, call{wrongNumber: true}); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	<-read
}

// Random tables, walked at random: the machine does what the pure Next says,
// refusals included, and asks the same guards for it.
func TestMachineAgreesWithNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, spec := drawTable(t)
		type input = map[string]bool
		var asked []string
		guards := make(map[string]func(input) bool)
		for _, name := range table.Guards() {
			guards[name] = func(in input) bool {
				asked = append(asked, name)
				return in[name]
			}
		}
		m, err := fsm.NewMachine(table, spec, guards)
		if err != nil {
			t.Fatalf("drawn as a good table, but refused:\n%v", err)
		}
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			e := rapid.IntRange(0, maxEvents).Draw(t, "event")
			in := make(input)
			for _, name := range table.Guards() {
				in[name] = rapid.Bool().Draw(t, name)
			}

			var wantAsked []string
			want, wantErr := table.Next(m.State(), e, func(guard string) bool {
				wantAsked = append(wantAsked, guard)
				return in[guard]
			})
			wantTo := want.To
			if wantErr != nil {
				wantTo = m.State()
			}

			asked = nil
			got, err := m.Fire(e, in)
			if diff := cmp.Diff(wantErr, err); diff != "" {
				t.Fatalf("error (-next +machine):\n%s", diff)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("row (-next +machine):\n%s", diff)
			}
			if diff := cmp.Diff(wantAsked, asked); diff != "" {
				t.Fatalf("guards asked (-next +machine):\n%s", diff)
			}
			if m.State() != wantTo {
				t.Fatalf("in state %d, want %d", m.State(), wantTo)
			}
		}
	})
}

const maxEvents = 4

// drawTable draws a table that passes the check: event 0 leads from each state
// to the one after it, so that all are reachable and the last, the end, is
// reachable from all. Every other choice is free.
func drawTable(t *rapid.T) (fsm.Table[int, int], fsm.Spec[int, int]) {
	end := rapid.IntRange(1, 6).Draw(t, "end")
	table := make(fsm.Table[int, int])
	for from := range end {
		table[from] = map[int]fsm.Choice[int]{0: {{To: from + 1}}}
		for e := 1; e < maxEvents; e++ {
			var choice fsm.Choice[int]
			for branch := range rapid.IntRange(0, 3).Draw(t, "branches") {
				choice = append(choice, fsm.Branch[int]{
					Guard: fmt.Sprintf("guard %d", branch),
					To:    rapid.IntRange(0, end).Draw(t, "to"),
					Hooks: rapid.SliceOfN(rapid.SampledFrom([]string{"f", "g"}), 0, 2).Draw(t, "hooks"),
				})
			}
			if len(choice) > 0 {
				choice[len(choice)-1].Guard = ""
				table[from][e] = choice
			}
		}
	}
	return table, fsm.Spec[int, int]{Start: 0, Ends: []int{end}, Everywhere: []int{0}}
}

func wantState(t *testing.T, want state, m *fsm.Machine[state, event, call]) {
	t.Helper()
	if got := m.State(); got != want {
		t.Errorf("state %v, want %v", got, want)
	}
}

// mustFire fires with an input for which no guard of the line holds.
func mustFire(t *testing.T, m *fsm.Machine[state, event, call], e event) fsm.Row[state, event] {
	t.Helper()
	row, err := m.Fire(e, call{})
	if err != nil {
		t.Fatalf("%v in state %v: %v", e, m.State(), err)
	}
	return row
}
