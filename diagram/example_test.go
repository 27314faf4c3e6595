package diagram_test

import (
	"fmt"
	"log"

	"github.com/seed7990db67/supervised/diagram"
	"github.com/seed7990db67/supervised/fsm"
)

var turnstile = fsm.Table[string, string]{
	"locked":   {"coin": {{Guard: "enough", To: "unlocked"}, {To: "locked", Hooks: []string{"beep"}}}},
	"unlocked": {"push": {{To: "locked"}}},
}

// A table of one's own, drawn.
func Example() {
	d, err := diagram.New(turnstile, fsm.Spec[string, string]{Start: "locked"}, diagram.Options{Title: "A turnstile"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(d.Mermaid())
	// Output:
	// ---
	// title: "A turnstile"
	// ---
	// stateDiagram-v2
	//     state "locked" as s0
	//     state "unlocked" as s1
	//     state c0 <<choice>>
	//     [*] --> s0
	//     s0 --> c0 : coin
	//     c0 --> s1 : 1 [enough]
	//     c0 --> s0 : 2 [else] / beep
	//     s1 --> s0 : push
}

func ExampleDiagram_Markdown() {
	d, err := diagram.New(turnstile, fsm.Spec[string, string]{}, diagram.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(d.Markdown())
	// Output:
	// | from | event | guard | to | emits |
	// | --- | --- | --- | --- | --- |
	// | locked | coin | enough | unlocked | |
	// | locked | coin | else | locked | beep |
	// | unlocked | push | | locked | |
}

func ExampleDiagram_Text() {
	d, err := diagram.New(turnstile, fsm.Spec[string, string]{}, diagram.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(d.Text())
	// Output:
	// locked    coin  [enough]  -> unlocked
	//                 [else]    -> locked    / beep
	// unlocked  push            -> locked
}

// The path that a machine has taken, step by step.
func ExampleDiagram_Sequence() {
	d, err := diagram.New(turnstile, fsm.Spec[string, string]{}, diagram.Options{Title: "A visit"})
	if err != nil {
		log.Fatal(err)
	}
	d, err = d.Taken(
		diagram.Step[string, string]{From: "locked", Event: "coin", Note: "a button"},
		diagram.Step[string, string]{From: "locked", Event: "coin", Guard: "enough"},
		diagram.Step[string, string]{From: "unlocked", Event: "push"},
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(d.Sequence())
	// Output:
	// ---
	// title: "A visit"
	// ---
	// sequenceDiagram
	//     autonumber
	//     participant s0 as locked
	//     participant s1 as unlocked
	//     s0->>s0: coin [else] / beep
	//     Note over s0: a button
	//     s0->>s1: coin [enough]
	//     s1->>s0: push
}
