package budget

import "time"

// Budget decides whether a peer that died is replaced.
//
// A budget that several supervisors share has to be safe for concurrent use. A
// supervisor makes no other progress while it asks, so Spend answers at once.
type Budget interface {
	// Spend records a death and says whether a replacement may be minted, and
	// after what delay. The grant is filled in either case, so that a refusal can
	// be reported as what it is: so many restarts in such a window.
	//
	// It is asked once per death. A budget takes no restart back: a peer that
	// served for long does not earn one, unless the budget says so by looking at
	// the next death's Uptime.
	//
	// It answers at once, and must not call Connect, Restart or Close of the
	// transport that asks: these wait for the step that the question is part of.
	Spend(Death) (Grant, bool)
}

// Death is the end of a peer, or of an attempt to start one.
type Death struct {
	// At is when it happened, by the supervisor's clock. It keeps its monotonic
	// reading, so that a step of the wall clock moves no death.
	At time.Time
	// Uptime is how long the peer had served; 0 for one that never did.
	Uptime time.Duration
	// Cause is why it ended.
	Cause error
}

// Grant is a budget's answer, and the figures that belong in a report of it. A
// budget for which one of these means nothing leaves it 0.
type Grant struct {
	// Attempt says which restart of the window this is, counted from 1. In a
	// refusal it is the number of restarts that were spent.
	Attempt int
	// Max is the number of restarts that a window holds.
	Max int
	// Window is how long a window lasts.
	Window time.Duration
	// Delay runs from the death. The replacement is minted no sooner.
	Delay time.Duration
}
