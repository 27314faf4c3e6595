//go:build unix

package chaostest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/retry"
	"github.com/seed7990db67/supervised/stdio"
)

// A Round is one transport, its session, and all that is done to them. A zero value stands for the default, where one is given.
type Round struct {
	Dir     string // for the books; it must exist
	Seed    uint64
	Old     bool // a protocol before 2026-07-28
	Deaths  int  // how many servers that served have to die
	Calls   int  // how many calls have to be written to one
	Callers int  // 0: 64
	PerLife int  // requests that a life sees, in the mean; 0: Calls over Deaths

	Pace           time.Duration // between two calls of all callers together; 0: none
	Stop           <-chan struct{}
	ConnectTimeout time.Duration // 0: 1s

	policy retry.Policy // nil: retry.ReadOnly; another one is a fault that has to be found
}

// Figures are what a round, or several, came to.
type Figures struct {
	Rounds        int
	Calls         int            // that were written
	Refused       int            // that were refused while no server was up, and never sent
	Ends          map[string]int // of calls, by what they ended with
	Deaths        int            // of servers that served
	Attempts      int            // to replace one, that failed
	Faults        map[string]int // by name, as they were planned for the lives that there were
	Executions    int            // in the ledger
	Resent        int            // executions of a kept read beyond its first
	Notifications int            // that were sent to somebody who listens
	Delivered     int
	Owed          int // of those that were sent, how many had to be delivered
	Upcalls       int // requests of servers to the client
}

// patience is for what works in milliseconds.
const patience = time.Minute

// A run is a round under way.
type run struct {
	Round
	*book
	token     string
	self      string
	transport *supervised.Transport
	session   *mcp.ClientSession
	killer    *killer
	anchors   *anchors

	planMu sync.Mutex
	chance *rand.Rand
	lives  int
	faults map[string]int

	number  atomic.Int64 // of the last call
	written atomic.Int64
	refused atomic.Int64
	deaths  atomic.Int64
	failed  atomic.Int64
	closing atomic.Bool
	enough  chan struct{} // closed when deaths and calls are reached
	once    sync.Once

	mu     sync.Mutex
	faulty []error // what should not have happened
}

// Gauges are what can be watched while a round runs.
type Gauges struct{ Calls, Deaths func() int }

// run runs the round. The error says all that was wrong.
func (o Round) run(anchors *anchors, watch func(Gauges)) (Figures, error) {
	if o.Callers == 0 {
		o.Callers = 64
	}
	if o.PerLife == 0 {
		o.PerLife = max(1, o.Calls/max(1, o.Deaths))
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = time.Second
	}
	if o.policy == nil {
		o.policy = retry.ReadOnly
	}
	self, err := os.Executable()
	if err != nil {
		return Figures{}, err
	}
	r := &run{
		Round: o, self: self, anchors: anchors,
		token:  fmt.Sprintf("chaos-token-%d-%x", os.Getpid(), rand.Uint64()),
		chance: rand.New(rand.NewPCG(o.Seed, 0)), faults: make(map[string]int), enough: make(chan struct{}),
	}
	return r.run(watch)
}

func (r *run) run(watch func(Gauges)) (Figures, error) {
	var err error
	if r.book, err = openBook(r.path("book")); err != nil {
		return Figures{}, err
	}
	for _, name := range []string{"ledger", "lock"} {
		if err := os.WriteFile(r.path(name), nil, 0o600); err != nil {
			return Figures{}, err
		}
	}
	if err := os.WriteFile(r.path("broken"), []byte("\x7fELF of no use"), 0o700); err != nil {
		return Figures{}, err
	}
	if err := r.connect(); err != nil {
		return Figures{}, err
	}
	if watch != nil {
		watch(Gauges{
			Calls:  func() int { return int(r.written.Load()) },
			Deaths: func() int { return int(r.deaths.Load()) },
		})
	}
	streams := r.listen()
	var callers sync.WaitGroup
	for i := range r.Callers {
		callers.Go(func() { r.caller(uint64(i)) })
	}
	if !r.Old {
		callers.Go(r.comesAndGoes)
	}
	r.await()
	r.close(streams, &callers)
	return r.judge()
}

