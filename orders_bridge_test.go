package supervised

// What the exploration of all orders asks of the inside: events at the wrong time, which nothing outside can cause.

// Refuse fires e without regard to the state, as a step of the lifecycle, and reports whether it was refused.
func (t *Transport) Refuse(e Event) bool {
	refused := make(chan bool)
	t.life.post(func() {
		_, ok := t.life.fire(e, facts{}, nil, nil)
		refused <- !ok
	})
	return <-refused
}

// SayStale has the reports come in once more that speak of what is over: of a connection that is current no more, or
// of one that is in another state than they say.
func (t *Transport) SayStale() {
	said := make(chan struct{})
	t.life.post(func() {
		defer close(said)
		l := t.life
		for _, p := range []*peer{l.peer, newPeer(-1, t.life.over, l.clock)} {
			if p == nil {
				continue
			}
			if p != l.serving {
				l.peerDied(p, errExited)
			}
			if p != l.peer || l.machine.State() != StateRespawnPending {
				l.respawn(p)
			}
			if l.machine.State() != StateExhausted {
				l.giveUp(p)
			}
		}
	})
	<-said
}
