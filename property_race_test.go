package supervised_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

var rushSeed = flag.Uint64("rush.seed", 0, "the seed of TestW7_Rush; 0: a new one")

// Random walks of many at once, who wait for nothing: writers, a reader, peers, deaths, Restart, Close. What happens
// when is up to the scheduler, so there is no model of it; what must hold whatever happens is looked at in the end.
// It is meant for the race detector: who takes part shares nothing but the transport.
func TestW7_Rush(t *testing.T) {
	base, walks := *rushSeed, 600
	if base == 0 {
		base = rand.Uint64()
	}
	if testing.Short() {
		walks = 100
	}
	t.Logf("to repeat: -run TestW7_Rush -rush.seed %d", base)
	for i := range walks {
		r := newRush(base + uint64(i))
		func() {
			defer func() {
				if p := recover(); p != nil {
					r.wrong("panic: %v\n%s", p, bubbled())
				}
			}()
			synctest.Test(t, func(*testing.T) { r.run() })
		}()
		if len(r.faults) > 0 {
			t.Fatalf("seed %d (the first of a run with -rush.seed):\n%s\n%s", base+uint64(i), r.setting, strings.Join(r.faults, "\n"))
		}
	}
}

// A rush is one such walk. Times in it are whole milliseconds, so that much falls on the same instant.
type rush struct {
	seed    uint64
	rng     *rand.Rand // of the setting; everybody has one of their own
	fleet   peertest.Fleet
	tr      *supervised.Transport
	conn    mcp.Connection
	setting string
	faults  []string

	keeps, drains bool
	max           int
	deadly        int // of a hundred things that a peer does, how many kill it
	faulty        int // of a hundred mints, how many fail
	length        int // of each writer's walk
	hurry         int // of as many steps, one is waited before

	writers []*rushWriter
	servers []*rushServer
	reads   []jsonrpc.Message
	readErr error
	closes  int
	steps   []supervised.Transition
}

// A rushCall is a request of a writer.
type rushCall struct {
	name      string
	method    string
	id        jsonrpc.ID
	ctx       context.Context
	cancelled bool // by its writer
	err       error
	answers   []*jsonrpc.Response
	takers    []int // the peers that took it, by number
}

func (c *rushCall) stream() bool { return c.method == "subscriptions/listen" }

type rushWriter struct {
	rng     *rand.Rand
	calls   []*rushCall
	streams []*supervised.Stream
}

// A rushServer is what a peer does. What it took is its peer's Got.
type rushServer struct {
	rng  *rand.Rand
	peer *peertest.Peer
}

func newRush(seed uint64) *rush {
	rng := rand.New(rand.NewPCG(seed, 0))
	r := &rush{
		seed: seed, rng: rng,
		keeps: rng.IntN(3) > 0, drains: rng.IntN(3) == 0,
		max:    []int{1, 3, 1000, 1000}[rng.IntN(4)],
		deadly: rng.IntN(30), faulty: rng.IntN(30), length: 10 + rng.IntN(40),
		hurry: 2,
	}
	if rng.IntN(2) == 0 {
		r.hurry, r.length = 30, 4*r.length
	}
	r.setting = fmt.Sprintf("keeps %v, drains %v, budget %d, deadly %d%%, faulty %d%%, %d steps each, a wait in %d",
		r.keeps, r.drains, r.max, r.deadly, r.faulty, r.length, r.hurry)
	return r
}

