package supervised_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

// firstID is the first id of a client's request. Those of peers are below.
const firstID = 1000

// A chance is something that can happen in a walk. Act has it happen, to the transport and to the model, and
// returns it as a sentence; "": there was nothing to do it to.
type chance struct {
	act func(w *world, s stimulus) string
}

// chances are what stimuli choose from. What stands here more often happens more often, and so does what stands
// at the beginning: rapid prefers small numbers.
var chances = slices.Concat(
	times(1, func(w *world, s stimulus) string { return "" }),
	times(5, func(w *world, s stimulus) string { return w.call(s.a, s.b) }),
	times(2, func(w *world, s stimulus) string {
		return w.request(&request{method: "subscriptions/listen", stream: true, handle: true}, s.b)
	}),
	times(2, func(w *world, s stimulus) string { return w.cancel(s.a) }),
	times(1, func(w *world, s stimulus) string {
		return w.request(&request{method: "ping"}, s.b)
	}),
	times(1, func(w *world, s stimulus) string { return w.notify() }),
	times(2, func(w *world, s stimulus) string { return w.ctxEnds(s.a) }),
	times(4, func(w *world, s stimulus) string { return w.answer(s.a, s.b) }),
	times(1, func(w *world, s stimulus) string { return w.answerAgain(s.a) }),
	times(1, func(w *world, s stimulus) string { return w.answerUnknown(s.a) }),
	times(1, func(w *world, s stimulus) string { return w.answerLate(s.a, s.b) }),
	times(2, func(w *world, s stimulus) string { return w.notice(s.a, s.b) }),
	times(1, func(w *world, s stimulus) string { return w.cancelStream(s.a) }),
	times(2, func(w *world, s stimulus) string { return w.ask(s.b) }),
	times(1, func(w *world, s stimulus) string { return w.cancelAsked(s.a) }),
	times(2, func(w *world, s stimulus) string { return w.reply(s.a) }),
	times(1, func(w *world, s stimulus) string {
		return w.request(&request{method: "subscriptions/listen", stream: true}, s.b)
	}),
	times(1, func(w *world, s stimulus) string { return w.closeStream(s.a) }),
	times(2, func(w *world, s stimulus) string { return w.hangup(s.b) }),
	times(2, func(w *world, s stimulus) string { return w.exit() }),
	times(1, func(w *world, s stimulus) string { return w.restart() }),
	times(5, func(w *world, s stimulus) string { return w.passes(s.b) }),
	times(1, func(w *world, s stimulus) string { return w.edge(s.b) }),
	times(2, func(w *world, s stimulus) string { return w.release() }),
	times(1, func(w *world, s stimulus) string {
		if w.m.initialize == nil || w.m.initialized {
			return ""
		}
		return w.sayInitialized()
	}),
	times(1, func(w *world, s stimulus) string {
		if s.a%8 != 5 {
			return ""
		}
		return w.close(s.b)
	}),
)

func times(n int, act func(w *world, s stimulus) string) []chance {
	return slices.Repeat([]chance{{act}}, n)
}

// one is one of all; false: there is none.
func one[V any](all []V, which int) (v V, ok bool) {
	if len(all) == 0 {
		return v, false
	}
	return all[which%len(all)], true
}

// What the client does.

