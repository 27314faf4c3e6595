package supervised_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed7990db67/supervised"
)

// A model is what the contract has to say about a walk: a simulation of a supervised transport that is written
// from the rules, event by event in its own time, without a goroutine. It is told what the world does and says
// what the world may see of it. It is exact where the rules are; where they leave something open, loose.
type model struct {
	cfg    *config
	now    time.Duration
	timers []*modelTimer

	state    supervised.State
	promised bool
	closing  bool
	failed   bool // the budget was spent
	served   bool
	done     bool
	readEnd  string // how Read ends; "": it goes on
	shutting *modelPeer
	draining bool

	peers      []*modelPeer // by mint
	cur        *modelPeer
	generation int // that serves or served last
	next       int
	restarts   int

	opened time.Duration // of the budget's window
	spent  int

	requests []*request // of the client, in the order of their first sending
	upcalls  []*upcall  // as the client got them
	recalled []*request
	respawn  *respawn

	initialize      *request // the client's, once it was answered with a result
	initialized     bool     // the client said so
	saysInitialized int      // the Write that waits for the replacement to serve; 0: none
	logLevel        *request
	subscribed      []*request

	hooks    []*emission
	hookBusy bool

	met map[string]int // situations that the walk came through

	// What must be seen of the last stimulus.
	reads   []string
	got     map[int][]string // by mint
	journal []string
	results []string            // of writes, "w3 ok"
	loose   map[string]*request // writes that may end either way; that of a call with an answer, or with an error
	opens   bool                // a replacement began to serve: what was held back may be read before an answer or after it
}

type modelTimer struct {
	at time.Duration
	f  func()
}

// A respawn is what the next mint waits for.
type respawn struct {
	hook  *emission // nil: none
	delay bool      // it is over
}

// An emission is a turn of hooks.
type emission struct {
	line  string
	gone  *modelPeer // waits for it; nil: for nothing
	takes time.Duration
	done  bool
}

// A modelPeer is one mint and what comes of it.
type modelPeer struct {
	mint, generation int
	script           *script
	stage            string // "mint held", "start held", "up", "failed"
	begun            bool   // its start
	alive, gone      bool
	over             bool // its end was decided
	closed           bool // by Close
	readErr, exited  bool
	linger, timeout  *modelTimer
	ctx              *life

	writes  int // that were begun
	broken  bool
	blocked []*modelWrite
	open    []*asked // requests that it took and did not answer
	past    []*asked // and that it did
	greeted bool     // the supervisor's handshake is part of its replay
	told    bool     // it got notifications/initialized

	todo    []func() // of the replay
	waiting bool     // for the answer to the handshake
	shaken  string   // that answer: "ok", "refused", "other version"
	held    []*saying

	asked     map[int]bool    // ids that it has used
	serverIDs map[int]*upcall // requests of its own that the client has, and that neither has ended
}

// asked is a request as its peer has it: one of the client's, or one of the supervisor's own.
type asked struct {
	r   *request
	own string // "initialize", "logging/setLevel", "resources/subscribe"
}

// A request of the client: a call or a stream.
type request struct {
	n       int // names it
	method  string
	keep    bool // by the retry policy
	stream  bool
	handle  bool // a Stream holds it
	ctx     *life
	to      *modelPeer // it was sent to it last; nil: to nobody that is heard
	state   string     // "open", "cancelled" (and not answered), "over"
	await   string     // what Await returns, for a handle; "pending"
	handled []string   // deliveries
}

// A life is the context of a Write.
type life struct{ err string } // "" while it lasts

// A modelWrite is one that is blocked.
type modelWrite struct {
	line string
	ctx  *life // nil: none ends it
	end  func(how string)
}

// An upcall is a request of a peer.
type upcall struct {
	token    string
	id       int
	from     *modelPeer
	answered bool
}

// A saying is a message of a peer.
type saying struct {
	kind   string // "answer", "own answer", "notice", "request", "ping", "cancel stream", "cancel request"
	token  string
	r      *request // that is answered, or that is delivered to, or cancelled
	result string   // of an answer: "result" or "error"
	own    string
	ack    bool
	id     int
}

