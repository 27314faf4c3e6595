package supervised

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/fsm"
	"github.com/seed7990db67/supervised/internal/ambient"
	"github.com/seed7990db67/supervised/internal/records"
)

// A lifecycle makes the transitions of one transport, one at a time: each step that post queues runs to its
// end before the next one starts, on a goroutine that lives while there are steps. No step waits for a hook, a
// process or a factory: those run beside it and report back with a step of their own.
//
// Everything below queue belongs to the steps, except where noted.
type lifecycle struct {
	options
	factory Factory
	ledger  *ledger
	hooks   *hooks
	board   *board // what the rest of the world sees of it

	drainers drainers // not the steps' alone

	mu      sync.Mutex
	queue   []func()
	running bool

	machine *fsm.Machine[State, Event, facts]
	values  context.Context // of Connect, without its end: what every connection's context carries
	started chan<- error    // what Connect waits for; nil: nothing
	peer    *peer           // the attempt or connection that is current; nil: none was made yet
	serving *peer           // peer, while it serves and its generation is not sealed
	last    mcp.Transport   // the one minted last (L5)
	next    int             // the number of the next connection

	served        bool               // a connection has served
	withdrawn     bool               // the budget ended while one was promised (C4)
	granted       budget.Grant       // for the death that is being recovered from
	why           string             // that death was not one that spends: what is logged for it; "": it was
	probed        bool               // the probe was left unanswered, and nothing has served since (E3)
	closing       bool               // Close was called
	drain         *drain             // what Close waits for; nil: it was not called while something served
	closeErrTaken bool               // a call of Close has got the error of the connection's own
	failure       *ExhaustedError    // why the transport is closed for good; nil: it was not the budget
	over          context.Context    // ends with StateClosed: nothing waits for a respawn any longer
	end           context.CancelFunc // of over
}

// whyProbe is why a peer is started again that left the probe unanswered (E3).
const whyProbe = "the server did not answer server/discover, starting it again"

// compiled is the table as all transports run it.
var compiled = sync.OnceValues(func() (*fsm.Program[State, Event, facts], error) {
	return fsm.Compile(Lifecycle(), lifecycleSpec, guards)
})

func newLifecycle(factory Factory, o options) (*lifecycle, error) {
	program, err := compiled()
	if err != nil {
		return nil, err
	}
	l := &lifecycle{
		options: o,
		factory: factory,
		ledger:  newLedger(),
		hooks:   &hooks{logger: o.logger},
		board:   newBoard(o.clock),
		machine: program.Machine(),
	}
	l.over, l.end = context.WithCancel(context.Background())
	return l, nil
}

// post queues a step. It may be called from anywhere and waits for nothing.
func (l *lifecycle) post(step func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, step)
	if !l.running {
		l.running = true
		go l.run()
	}
}

func (l *lifecycle) run() {
	for {
		l.mu.Lock()
		steps := l.queue
		l.queue = nil
		l.running = len(steps) > 0
		l.mu.Unlock()
		if len(steps) == 0 {
			return
		}
		for _, step := range steps {
			step()
		}
	}
}

// fire takes an event through the table and lets the rest of the world see where that leads, before anything
// else comes of it: nobody is refused or told of a death by a state that is over. A pair that the table refuses
// is logged and changes nothing: who may ask for something at the wrong time is answered before this.
func (l *lifecycle) fire(e Event, f facts, p *peer, cause error) (row, bool) {
	r, err := l.machine.Fire(e, f)
	if err != nil {
		l.logger.WithError(err).WithFields(logrus.Fields{"state": l.machine.State().String(), "event": e.String()}).Error("lifecycle event refused")
		return r, false
	}
	promised := r.To == StateRespawnPending || r.To == StateConnecting && l.served
	l.board.post(status{state: r.To, reconnecting: promised, failure: l.failure})
	t := Transition{From: r.From, Event: e, Guard: r.Guard, To: r.To, Hooks: r.Hooks, At: l.clock.Now(), Generation: l.next, Cause: cause}
	if p != nil {
		t.Generation = p.generation
	}
	emit := func(run func()) { l.hooks.emit(nil, run) }
	if e == EventStart || e == EventRespawn || e == EventConnectFailed && r.To != StateExhausted {
		emit = func(run func()) { l.hooks.emitLoose(run) } // attempts, of which there may be any number
	}
	emit(func() { l.hooks.runTransition(t) })
	return r, true
}

