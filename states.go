package supervised

// A State is where a supervised connection stands. The zero value is StateIdle.
type State int

const (
	// StateIdle: nothing was started, or the first start failed. Connect leads to StateConnecting, Close to
	// StateClosed.
	StateIdle State = iota

	// StateConnecting: a connection is being minted and started; a replacement is also being given the
	// handshake and the replay. Messages are refused. Ends in StateServing, in StateIdle (the first
	// connection failed), in StateRespawnPending or StateExhausted (a replacement failed), or in StateClosed.
	StateConnecting

	// StateServing: messages reach a peer. Ends with the peer (StateRespawnPending, StateExhausted), with
	// Restart (StateRespawnPending), or with Close (StateClosed).
	StateServing

	// StateRespawnPending: a replacement is promised. The old peer is killed and reaped, the OnClose hooks
	// of its death run, and the delay passes; then StateConnecting. Close leads to StateClosed.
	StateRespawnPending

	// StateExhausted: the budget is spent. All that was in flight has failed; the last peer is being reaped;
	// then StateClosed.
	StateExhausted

	// StateClosed: nothing is minted ever again. It has no successor.
	StateClosed
)

var stateNames = [...]string{
	StateIdle:           "idle",
	StateConnecting:     "connecting",
	StateServing:        "serving",
	StateRespawnPending: "respawn-pending",
	StateExhausted:      "exhausted",
	StateClosed:         "closed",
}

// String returns the state's name as the lifecycle table prints it.
func (s State) String() string { return name(stateNames[:], int(s), "state") }