func (r *rush) wrong(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// generator is one of somebody's own.
func (r *rush) generator(who int) *rand.Rand { return rand.New(rand.NewPCG(r.seed, uint64(1+who))) }

func (r *rush) run() {
	opts := []supervised.Option{
		supervised.WithMaxRestarts(r.max), supervised.WithRestartWindow(time.Hour),
		supervised.WithRestartDelay(time.Duration(r.rng.IntN(3)) * time.Millisecond),
		supervised.WithConnectTimeout(500 * time.Millisecond),
	}
	if r.keeps {
		opts = append(opts, supervised.WithRetryLostRequests())
	}
	r.fleet.OnMint = func(ctx context.Context, p *peertest.Peer) error { // one after the other
		rng := r.generator(100 + p.Number)
		p.Process = rng.IntN(2) == 0
		if p.Number > 0 && rng.IntN(100) < r.faulty {
			return errScripted
		}
		s := &rushServer{rng: rng, peer: p}
		r.servers = append(r.servers, s)
		s.script(r)
		return nil
	}
	var err error
	if r.tr, err = supervised.New(r.fleet.Mint, opts...); err != nil {
		r.wrong("New: %v", err)
		return
	}
	r.tr.OnClose(func(error) { r.closes++ })
	r.tr.OnTransition(func(t supervised.Transition) { r.steps = append(r.steps, t) })
	if r.drains {
		r.tr.OnDrain(func(context.Context) { time.Sleep(2 * time.Millisecond) })
	}
	if r.conn, err = r.tr.Connect(context.Background()); err != nil {
		r.wrong("Connect: %v", err)
		return
	}
	var all sync.WaitGroup
	var reader sync.WaitGroup
	reader.Go(r.read)
	for i := range 4 {
		w := &rushWriter{rng: r.generator(i)}
		r.writers = append(r.writers, w)
		all.Go(func() { w.run(r, i) })
	}
	all.Go(func() {
		rng := r.generator(10)
		for range r.length / 8 {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			_ = r.tr.Restart(errCrash) // refused where nothing serves
			_ = r.tr.Stats()
		}
	})
	if r.rng.IntN(2) == 0 {
		for i := range 1 + r.rng.IntN(2) {
			rng := r.generator(20 + i)
			all.Go(func() {
				time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
				if rng.IntN(2) == 0 {
					_ = r.conn.Close()
				} else {
					_ = r.tr.Close()
				}
			})
		}
	}
	all.Wait()
	if err := r.tr.Close(); err != nil {
		r.wrong("Close: %v", err)
	}
	reader.Wait()
	synctest.Wait()
	time.Sleep(time.Hour)
	synctest.Wait()
	r.judge()
}

// script has the peer misbehave when it is written to.
func (s *rushServer) script(r *rush) {
	broken := s.rng.IntN(4) == 0
	after := s.rng.IntN(30)
	seed := s.rng.Uint64()
	var mu sync.Mutex
	rng, writes := rand.New(rand.NewPCG(seed, 0)), 0
	s.peer.OnWrite = func(ctx context.Context, _ jsonrpc.Message) error {
		mu.Lock()
		writes++
		breaks, waits, rejects := broken && writes > after, rng.IntN(8) == 0, rng.IntN(20) == 0
		mu.Unlock()
		switch {
		case breaks:
			return errPipe
		case rejects:
			return &jsonrpc.Error{Code: -32005, Message: "rejected"}
		case waits:
			select {
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			case <-s.peer.Closed():
				return errPipe
			}
		}
		return nil
	}
	ends := time.Duration(s.rng.IntN(3)) * time.Millisecond
	end := func() error { time.Sleep(ends); return nil }
	s.peer.OnClose, s.peer.OnKill = end, end
	go s.run(r)
}

// run is the life of a peer, from its mint on.
func (s *rushServer) run(r *rush) {
	id := 0
	for seen := 0; ; {
		select {
		case <-s.peer.Closed():
			return
		case <-s.peer.Context.Done(): // it never started
			return
		case <-time.After(time.Duration(s.rng.IntN(3)) * time.Millisecond):
		}
		if s.rng.IntN(100) < r.deadly {
			switch s.rng.IntN(3) {
			case 0:
				s.peer.Die(errCrash)
			case 1:
				s.peer.Exit(errCrash)
			case 2:
				s.peer.Hangup(errCrash)
			}
			continue
		}
		got := s.peer.Got()
		for ; seen < len(got); seen++ {
			if q, ok := got[seen].(*jsonrpc.Request); ok && q.IsCall() {
				s.answer(q)
			}
		}
		switch s.rng.IntN(6) {
		case 0:
			up, _ := jsonrpc.MakeID(float64(id % 3))
			id++
			s.peer.Say(&jsonrpc.Request{ID: up, Method: []string{"roots/list", "ping"}[s.rng.IntN(2)]})
		case 1:
			s.peer.Say(&jsonrpc.Request{Method: "notifications/message"})
		case 2:
			nobody, _ := jsonrpc.MakeID("nobody's")
			s.peer.Reply(nobody, `{}`)
		}
	}
}

func (s *rushServer) answer(q *jsonrpc.Request) {
	token := fmt.Sprintf(`{"peer":%d}`, s.peer.Number)
	chance := s.rng.IntN(10)
	switch {
	case q.Method == "subscriptions/listen" && chance < 7:
		s.peer.Say(&jsonrpc.Request{Method: "notifications/message", Params: fmt.Appendf(nil,
			`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}`, rawID(q.ID))})
	case q.Method == "subscriptions/listen" && chance == 7:
		s.peer.Say(&jsonrpc.Request{Method: "notifications/cancelled", Params: fmt.Appendf(nil, `{"requestId":%s}`, rawID(q.ID))})
	case chance < 3: // never
	case chance == 3:
		s.peer.Say(&jsonrpc.Response{ID: q.ID, Error: &jsonrpc.Error{Code: int64(s.peer.Number), Message: "no"}})
	case chance == 4:
		s.peer.Reply(q.ID, token)
		s.peer.Reply(q.ID, token)
	default:
		s.peer.Reply(q.ID, token)
	}
}

// read is the client's side of the messages. It answers what it is asked.
func (r *rush) read() {
	var replies sync.WaitGroup
	defer replies.Wait()
	for {
		m, err := r.conn.Read(context.Background())
		if err != nil {
			r.readErr = err
			return
		}
		r.reads = append(r.reads, m)
		if q, ok := m.(*jsonrpc.Request); ok && q.IsCall() {
			replies.Go(func() { _ = r.conn.Write(context.Background(), &jsonrpc.Response{ID: q.ID, Result: []byte(`{}`)}) })
		}
	}
}

// run is the walk of a writer.
func (w *rushWriter) run(r *rush, number int) {
	methods := []string{"tools/call", "tools/list", "resources/read", "prompts/get", "ping", "ping", "subscriptions/listen"}
	for i := range r.length {
		if w.rng.IntN(r.hurry) == 0 {
			time.Sleep(time.Duration(w.rng.IntN(8)) * time.Millisecond)
		}
		switch chance := w.rng.IntN(20); {
		case chance < 12:
			c := &rushCall{name: fmt.Sprintf("%d-%d", number, i), method: methods[w.rng.IntN(len(methods))], ctx: context.Background()}
			c.id, _ = jsonrpc.MakeID(c.name)
			if w.rng.IntN(3) == 0 {
				ctx, cancel := context.WithTimeout(c.ctx, time.Duration(w.rng.IntN(12))*time.Millisecond)
				defer cancel()
				c.ctx = ctx
			}
			w.calls = append(w.calls, c)
			c.err = r.conn.Write(c.ctx, &jsonrpc.Request{ID: c.id, Method: c.method, Params: fmt.Appendf(nil, `{"name":%q}`, c.name)})
		case chance < 15 && len(w.calls) > 0:
			c := w.calls[w.rng.IntN(len(w.calls))]
			c.cancelled = true
			_ = r.conn.Write(context.Background(), &jsonrpc.Request{Method: "notifications/cancelled", Params: fmt.Appendf(nil, `{"requestId":%q}`, c.name)})
		case chance < 17:
			q := &request{n: firstID + 1000*number + i}
			if s, err := r.tr.Listen(context.Background(), q.listenParams(), func(*jsonrpc.Request) {}); err == nil {
				w.streams = append(w.streams, s)
			}
		case chance < 18 && len(w.streams) > 0:
			_ = w.streams[w.rng.IntN(len(w.streams))].Close()
		default:
			_ = r.conn.Write(context.Background(), &jsonrpc.Request{Method: "notifications/roots/list_changed"})
		}
	}
}

// judge looks at what must hold whatever has happened.
func (r *rush) judge() {
	calls := map[jsonrpc.ID]*rushCall{}
	for _, w := range r.writers {
		for _, c := range w.calls {
			calls[c.id] = c
		}
		for _, s := range w.streams {
			done, cancel := context.WithCancel(context.Background())
			cancel()
			if err := s.Await(done); errors.Is(err, context.Canceled) {
				r.wrong("S2: a stream is still open behind Close")
			}
		}
	}
	for _, m := range r.reads {
		a, ok := m.(*jsonrpc.Response)
		if !ok {
			continue
		}
		if c := calls[a.ID]; c != nil {
			c.answers = append(c.answers, a)
		} else {
			r.wrong("W7: an answer to %v, which was not called", a.ID.Raw())
		}
	}
	var replayed []*rushCall
	for _, s := range r.servers { // in the order of their mints
		replayed = r.judgeReplay(calls, s, replayed)
	}
	for _, w := range r.writers {
		for _, c := range w.calls {
			r.judgeCall(c)
		}
	}
	now, most := r.fleet.Alive()
	if now != 0 || most > 1 {
		r.wrong("D4: %d peers alive, %d at once", now, most)
	}
	if r.readErr == nil {
		r.wrong("W2: Read goes on behind Close")
	}
	r.judgeLife()
}

// judgeReplay notes what a peer took, and holds its replay to that of the peer before: calls in the same order,
// then streams in the same order. It returns the replay.
func (r *rush) judgeReplay(calls map[jsonrpc.ID]*rushCall, s *rushServer, before []*rushCall) (replayed []*rushCall) {
	for _, m := range s.peer.Got() {
		q, ok := m.(*jsonrpc.Request)
		if !ok || !q.IsCall() {
			continue
		}
		c := calls[q.ID]
		if c == nil {
			continue // of Listen
		}
		if want := fmt.Sprintf(`{"name":%q}`, c.name); string(q.Params) != want || q.Method != c.method {
			r.wrong("Q2: %s was sent as %s %s", c.name, q.Method, q.Params)
		}
		if len(c.takers) > 0 {
			if c.takers[len(c.takers)-1] == s.peer.Number {
				r.wrong("Q6: peer %d got %s twice", s.peer.Number, c.name)
			}
			replayed = append(replayed, c)
		}
		c.takers = append(c.takers, s.peer.Number)
	}
	if !slices.IsSortedFunc(replayed, func(a, b *rushCall) int { return cmp.Compare(rank(a), rank(b)) }) {
		r.wrong("R1: peer %d got a stream before a call: %v", s.peer.Number, names(replayed))
	}
	common := func(of, in []*rushCall) []*rushCall {
		return slices.DeleteFunc(slices.Clone(of), func(c *rushCall) bool { return !slices.Contains(in, c) })
	}
	if a, b := common(before, replayed), common(replayed, before); !slices.Equal(a, b) {
		r.wrong("Q2: the order of %v was that of %v before", names(b), names(a))
	}
	return replayed
}

func rank(c *rushCall) int {
	if c.stream() {
		return 1
	}
	return 0
}

func names(calls []*rushCall) (names []string) {
	for _, c := range calls {
		names = append(names, c.name)
	}
	return names
}

// judgeCall holds a call to W7 and Q.
func (r *rush) judgeCall(c *rushCall) {
	said := fmt.Sprintf("%s %s (Write: %v, cancelled: %v, taken by %v)", c.name, c.method, c.err, c.cancelled, c.takers)
	switch {
	case len(c.takers) > 1 && !c.stream() && !r.kept(c):
		r.wrong("Q3: %s was sent again", said)
		return
	case len(c.answers) > 1:
		r.wrong("W7: %s has %d answers", said, len(c.answers))
		return
	case c.err != nil && len(c.answers) > 0:
		r.wrong("W7: %s is answered", said)
		return
	case len(c.answers) == 0:
		if c.err == nil && !c.stream() { // a stream may have been cancelled by either side
			r.wrong("W7: %s is not answered", said)
		}
		return
	}
	a := c.answers[0]
	last := -1
	if len(c.takers) > 0 {
		last = c.takers[len(c.takers)-1]
	}
	var e *jsonrpc.Error
	switch {
	case a.Error == nil && string(a.Result) == "{}" && c.method == "ping":
	case a.Error == nil:
		if string(a.Result) != fmt.Sprintf(`{"peer":%d}`, last) {
			r.wrong("Q6: %s has the answer %s", said, a.Result)
		}
	case errors.Is(a.Error, supervised.ErrPeerLost) || errors.Is(a.Error, supervised.ErrClosed):
		if r.kept(c) && !c.cancelled && !r.drains && !errors.Is(a.Error, supervised.ErrClosed) {
			r.wrong("Q2: %s was to be kept and has failed: %v", said, a.Error)
		}
	case errors.As(a.Error, &e) && e.Code != -32005:
		if e.Code != int64(last) {
			r.wrong("Q6: %s was refused by peer %d", said, e.Code)
		}
	case errors.As(a.Error, &e): // the transport rejected it in a replay
	case c.cancelled && errors.Is(a.Error, context.Canceled):
	case c.ctx.Err() != nil && errors.Is(a.Error, c.ctx.Err()):
	default:
		r.wrong("W7: %s has failed: %v", said, a.Error)
	}
}

// kept reports whether a call outlives its peer.
func (r *rush) kept(c *rushCall) bool {
	return r.keeps && slices.Contains([]string{"tools/list", "resources/read", "prompts/get"}, c.method)
}

// judgeLife holds the transitions and the hooks to D3, C4 and B.
func (r *rush) judgeLife() {
	served, spent, withdrawn := 0, 0, 0
	for _, t := range r.steps {
		switch {
		case t.To == supervised.StateServing:
			served++
		case t.To == supervised.StateRespawnPending && t.Event != supervised.EventRestart:
			spent++
		case t.To == supervised.StateClosed && t.From != supervised.StateServing && slices.Contains(t.Hooks, "onClose"):
			withdrawn++
		}
	}
	if r.closes != served+withdrawn {
		r.wrong("D3, C4: OnClose was called %d times for %d connections that served and %d that were withdrawn", r.closes, served, withdrawn)
	}
	if spent > r.max {
		r.wrong("B2: %d restarts of a budget of %d", spent, r.max)
	}
}