// start begins the first connection. Connect waits for started, which gets one value.
func (l *lifecycle) start(ctx context.Context, started chan<- error) {
	switch state := l.machine.State(); {
	case l.closing || state == StateExhausted || state == StateClosed:
		started <- l.refusal()
		return
	case state != StateIdle:
		started <- ErrAlreadyStarted
		return
	}
	l.fire(EventStart, facts{}, nil, nil)
	l.started = started
	l.values = ambient.With(context.WithoutCancel(ctx), l.logger, l.clock)
	l.spawn(ctx, 0)
}

// refusal is the error of what comes too late.
func (l *lifecycle) refusal() error {
	if l.failure != nil {
		return l.failure
	}
	return ErrClosed
}

// reply answers Connect, which waits for one answer.
func (l *lifecycle) reply(err error) {
	if l.started != nil {
		l.started <- err
		l.started = nil
	}
}

// connected: p has started, and its replay was written.
func (l *lifecycle) connected(p *peer) {
	first := !l.served
	l.served = true
	l.serving = p
	p.servedAt = l.clock.Now()
	l.board.serve(p)
	l.ledger.admit() // who waits for StateServing finds the door open, and who finds it open finds the peer
	r, ok := l.fire(EventConnected, facts{first: first, afterProbe: l.probed}, p, nil)
	if !ok {
		return
	}
	l.reply(nil)
	if recalled := l.ledger.release(); len(recalled) > 0 {
		go l.recall(p, recalled)
	}
	l.probed = false
	l.ledger.answerProbe(p.generation, errProbeUnanswered)
	if l.emit(r.Hooks, occasion{peer: p}) != nil && l.refresh {
		s := l.ledger.view()
		l.hooks.emit(nil, func() { l.ledger.inject(p.generation, s.refreshed()) })
	}
	p.whenEnded(func(cause error) { l.post(func() { l.peerDied(p, cause) }) })
}

// connectFailed: p could not be brought up.
func (l *lifecycle) connectFailed(p *peer, err error) {
	f := facts{first: !l.served}
	if !f.first {
		f.budgetLeft = l.spend(budget.Death{At: l.clock.Now(), Cause: err})
	}
	r, ok := l.fire(EventConnectFailed, f, p, err)
	if !ok {
		return
	}
	l.ledger.seal(func(*jsonrpc.Request) bool { return true }, peerLost(err)) // what it was sent stays kept
	switch r.To {
	case StateIdle:
		l.reply(err)
	case StateRespawnPending:
		l.emit(r.Hooks, occasion{peer: p, cause: err})
		l.respawnAfter(p, nil)
	case StateExhausted:
		l.exhaust(r, p, err)
	}
}

// peerDied: the connection that serves has ended.
func (l *lifecycle) peerDied(p *peer, cause error) {
	if p != l.serving {
		return
	}
	f := facts{closing: l.closing, probeUnanswered: l.ledger.probing(nil)}
	switch {
	case f.closing:
	case f.probeUnanswered:
		l.granted, l.why, l.probed = budget.Grant{}, whyProbe, true
	default:
		at := l.clock.Now()
		f.budgetLeft = l.spend(budget.Death{At: at, Uptime: at.Sub(p.servedAt), Cause: cause})
	}
	r, ok := l.fire(EventPeerDied, f, p, cause)
	if !ok {
		return
	}
	switch r.To {
	case StateClosed:
		l.retire(p, cause, l.kill)
		l.close(r, occasion{peer: p, cause: cause, gone: p.gone}, peerLost(cause))
	case StateRespawnPending:
		l.retire(p, cause, l.kill)
		l.replace(r, p, cause)
	case StateExhausted:
		l.retire(p, cause, l.kill)
		l.exhaust(r, p, cause)
	}
}

// restart ends the connection that serves as a death would, and spends nothing.
func (l *lifecycle) restart(cause error) error {
	p := l.serving
	switch {
	case l.closing:
		return l.refusal()
	case p == nil:
		return l.board.unavailable()
	}
	r, ok := l.fire(EventRestart, facts{}, p, cause)
	if !ok {
		return ErrReconnecting // the table has refused it, which is logged
	}
	l.granted, l.why = budget.Grant{}, "restarting the peer on request"
	l.retire(p, cause, l.kill)
	l.replace(r, p, cause)
	return nil
}

