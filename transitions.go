package supervised

//go:generate go run ./gen

import (
	"slices"

	"github.com/seed7990db67/supervised/fsm"
)

// The guards of the lifecycle, each a question that facts answers.
//
// Two policies decide on the edge from a death to its respawn. The budget is a guard of the table: it is asked
// once per death, when the event is taken, and guardBudgetLeft reads its answer. The retry policy is asked once
// for each call in flight, when that edge is taken: kept for the replacement, or failed now (ledger.divide).
const (
	guardFirst           = "first connection"
	guardAfterProbe      = "after the probe"
	guardClosing         = "closing"
	guardProbeUnanswered = "probe unanswered"
	guardBudgetLeft      = "budget left"
	guardWithdrawn       = "a promised replacement is withdrawn"
)

// The hooks that a transition emits, in the order in which its row names them.
const (
	hookClose     = "onClose"
	hookDrain     = "onDrain"
	hookReconnect = "onReconnect"
	hookError     = "onError"
	hookExhausted = "onError(exhausted)"
)

type (
	table  = fsm.Table[State, Event]
	row    = fsm.Row[State, Event]
	events = map[Event]fsm.Choice[State]
	choice = fsm.Choice[State]
)

// Lifecycle returns the transition table that every Transport runs: the machine goes by it, the diagram draws
// it, the documentation prints it, the tests walk it. The copy is the caller's.
func Lifecycle() fsm.Table[State, Event] {
	return table{
		StateIdle: events{
			EventStart: choice{{To: StateConnecting}},
			EventClose: choice{{To: StateClosed, Hooks: []string{hookDrain, hookClose}}},
		},
		StateConnecting: events{
			EventConnected: choice{
				{Guard: guardFirst, To: StateServing},
				{Guard: guardAfterProbe, To: StateServing},
				{To: StateServing, Hooks: []string{hookReconnect}},
			},
			EventConnectFailed: choice{
				{Guard: guardFirst, To: StateIdle},
				{Guard: guardBudgetLeft, To: StateRespawnPending, Hooks: []string{hookError}},
				{To: StateExhausted, Hooks: []string{hookError, hookExhausted}},
			},
			EventClose: choice{
				{Guard: guardFirst, To: StateClosed, Hooks: []string{hookDrain, hookClose}},
				{To: StateClosed, Hooks: []string{hookClose}},
			},
		},
		StateServing: events{
			EventPeerDied: choice{
				{Guard: guardClosing, To: StateClosed, Hooks: []string{hookClose}},
				{Guard: guardProbeUnanswered, To: StateRespawnPending},
				{Guard: guardBudgetLeft, To: StateRespawnPending, Hooks: []string{hookClose}},
				{To: StateExhausted, Hooks: []string{hookClose, hookExhausted}},
			},
			EventRestart: choice{{To: StateRespawnPending, Hooks: []string{hookClose}}},
			// The hooks of OnDrain run before this event is fired, while calls still go through (C2).
			EventClose: choice{{To: StateClosed, Hooks: []string{hookDrain, hookClose}}},
		},
		StateRespawnPending: events{
			EventRespawn: choice{{To: StateConnecting}},
			EventClose:   choice{{To: StateClosed, Hooks: []string{hookClose}}},
		},
		StateExhausted: events{
			EventGiveUp: choice{
				{Guard: guardWithdrawn, To: StateClosed, Hooks: []string{hookClose}},
				{To: StateClosed},
			},
			EventClose: choice{
				{Guard: guardWithdrawn, To: StateClosed, Hooks: []string{hookClose}},
				{To: StateClosed},
			},
		},
		StateClosed: nil,
	}
}

// LifecycleSpec says what is true of [Lifecycle] beyond its rows: where it starts and ends, and which event every
// other state accepts. The copy is the caller's.
func LifecycleSpec() fsm.Spec[State, Event] {
	s := lifecycleSpec
	s.Ends, s.Everywhere = slices.Clone(s.Ends), slices.Clone(s.Everywhere)
	return s
}

// lifecycleSpec is what must be true of the table beyond its rows.
var lifecycleSpec = fsm.Spec[State, Event]{
	Start:      StateIdle,
	Ends:       []State{StateClosed},
	Everywhere: []Event{EventClose},
}

// facts are what the guards ask about, as they stand when an event is taken.
type facts struct {
	first           bool // no connection of this transport has served yet
	afterProbe      bool // the connection replaces one that left the probe unanswered (E3)
	closing         bool // Close was called and the drain is under way (C2)
	probeUnanswered bool // the peer ended on the probe (E3)
	budgetLeft      bool // the budget granted a replacement for this death (B8)
	withdrawn       bool // the budget ended while a replacement was promised (C4)
}

var guards = map[string]func(facts) bool{
	guardFirst:           func(f facts) bool { return f.first },
	guardAfterProbe:      func(f facts) bool { return f.afterProbe },
	guardClosing:         func(f facts) bool { return f.closing },
	guardProbeUnanswered: func(f facts) bool { return f.probeUnanswered },
	guardBudgetLeft:      func(f facts) bool { return f.budgetLeft },
	guardWithdrawn:       func(f facts) bool { return f.withdrawn },
}
