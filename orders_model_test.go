package supervised_test

import (
	"fmt"

	"github.com/seed7990db67/supervised"
)

// An order is one sequence of events of the lifecycle: the places of the turns among those that there are each time.
type order []byte

// A standing is what the contract says of a transport between two events: what may come next, and what must be seen
// of it. It is written by hand from the rules, apart from the table.
type standing struct {
	older bool // a session of a protocol before 2026-07-28, with a call in flight that is kept and one that is not

	state      supervised.State
	served     bool   // a connection has
	failed     bool   // the budget was spent
	asked      bool   // the client has sent a request
	probing    bool   // that was the probe, and nobody has answered it
	holds      string // what holds up the replacement, or the end: "delay", "hook", "kill"
	cause      string // of the death that holds up the kill
	free       bool   // the next replacement spent nothing and is no restart: it follows the probe (E3)
	mints      int
	spends     int // how often the budget was asked
	restarts   int // replacements that were minted, E3 excepted
	generation int // of the connection that serves or served last; -1: none
	next       int // the number of the next one
}

func newStanding(older bool) standing { return standing{older: older, generation: -1} }

// A turn is one event that may come next, with all that follows from it at once.
type turn struct {
	name  string
	does  func(*expedition)
	to    standing
	hooks []string // what the hooks are told, transitions among them
	reads []string // what Read returns
}

// reconnecting is L7.
func (s standing) reconnecting() bool {
	return s.state == supervised.StateRespawnPending || s.state == supervised.StateConnecting && s.served
}

// alive is how many peers live.
func (s standing) alive() int {
	if s.state == supervised.StateServing || s.holds == "kill" {
		return 1
	}
	return 0
}

// open are the calls that await an answer, oldest first.
func (s standing) open() (ids []int) {
	switch {
	case s.older && s.served && s.state == supervised.StateServing:
		return []int{keptCall, lostCall(s.generation)}
	case s.older && s.served && s.state != supervised.StateExhausted && s.state != supervised.StateClosed:
		return []int{keptCall}
	case s.probing && s.state != supervised.StateExhausted && s.state != supervised.StateClosed:
		return []int{keptCall}
	}
	return nil
}

// keptCall is the id of the call that outlives its peer, lostCall that of the one that does not.
const keptCall = 1

func lostCall(generation int) int { return 100 + generation }

// failing is what is read where all that is open fails.
func (s standing) failing(how string) (reads []string) {
	for _, id := range s.open() {
		reads = append(reads, fmt.Sprintf("%d %s", id, how))
	}
	return reads
}

// The rows of the lifecycle, as they are noted when they are taken.
const (
	rowStart           = "idle start"
	rowCloseIdle       = "idle close"
	rowConnectedFirst  = "connecting connected [first connection]"
	rowConnectedProbe  = "connecting connected [after the probe]"
	rowConnected       = "connecting connected"
	rowFailedFirst     = "connecting connect-failed [first connection]"
	rowFailedLeft      = "connecting connect-failed [budget left]"
	rowFailedSpent     = "connecting connect-failed"
	rowCloseFirst      = "connecting close [first connection]"
	rowCloseConnecting = "connecting close"
	rowDiedClosing     = "serving peer-died [closing]"
	rowDiedProbe       = "serving peer-died [probe unanswered]"
	rowDiedLeft        = "serving peer-died [budget left]"
	rowDiedSpent       = "serving peer-died"
	rowRestart         = "serving restart"
	rowCloseServing    = "serving close"
	rowRespawn         = "respawn-pending respawn"
	rowClosePending    = "respawn-pending close"
	rowGiveUpWithdrawn = "exhausted give-up [a promised replacement is withdrawn]"
	rowGiveUp          = "exhausted give-up"
	rowCloseWithdrawn  = "exhausted close [a promised replacement is withdrawn]"
	rowCloseExhausted  = "exhausted close"
)