// write has the client write, beside the walk: it may block.
func (w *world) write(f func() error) (number int) {
	w.writes++
	n := w.writes
	go func() {
		err := f()
		how := kind(err)
		if e, is := err.(*jsonrpc.Error); is && e.Code == -32005 {
			how = "rejected"
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.results = append(w.results, fmt.Sprintf("w%d %s", n, how))
	}()
	return n
}

// call writes a call of some method.
func (w *world) call(a, b int) string {
	methods := []request{
		{method: "tools/call"}, {method: "vendor/method"}, {method: "prompts/get"},
		{method: "tools/list", keep: true}, {method: "resources/read", keep: true}, {method: "completion/complete", keep: true},
		{method: "prompts/get", keep: true}, {method: "resources/list", keep: true},
	}
	if w.cfg.old {
		methods = append(methods, request{method: "logging/setLevel"}, request{method: "resources/subscribe"}, request{method: "resources/unsubscribe"})
	}
	r := methods[a%len(methods)]
	return w.request(&r, b)
}

// request writes a request with some context: one without an end of its own, one with a deadline, or one that is
// over already.
func (w *world) request(r *request, b int) string {
	if r.handle && w.cfg.old && (w.m.initialize != nil || w.m.state != supervised.StateServing) {
		return ""
	}
	r.n = firstID + len(w.requests)
	if r.method != "prompts/get" || r.keep {
		r.keep = r.keep && w.cfg.keeps || r.method == "initialize"
	}
	s := &walked{request: r}
	w.requests = append(w.requests, s)
	ctx, l, how := w.context(r.n, b)
	r.ctx = l
	var n int
	if r.handle {
		n = w.write(func() error {
			stream, err := w.tr.Listen(ctx, r.listenParams(), func(d *jsonrpc.Request) {
				w.mu.Lock()
				defer w.mu.Unlock()
				s.handled = append(s.handled, tokenIn(d.Params))
			})
			w.mu.Lock()
			defer w.mu.Unlock()
			s.stream = stream
			return err
		})
	} else {
		id, _ := jsonrpc.MakeID(float64(r.n))
		message := &jsonrpc.Request{ID: id, Method: r.method, Params: r.params(), Extra: r.n}
		n = w.write(func() error { return w.conn.Write(ctx, message) })
	}
	w.m.call(n, r)
	return fmt.Sprintf("client calls %s%s (w%d)", r.line(), how, n)
}

func (r *request) listenParams() *mcp.SubscriptionsListenParams {
	return &mcp.SubscriptionsListenParams{
		Meta: mcp.Meta{
			mcp.MetaKeyProtocolVersion:    "2026-07-28",
			mcp.MetaKeyClientInfo:         map[string]any{"name": "walker", "version": "1"},
			mcp.MetaKeyClientCapabilities: map[string]any{},
		},
		Notifications: &mcp.NotificationSubscriptions{ResourceSubscriptions: []string{fmt.Sprintf("walk://%d", r.n)}},
	}
}

// context is that of a Write, with its value and its end.
func (w *world) context(value, b int) (context.Context, *life, string) {
	l := &life{}
	ctx := context.WithValue(context.Background(), valueKey{}, value)
	ctx, cancel := context.WithCancelCause(ctx)
	w.lives[l] = func(error) { cancel(nil) }
	switch b % 16 {
	case 0:
		cancel(nil)
		w.m.ctxEnds(l, context.Canceled.Error())
		return ctx, l, " in a context that is over"
	case 1, 2, 3:
		d := time.Duration(b%4)*90*time.Millisecond + 60*time.Millisecond + time.Duration(1000*value+7) // no two at once
		ctx, stop := context.WithTimeout(ctx, d)
		w.lives[l] = func(error) { stop(); cancel(nil) }
		w.m.after(d, func() { w.m.ctxEnds(l, context.DeadlineExceeded.Error()) })
		return ctx, l, fmt.Sprintf(" for %v", d)
	}
	return ctx, l, ""
}

func (w *world) ctxEnds(a int) string {
	var alive []*walked
	for _, r := range w.requests {
		if r.state != "over" && r.ctx.err == "" {
			alive = append(alive, r)
		}
	}
	r, ok := one(alive, a)
	if !ok {
		return ""
	}
	w.lives[r.ctx](nil)
	w.m.ctxEnds(r.ctx, context.Canceled.Error())
	return "the context of " + r.name() + " ends"
}

func (w *world) notify() string {
	w.tokens++
	token := "client/" + strconv.Itoa(w.tokens)
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{}
	w.lives[l] = func(error) { cancel() }
	n := w.write(func() error {
		return w.conn.Write(ctx, &jsonrpc.Request{Method: "notifications/client", Params: fmt.Appendf(nil, `{"token":%q}`, token)})
	})
	w.m.send(n, "notice "+token, l)
	return fmt.Sprintf("client notifies %s (w%d)", token, n)
}

func (w *world) sayInitialized() string {
	n := w.write(func() error {
		return w.conn.Write(context.Background(), &jsonrpc.Request{Method: "notifications/initialized"})
	})
	w.m.sayInitialized(n)
	return fmt.Sprintf("client says notifications/initialized (w%d)", n)
}

// cancel has the client cancel one of its requests, over or not. Again only where somebody is there to be told:
// elsewhere it is open whether the ledger still knows the call.
func (w *world) cancel(a int) string {
	r, ok := one(w.requests, a)
	if !ok || r.handle || r.method == "initialize" || r.state == "cancelled" && w.m.state != supervised.StateServing {
		return ""
	}
	n := w.write(func() error {
		return w.conn.Write(context.Background(), &jsonrpc.Request{
			Method: "notifications/cancelled",
			Params: fmt.Appendf(nil, `{"requestId":%d}`, r.n),
		})
	})
	w.m.cancel(n, r.request)
	return fmt.Sprintf("client cancels %s (w%d)", r.name(), n)
}

func (w *world) closeStream(a int) string {
	w.mu.Lock() // a Listen may be about to return
	var streams []*walked
	for _, r := range w.requests {
		if r.stream != nil {
			streams = append(streams, r)
		}
	}
	w.mu.Unlock()
	r, ok := one(streams, a)
	if !ok {
		return ""
	}
	n := w.write(r.stream.Close)
	w.m.closeStream(n, r.request)
	return fmt.Sprintf("client closes %s (w%d)", r.name(), n)
}

// reply has the client answer a request of a peer, be it gone or answered already.
func (w *world) reply(a int) string {
	u, ok := one(w.m.upcalls, a)
	if !ok {
		return ""
	}
	w.tokens++
	token := "client/" + strconv.Itoa(w.tokens)
	n := w.write(func() error {
		return w.conn.Write(context.Background(), &jsonrpc.Response{ID: w.upcalls[u.token], Result: fmt.Appendf(nil, `{"token":%q}`, token)})
	})
	w.m.reply(n, u, token)
	return fmt.Sprintf("client answers the request %s with %s (w%d)", u.token, token, n)
}

func (w *world) restart() string {
	err := w.tr.Restart(errCrash)
	want := w.m.restart()
	if got := kind(err); got != want {
		w.fault("L8: Restart says %q, want %q", got, want)
	}
	return "Restart"
}

func (w *world) close(b int) string {
	if b%3 == 0 && w.m.served {
		_ = w.conn.Close()
		w.m.close()
		return "the connection is closed"
	}
	w.closers++
	go func() {
		err := w.tr.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed++
		if err != nil {
			w.oddities = append(w.oddities, "Close: "+err.Error())
		}
	}()
	w.m.close()
	return "Close"
}

// Time.

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	w.m.pass(d)
}

