package fsm_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed7990db67/supervised/fsm"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// The lifecycle that the tests share: a line that is dialled, redialled while
// attempts are left, and hung up.

type state int

const (
	idle state = iota
	dialing
	talking
	over
)

func (s state) String() string {
	return [...]string{"idle", "dialing", "talking", "over"}[s]
}

type event int

const (
	dial event = iota
	answered
	failed
	hangUp
)

func (e event) String() string {
	return [...]string{"dial", "answered", "failed", "hang-up"}[e]
}

// line returns the table anew, for the tests that break it.
func line() fsm.Table[state, event] {
	return fsm.Table[state, event]{
		idle: {
			dial:   {{To: dialing}},
			hangUp: {{To: over}},
		},
		dialing: {
			answered: {{To: talking, Hooks: []string{"greet"}}},
			failed: {
				{Guard: "wrong number", To: idle},
				{Guard: "attempts left", To: dialing, Hooks: []string{"report"}},
				{To: over, Hooks: []string{"report", "give up"}},
			},
			hangUp: {{To: over}},
		},
		talking: {
			hangUp: {{To: over, Hooks: []string{"say goodbye"}}},
		},
	}
}

var lineSpec = fsm.Spec[state, event]{
	Start:      idle,
	Ends:       []state{over},
	Everywhere: []event{hangUp},
}
