package fsm_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/fsm"
)

type row = fsm.Row[state, event]

func TestRowsAreInOneStableOrder(t *testing.T) {
	want := []row{
		{From: idle, Event: dial, Branch: 0, Branches: 1, To: dialing},
		{From: idle, Event: hangUp, Branch: 0, Branches: 1, To: over},
		{From: dialing, Event: answered, Branch: 0, Branches: 1, To: talking, Hooks: []string{"greet"}},
		{From: dialing, Event: failed, Branch: 0, Branches: 3, Guard: "wrong number", To: idle},
		{From: dialing, Event: failed, Branch: 1, Branches: 3, Guard: "attempts left", To: dialing, Hooks: []string{"report"}},
		{From: dialing, Event: failed, Branch: 2, Branches: 3, To: over, Hooks: []string{"report", "give up"}},
		{From: dialing, Event: hangUp, Branch: 0, Branches: 1, To: over},
		{From: talking, Event: hangUp, Branch: 0, Branches: 1, To: over, Hooks: []string{"say goodbye"}},
	}
	// The order of a map's keys differs from one table and from one walk to the next.
	for range 200 {
		if diff := cmp.Diff(want, line().Rows()); diff != "" {
			t.Fatalf("rows (-want +got):\n%s", diff)
		}
	}
}

func TestOrderOfKeys(t *testing.T) {
	type unsigned uint8
	const small, large unsigned = 9, 200 // as names, "200" comes before "9"

	to := func(names ...string) fsm.Table[string, any] {
		table := fsm.Table[string, any]{}
		for _, name := range names {
			table[name] = nil
		}
		return table
	}
	for range 200 {
		numbers := fsm.Table[unsigned, int]{large: {10: {{To: small}}, -1: {{To: small}}, 9: {{To: small}}}}
		if diff := cmp.Diff([]unsigned{small, large}, numbers.States()); diff != "" {
			t.Fatalf("unsigned states by value (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{-1, 9, 10}, numbers.Events()); diff != "" {
			t.Fatalf("signed events by value (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, to("c", "a", "b").States()); diff != "" {
			t.Fatalf("strings by name (-want +got):\n%s", diff)
		}
		mixed := fsm.Table[string, any]{"a": {10: {}, "9": {}, uint(1): {}}}
		if diff := cmp.Diff([]any{uint(1), 10, "9"}, mixed.Events()); diff != "" {
			t.Fatalf("values of an interface type by name (-want +got):\n%s", diff)
		}
	}
}

func TestNamesInATable(t *testing.T) {
	for _, tt := range []struct {
		name string
		want any
		got  any
	}{
		{"states, the end that is only a target included", []state{idle, dialing, talking, over}, line().States()},
		{"events", []event{dial, answered, failed, hangUp}, line().Events()},
		{"guards", []string{"attempts left", "wrong number"}, line().Guards()},
		{"hooks, each once", []string{"give up", "greet", "report", "say goodbye"}, line().Hooks()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestElse(t *testing.T) {
	for _, r := range line().Rows() {
		want := r.From == dialing && r.Event == failed && r.To == over
		if got := r.Else(); got != want {
			t.Errorf("%v on %v, branch %d of %d: Else() = %t, want %t", r.From, r.Event, r.Branch, r.Branches, got, want)
		}
	}
}

func TestRowsShareNothingWithTheTable(t *testing.T) {
	table := line()
	for _, r := range table.Rows() {
		for i := range r.Hooks {
			r.Hooks[i] = "changed"
		}
	}
	taken, err := table.Next(dialing, answered, nil)
	if err != nil {
		t.Fatal(err)
	}
	taken.Hooks[0] = "changed"
	if diff := cmp.Diff(line(), table); diff != "" {
		t.Errorf("the table after changing its rows (-want +got):\n%s", diff)
	}
}

func TestNext(t *testing.T) {
	for _, tt := range []struct {
		name  string
		from  state
		event event
		holds map[string]bool
		asked []string
		to    state
		err   error
	}{
		{name: "an only branch asks nothing", from: idle, event: dial, to: dialing},
		{
			name: "the first guard that holds wins", from: dialing, event: failed,
			holds: map[string]bool{"wrong number": true, "attempts left": true},
			asked: []string{"wrong number"}, to: idle,
		},
		{
			name: "guards are asked in order", from: dialing, event: failed,
			holds: map[string]bool{"attempts left": true},
			asked: []string{"wrong number", "attempts left"}, to: dialing,
		},
		{
			name: "the else is taken when none holds", from: dialing, event: failed,
			asked: []string{"wrong number", "attempts left"}, to: over,
		},
		{
			name: "no such event in that state", from: talking, event: dial,
			err: &fsm.RefusedError[state, event]{State: talking, Event: dial},
		},
		{
			name: "no such state", from: over, event: hangUp,
			err: &fsm.RefusedError[state, event]{State: over, Event: hangUp},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			got, err := line().Next(tt.from, tt.event, func(guard string) bool {
				asked = append(asked, guard)
				return tt.holds[guard]
			})
			if diff := cmp.Diff(tt.err, err); diff != "" {
				t.Fatalf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.asked, asked); diff != "" {
				t.Errorf("guards asked (-want +got):\n%s", diff)
			}
			if err == nil && got.To != tt.to {
				t.Errorf("leads to %v, want %v", got.To, tt.to)
			}
		})
	}
}

func TestNextRefusesWhereNoBranchIsTaken(t *testing.T) {
	table := line()
	table[talking][failed] = fsm.Choice[state]{{Guard: "attempts left", To: dialing}} // no else
	_, err := table.Next(talking, failed, func(string) bool { return false })
	if _, refused := errors.AsType[*fsm.RefusedError[state, event]](err); !refused {
		t.Errorf("error %v, want a *RefusedError", err)
	}
}

func TestRefusedErrorNamesThePair(t *testing.T) {
	err := &fsm.RefusedError[state, event]{State: talking, Event: dial}
	if want, got := "fsm: state talking does not accept event dial", err.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
