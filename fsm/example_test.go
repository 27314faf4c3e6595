package fsm_test

import (
	"fmt"

	"github.com/seed7990db67/supervised/fsm"
)

// A door that locks only when it is closed, and stays locked for the wrong key.
func Example() {
	type input struct{ key string }

	door := fsm.Table[string, string]{
		"open": {
			"push": {{To: "closed", Hooks: []string{"click"}}},
			"raze": {{To: "gone"}},
		},
		"closed": {
			"pull": {{To: "open"}},
			"lock": {{To: "locked"}},
			"raze": {{To: "gone"}},
		},
		"locked": {
			"unlock": {
				{Guard: "the key fits", To: "closed", Hooks: []string{"click"}},
				{To: "locked", Hooks: []string{"alarm"}},
			},
			"raze": {{To: "gone"}},
		},
	}
	m, err := fsm.NewMachine(door,
		fsm.Spec[string, string]{Start: "open", Ends: []string{"gone"}, Everywhere: []string{"raze"}},
		map[string]func(input) bool{
			"the key fits": func(in input) bool { return in.key == "brass" },
		})
	if err != nil {
		fmt.Println(err)
		return
	}

	fire := func(event string, in input) {
		row, err := m.Fire(event, in)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(row.From, "->", row.To, row.Hooks)
	}
	fire("push", input{})
	fire("lock", input{})
	fire("pull", input{})
	fire("unlock", input{key: "tin"})
	fire("unlock", input{key: "brass"})
	// Output:
	// open -> closed [click]
	// closed -> locked []
	// fsm: state locked does not accept event pull
	// locked -> locked [alarm]
	// locked -> closed [click]
}

// Everything that is wrong with a table is reported at once.
func ExampleTable_Check() {
	table := fsm.Table[string, string]{
		"on":  {"press": {{Guard: "dark", To: "off"}}},
		"off": {"press": {{To: "on"}}, "drop": {{To: "broken"}}},
	}
	fmt.Println(table.Check(fsm.Spec[string, string]{
		Start:      "off",
		Ends:       []string{"broken"},
		Everywhere: []string{"drop"},
	}))
	// Output:
	// fsm: state on, event press: no else: the last branch has the guard "dark"
	// fsm: state on, event drop: not accepted, though every state but an end has to
}

// Rows come in a stable order, so that a table can be printed and compared.
func ExampleTable_Rows() {
	table := fsm.Table[string, string]{
		"idle": {"dial": {
			{Guard: "line is free", To: "ringing"},
			{To: "idle", Hooks: []string{"busy tone"}},
		}},
	}
	for _, row := range table.Rows() {
		guard := row.Guard
		if row.Else() {
			guard = "else"
		}
		fmt.Printf("%s | %s | %s | %s | %v\n", row.From, row.Event, guard, row.To, row.Hooks)
	}
	// Output:
	// idle | dial | line is free | ringing | []
	// idle | dial | else | idle | [busy tone]
}
