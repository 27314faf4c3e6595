package bench

import (
	"context"
	"fmt"

	looplab "github.com/looplab/fsm"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/fsm"
)

// transitionContest: what do typed states, guards and the refusal to hang cost over the engine that is below them?
// Both go round from a death to its replacement, three transitions, on the lifecycle that every transport runs.
func transitionContest() *Contest {
	return &Contest{Name: "state transition", Contenders: []Contender{
		repeated("looplab/fsm", openEngine),
		repeated(string(Supervised), openMachine),
	}}
}

// round is what happens over and over, from supervised.StateServing.
var round = []struct {
	event supervised.Event
	to    supervised.State
}{
	{supervised.EventPeerDied, supervised.StateRespawnPending},
	{supervised.EventRespawn, supervised.StateConnecting},
	{supervised.EventConnected, supervised.StateServing},
}

// facts are what the guards of the lifecycle ask: in the round, whether the budget lets it go on.
type facts struct{ budgetLeft bool }

func openMachine() (*Session, error) {
	table := supervised.Lifecycle()
	guards := make(map[string]func(facts) bool)
	for _, name := range table.Guards() {
		guards[name] = func(facts) bool { return false }
	}
	guards["budget left"] = func(f facts) bool { return f.budgetLeft }
	m, err := fsm.NewMachine(table, fsm.Spec[supervised.State, supervised.Event]{
		Start: supervised.StateIdle,
		Ends:  []supervised.State{supervised.StateClosed},
	}, guards)
	if err != nil {
		return nil, err
	}
	f := facts{budgetLeft: true}
	for _, e := range []supervised.Event{supervised.EventStart, supervised.EventConnected} {
		if _, err := m.Fire(e, f); err != nil {
			return nil, err
		}
	}
	at := 0
	return &Session{Close: func() error { return nil }, Run: func(n int) error {
		for range n {
			step := &round[at%len(round)]
			at++
			if row, err := m.Fire(step.event, f); err != nil || row.To != step.to {
				return fmt.Errorf("%v leads to %v: %w", step.event, row.To, err)
			}
		}
		return nil
	}}, nil
}

func openEngine() (*Session, error) {
	var events looplab.Events
	from := supervised.StateServing
	for _, step := range round {
		events = append(events, looplab.EventDesc{Name: step.event.String(), Src: []string{from.String()}, Dst: step.to.String()})
		from = step.to
	}
	engine := looplab.NewFSM(supervised.StateServing.String(), events, nil)
	ctx := context.Background()
	at := 0
	return &Session{Close: func() error { return nil }, Run: func(n int) error {
		for range n {
			name := events[at%len(events)].Name
			at++
			if err := engine.Event(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}