func newModel(cfg *config) *model {
	return &model{cfg: cfg, generation: -1, got: map[int][]string{}, loose: map[string]*request{}, met: map[string]int{}}
}

// clear forgets what was to be seen.
func (m *model) clear() {
	m.reads, m.journal, m.results, m.opens = nil, nil, nil, false
	clear(m.got)
	clear(m.loose)
}

// where says how far an attempt has come.
func (p *modelPeer) where() string {
	switch {
	case p.stage != "up":
		return cmp.Or(p.stage, "not there yet")
	case p.waiting:
		return "greeted"
	case len(p.blocked) > 0:
		return "held up in its replay"
	}
	return "replayed to"
}

// life is the context of what the supervisor itself writes to p.
func (p *modelPeer) life() *life {
	if p.ctx == nil {
		p.ctx = &life{}
	}
	return p.ctx
}

// Time.

func (m *model) after(d time.Duration, f func()) *modelTimer {
	t := &modelTimer{m.now + d, f}
	m.timers = append(m.timers, t)
	return t
}

// soon is after, but at once where d is 0.
func (m *model) soon(d time.Duration, f func()) {
	if d == 0 {
		f()
		return
	}
	m.after(d, f)
}

func (m *model) stop(t **modelTimer) {
	if *t != nil {
		m.timers = slices.DeleteFunc(m.timers, func(o *modelTimer) bool { return o == *t })
		*t = nil
	}
}

// pass lets time pass: what is due comes in its order.
func (m *model) pass(d time.Duration) {
	until := m.now + d
	for {
		var t *modelTimer
		for _, o := range m.timers {
			if o.at <= until && (t == nil || o.at < t.at) {
				t = o
			}
		}
		if t == nil {
			m.now = until
			return
		}
		m.now = t.at
		f := t.f
		m.stop(&t)
		f()
	}
}

// Hooks (H1, H5).

func (m *model) emit(line string, gone *modelPeer) *emission {
	e := &emission{line: line, gone: gone}
	if line == "close" || line == "close: error" {
		e.takes = m.cfg.onClose
	}
	m.hooks = append(m.hooks, e)
	m.runHooks()
	return e
}

func (m *model) runHooks() {
	for !m.hookBusy && len(m.hooks) > 0 {
		e := m.hooks[0]
		if e.gone != nil && !e.gone.gone {
			return
		}
		m.hooks = m.hooks[1:]
		m.journal = append(m.journal, e.line)
		m.hookBusy = true
		m.soon(e.takes, func() {
			e.done, m.hookBusy = true, false
			if e.takes > 0 {
				m.runHooks()
			}
			m.tryRespawn()
		})
	}
}

// Coming up (D2, B4, R0, E1).

func (m *model) connect() { m.spawn() }

func (m *model) spawn() {
	m.state = supervised.StateConnecting
	p := &modelPeer{mint: len(m.peers), generation: -1, asked: map[int]bool{}, serverIDs: map[int]*upcall{}}
	p.script = m.cfg.script(p.mint)
	m.peers = append(m.peers, p)
	m.cur = p
	if m.served {
		p.timeout = m.after(connectTimeout, func() { p.timeout = nil; m.attemptFails(p) })
	}
	switch p.script.mint {
	case fails:
		m.attemptFails(p)
	case held, ignores:
		p.stage = "mint held"
	default:
		m.minted(p)
	}
}

func (m *model) minted(p *modelPeer) {
	p.begun = true
	switch p.script.start {
	case fails:
		m.attemptFails(p)
	case held:
		p.stage = "start held"
	default:
		m.started(p)
	}
}

