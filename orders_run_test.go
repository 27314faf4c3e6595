package supervised_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/internal/peertest"
)

// The times of an expedition.
const (
	orderDelay   = 10 * time.Millisecond  // of a respawn
	orderConnect = 700 * time.Millisecond // connect timeout
	orderProbe   = 2 * time.Second        // probe timeout
	orderDrain   = 3 * time.Second        // drain timeout
)

var (
	errMint  = errors.New("mint failed")
	errStart = errors.New("start failed")
	errHang  = errors.New("hang")
	errHook  = errors.New("hook failed")
)

// An expedition goes one order with a transport over scripted peers. It runs in a bubble, and collects what is wrong,
// which is told with the way that led there.
type expedition struct {
	at     standing
	fleet  peertest.Fleet
	tr     *supervised.Transport
	conn   mcp.Connection
	leave  context.CancelFunc // ends the context of Connect
	faults []string
	way    []string // the events that were gone through
	rows   []string // of the table that were taken, in order

	mints, starts chan string // what the next mint and start do
	let           chan struct{}

	mu        sync.Mutex
	grants    bool
	asked     int
	inBudget  func()
	hooks     map[string]string // what the next hook of a kind does; "": it returns
	unhook    chan struct{}     // closed: what blocks in OnClose goes on
	undying   chan struct{}     // closed: what is killed goes; nil: it goes at once
	shake     string            // how the next peer behaves in its handshake and replay
	journal   []string
	reads     []string
	readEnd   error
	connected chan error
	refusals  []string // events that were refused, as they were logged
}

// newExpedition stands at the beginning of all orders.
func newExpedition(older bool) (*expedition, error) {
	x := &expedition{
		at:    newStanding(older),
		mints: make(chan string, 1), starts: make(chan string, 1), let: make(chan struct{}),
		hooks: map[string]string{}, unhook: make(chan struct{}),
	}
	x.fleet.OnMint, x.fleet.OnStart = x.shape, x.start
	tr, err := supervised.New(x.mint, supervised.WithBudget(x), supervised.WithClock(clock.New()),
		supervised.WithConnectTimeout(orderConnect), supervised.WithProbeTimeout(orderProbe),
		supervised.WithDrainTimeout(orderDrain), supervised.WithLogger(x.logger()), keeping)
	if err != nil {
		return nil, err
	}
	x.tr = tr
	tr.OnTransition(func(t supervised.Transition) {
		row := rowName(t.From, t.Event, t.Guard)
		if r := tableRows[row]; r.To != t.To || !slices.Equal(r.Hooks, t.Hooks) {
			x.fault("%s leads to %v and emits %q, which is not in the table", row, t.To, t.Hooks)
		}
		x.rows = append(x.rows, row)
		x.note(row)
	})
	tr.OnClose(func(cause error) {
		if cause != nil {
			x.note("close: " + inShort(cause))
		} else {
			x.note("close")
		}
		_ = x.hook("close", nil)
	})
	tr.OnDrain(func(ctx context.Context) { x.note("drain"); _ = x.hook("drain", ctx) })
	tr.OnReconnect(func(ctx context.Context) error { x.note("reconnect"); return x.hook("reconnect", ctx) })
	tr.OnError(func(err error) { x.note("error: " + inShort(err)); _ = x.hook("error", nil) })
	return x, nil
}

// inShort is what an error says, in short.
func inShort(err error) string {
	if errors.As(err, new(*supervised.ExhaustedError)) {
		return "exhausted"
	}
	for _, short := range []string{"nil transport", "factory panicked", "Connect panicked", "connect timeout", "handshake refused", "speaks protocol",
		"broken pipe", "OnClose panicked", "OnDrain panicked", "OnReconnect panicked", "context canceled"} {
		if strings.Contains(err.Error(), short) {
			return short
		}
	}
	for _, known := range []error{errMint, errStart, errHang, errHook, errCrash} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}