// turns are all events that may come next, with each of their outcomes.
func (s standing) turns() []turn {
	switch s.state {
	case supervised.StateIdle:
		return s.fromIdle()
	case supervised.StateConnecting:
		if s.served {
			return s.fromConnecting()
		}
		return s.fromConnectingFirst()
	case supervised.StateServing:
		return s.fromServing()
	case supervised.StateRespawnPending:
		return s.fromPending()
	case supervised.StateExhausted:
		return s.fromExhausted()
	}
	return nil
}

// closed is where Close leads.
func (s standing) closed() standing {
	s.state, s.holds, s.probing = supervised.StateClosed, "", false
	return s
}

// exhausted is where a budget that is spent leads in the end.
func (s standing) exhausted() standing {
	s.failed = true
	return s.closed()
}

// spent has the budget asked once more.
func (s standing) spent() standing {
	s.spends++
	s.free = false
	return s
}

// pending is where a death leads.
func (s standing) pending(holds string) standing {
	s.state, s.holds = supervised.StateRespawnPending, holds
	return s
}

// minting is where a start or a respawn leads.
func (s standing) minting() standing {
	s.state, s.holds = supervised.StateConnecting, ""
	s.mints++
	if s.served && !s.free {
		s.restarts++
	}
	return s
}

// serving is where a connection that has come up leads. The client of an older session goes to work at once.
func (s standing) serving() standing {
	s.state, s.served = supervised.StateServing, true
	s.generation = s.next
	s.next++
	s.free, s.probing = false, false
	s.asked = s.asked || s.older
	return s
}

func (s standing) fromIdle() []turn {
	return []turn{
		{"Connect", (*expedition).connect, s.minting(), lines(rowStart), nil},
		{"Close", (*expedition).close, s.closed(), lines(rowCloseIdle, "drain", "close"), nil},
		{"Close, OnDrain panics", with("drain", "panics", (*expedition).close), s.closed(),
			lines(rowCloseIdle, "drain", "close", "error: OnDrain panicked"), nil},
	}
}

func (s standing) fromConnectingFirst() []turn {
	idle := s
	idle.state = supervised.StateIdle
	turns := []turn{{"it comes up", (*expedition).comesUp, s.serving(), lines(rowConnectedFirst), nil}}
	for _, f := range []failure{
		{"the mint fails", (*expedition).mintFails, "mint failed"},
		{"the factory returns nil", (*expedition).mintIsNil, "nil transport"},
		{"the factory panics", (*expedition).mintPanics, "factory panicked"},
		{"the start fails", (*expedition).startFails, "start failed"},
		{"the start panics", (*expedition).startPanics, "Connect panicked"},
		{"the caller leaves during the mint", (*expedition).leaves, "context canceled"},
		{"the caller leaves during the start", during("start", (*expedition).leaves), "context canceled"},
	} {
		turns = append(turns, turn{f.name, f.ofConnect(), idle, lines(rowFailedFirst), nil})
	}
	closed := lines(rowCloseFirst, "drain", "close")
	return append(turns,
		turn{"Close during the mint", (*expedition).close, s.closed(), closed, nil},
		turn{"Close during a mint that ignores its context", during("deaf mint", (*expedition).close), s.closed(), closed, nil},
		turn{"Close during the start", during("start", (*expedition).close), s.closed(), closed, nil},
	)
}

// A failure is how an attempt fails.
type failure struct {
	name string
	does func(*expedition)
	as   string // what its error says
}