func (w *world) passes(b int) string {
	times := []time.Duration{
		time.Millisecond, 50 * time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, 101 * time.Millisecond,
		200 * time.Millisecond, linger - 1, linger, linger + 1, 500 * time.Millisecond, time.Second, 3 * time.Second,
	}
	d := times[b%len(times)]
	w.pass(d)
	return fmt.Sprintf("%v passes", d)
}

// edge lets the time pass up to the edge of the budget's window, just before it, or just past it.
func (w *world) edge(b int) string {
	d := w.m.opened + w.cfg.window - w.m.now + time.Duration(b%3-1)
	if w.m.spent == 0 || d <= 0 {
		return ""
	}
	w.pass(d)
	return fmt.Sprintf("%v passes, to the edge of the window", d)
}

// release lets something go that is held.
func (w *world) release() string {
	p := w.m.cur
	if p == nil {
		return ""
	}
	h := w.hand(p.mint)
	var what string
	switch {
	case p.stage == "mint held":
		what = "the mint is let go"
		close(h.mint)
	case p.stage == "start held":
		what = "the start is let go"
		close(h.start)
	case len(p.blocked) > 0:
		what = "the Write is let go"
		close(h.write)
	default:
		return ""
	}
	w.m.release()
	return what
}

// What a peer does.