func (m *model) started(p *modelPeer) {
	p.stage, p.alive, p.generation = "up", true, m.next
	m.next++
	for _, r := range m.requests {
		if !r.stream && r.state == "open" {
			p.todo = append(p.todo, func() { m.resend(p, r) })
		}
	}
	for _, r := range m.requests {
		if r.stream && r.state == "open" {
			p.todo = append(p.todo, func() { m.resend(p, r) })
		}
	}
	if m.initialize != nil {
		p.greeted = true
		p.todo = slices.Concat(m.handshake(p), p.todo)
	}
	m.bringUp(p)
}

// handshake is what an older session is begun anew with.
func (m *model) handshake(p *modelPeer) (steps []func()) {
	own := func(method string, like *request, then func()) func() {
		return func() {
			line := fmt.Sprintf("own %s %s", method, paramsOf(like))
			m.write(p, line, nil, func(how string) {
				switch {
				case how == "rejected" && method != "initialize": // as if it were refused: no failed attempt
				case m.unprepared(p, how):
					return
				default:
					p.took(m, &asked{own: method})
				}
				then()
			})
		}
	}
	steps = append(steps, own("initialize", m.initialize, func() {
		if p.shaken == "" {
			p.waiting = true
			return
		}
		m.shaken(p)
	}))
	steps = append(steps, func() {
		m.write(p, "notifications/initialized", nil, func(how string) {
			if m.unprepared(p, how) {
				return
			}
			p.told = true
			m.bringUp(p)
		})
	})
	if m.logLevel != nil {
		steps = append(steps, own("logging/setLevel", m.logLevel, func() { m.bringUp(p) }))
	}
	for _, r := range m.subscribed {
		steps = append(steps, own("resources/subscribe", r, func() { m.bringUp(p) }))
	}
	return steps
}

// unprepared reports whether a Write of the handshake has failed. A connection that breaks is read to its end.
func (m *model) unprepared(p *modelPeer, how string) bool {
	switch how {
	case "ok":
		return false
	case "broken":
		m.sign(p)
	default:
		m.attemptFails(p)
	}
	return true
}

func (m *model) shaken(p *modelPeer) {
	p.waiting = false
	if p.shaken == "ok" {
		m.bringUp(p)
		return
	}
	m.attemptFails(p)
}

// bringUp goes on with the replay, until it waits or is written.
func (m *model) bringUp(p *modelPeer) {
	if p.stage != "up" || m.state != supervised.StateConnecting {
		return
	}
	if len(p.todo) == 0 {
		m.settleDebts(p)
		return
	}
	next := p.todo[0]
	p.todo = p.todo[1:]
	next()
}

// resend replays a request.
func (m *model) resend(p *modelPeer, r *request) {
	switch {
	case r.state != "open":
		m.bringUp(p)
		return
	case r.ctx.err != "" && !r.stream:
		m.answer(r, r.ctx.err)
		m.met["kept calls whose context ended"]++
		m.bringUp(p)
		return
	}
	r.to = p
	ctx := r.ctx
	m.met["requests sent again"]++
	if r.stream {
		ctx = nil // R2: only an end ends it
	}
	m.write(p, r.line(), ctx, func(how string) {
		switch how {
		case "ok":
			p.took(m, &asked{r: r})
		case "broken":
			m.sign(p)
			return
		default:
			if !r.stream && r.state == "open" {
				m.answer(r, how)
			}
		}
		m.bringUp(p)
	})
}

func (m *model) connected(p *modelPeer) {
	first := !m.served
	if !first {
		m.met["replacements that serve"]++
	}
	m.stop(&p.timeout)
	m.state, m.promised, m.served = supervised.StateServing, false, true
	m.generation, m.opens = p.generation, true
	for _, s := range p.held {
		m.route(p, s)
		m.met["messages held back and delivered"]++
	}
	p.held = nil
	if !first {
		m.emit("reconnect", nil)
	}
	if w := m.saysInitialized; w > 0 {
		m.saysInitialized = 0
		m.tellInitialized(w)
	}
}