func (s standing) fromConnecting() []turn {
	var turns []turn
	if s.probing {
		turns = append(turns, turn{"it comes up", (*expedition).comesUp, s.serving(), lines(rowConnectedProbe),
			[]string{fmt.Sprintf("%d supervised: the server did not answer server/discover", keptCall)}})
	} else {
		turns = append(turns,
			turn{"it comes up", (*expedition).comesUp, s.serving(), lines(rowConnected, "reconnect"), nil},
			turn{"it comes up, OnReconnect fails", with("reconnect", "fails", (*expedition).comesUp), s.serving(),
				lines(rowConnected, "reconnect", "error: hook failed"), nil},
			turn{"it comes up, OnReconnect panics", with("reconnect", "panics", (*expedition).comesUp), s.serving(),
				lines(rowConnected, "reconnect", "error: OnReconnect panicked"), nil})
	}
	left, spent := s.spent().pending("delay"), s.spent().exhausted()
	failures := []failure{
		{"the mint fails", (*expedition).mintFails, "mint failed"},
		{"the factory returns nil", (*expedition).mintIsNil, "nil transport"},
		{"the factory panics", (*expedition).mintPanics, "factory panicked"},
		{"the mint takes too long", (*expedition).tooLong, "connect timeout"},
		{"the start fails", (*expedition).startFails, "start failed"},
		{"the start panics", (*expedition).startPanics, "Connect panicked"},
		{"the start takes too long", during("start", (*expedition).tooLong), "connect timeout"},
	}
	early := len(failures) // before there is a connection, which gets a number
	if s.older {
		failures = append(failures,
			failure{"the handshake is refused", shaking("refused", (*expedition).waits), "handshake refused"},
			failure{"the handshake is answered in another version", shaking("version", (*expedition).waits), "speaks protocol"},
			failure{"the handshake is not answered in time", shaking("silence", (*expedition).tooLong), "connect timeout"},
			failure{"the handshake cannot be written", shaking("broken", (*expedition).settles), "broken pipe"},
			failure{"the peer dies in the handshake", shaking("silence", (*expedition).dies), "crash"},
			failure{"the replay cannot be written", shaking("broken replay", (*expedition).settles), "broken pipe"},
			failure{"the replay is not taken in time", shaking("deaf to the replay", (*expedition).tooLong), "connect timeout"},
		)
	}
	reads := s.failing("exhausted, peer lost")
	withdrawn := func(f failure, last string) []string {
		return lines(rowFailedSpent, "error: "+f.as, "error: exhausted", last, "close: exhausted")
	}
	for i, f := range failures {
		left, spent := left, spent
		if i >= early {
			left.next++
			spent.next++
		}
		turns = append(turns,
			turn{f.name, granted(f.does), left, lines(rowFailedLeft, "error: "+f.as), nil},
			turn{f.name + ", the budget is spent", refused(f.does), spent, withdrawn(f, rowGiveUpWithdrawn), reads})
	}
	mint := failures[0]
	turns = append(turns,
		turn{"the mint fails, OnError panics", granted(with("error", "panics", mint.does)), left,
			lines(rowFailedLeft, "error: "+mint.as), nil},
		// The budget is the caller's own code, and runs in the step: what it asks for comes right behind it.
		turn{"the mint fails, the budget closes and grants", granted(closing(mint.does)), s.spent().closed(),
			lines(rowFailedLeft, "error: "+mint.as, rowClosePending, "close"), s.failing("closed")},
		turn{"the mint fails, the budget closes and is spent", refused(closing(mint.does)), spent,
			withdrawn(mint, rowCloseWithdrawn), reads})
	closed := lines(rowCloseConnecting, "close")
	reads = s.failing("closed")
	numbered := s.closed()
	numbered.next++
	turns = append(turns,
		turn{"Close during the mint", (*expedition).close, s.closed(), closed, reads},
		turn{"Close during a mint that ignores its context", during("deaf mint", (*expedition).close), s.closed(), closed, reads},
		turn{"Close during the start", during("start", (*expedition).close), s.closed(), closed, reads})
	if s.older {
		turns = append(turns,
			turn{"Close during the handshake", shaking("silence", (*expedition).close), numbered, closed, reads},
			turn{"Close during the replay", shaking("deaf to the replay", (*expedition).close), numbered, closed, reads})
	}
	return turns
}