// peer is the one that was minted last, where it has started.
func (w *world) peer() (*modelPeer, *peertest.Peer) {
	p := w.m.cur
	if p == nil || !p.alive {
		return nil, nil
	}
	return p, w.fleet.Peer(p.mint)
}

// message is the answer as a peer writes it.
func (w *world) message(p *peertest.Peer, s *saying) jsonrpc.Message {
	if s.kind == "own answer" {
		for _, m := range slices.Backward(p.Got()) {
			if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && r.Method == s.own {
				if name, _ := w.nameOf(r); name == "" {
					return ownAnswer(r, s.own, s.result)
				}
			}
		}
	}
	return answered(w.idOf(s.r), s.r.method, s.token, s.result)
}

// idOf is the id of a request of the client.
func (w *world) idOf(r *request) jsonrpc.ID {
	if !r.handle {
		id, _ := jsonrpc.MakeID(float64(r.n))
		return id
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, name := range w.streams {
		if name == r.name() {
			id, _ := jsonrpc.MakeID(id)
			return id
		}
	}
	return jsonrpc.ID{}
}

func (w *world) answer(a, how int) string {
	p, peer := w.peer()
	if p == nil {
		return ""
	}
	q, ok := one(p.open, a)
	if !ok {
		return ""
	}
	p.open = slices.DeleteFunc(slices.Clone(p.open), func(o *asked) bool { return o == q })
	p.past = append(p.past, q)
	return w.says(p, peer, w.cfg.reply(p, q, how), "")
}

func (w *world) says(p *modelPeer, peer *peertest.Peer, s *saying, again string) string {
	peer.Say(w.message(peer, s))
	w.m.says(p, s)
	if s.kind == "own answer" {
		return fmt.Sprintf("peer %d answers %s%s: %s", p.mint, s.own, again, s.result)
	}
	return fmt.Sprintf("peer %d answers %s%s: %s", p.mint, s.r.name(), again, s.result)
}

func (w *world) answerAgain(a int) string {
	p, peer := w.peer()
	if p == nil {
		return ""
	}
	q, ok := one(p.past, a)
	if !ok || q.own != "" {
		return ""
	}
	return w.says(p, peer, w.cfg.reply(p, q, a), " again")
}

// answerUnknown has the peer answer what it was not asked: a request that was kept and is not sent to it yet, or
// one that never was.
func (w *world) answerUnknown(a int) string {
	p, peer := w.peer()
	if p == nil {
		return ""
	}
	var kept []*walked
	for _, r := range w.requests {
		if r.state == "open" && r.to != p && !(r.handle && w.idOf(r.request) == jsonrpc.ID{}) {
			kept = append(kept, r)
		}
	}
	r, ok := one(kept, a)
	if !ok {
		r = &walked{request: &request{n: 9000 + a}}
	}
	return w.says(p, peer, &saying{kind: "answer", r: r.request, token: answerToken(p.mint, r.name()), result: "result"}, ", which it was not asked")
}

// answerLate has a superseded peer answer what it still has.
func (w *world) answerLate(a, b int) string {
	if len(w.m.peers) < 2 {
		return ""
	}
	p := w.m.peers[a%(len(w.m.peers)-1)]
	q, ok := one(p.open, b)
	if !ok || q.own != "" {
		return ""
	}
	return w.says(p, w.fleet.Peer(p.mint), w.cfg.reply(p, q, b), " late")
}

// notice has the peer notify: for all, of a progress, or for a stream.
func (w *world) notice(a, b int) string {
	p, peer := w.peer()
	if p == nil {
		return ""
	}
	w.tokens++
	s := &saying{kind: "notice", token: fmt.Sprintf("%d/n%d", p.mint, w.tokens)}
	method, meta := "notifications/resources/updated", ""
	switch b % 4 {
	case 0:
	case 1:
		method = "notifications/progress"
	default:
		var streams []*walked
		for _, r := range w.requests {
			if r.request.stream && r.to == p {
				streams = append(streams, r)
			}
		}
		if r, ok := one(streams, a); ok {
			s.r = r.request
			meta = fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s},`, rawID(w.idOf(r.request)))
			if b%16 == 15 {
				s.ack, method = true, "notifications/subscriptions/acknowledged"
			}
		}
	}
	peer.Say(&jsonrpc.Request{Method: method, Params: fmt.Appendf(nil, `{%s"token":%q}`, meta, s.token)})
	w.m.says(p, s)
	if s.r != nil {
		return fmt.Sprintf("peer %d says %s for %s", p.mint, s.token, s.r.name())
	}
	return fmt.Sprintf("peer %d says %s", p.mint, s.token)
}

func rawID(id jsonrpc.ID) string {
	raw, _ := json.Marshal(id.Raw())
	return string(raw)
}

func (w *world) cancelStream(a int) string {
	p, peer := w.peer()
	if p == nil {
		return ""
	}
	var streams []*asked
	for _, q := range p.open {
		if q.r != nil && q.r.stream {
			streams = append(streams, q)
		}
	}
	q, ok := one(streams, a)
	if !ok {
		return ""
	}
	peer.Say(&jsonrpc.Request{Method: "notifications/cancelled", Params: fmt.Appendf(nil, `{"requestId":%s}`, rawID(w.idOf(q.r)))})
	w.m.says(p, &saying{kind: "cancel stream", r: q.r})
	return fmt.Sprintf("peer %d cancels %s", p.mint, q.r.name())
}

// ask has the peer ask something, under the lowest id that it has free.
func (w *world) ask(b int) string {
	p, peer := w.peer()
	if p == nil {
		return ""
	}
	id := 0
	for p.asked[id] {
		id++
	}
	p.asked[id] = true
	w.tokens++
	s := &saying{kind: "request", token: fmt.Sprintf("%d/q%d", p.mint, w.tokens), id: id}
	method := "roots/list"
	if b%3 == 0 {
		s.kind, method = "ping", "ping"
	}
	raw, _ := jsonrpc.MakeID(float64(id))
	peer.Say(&jsonrpc.Request{ID: raw, Method: method, Params: fmt.Appendf(nil, `{"token":%q}`, s.token)})
	w.m.says(p, s)
	return fmt.Sprintf("peer %d asks %s %s under id %d", p.mint, method, s.token, id)
}

// cancelAsked has the peer cancel a request of its own.
func (w *world) cancelAsked(a int) string {
	p, peer := w.peer()
	if p == nil || len(p.asked) == 0 {
		return ""
	}
	id := a % len(p.asked)
	peer.Say(&jsonrpc.Request{Method: "notifications/cancelled", Params: fmt.Appendf(nil, `{"requestId":%d}`, id)})
	w.m.says(p, &saying{kind: "cancel request", id: id})
	return fmt.Sprintf("peer %d cancels its request %d", p.mint, id)
}

func (w *world) hangup(b int) string {
	p, peer := w.peer()
	if p == nil || p.readErr {
		return ""
	}
	err := errors.New("hung up")
	if b%2 == 0 && p.script.process {
		peer.Exit(&peertest.Exit{Code: 1})
		p.exited = true
	}
	peer.Hangup(err)
	p.readErr = true
	w.m.sign(p)
	return fmt.Sprintf("peer %d ends its output (exited: %v)", p.mint, p.exited)
}

func (w *world) exit() string {
	p, peer := w.peer()
	if p == nil || !p.script.process || p.exited {
		return ""
	}
	peer.Exit(&peertest.Exit{Code: 1})
	p.exited = true
	w.m.sign(p)
	return fmt.Sprintf("peer %d exits", p.mint)
}