// settleDebts writes what p is owed before it serves: the end of the client's own handshake, and the cancellations
// of what was replayed.
func (m *model) settleDebts(p *modelPeer) {
	var line string
	switch {
	case m.initialized && !p.told:
		p.told = true
		line = "notifications/initialized"
	case len(m.recalled) > 0:
		line = "cancelled " + m.recalled[0].name()
		m.recalled = m.recalled[1:]
	default:
		m.connected(p)
		return
	}
	m.write(p, line, nil, func(how string) {
		if how == "broken" {
			m.sign(p)
			return
		}
		m.bringUp(p)
	})
}

// attemptFails ends an attempt. What came up of it is killed first.
func (m *model) attemptFails(p *modelPeer) {
	if p.stage == "failed" {
		return
	}
	m.met["attempts that fail while the peer is "+p.where()]++
	p.stage, p.over = "failed", true
	m.stop(&p.timeout)
	m.stop(&p.linger)
	p.blocked = slices.DeleteFunc(p.blocked, func(*modelWrite) bool { return true })
	end := func() {
		m.gone(p)
		if m.state != supervised.StateConnecting {
			return
		}
		m.recalled = nil
		m.drop(p)
		m.forgetInitialized()
		for _, r := range m.requests {
			r.to = nil
		}
		left := m.spend()
		m.emit("error", nil)
		if left {
			m.pending(p, nil, m.cfg.delay)
			return
		}
		m.exhaust()
		m.emit("error: exhausted", nil)
		m.closed("close: error", nil)
		m.finished()
	}
	if p.alive {
		m.soon(p.script.end, end)
		return
	}
	end()
}

// drop forgets what p said and what was held back, but for the ends of streams (R2).
func (m *model) drop(p *modelPeer) {
	for _, s := range p.held {
		switch {
		case s.r == nil || s.r.state != "open":
		case s.kind == "answer":
			m.settle(p, s)
		case s.kind == "cancel stream":
			m.met["streams whose end was held back when their peer failed"]++
			m.over(s.r, "stream closed")
		}
	}
	p.held = nil
}

func (m *model) pending(p *modelPeer, hook *emission, delay time.Duration) {
	m.state, m.promised = supervised.StateRespawnPending, true
	w := &respawn{hook: hook}
	m.respawn = w
	if delay == 0 {
		w.delay = true
	} else {
		m.after(delay, func() { w.delay = true; m.tryRespawn() })
	}
	m.tryRespawn()
}

func (m *model) tryRespawn() {
	w := m.respawn
	if m.state != supervised.StateRespawnPending || w == nil || !w.delay || w.hook != nil && !w.hook.done || !m.cur.gone {
		return
	}
	m.respawn = nil
	m.restarts++
	m.spawn()
}

// The end (D1, D2, B, C).

// sign notes a sign of the end of p (W3).
func (m *model) sign(p *modelPeer) {
	switch {
	case p.over || p.stage != "up":
	case p.readErr && (p.exited || !p.script.process):
		m.ends(p)
	case p.linger == nil:
		p.linger = m.after(linger, func() { p.linger = nil; m.ends(p) })
	}
}

func (m *model) ends(p *modelPeer) {
	if m.state == supervised.StateConnecting {
		m.attemptFails(p)
		return
	}
	m.dies(p, false)
}

// dies is the death of the peer that serves.
func (m *model) dies(p *modelPeer, restart bool) {
	m.met["deaths"]++
	p.over = true
	m.stop(&p.linger)
	m.ctxEnds(p.life(), "retired") // the supervisor itself writes nothing more
	if m.closing {
		m.draining = false
		m.met["deaths in a drain"]++
		m.finish("peer lost", "closed")
		m.closed("close: error", p)
		m.retire(p, nil)
		return
	}
	left, delay := true, m.cfg.delay
	if restart {
		delay = 0
	} else {
		left = m.spend()
	}
	if !left {
		m.exhaust()
		m.emit("close: error", p)
		m.emit("error: exhausted", nil)
		m.retire(p, func() {
			if m.state == supervised.StateExhausted {
				m.state = supervised.StateClosed
			}
		})
		return
	}
	m.state, m.promised = supervised.StateRespawnPending, true
	for _, r := range m.requests {
		if r.method == "resources/unsubscribe" && r.state != "over" && r.to == p {
			m.unsubscribe(r) // the client wanted it to end, and a fresh server has no such subscription
		}
		switch {
		case r.state != "open" || r.to != p:
		case r.stream || r.method == "initialize" || r.keep:
			r.to = nil
		case r.method == "ping":
			m.answer(r, "empty")
		default:
			m.answer(r, "peer lost")
		}
	}
	m.silence(p)
	hook := m.emit("close: error", p)
	m.pending(p, hook, delay)
	m.retire(p, nil)
}