func (r *run) path(name string) string { return filepath.Join(r.Dir, name) }

func (r *run) wrong(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faulty) < 50 {
		r.faulty = append(r.faulty, fmt.Errorf(format, args...))
	}
}

// boundless is a budget that never ends, with a delay that varies.
type boundless struct {
	mu     sync.Mutex
	chance *rand.Rand
}

func (b *boundless) Spend(budget.Death) (budget.Grant, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return budget.Grant{Delay: time.Duration(b.chance.IntN(5)) * time.Millisecond}, true
}

func (r *run) connect() error {
	log := logrus.New()
	log.SetOutput(io.Discard)
	t, err := supervised.New(r.anchors.factory(r.mint),
		supervised.WithBudget(&boundless{chance: rand.New(rand.NewPCG(r.Seed, 2))}),
		supervised.WithRetryPolicy(r.policy),
		supervised.WithConnectTimeout(r.ConnectTimeout),
		supervised.WithStreamBuffer(1<<20),
		supervised.WithLogger(log),
	)
	if err != nil {
		return err
	}
	r.transport = t
	if r.killer, err = newKiller(r.token, r.path("s"), r.Seed, t); err != nil {
		return err
	}
	t.OnTransition(func(tr supervised.Transition) {
		switch {
		case tr.Event == supervised.EventConnectFailed:
			r.failed.Add(1)
		}
	})
	t.OnClose(func(cause error) {
		if cause != nil {
			r.deaths.Add(1)
			r.progress()
		}
	})
	client := mcp.NewClient(&mcp.Implementation{Name: "chaos", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, n *mcp.ResourceUpdatedNotificationRequest) { r.note("d %s", n.Params.URI) },
	})
	options := &mcp.ClientSessionOptions{}
	if r.Old {
		options.ProtocolVersion = "2025-06-18"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.session, err = client.Connect(ctx, &tap{t, r.book}, options)
	return err
}

// mint is the factory.
func (r *run) mint(ctx context.Context, log logrus.FieldLogger) (mcp.Transport, error) {
	r.planMu.Lock()
	p := draw(r.chance, r.lives, r.PerLife)
	r.lives++
	if p.Birth != "" {
		r.faults[string(p.Birth)]++
	}
	for _, m := range p.On {
		r.faults[string(m.Fault)]++
	}
	r.planMu.Unlock()
	p.Old, p.Token, p.Ledger, p.Lock, p.Socket = r.Old, r.token, r.path("ledger"), r.path("lock"), r.path("s")
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	args := []string{r.self, roleServer, r.token, string(text)}
	switch p.Birth {
	case MintFails:
		return nil, errors.New("chaos: the factory fails")
	case MintHangs:
		<-ctx.Done()
		return nil, ctx.Err()
	case StartFails:
		args = []string{r.path("broken")}
	}
	return stdio.Command{
		Args: args, Logger: log, MaxLine: 1 << 20, StopGrace: 100 * time.Millisecond,
		// A collection in a server may wait a minute for a line that nobody writes (docs/reliability.md): there is none
		// until the heap is large.
		Env: []string{"GORACE=atexit_sleep_ms=0", "GOGC=off", "GOMEMLIMIT=256MiB"},
	}.Mint(ctx)
}

// progress looks whether the round has what it is to have.
func (r *run) progress() {
	if r.Stop == nil && int(r.deaths.Load()) >= r.Deaths && int(r.written.Load()) >= r.Calls {
		r.once.Do(func() { close(r.enough) })
	}
}

// await waits for the end of the round, and notices when nothing moves any more.
func (r *run) await() {
	last := int64(-1)
	for {
		timer := time.NewTimer(patience)
		select {
		case <-r.enough:
		case <-r.Stop:
		case <-timer.C:
			if now := r.written.Load(); now != last {
				last = now
				continue
			}
			r.wrong("nothing moves: %+v\n%s", r.transport.Stats(), stacks())
		}
		timer.Stop()
		return
	}
}

