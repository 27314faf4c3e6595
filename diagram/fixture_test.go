package diagram_test

import (
	"testing"

	"github.com/seed7990db67/supervised/diagram"
	"github.com/seed7990db67/supervised/fsm"
)

type (
	table = fsm.Table[string, string]
	spec  = fsm.Spec[string, string]
	step  = diagram.Step[string, string]
	drawn = diagram.Diagram[string, string]
)

// door has one of each: a start, an end, a choice, a self-loop, and an event that
// every state accepts.
func door() table {
	return table{
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
				{Guard: "the key is a crowbar", To: "open", Hooks: []string{"crack", "alarm"}},
				{To: "locked", Hooks: []string{"alarm"}},
			},
			"raze": {
				{Guard: "insured", To: "gone", Hooks: []string{"claim"}},
				{To: "gone"},
			},
		},
	}
}

var doorSpec = spec{Start: "open", Ends: []string{"gone"}, Everywhere: []string{"raze"}}

var doorOptions = diagram.Options{Title: "A door", Emphasis: []string{"the key fits"}}

// odd has names that mean something in one format or another.
func odd() table {
	return table{
		`say "hi"`: {
			"a-b c": {
				{Guard: `x < y & z > "1"`, To: "état: Straße", Hooks: []string{"f(a); g{b}", `back\slash`}},
				{Guard: "#35; %% -- --> <br>", To: `C:\temp\new`, Hooks: []string{"*bold* _it_ `code` | pipe"}},
				{To: "状態 二", Hooks: []string{"呼ぶ"}},
			},
			"end": {{To: "конец"}},
		},
		"état: Straße": {"note over": {{To: "a-b"}}, "end": {{To: "конец"}}},
		`C:\temp\new`:  {"class": {{To: "a b"}}, "end": {{To: "конец"}}},
		"状態 二":         {"次へ\nline": {{To: "state"}}, "end": {{To: "конец"}}},
		"a-b":          {"[*]": {{To: "a b"}}, "end": {{To: "конец"}}},
		"a b":          {`\`: {{To: "a-b"}}, "end": {{To: "конец"}}},
		"state":        {"direction LR": {{To: "end"}}, "end": {{To: "конец"}}},
		"end":          {"end": {{To: "конец"}}},
	}
}

var oddSpec = spec{Start: `say "hi"`, Ends: []string{"конец"}, Everywhere: []string{"end"}}

var oddOptions = diagram.Options{Title: `A "title": with \ and 'quotes' #1`, Emphasis: []string{`x < y & z > "1"`}}

func draw(t testing.TB, tb table, s spec, o diagram.Options) *drawn {
	t.Helper()
	d, err := diagram.New(tb, s, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// walk is a path through the door, with the wrong key twice.
func walk(t testing.TB, d *drawn) *drawn {
	t.Helper()
	d, err := d.Taken(
		step{From: "open", Event: "push"},
		step{From: "closed", Event: "lock"},
		step{From: "locked", Event: "unlock"},
		step{From: "locked", Event: "unlock", Note: "the wrong key: again"},
		step{From: "locked", Event: "unlock", Guard: "the key fits", Note: `the "right" one; at last`},
		step{From: "closed", Event: "raze"},
	)
	if err != nil {
		t.Fatal(err)
	}
	if d, err = d.At("gone"); err != nil {
		t.Fatal(err)
	}
	return d
}