// silence ends what p says. The client's handlers of its requests are cancelled (E2).
func (m *model) silence(p *modelPeer) {
	for _, u := range m.upcalls {
		if u.from == p && !u.answered {
			u.answered = true
			m.reads = append(m.reads, "cancelled request "+u.token)
		}
	}
	clear(p.serverIDs)
}

// retire kills p.
func (m *model) retire(p *modelPeer, then func()) {
	m.soon(p.script.end, func() {
		if then != nil {
			then()
		}
		m.gone(p)
	})
}

// gone: there is nothing left of p.
func (m *model) gone(p *modelPeer) {
	p.alive, p.gone, p.over = false, true, true
	blocked := p.blocked
	p.blocked = nil
	for _, w := range blocked {
		w.end("broken")
	}
	m.runHooks()
	m.tryRespawn()
	m.finished()
}

// finished notes that the transport is closed for good and its last peer gone.
func (m *model) finished() {
	if m.state == supervised.StateClosed && (m.cur == nil || m.cur.gone) {
		m.done = true
	}
}

// spend asks the budget (B1, B2).
func (m *model) spend() bool {
	if m.spent == 0 || m.now-m.opened > m.cfg.window {
		m.opened, m.spent = m.now, 0
	}
	if m.spent == m.cfg.max {
		m.failed = true
		return false
	}
	m.spent++
	return true
}

func (m *model) exhaust() {
	m.met["budgets spent"]++
	m.state, m.promised = supervised.StateExhausted, false
	m.finish("exhausted, peer lost", "exhausted")
}

// finish answers all that is open.
func (m *model) finish(lost, over string) {
	if m.readEnd != "" {
		return
	}
	if m.cur != nil {
		m.drop(m.cur)
		m.silence(m.cur)
	}
	for _, r := range m.requests {
		if r.state == "open" && !r.stream {
			m.answer(r, lost)
		}
	}
	for _, r := range m.requests {
		if r.state == "open" && r.stream {
			m.answer(r, over)
		}
	}
	m.readEnd = "closed"
	if m.failed {
		m.readEnd = "exhausted"
	}
	m.forgetInitialized()
}

// close is a call of Close.
func (m *model) close() {
	if m.state == supervised.StateClosed {
		return
	}
	m.closing = true
	switch m.state {
	case supervised.StateServing:
		if m.draining {
			return
		}
		if m.cfg.onDrain < 0 {
			m.closeServing()
			return
		}
		m.draining = true
		m.journal = append(m.journal, "drain")
		m.soon(m.cfg.onDrain, func() {
			if m.draining {
				m.closeServing()
			}
		})
	case supervised.StateConnecting:
		m.closed("close", m.cur)
		m.met["Close while a replacement is "+m.cur.where()]++
		if m.readEnd == "" {
			m.finish("closed", "closed")
		}
		if m.cur.stage != "failed" {
			m.attemptFails(m.cur)
		}
	case supervised.StateRespawnPending:
		m.finish("closed", "closed")
		m.met["Close while a replacement is promised"]++
		m.closed("close", nil)
	case supervised.StateExhausted:
		m.state = supervised.StateClosed
	}
	m.finished()
}

// closed is the entry to the state closed.
func (m *model) closed(hook string, gone *modelPeer) {
	m.state, m.promised = supervised.StateClosed, false
	m.emit(hook, gone)
}