// close ends the round at any moment of the lifecycle, with calls in flight.
func (r *run) close(streams []*supervised.Stream, callers *sync.WaitGroup) {
	r.settle()
	r.killer.pause(0, 30*time.Millisecond)
	r.closing.Store(true)
	if err := r.transport.Close(); err != nil {
		r.wrong("Close: %v", err)
	}
	if now := reachable(r.token); len(now) > 0 {
		r.wrong("processes that live after Close: %v", now)
	}
	r.killer.stop()
	r.killer.sweep()
	for deadline := time.Now().Add(patience); len(left(r.token)) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.wrong("processes that live after the killer: %v", left(r.token))
			break
		}
	}
	done := make(chan struct{})
	go func() { callers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		r.wrong("callers still wait a minute after Close\n%s", stacks())
	}
	for _, s := range streams {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := s.Await(ctx); !errors.Is(err, supervised.ErrClosed) {
			r.wrong("Await after Close: %v", err)
		}
		cancel()
	}
	ended := make(chan error, 1)
	go func() { ended <- r.session.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			r.wrong("the session ended with %v", err)
		}
	case <-time.After(patience):
		r.wrong("the session still waits a minute after Close\n%s", stacks())
	}
	_ = r.session.Close() // behind Wait: the SDK takes the answer of a handler that it refuses for why the session ended
	if s := r.transport.Stats(); s.InFlight != 0 || s.Streams != 0 || s.State != supervised.StateClosed {
		r.wrong("after Close: %+v", s)
	}
}

// settle waits until streams of our own were delivered all that was owed when it was called: Close ends them at once,
// with what their handlers have not got yet.
func (r *run) settle() {
	r.note("s")
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		b, err := r.books()
		if err != nil {
			r.wrong("books: %v", err)
			return
		}
		if len(b.missing(ownFeed)) == 0 {
			return
		}
	}
}

// listen opens the streams that stay.
func (r *run) listen() []*supervised.Stream {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range 2 {
		params := &mcp.SubscribeParams{URI: "chaos://sdk-" + strconv.Itoa(i)}
		for {
			err := r.session.Subscribe(ctx, params)
			if err == nil {
				break
			}
			if !errors.Is(err, mcp.ErrConnectionClosed) {
				r.wrong("Subscribe: %v", err)
				return nil
			}
			_ = r.session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: params.URI}) // else the SDK takes it for subscribed
			_ = r.transport.WaitServing(ctx)
		}
	}
	if r.Old {
		return nil
	}
	var streams []*supervised.Stream
	for i := range 2 {
		if s := r.stream(ctx, ownFeed+strconv.Itoa(i)); s != nil {
			streams = append(streams, s)
		}
	}
	return streams
}

// stream opens a stream, as soon as a server is up; nil: none is any more.
func (r *run) stream(ctx context.Context, uri string) *supervised.Stream {
	for {
		s, err := r.transport.Listen(ctx, &mcp.SubscriptionsListenParams{
			Notifications: &mcp.NotificationSubscriptions{ResourceSubscriptions: []string{uri}},
		}, func(n *jsonrpc.Request) {
			var p struct{ URI string }
			if err := json.Unmarshal(n.Params, &p); err != nil || !strings.HasPrefix(p.URI, uri+"/") {
				r.wrong("stream %s was delivered %s", uri, n.Params)
			}
			r.note("d %s", p.URI)
		})
		switch {
		case err == nil:
			return s
		case !errors.Is(err, supervised.ErrReconnecting):
			if !r.closing.Load() {
				r.wrong("Listen: %v", err)
			}
			return nil
		case r.transport.WaitServing(ctx) != nil:
			return nil
		}
	}
}

// comesAndGoes opens and closes streams, one after the other.
func (r *run) comesAndGoes() {
	ctx := context.Background()
	for i := 0; !r.over(); i++ {
		s := r.stream(ctx, passingFeed+strconv.Itoa(i))
		if s == nil {
			return
		}
		r.killer.pause(time.Millisecond, 200*time.Millisecond)
		_ = s.Close()
		if err := s.Await(ctx); !errors.Is(err, supervised.ErrStreamClosed) && !errors.Is(err, supervised.ErrClosed) {
			r.wrong("Await after Close of a stream: %v", err)
		}
	}
}

func (r *run) over() bool { return r.closing.Load() }