func (s standing) fromServing() []turn {
	left := s.spent()
	var lost []string
	if s.older {
		lost = []string{fmt.Sprintf("%d peer lost", lostCall(s.generation))}
	}
	died := lines(rowDiedLeft, "close: crash")
	dies, restarts := (*expedition).dies, (*expedition).restarts
	spentAll := s.failing("exhausted, peer lost")
	stuck := left
	left.cause = "crash"
	stuck.state, stuck.failed, stuck.holds = supervised.StateExhausted, true, "kill"
	at := s
	at.free, at.cause = false, "hang"
	closed := s.failing("closed")
	turns := []turn{
		{"it dies", granted(dies), left.pending("delay"), died, lost},
		{"its pipe breaks", granted((*expedition).breaks), left.pending("delay"), lines(rowDiedLeft, "close: broken pipe"), lost},
		{"it dies, OnClose panics", granted(with("close", "panics", dies)), left.pending("delay"),
			append(died, "error: OnClose panicked"), lost},
		{"it dies, OnClose blocks", granted(with("close", "blocks", dies)), left.pending("hook"), died, lost},
		{"it dies, and is not gone yet", granted(undying(dies)), left.pending("kill"), lines(rowDiedLeft), lost},
		{"it dies, OnClose closes", granted(with("close", "closes", dies)), left.closed(),
			append(died, rowClosePending, "close"), append(lost, s.pending("").failing("closed")...)},
		{"it dies, the budget is spent", refused(dies), left.exhausted(),
			lines(rowDiedSpent, "close: crash", "error: exhausted", rowGiveUp), spentAll},
		{"it dies, the budget is spent, and it is not gone yet", refused(undying(dies)), stuck, lines(rowDiedSpent), spentAll},

		{"Restart", restarts, at.minting(), lines(rowRestart, "close: hang", rowRespawn), lost},
		{"Restart, OnClose blocks", with("close", "blocks", restarts), at.pending("hook"), lines(rowRestart, "close: hang"), lost},
		{"Restart, and it is not gone yet", undying(restarts), at.pending("kill"), lines(rowRestart), lost},

		{"Close", (*expedition).close, s.closed(), lines("drain", rowCloseServing, "close"), closed},
		{"Close of the connection", (*expedition).hangUp, s.closed(), lines("drain", rowCloseServing, "close"), closed},
		{"Close, OnDrain panics", with("drain", "panics", (*expedition).close), s.closed(),
			lines("drain", "error: OnDrain panicked", rowCloseServing, "close"), closed},
		{"Close, OnDrain closes", with("drain", "closes", (*expedition).close), s.closed(),
			lines("drain", rowCloseServing, "close"), closed},
		{"Close, OnDrain takes too long", with("drain", "waits", (*expedition).close), s.closed(),
			lines("drain", rowCloseServing, "close"), closed},
		{"Close, it dies in the drain", with("drain", "waits", (*expedition).diesInDrain), s.closed(),
			lines("drain", rowDiedClosing, "close: crash"), s.failing("peer lost")},
	}
	if !s.asked {
		probed := s
		probed.asked, probed.probing, probed.free = true, true, true
		turns = append(turns,
			turn{"it dies of the probe", (*expedition).diesOfTheProbe, probed.minting(), lines(rowDiedProbe, rowRespawn), nil},
			turn{"it says nothing to the probe", (*expedition).ignoresTheProbe, probed.minting(), lines(rowDiedProbe, rowRespawn), nil},
			turn{"it dies of the probe, and is not gone yet", undying((*expedition).diesOfTheProbe), probed.pending("kill"), lines(rowDiedProbe), nil})
	}
	return turns
}

func (s standing) fromPending() []turn {
	// What comes late with what it is held up by.
	var late []string
	if s.holds == "kill" && !s.probing {
		late = lines("close: " + s.cause)
	}
	return []turn{
		{"the replacement is due", (*expedition).respawns, s.minting(), append(late, rowRespawn), nil},
		{"Close", (*expedition).close, s.closed(), append(late, rowClosePending, "close"), s.failing("closed")},
		{"Close of the connection", (*expedition).hangUp, s.closed(), append(late, rowClosePending, "close"), s.failing("closed")},
	}
}

func (s standing) fromExhausted() []turn {
	late := lines("close: crash", "error: exhausted")
	return []turn{
		{"the last peer is gone", (*expedition).letGo, s.closed(), append(late, rowGiveUp), nil},
		{"Close", (*expedition).close, s.closed(), append(late, rowCloseExhausted), nil},
		{"Close of the connection", (*expedition).hangUp, s.closed(), append(late, rowCloseExhausted), nil},
	}
}