func (m *model) closeServing() {
	p := m.cur
	m.draining = false
	m.shutting, p.closed = p, true
	p.over = true
	m.stop(&p.linger)
	m.closed("close", p)
	m.soon(p.script.end, func() {
		m.shutting = nil
		p.alive = false
		m.finish("closed", "closed")
		m.gone(p)
	})
}

// refusal is what a message gets where nothing serves.
func (m *model) refusal() string {
	switch {
	case m.failed:
		return "exhausted"
	case m.state == supervised.StateClosed:
		return "closed"
	}
	return "reconnecting"
}

// restart is a call of Restart; it returns what that does.
func (m *model) restart() string {
	if m.closing && !m.failed {
		return "closed"
	}
	if m.state != supervised.StateServing {
		return m.refusal()
	}
	m.dies(m.cur, true)
	return "ok"
}

// What the client writes (W1, W6, W7, D1).

// write is a Write on the connection of p. It ends at once, or when something ends it.
func (m *model) write(p *modelPeer, line string, ctx *life, end func(how string)) {
	p.writes++
	s := p.script
	switch {
	case ctx != nil && ctx.err != "":
		end(ctx.err)
	case p.broken || s.breakAt > 0 && p.writes >= s.breakAt:
		end("broken")
	case p.writes == s.rejectAt:
		end("rejected")
	case p.writes == s.pauseAt:
		p.blocked = append(p.blocked, &modelWrite{line, ctx, end})
	default:
		m.took(p, line)
		end("ok")
	}
}

func (m *model) took(p *modelPeer, line string) {
	m.got[p.mint] = append(m.got[p.mint], line)
}

// took: the peer has a request now, which it may answer at once.
func (p *modelPeer) took(m *model, a *asked) {
	p.open = append(p.open, a)
	if !p.script.answers && !(a.own == "initialize" && p.script.shakes) {
		return
	}
	m.says(p, m.cfg.reply(p, a, 0))
}

func (m *model) result(w int, how string) {
	m.results = append(m.results, fmt.Sprintf("w%d %s", w, how))
}

// call is the first Write of a request, number w.
func (m *model) call(w int, r *request) {
	if r.handle && r.ctx.err != "" {
		m.result(w, r.ctx.err)
		return
	}
	if m.state != supervised.StateServing {
		if r.method == "ping" && m.refusal() == "reconnecting" {
			m.reads = append(m.reads, answerLine(r, "empty"))
			m.result(w, "ok")
			return
		}
		m.result(w, m.refusal())
		return
	}
	p := m.cur
	r.to, r.state = p, "open"
	m.requests = append(m.requests, r)
	m.write(p, r.line(), r.ctx, func(how string) {
		switch how {
		case "ok":
			m.result(w, "ok")
			if r.handle && r.await == "" {
				r.await = "pending"
			}
			p.took(m, &asked{r: r})
			return
		case "broken":
			m.sign(p)
			m.result(w, "ok")
			if r.handle && r.await == "" {
				r.await = "pending"
			}
			return
		}
		switch {
		case r.state == "over" && !r.handle: // it was answered meanwhile
			m.result(w, "ok")
			return
		case r.state == "cancelled": // it may have been
			m.loose[fmt.Sprintf("w%d", w)] = r
			return
		}
		r.state = "over"
		m.result(w, how)
	})
}

func (m *model) unsubscribe(r *request) {
	m.subscribed = slices.DeleteFunc(slices.Clone(m.subscribed), func(o *request) bool { return paramsOf(o) == paramsOf(r) })
}

// send is a Write of what awaits no answer.
func (m *model) send(w int, line string, ctx *life) {
	if m.state != supervised.StateServing {
		m.result(w, m.refusal())
		return
	}
	p := m.cur
	m.write(p, line, ctx, func(how string) {
		if how == "broken" {
			how = m.lost(p)
		}
		m.result(w, how)
	})
}