// spend asks the budget, once for each death.
func (l *lifecycle) spend(d budget.Death) bool {
	var grant budget.Grant
	var ok bool
	l.hooks.report(protect("budget", func() { grant, ok = l.budget.Spend(d) })) // one that panics grants nothing
	l.granted, l.why = grant, ""
	l.board.spent(grant, ok, d.At)
	if !ok {
		l.failure = &ExhaustedError{Restarts: grant.Max, Window: grant.Window, Last: d.Cause}
	}
	return ok
}

// respawn mints the replacement of p.
func (l *lifecycle) respawn(p *peer) {
	if p != l.peer || l.machine.State() != StateRespawnPending {
		return
	}
	if _, ok := l.fire(EventRespawn, facts{}, nil, nil); !ok {
		return
	}
	l.logRestart(p)
	if l.why != whyProbe {
		l.board.restarted()
	}
	l.spawn(context.Background(), l.connectTimeout)
}

// exhaust ends a transport whose budget is spent: the calls fail first, then the hooks are told, then it
// closes, once its last peer is gone.
func (l *lifecycle) exhaust(r row, p *peer, cause error) {
	l.withdrawn = r.From == StateConnecting
	l.ledger.finish(sentAndExhausted(l.failure), l.failure, l.failure)
	l.logger.WithField("budget", l.granted.Max).Error("restart budget spent")
	l.emit(r.Hooks, occasion{peer: p, cause: cause, gone: p.gone})
	go func() {
		if await(l, p.gone) {
			l.post(func() { l.giveUp(p) })
		}
	}()
}

// giveUp: the last peer of a transport whose budget is spent is gone.
func (l *lifecycle) giveUp(p *peer) {
	if l.machine.State() != StateExhausted {
		return
	}
	if r, ok := l.fire(EventGiveUp, facts{withdrawn: l.withdrawn}, p, l.failure); ok {
		l.close(r, occasion{peer: p, cause: l.failure}, ErrClosed)
	}
}

// askClose notes that Close was called: there is no respawn any more. Where a connection serves and hooks want
// to drain it, whoever asked runs the drain that is returned, unless somebody else does.
func (l *lifecycle) askClose() *drain {
	l.closing = true
	if l.serving != nil {
		l.serving.endSettled()
		if l.drain == nil && l.hooks.onDrain.any() {
			l.drain = l.newDrain(l.serving)
		}
		if l.drain != nil {
			return l.drain
		}
	}
	l.closeNow()
	return nil
}

// closeNow ends the transport.
func (l *lifecycle) closeNow() {
	if l.machine.State() == StateClosed {
		return // accepted, and no transition
	}
	p := l.serving
	r, ok := l.fire(EventClose, facts{first: !l.served, withdrawn: l.withdrawn}, l.peer, nil)
	if !ok {
		return
	}
	o := occasion{peer: l.peer}
	switch r.From {
	case StateServing:
		// What is in flight may still be answered while the peer ends; shut fails the rest.
		l.retire(p, nil, l.shut)
		o.gone, o.drained = p.gone, true
		l.close(r, o, nil)
		return
	case StateConnecting:
		l.peer.cancel(ErrClosed)
		o.gone = l.peer.gone
	case StateExhausted:
		o.cause = l.failure
	}
	l.close(r, o, ErrClosed)
}

// close is the entry to StateClosed. The calls in flight fail with lost, unless that is nil: then it is being
// seen to.
func (l *lifecycle) close(r row, o occasion, lost error) {
	l.end()
	if lost != nil {
		l.ledger.finish(lost, ErrClosed, io.EOF)
	}
	l.reply(ErrClosed)
	l.emit(r.Hooks, o)
	p := l.peer
	go func() {
		if p != nil {
			<-p.gone
		}
		l.awaitRecords()
		l.board.close()
	}()
}

// awaitRecords waits a moment for what was logged to reach the logger: who waits for the end may end the program.
func (l *lifecycle) awaitRecords() {
	limit := l.clock.Timer(lingerTimeout)
	defer limit.Stop()
	select {
	case <-records.Idle(l.logger):
	case <-limit.C:
	}
}
