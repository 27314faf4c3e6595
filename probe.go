package supervised

import (
	"errors"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// probing reports whether c, or where that is nil any call, is a probe that no peer has answered (E3).
func (l *ledger) probing(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.probe != nil && (c == nil || c == l.probe)
}

// timeProbe sets what ends the wait for the probe; it is stopped when the probe is over.
func (l *ledger) timeProbe(after func(time.Duration, func()) *clock.Timer, d time.Duration, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.probe != nil {
		l.probeTimer = after(d, f)
	}
}

// answerProbe answers a probe that a peer before generation has left unanswered, with err.
func (l *ledger) answerProbe(generation int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.probe; c != nil && c.generation != generation {
		l.fail(c, err)
	}
}

// settleProbe ends the wait for the probe; l.mu is held.
func (l *ledger) settleProbe() {
	l.probe = nil
	if l.probeTimer != nil {
		l.probeTimer.Stop()
		l.probeTimer = nil
	}
}

var (
	// errProbeTimeout is how a peer ends that was killed for leaving the probe unanswered.
	errProbeTimeout = errors.New("supervised: server/discover was not answered in time")

	// errProbeUnanswered is what the probe is answered with when the peer after that serves: the client falls back to
	// the older handshake.
	errProbeUnanswered = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "supervised: the server did not answer server/discover"}
)

// watchProbe bounds the wait for the answer to the probe, which is about to be written to p (E3).
func (l *lifecycle) watchProbe(p *peer) {
	if l.probeTimeout == 0 {
		return
	}
	l.ledger.timeProbe(l.clock.AfterFunc, l.probeTimeout, func() {
		l.post(func() {
			if !l.closing && l.ledger.probing(nil) {
				l.peerDied(p, errProbeTimeout)
			}
		})
	})
}