// lost is what the writer of what awaits no answer is told where the connection of p breaks.
func (m *model) lost(p *modelPeer) string {
	if p.closed {
		return "closed"
	}
	m.sign(p)
	return "peer lost"
}

// cancel is the client's notifications/cancelled for r.
func (m *model) cancel(w int, r *request) {
	known := r.state == "open" || r.state == "cancelled"
	tell := m.cancelled(r)
	if known && !tell {
		m.result(w, "ok")
		return
	}
	m.send(w, "cancelled "+r.name(), nil)
}

// closeStream is Stream.Close.
func (m *model) closeStream(w int, r *request) {
	known := r.state == "open"
	if tell := m.cancelled(r); !known || !tell {
		m.result(w, "ok")
		return
	}
	p, l := m.cur, &life{}
	m.write(p, "cancelled "+r.name(), l, func(how string) {
		if how == "broken" {
			m.sign(p)
		}
		m.result(w, "ok")
	})
	m.after(tellTimeout, func() { m.ctxEnds(l, "context deadline exceeded") })
}

// cancelled notes that the client has cancelled r, and reports whether the peer is to be told now. In the gap it
// is not (Q4); if it has the request from a replay already, it is told when that is written.
func (m *model) cancelled(r *request) (tell bool) {
	switch {
	case m.state == supervised.StateServing:
		tell = true
	case r.state == "open" && m.state == supervised.StateConnecting && r.to == m.cur && m.cur.stage == "up":
		m.met["requests cancelled behind their replay"]++
		m.recalled = append(m.recalled, r)
	}
	switch {
	case r.state != "open":
	case r.stream:
		m.over(r, "stream closed")
	default:
		r.state = "cancelled"
	}
	return tell
}

// sayInitialized is the client's notifications/initialized. A peer that was given the handshake was told; one that
// got the client's own initialize in its replay is told when it serves, and the client waits for that.
func (m *model) sayInitialized(w int) {
	m.initialized = true
	p := m.cur
	switch {
	case m.shutting != nil: // the peer may have it already
		m.loose[fmt.Sprintf("w%d", w)] = nil
	case m.readEnd != "":
		m.result(w, m.refusal())
	case m.state == supervised.StateServing:
		m.tellInitialized(w)
	case m.state == supervised.StateConnecting && p.generation >= 0 && !p.greeted:
		m.saysInitialized = w
	default:
		m.result(w, "ok")
	}
}

// forgetInitialized: there is nobody to tell. The client learns that it does not matter, or that all is over.
func (m *model) forgetInitialized() {
	if w := m.saysInitialized; w > 0 {
		m.saysInitialized = 0
		m.loose[fmt.Sprintf("w%d", w)] = nil
	}
}

func (m *model) tellInitialized(w int) {
	p := m.cur
	if p.told {
		m.result(w, "ok")
		return
	}
	p.told = true
	m.write(p, "notifications/initialized", nil, func(how string) {
		if how == "broken" {
			how = m.lost(p)
		}
		if how == "peer lost" {
			how = "ok" // the one after it is told
		}
		m.result(w, how)
	})
}

// reply is the client's answer to a request of a peer; that of a peer that is gone is swallowed.
func (m *model) reply(w int, u *upcall, token string) {
	if u.answered || m.state != supervised.StateServing {
		m.result(w, "ok")
		return
	}
	u.answered = true
	if u.from.serverIDs[u.id] == u {
		delete(u.from.serverIDs, u.id)
	}
	m.send(w, fmt.Sprintf("answer %d %s", u.id, token), nil)
}

// ctxEnds ends the context of r's Write.
func (m *model) ctxEnds(l *life, err string) {
	if l.err != "" {
		return
	}
	l.err = err
	for _, p := range m.peers {
		for i, w := range p.blocked {
			if w.ctx == l {
				p.blocked = slices.Delete(slices.Clone(p.blocked), i, i+1)
				w.end(err)
				return
			}
		}
	}
}

