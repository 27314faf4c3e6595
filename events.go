package supervised

import "fmt"

// An Event is what moves the lifecycle from one state to the next: a bare verb is a request, the past tense a
// fact. An event that speaks of a connection is dropped where that connection is no longer the current one.
type Event int

const (
	// EventStart asks for the first connection: Connect was called.
	EventStart Event = iota

	// EventConnected: the connection has started and all that had to be replayed to it was written.
	EventConnected

	// EventConnectFailed: minting, starting, the handshake or the replay failed, or took too long.
	EventConnectFailed

	// EventPeerDied: the connection that serves has ended, and Close was not the reason.
	EventPeerDied

	// EventRestart asks for a death that spends nothing: Restart was called.
	EventRestart

	// EventRespawn asks for the promised replacement: the old peer is gone, its hooks have returned and the
	// delay is over.
	EventRespawn

	// EventGiveUp ends a transport whose budget is spent: its last peer is gone.
	EventGiveUp

	// EventClose asks for the end: Close was called, and what had to be drained was drained.
	EventClose
)

var eventNames = [...]string{
	EventStart:         "start",
	EventConnected:     "connected",
	EventConnectFailed: "connect-failed",
	EventPeerDied:      "peer-died",
	EventRestart:       "restart",
	EventRespawn:       "respawn",
	EventGiveUp:        "give-up",
	EventClose:         "close",
}

// String returns the event's name as the lifecycle table prints it.
func (e Event) String() string { return name(eventNames[:], int(e), "event") }

// name returns names[i], or a text that shows the number where there is none.
func name(names []string, i int, kind string) string {
	if i >= 0 && i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}
