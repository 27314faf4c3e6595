package supervised

import (
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// slowHook is how long a hook may hold up a mint before that is logged (H5).
const slowHook = 5 * time.Second

// retire begins the end of a connection that serves, beside the lifecycle; cause is nil for Close. From here on
// nothing is written to it.
func (l *lifecycle) retire(p *peer, cause error, end func(*peer)) {
	l.ledger.closeDoor() // before the peer is out of sight: who finds the door open finds the peer
	l.serving = nil
	l.board.serve(nil)
	p.doom(cause)
	go end(p)
}

// kill ends a peer that died, or that is to die. It runs beside the lifecycle.
func (l *lifecycle) kill(p *peer) { l.bury(p, p.kill()) }

// shut ends a peer with the courtesy of its own Close, and then fails what it had left open. It runs beside the
// lifecycle.
func (l *lifecycle) shut(p *peer) {
	abandoned := p.shut()
	p.readOut()
	l.ledger.finish(ErrClosed, ErrClosed, io.EOF)
	l.bury(p, abandoned)
}

// bury says that p is gone, or as good as gone where the error says what had to be abandoned.
func (l *lifecycle) bury(p *peer, abandoned error) {
	if abandoned != nil {
		l.hooks.emitError(abandoned)
	}
	l.board.exit(p)
	p.retired()
}

// replace divides the calls of a connection that is being retired, and sees to its replacement.
func (l *lifecycle) replace(r row, p *peer, cause error) {
	l.ledger.seal(l.keep, peerLost(cause))
	l.respawnAfter(p, l.emit(r.Hooks, occasion{peer: p, cause: cause, gone: p.gone}))
}

// keep asks the retry policy about a call in flight. One that panics keeps nothing.
func (l *lifecycle) keep(r *jsonrpc.Request) (kept bool) {
	l.hooks.report(protect("retry policy", func() { kept = l.retain.Retain(r) }))
	return kept
}

// respawnAfter asks for the replacement of p once p is gone, hooks is closed (nil: nothing to wait for) and the
// delay is over. The delay begins now.
func (l *lifecycle) respawnAfter(p *peer, hooks <-chan struct{}) {
	var delay <-chan time.Time
	stop := func() bool { return true }
	if d := l.granted.Delay; d > 0 {
		t := l.clock.Timer(d)
		delay, stop = t.C, t.Stop
	}
	go func() {
		defer stop()
		if !await(l, p.gone) || delay != nil && !await(l, delay) || !l.awaitHooks(hooks) {
			return
		}
		l.post(func() { l.respawn(p) })
	}()
}

// await waits for c, and reports false where the transport is closed first.
func await[V any](l *lifecycle, c <-chan V) bool {
	select {
	case <-c:
		return true
	case <-l.over.Done():
		return false
	}
}

// awaitHooks waits for the hooks of a death, when nothing else holds up the mint of the replacement (D2).
func (l *lifecycle) awaitHooks(done <-chan struct{}) bool {
	if done == nil {
		return true
	}
	slow := l.clock.Timer(slowHook)
	defer slow.Stop()
	select {
	case <-done:
		return true
	case <-l.over.Done():
		return false
	case <-slow.C:
		l.logger.Warn("hook holds up a restart")
		return await(l, done)
	}
}