// release lets go on what is held, if something is.
func (m *model) release() {
	p := m.cur
	switch {
	case p == nil:
	case p.stage == "mint held":
		m.minted(p)
	case p.stage == "start held":
		m.started(p)
	case len(p.blocked) > 0:
		w := p.blocked[0]
		p.blocked = p.blocked[1:]
		m.took(p, w.line)
		w.end("ok")
	}
}

// What a peer says (W2, W4, R4, E2).

func (m *model) heard(p *modelPeer) bool {
	return p == m.cur && p.alive && p.stage == "up" && !p.readErr && (!p.over || m.shutting == p)
}

func (m *model) says(p *modelPeer, s *saying) {
	if !m.heard(p) {
		return
	}
	switch {
	case s.kind == "answer" && s.r.stream && m.state == supervised.StateConnecting: // behind the stream's deliveries
	case s.kind == "answer", s.kind == "own answer":
		m.settle(p, s)
		return
	}
	if m.state != supervised.StateConnecting {
		m.route(p, s)
		return
	}
	if s.kind == "ping" {
		m.write(p, fmt.Sprintf("answer %d empty", s.id), p.life(), func(how string) {
			if how == "broken" {
				m.sign(p)
			}
		})
		return
	}
	p.held = append(p.held, s)
}

func (m *model) settle(p *modelPeer, s *saying) {
	if m.state == supervised.StateConnecting {
		m.met["answers in a replay"]++
	}
	if s.kind == "own answer" {
		if s.own == "initialize" && p.shaken == "" {
			p.shaken = s.result
			if p.waiting {
				m.shaken(p)
			}
		}
		return
	}
	r := s.r
	if r == nil || r.state == "over" || r.to != p {
		m.met["answers that nobody awaits"]++
		return
	}
	if s.result != "error" {
		switch r.method {
		case "initialize":
			m.initialize = r
		case "logging/setLevel":
			m.logLevel = r
		case "resources/unsubscribe":
			m.unsubscribe(r)
		case "resources/subscribe":
			m.unsubscribe(r)
			m.subscribed = append(m.subscribed, r)
		}
	}
	m.answer(r, s.result+" "+s.token)
}

func (m *model) route(p *modelPeer, s *saying) {
	switch s.kind {
	case "answer":
		m.settle(p, s)
	case "request", "ping":
		u := &upcall{token: s.token, id: s.id, from: p}
		m.upcalls = append(m.upcalls, u)
		p.serverIDs[s.id] = u
		m.reads = append(m.reads, "request "+s.token)
	case "cancel request":
		if u := p.serverIDs[s.id]; u != nil {
			delete(p.serverIDs, s.id)
			m.reads = append(m.reads, "cancelled request "+u.token)
		} else {
			m.reads = append(m.reads, fmt.Sprintf("cancelled %d", s.id))
		}
	case "cancel stream":
		open := s.r.state == "open"
		if open {
			m.over(s.r, "stream closed")
		}
		if !open || !s.r.handle {
			m.reads = append(m.reads, "cancelled "+s.r.name())
		}
	case "notice":
		if s.r != nil && s.r.handle && s.r.state == "open" {
			if !s.ack {
				s.r.handled = append(s.r.handled, s.token)
			}
			return
		}
		m.reads = append(m.reads, "notice "+s.token)
	}
}

// answer ends a request with its one answer.
func (m *model) answer(r *request, how string) {
	m.over(r, how)
	if !r.handle {
		m.reads = append(m.reads, answerLine(r, how))
	}
}

func (m *model) over(r *request, how string) {
	r.state, r.to = "over", nil
	if r.handle {
		r.await = how
	}
}

// name is what the story calls a request.
func (r *request) name() string {
	if r.handle {
		return fmt.Sprintf("stream-%d", r.n)
	}
	return fmt.Sprintf("#%d", r.n)
}

// line is the request as its peers get it.
func (r *request) line() string { return r.name() + " " + r.method }

func answerLine(r *request, how string) string { return r.name() + " " + how }

// paramsOf is what a request of the session says, with which the handshake is replayed.
func paramsOf(r *request) string { return string(r.params()) }
