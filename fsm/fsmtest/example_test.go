package fsmtest_test

import (
	"fmt"

	"github.com/seed7990db67/supervised/fsm"
	"github.com/seed7990db67/supervised/fsm/fsmtest"
)

// A table of one's own, compared with what it should be. In a test it is t.Error that gets what Err returns.
func Example() {
	report := fsmtest.Compare(door, fsmtest.Matrix{
		Guards: []string{"the key fits"},
		Lines: `
			open    push    -  closed  click
			open    turn    -  refused
			closed  push    -  open
			closed  turn    1  locked  click
			closed  turn    0  closed
			locked  push    -  refused
			locked  turn    1  closed  click
			locked  turn    0  locked  alarm`})
	fmt.Println(report.Err())
	fmt.Println(report)
	// Output:
	// <nil>
	// fsmtest: 0 of 12 cells differ, the matrix leaves out 0; 6 of 6 rows were taken
}

// What is wrong is reported all at once, in the words of the matrix.
func ExampleReport() {
	fmt.Println(fsmtest.Compare(door, fsmtest.Matrix{
		Guards: []string{"the key fits"},
		Lines: `
			open    push    -  closed  click
			open    turn    -  refused
			closed  push    -  open
			closed  turn    1  locked  click
			closed  turn    0  closed
			locked  push    -  open
			locked  turn    1  closed  click`}))
	// Output:
	// fsmtest: 2 of 12 cells differ, the matrix leaves out 1; 5 of 6 rows were taken
	// different (-matrix +got):
	// locked push -   # line 7
	// 	- open
	// 	+ refused
	// left out:
	// locked turn 0
	// never taken:
	// locked turn [else]
}

var door = fsm.Table[string, string]{
	"open": {"push": {{To: "closed", Hooks: []string{"click"}}}},
	"closed": {
		"push": {{To: "open"}},
		"turn": {
			{Guard: "the key fits", To: "locked", Hooks: []string{"click"}},
			{To: "closed"},
		},
	},
	"locked": {"turn": {
		{Guard: "the key fits", To: "closed", Hooks: []string{"click"}},
		{To: "locked", Hooks: []string{"alarm"}},
	}},
}