func (x *expedition) fault(format string, args ...any) {
	x.faults = append(x.faults, fmt.Sprintf(format, args...))
}

func (x *expedition) note(line string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.journal = append(x.journal, line)
}

// logger notes the events that the table has refused.
func (x *expedition) logger() logrus.FieldLogger {
	l := logrus.New()
	l.SetOutput(io.Discard)
	l.SetLevel(logrus.ErrorLevel)
	l.SetFormatter(noFormat{})
	l.AddHook(refusalHook{x})
	return l
}

type noFormat struct{}

func (noFormat) Format(*logrus.Entry) ([]byte, error) { return nil, nil }

type refusalHook struct{ x *expedition }

func (refusalHook) Levels() []logrus.Level { return []logrus.Level{logrus.ErrorLevel} }

func (h refusalHook) Fire(e *logrus.Entry) error {
	if e.Message == "lifecycle event refused" {
		h.x.mu.Lock()
		defer h.x.mu.Unlock()
		h.x.refusals = append(h.x.refusals, fmt.Sprintf("%v %v", e.Data["state"], e.Data["event"]))
	}
	return nil
}

// Spend is the budget: it answers as the order has it.
func (x *expedition) Spend(budget.Death) (budget.Grant, bool) {
	x.mu.Lock()
	x.asked++
	grants, inside := x.grants, x.inBudget
	x.inBudget = nil
	n := x.asked
	x.mu.Unlock()
	if inside != nil {
		inside()
	}
	return budget.Grant{Attempt: n, Max: n, Window: time.Hour, Delay: orderDelay}, grants
}

// hook is what a hook of this kind does this time.
func (x *expedition) hook(kind string, ctx context.Context) error {
	x.mu.Lock()
	does := x.hooks[kind]
	delete(x.hooks, kind)
	unhook := x.unhook
	x.mu.Unlock()
	switch does {
	case "panics":
		panic(errHook)
	case "fails":
		return errHook
	case "blocks":
		<-unhook
	case "waits":
		<-ctx.Done()
	case "closes":
		if err := x.tr.Close(); err != nil {
			x.note("Close in a hook: " + err.Error())
		}
	}
	return nil
}

// The peers.

func (x *expedition) shape(_ context.Context, p *peertest.Peer) error {
	p.Process = true
	p.OnKill = func() error {
		x.mu.Lock()
		undying := x.undying
		x.mu.Unlock()
		if undying != nil {
			<-undying
		}
		return nil
	}
	p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
		x.mu.Lock()
		shake := x.shake
		x.mu.Unlock()
		r, _ := m.(*jsonrpc.Request)
		kept := r != nil && r.Method == "resources/read"
		switch {
		case shake == "broken", shake == "broken replay" && kept:
			return errPipe
		case shake == "deaf to the replay" && kept:
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	p.Answer = func(r *jsonrpc.Request) *jsonrpc.Response {
		if r.Method != "initialize" {
			return nil
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		a := &jsonrpc.Response{ID: r.ID}
		switch x.shake {
		case "silence":
			return nil
		case "refused":
			a.Error = &jsonrpc.Error{Code: 1, Message: "no"}
		case "version":
			a.Result = fmt.Appendf(nil, handshakeResult, "2024-11-05", "")
		default:
			a.Result = fmt.Appendf(nil, handshakeResult, "2025-11-25", "")
		}
		return a
	}
	return nil
}

func (x *expedition) mint(ctx context.Context) (mcp.Transport, error) {
	t, _ := x.fleet.Mint(ctx)
	select {
	case how := <-x.mints:
		switch how {
		case "fails":
			return nil, errMint
		case "nil":
			return nil, nil
		case "panics":
			panic("the factory")
		case "deaf":
			<-x.let
		}
		return t, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (x *expedition) start(ctx context.Context, _ *peertest.Peer) error {
	select {
	case how := <-x.starts:
		switch how {
		case "fails":
			return errStart
		case "panics":
			panic("the start")
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// What happens. Each is one event, with what is at work before it.

func (x *expedition) connect() {
	ctx, cancel := context.WithCancel(context.Background())
	x.leave = cancel
	x.connected = make(chan error, 1)
	connected := x.connected
	go func() {
		conn, err := x.tr.Connect(ctx)
		if err == nil {
			x.conn = conn
		}
		connected <- err
	}()
}

// wantConnect checks what Connect has returned, nil for "ok".
func (x *expedition) wantConnect(how string) {
	synctest.Wait()
	select {
	case err := <-x.connected:
		got := "ok"
		if errors.Is(err, supervised.ErrClosed) {
			got = "closed"
		} else if err != nil {
			got = inShort(err)
		}
		if got != how {
			x.fault("L2, L3: Connect returned %q, want %q", got, how)
		}
	default:
		x.fault("L2, L3: Connect has not returned, want %q", how)
	}
	x.connected = nil
}

// comesUp has the attempt succeed, and the client go to work.
func (x *expedition) comesUp() {
	x.setShake("")
	x.mints <- "goes"
	x.starts <- "goes"
	synctest.Wait()
	if !x.at.served {
		x.wantConnect("ok")
		if x.conn == nil {
			return
		}
		go x.read(x.conn)
	}
	if !x.at.older {
		return
	}
	if !x.at.served {
		x.call(0, "initialize")
		synctest.Wait()
		x.mu.Lock()
		if len(x.reads) != 1 || !strings.HasPrefix(x.reads[0], "0 {") {
			x.fault("the handshake was answered with %q", x.reads)
		}
		x.reads = nil
		x.mu.Unlock()
		if err := x.conn.Write(context.Background(), &jsonrpc.Request{Method: "notifications/initialized"}); err != nil {
			x.fault("W1: notifications/initialized: %v", err)
		}
		x.call(keptCall, "resources/read")
	}
	x.call(lostCall(x.at.next), "tools/call")
}

func (x *expedition) call(id int, method string) {
	jid, _ := jsonrpc.MakeID(float64(id))
	err := x.conn.Write(context.Background(), &jsonrpc.Request{ID: jid, Method: method, Params: json.RawMessage(`{}`)})
	if err != nil {
		x.fault("W1: Write of call %d: %v", id, err)
	}
}

func (x *expedition) read(conn mcp.Connection) {
	for {
		m, err := conn.Read(context.Background())
		x.mu.Lock()
		if err != nil {
			x.readEnd = err
			x.mu.Unlock()
			return
		}
		x.reads = append(x.reads, line(m))
		x.mu.Unlock()
	}
}

func (x *expedition) mintFails()   { x.mints <- "fails" }
func (x *expedition) mintIsNil()   { x.mints <- "nil" }
func (x *expedition) mintPanics()  { x.mints <- "panics" }
func (x *expedition) startFails()  { x.mints <- "goes"; x.starts <- "fails" }
func (x *expedition) startPanics() { x.mints <- "goes"; x.starts <- "panics" }
func (x *expedition) leaves()      { x.leave() }

// tooLong lets the connect timeout pass.
func (x *expedition) tooLong() { pass(orderConnect) }

// waits does nothing: what was arranged before is all.
func (x *expedition) waits() {}

// settles lets pass what the end of a peer may take (W3).
func (x *expedition) settles() { pass(linger) }

func (x *expedition) dies() { x.fleet.Last().Die(errCrash) }

// breaks is a Write that fails, and nothing more.
func (x *expedition) breaks() {
	x.setShake("broken")
	err := x.conn.Write(context.Background(), &jsonrpc.Request{Method: "notifications/x"})
	if !errors.Is(err, supervised.ErrPeerLost) {
		x.fault("D1: Write to a pipe that breaks: %v", err)
	}
	pass(linger)
}

func (x *expedition) restarts() {
	if err := x.tr.Restart(errHang); err != nil {
		x.fault("L8: Restart: %v", err)
	}
}

func (x *expedition) probe() { x.call(keptCall, "server/discover") }

func (x *expedition) diesOfTheProbe() { x.probe(); x.dies() }

func (x *expedition) ignoresTheProbe() { x.probe(); pass(orderProbe) }

// respawns lets pass what the replacement waits for, and sees that it waits.
func (x *expedition) respawns() {
	minted := x.fleet.Minted()
	pass(orderDelay - 1)
	if n := x.fleet.Minted(); n != minted {
		x.fault("D2: the replacement did not wait for the delay")
	}
	pass(1)
	if x.at.holds != "delay" {
		if n := x.fleet.Minted(); n != minted || x.tr.State() != supervised.StateRespawnPending {
			x.fault("D2, D4: the replacement did not wait for the %s", x.at.holds)
		}
		x.letGo()
	}
}

// letGo ends what holds up the replacement, or the end.
func (x *expedition) letGo() {
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.unhook)
	x.unhook = make(chan struct{})
	if x.undying != nil {
		close(x.undying)
		x.undying = nil
	}
}

// close calls Close, and sees that it waits for a peer that is not gone and for nothing else (C5).
func (x *expedition) close() { x.ends(x.tr.Close) }

// hangUp closes the connection, which waits for nothing (C8).
func (x *expedition) hangUp() {
	if err := x.conn.Close(); err != nil {
		x.fault("C8: Close of the connection: %v", err)
	}
	synctest.Wait()
	x.ends(x.tr.Close)
}

func (x *expedition) ends(end func() error) {
	connecting := x.connected != nil
	x.mu.Lock()
	drain := x.hooks["drain"]
	x.mu.Unlock()
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- end() }()
	}
	synctest.Wait()
	if drain == "waits" && x.at.state == supervised.StateServing {
		pass(orderDrain - 1)
		if s := x.tr.State(); s != supervised.StateServing {
			x.fault("C2: %v before the drain timeout", s)
		}
		pass(1)
	}
	if x.at.holds == "kill" {
		if len(done) > 0 {
			x.fault("C1, C5: Close returned while a peer was alive")
		}
	} else if len(done) != 2 {
		x.fault("C5: Close has not returned")
	}
	x.letGo()
	synctest.Wait()
	for range 2 {
		select {
		case err := <-done:
			if err != nil {
				x.fault("C5: Close: %v", err)
			}
		default:
			x.fault("C5: Close has not returned")
		}
	}
	if connecting {
		x.wantConnect("closed")
	}
}

// diesInDrain is a death while the hooks of OnDrain run (C2).
func (x *expedition) diesInDrain() {
	done := make(chan error, 1)
	go func() { done <- x.tr.Close() }()
	synctest.Wait()
	if s := x.tr.State(); s != supervised.StateServing {
		x.fault("C2: %v in the drain", s)
	}
	x.dies()
	synctest.Wait()
	select {
	case err := <-done:
		if err != nil {
			x.fault("C5: Close: %v", err)
		}
	default:
		x.fault("C2: the drain goes on after the death")
	}
}

// What is arranged before an event.

func with(hook, does string, event func(*expedition)) func(*expedition) {
	return func(x *expedition) {
		x.mu.Lock()
		x.hooks[hook] = does
		x.mu.Unlock()
		event(x)
	}
}

func granted(event func(*expedition)) func(*expedition) { return budgeted(true, event) }
func refused(event func(*expedition)) func(*expedition) { return budgeted(false, event) }

func budgeted(grants bool, event func(*expedition)) func(*expedition) {
	return func(x *expedition) {
		x.mu.Lock()
		x.grants = grants
		x.mu.Unlock()
		event(x)
	}
}

// closing has the budget close the connection when it is asked.
func closing(event func(*expedition)) func(*expedition) {
	return func(x *expedition) {
		x.mu.Lock()
		x.inBudget = func() { _ = x.conn.Close() }
		x.mu.Unlock()
		event(x)
	}
}

// undying has what is killed take its time.
func undying(event func(*expedition)) func(*expedition) {
	return func(x *expedition) {
		x.mu.Lock()
		x.undying = make(chan struct{})
		x.mu.Unlock()
		event(x)
	}
}

// during is an event while the attempt is further than the mint.
func during(where string, event func(*expedition)) func(*expedition) {
	return func(x *expedition) {
		x.mints <- map[string]string{"start": "goes", "deaf mint": "deaf"}[where]
		synctest.Wait()
		event(x)
	}
}

// shaking is an event while the attempt has started and is being prepared.
func shaking(how string, event func(*expedition)) func(*expedition) {
	return func(x *expedition) {
		x.setShake(how)
		x.mints <- "goes"
		x.starts <- "goes"
		synctest.Wait()
		event(x)
	}
}

func (x *expedition) setShake(how string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.shake = how
}

// ofConnect is a failure of the first connection, which Connect returns.
func (f failure) ofConnect() func(*expedition) {
	return func(x *expedition) {
		f.does(x)
		x.wantConnect(f.as)
	}
}

// goes goes an order to its end, and then closes.
func (x *expedition) goes(o order) {
	x.compare(turn{to: x.at})
	for _, i := range o {
		s := x.at.turns()[i]
		x.way = append(x.way, s.name)
		s.does(x)
		synctest.Wait()
		x.compare(s)
		if len(x.faults) > 0 {
			break
		}
	}
	if len(x.faults) == 0 {
		x.refuses()
	}
	x.finish()
}

// finish closes what is open, and sees that nothing is left.
func (x *expedition) finish() {
	go x.tr.Close()
	synctest.Wait()
	x.letGo() // after it, so that no replacement comes first
	pass(time.Minute)
	close(x.let)
	synctest.Wait()
	if x.leave != nil {
		x.leave()
	}
	if len(x.faults) > 0 {
		return
	}
	select {
	case <-x.tr.Done():
	default:
		x.fault("C1: not done after Close")
	}
	if now, most := x.fleet.Alive(); now != 0 || most > 1 {
		x.fault("C1, D4: %d peers alive in the end, %d at once", now, most)
	}
	if n := x.fleet.Minted(); n != x.at.mints {
		x.fault("C1: %d mints in the end, want %d", n, x.at.mints)
	}
	if x.conn != nil {
		x.mu.Lock()
		end := x.readEnd
		x.mu.Unlock()
		if failed := errors.As(end, new(*supervised.ExhaustedError)); end == nil || failed != x.at.failed {
			x.fault("W2, B6: Read ended with %v", end)
		}
	}
}

// compare holds what is to be seen to what must be.
func (x *expedition) compare(s turn) {
	synctest.Wait()
	x.at = s.to
	x.mu.Lock()
	journal, reads, asked, refusals := x.journal, x.reads, x.asked, x.refusals
	x.journal, x.reads = nil, nil
	x.mu.Unlock()
	if !slices.Equal(s.hooks, journal) {
		x.fault("H1, H2, D3, B6, C2-C4: the hooks were told\n    %q, want\n    %q", journal, s.hooks)
	}
	if !slices.Equal(s.reads, reads) {
		x.fault("W7, D2, B6: Read returned\n    %q, want\n    %q", reads, s.reads)
	}
	if asked != x.at.spends {
		x.fault("B8: the budget was asked %d times, want %d", asked, x.at.spends)
	}
	if len(refusals) > 0 {
		x.fault("the table refused %q", refusals)
	}
	x.stands()
}

// stands holds what can be asked at any time to what must be.
func (x *expedition) stands() {
	at, stats := x.at, x.tr.Stats()
	if stats.State != at.state || x.tr.State() != at.state || x.tr.Reconnecting() != at.reconnecting() {
		x.fault("L6, L7: %v, reconnecting %v; want %v, %v", x.tr.State(), x.tr.Reconnecting(), at.state, at.reconnecting())
	}
	if stats.Generation != at.generation || stats.Restarts != at.restarts || stats.InFlight != len(at.open()) {
		x.fault("L6: generation %d, %d restarts, %d in flight; want %d, %d, %d",
			stats.Generation, stats.Restarts, stats.InFlight, at.generation, at.restarts, len(at.open()))
	}
	if n := x.fleet.Minted(); n != at.mints {
		x.fault("B4, D2, C1: %d mints, want %d", n, at.mints)
	}
	if now, most := x.fleet.Alive(); now != at.alive() || most > 1 {
		x.fault("D4: %d peers alive, want %d; %d at once", now, at.alive(), most)
	}
	over := at.state == supervised.StateClosed
	select {
	case <-x.tr.Done():
		if !over {
			x.fault("C5: Done is closed")
		}
	default:
		if over {
			x.fault("C5: Done is open")
		}
	}
	if err := x.tr.Err(); (err != nil) != (over && at.failed) {
		x.fault("B6: Err is %v", err)
	}
}

// refuses has everything happen that has no place here, and sees that it changes nothing.
func (x *expedition) refuses() {
	at := x.at
	for e := supervised.EventStart; e <= supervised.EventClose; e++ {
		if supervised.Lifecycle()[at.state][e] != nil {
			continue
		}
		if !x.tr.Refuse(e) {
			x.fault("%v took %v", at.state, e)
			return
		}
		pair := fmt.Sprintf("%v %v", at.state, e)
		synctest.Wait()
		x.mu.Lock()
		if !slices.Equal(x.refusals, []string{pair}) {
			x.fault("the refusal of %v was logged as %q", pair, x.refusals)
		}
		x.refusals = nil
		x.mu.Unlock()
	}
	x.tr.SayStale()
	for i := range x.fleet.Minted() {
		if p := x.fleet.Peer(i); p != x.fleet.Last() || at.alive() == 0 && at.state != supervised.StateConnecting {
			p.Say(&jsonrpc.Request{Method: "notifications/stale"})
			p.Die(errors.New("stale"))
		}
	}
	x.asks()
	x.compare(turn{to: at})
}

// asks calls what refuses at some times.
func (x *expedition) asks() {
	at := x.at
	refusal := ""
	switch {
	case at.failed:
		refusal = "exhausted"
	case at.state == supervised.StateClosed:
		refusal = "closed"
	case at.state == supervised.StateIdle, !at.served:
		refusal = supervised.ErrNotStarted.Error()
	case at.state != supervised.StateServing:
		refusal = "reconnecting"
	}
	check := func(what, want string, err error) {
		if got := kind(err); got != want {
			x.fault("%s: %q, want %q", what, got, want)
		}
	}
	if refusal != "" {
		check("L8: Restart", refusal, x.tr.Restart(errHang))
		_, err := x.tr.Listen(context.Background(), &mcp.SubscriptionsListenParams{Notifications: &mcp.NotificationSubscriptions{ToolsListChanged: true}}, func(*jsonrpc.Request) {})
		check("S1: Listen", refusal, err)
		if x.conn != nil {
			check("W1: Write", refusal, x.conn.Write(context.Background(), &jsonrpc.Request{Method: "notifications/x"}))
		}
	}
	if x.tr.Restart(nil) == nil {
		x.fault("L8: Restart(nil) took place")
	}
	switch at.state {
	case supervised.StateIdle: // Connect would begin
	case supervised.StateExhausted, supervised.StateClosed:
		_, err := x.tr.Connect(context.Background())
		check("L2: Connect", refusal, err)
	default:
		_, err := x.tr.Connect(context.Background())
		check("L2: Connect", supervised.ErrAlreadyStarted.Error(), err)
	}
	if at.state == supervised.StateClosed {
		check("C5: Close", "ok", x.tr.Close())
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	waited := context.Canceled.Error()
	switch at.state {
	case supervised.StateServing:
		waited = "ok"
	case supervised.StateClosed:
		waited = refusal
	}
	check("L6: WaitServing", waited, x.tr.WaitServing(done))
}
