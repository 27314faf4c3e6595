package supervised_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

var stormSeed = flag.Uint64("storm.seed", 0, "the seed of TestC1_Storm; 0: a new one")

// Close against everything at once, in real time. The seed fixes what is done; the scheduler decides when.
func TestC1_Storm(t *testing.T) {
	seed, storms := *stormSeed, int64(1000)
	if seed == 0 {
		seed = rand.Uint64()
	}
	if testing.Short() {
		storms = 100
	}
	t.Logf("to repeat: -run TestC1_Storm -storm.seed %d", seed)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := next.Add(1); i <= storms && !t.Failed(); i = next.Add(1) {
				newStorm(t, seed, i).rage()
			}
		})
	}
	workers.Wait()
}

// A storm is a transport over peers that misbehave, with callers that do everything at once.
type storm struct {
	testing.TB
	name  string
	fleet peertest.Fleet
	tr    *supervised.Transport

	over atomic.Bool   // a Close has returned
	hold chan struct{} // closed then: what hooks that block wait for

	drains   atomic.Int32
	nextID   atomic.Int64
	mu       sync.Mutex
	rng      *rand.Rand
	owed     map[int64]int // by call: 1 where Write returned nil
	answered map[int64]int
}

func newStorm(t testing.TB, seed uint64, i int64) *storm {
	s := &storm{
		TB:       t,
		name:     fmt.Sprintf("-storm.seed %d, storm %d", seed, i),
		rng:      rand.New(rand.NewPCG(seed, uint64(i))),
		hold:     make(chan struct{}),
		owed:     map[int64]int{},
		answered: map[int64]int{},
	}
	s.fleet.OnMint, s.fleet.OnStart = s.mint, s.start
	opts := []supervised.Option{
		supervised.WithMaxRestarts(1 + s.roll(5)),
		supervised.WithRestartWindow(time.Duration(1 + s.roll(int(2*time.Millisecond)))),
		supervised.WithRestartDelay(s.moment()),
		supervised.WithDrainTimeout(time.Millisecond + s.moment()),
		supervised.WithConnectTimeout(5 * time.Millisecond),
	}
	if s.odds(2) {
		opts = append(opts, keeping)
	}
	tr, err := supervised.New(s.fleet.Mint, opts...)
	if err != nil {
		t.Fatal(err)
	}
	s.tr = tr
	return s
}

// roll is a number under n.
func (s *storm) roll(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// odds is true one time in n.
func (s *storm) odds(n int) bool { return s.roll(n) == 0 }

// moment is a short time, often none.
func (s *storm) moment() time.Duration {
	if s.odds(2) {
		return 0
	}
	return time.Duration(s.roll(300)) * time.Microsecond
}

// dither takes a moment.
func (s *storm) dither() { time.Sleep(s.moment()) }

func (s *storm) mint(ctx context.Context, p *peertest.Peer) error {
	if s.over.Load() && ctx.Err() == nil {
		s.Errorf("%s: C1: a peer is minted after Close", s.name)
	}
	p.Process = s.odds(2)
	if s.odds(3) {
		p.OnClose = func() error { s.dither(); return errCrash }
	}
	if s.odds(3) {
		p.OnKill = func() error { s.dither(); return nil }
	}
	if s.odds(12) {
		p.OnWrite = func(ctx context.Context, _ jsonrpc.Message) error {
			select {
			case <-p.Closed():
				return io.ErrClosedPipe
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	if s.odds(2) {
		p.Answer = func(r *jsonrpc.Request) *jsonrpc.Response { return &jsonrpc.Response{ID: r.ID, Result: []byte("{}")} }
	}
	return s.comeUp(ctx)
}

func (s *storm) start(ctx context.Context, _ *peertest.Peer) error {
	if s.over.Load() {
		s.Errorf("%s: C1: a peer is started after Close", s.name)
	}
	return s.comeUp(ctx)
}

// comeUp is a step of a peer that comes up, or does not.
func (s *storm) comeUp(ctx context.Context) error {
	switch s.roll(24) {
	case 0:
		return errors.New("does not come up")
	case 1:
		<-ctx.Done()
		return ctx.Err()
	case 2:
		time.Sleep(time.Millisecond) // whatever its context says
	case 3:
		s.dither()
	}
	return nil
}

// hook is what a hook does.
func (s *storm) hook(conn func() mcp.Connection) {
	switch s.roll(60) {
	case 0:
		s.tr.Close()
	case 1:
		if c := conn(); c != nil {
			c.Close()
		}
	case 2:
		if c := conn(); c != nil {
			c.Close()
		}
		s.tr.Close()
	case 3:
		_ = s.tr.Restart(errCrash)
	case 4:
		<-s.hold
	case 5:
		panic("a hook that panics")
	case 6:
		runtime.Goexit()
	default:
		s.dither()
	}
}

func (s *storm) rage() {
	watchdog := time.AfterFunc(time.Minute, func() {
		buf := make([]byte, 16<<20)
		panic(fmt.Sprintf("%s: stuck\n\n%s", s.name, buf[:runtime.Stack(buf, true)]))
	})
	defer watchdog.Stop()

	var connected atomic.Pointer[mcp.Connection]
	conn := func() mcp.Connection {
		if c := connected.Load(); c != nil {
			return *c
		}
		return nil
	}
	s.tr.OnClose(func(error) { s.hook(conn) })
	s.tr.OnError(func(error) { s.hook(conn) })
	s.tr.OnReconnect(func(context.Context) error { s.hook(conn); return errCrash })
	s.tr.OnTransition(func(supervised.Transition) { s.hook(conn) })
	s.tr.OnDrain(func(ctx context.Context) {
		if s.drains.Add(1) > 1 {
			s.Errorf("%s: C5: drained twice", s.name)
		}
		if s.odds(2) {
			<-ctx.Done()
		}
	})

	var actors sync.WaitGroup
	actors.Go(func() {
		s.dither()
		c, err := s.connect()
		if err != nil {
			return
		}
		connected.Store(&c)
		for range 1 + s.roll(3) {
			actors.Go(func() { s.write(c) })
		}
		s.read(c)
	})
	actors.Go(func() { s.kill() })
	actors.Go(func() {
		for !s.over.Load() {
			s.dither()
			if s.odds(4) {
				_ = s.tr.Restart(errCrash)
			}
			_, _, _ = s.tr.Stats(), s.tr.Reconnecting(), s.tr.Err()
			runtime.Gosched()
		}
	})
	began := time.Duration(s.roll(10000)) * time.Microsecond
	for range 1 + s.roll(4) {
		actors.Go(func() {
			time.Sleep(began)
			s.dither()
			if c := conn(); c != nil && s.odds(3) {
				c.Close()
			}
			s.close()
		})
	}
	actors.Wait()
	s.settle()
}

// connect calls Connect until it succeeds or is refused for good.
func (s *storm) connect() (mcp.Connection, error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		c, err := s.tr.Connect(ctx)
		cancel()
		if err == nil || errors.Is(err, supervised.ErrClosed) {
			return c, err
		}
	}
}

// close calls Close, and holds it to what it says.
func (s *storm) close() {
	_ = s.tr.Close()
	if now, _ := s.fleet.Alive(); now != 0 {
		s.Errorf("%s: C1: %d peers alive when Close has returned", s.name, now)
	}
	select {
	case <-s.tr.Done():
	default:
		s.Errorf("%s: C5: Done is open when Close has returned", s.name)
	}
	if state := s.tr.State(); state != supervised.StateClosed || s.tr.Reconnecting() {
		s.Errorf("%s: C1: state %v, promised %v when Close has returned", s.name, state, s.tr.Reconnecting())
	}
	if !s.over.Swap(true) {
		close(s.hold)
	}
}

func (s *storm) kill() {
	for !s.over.Load() {
		time.Sleep(time.Duration(s.roll(500)) * time.Microsecond)
		if s.fleet.Minted() == 0 {
			continue
		}
		switch p := s.fleet.Last(); s.roll(3) {
		case 0:
			p.Hangup(io.EOF)
		case 1:
			p.Hangup(errCrash)
		case 2:
			p.Exit(errCrash)
		}
	}
}

// write writes calls until that is refused for good.
func (s *storm) write(c mcp.Connection) {
	methods := []string{"tools/call", "tools/list", "subscriptions/listen"}
	for {
		n := s.nextID.Add(1)
		id, _ := jsonrpc.MakeID(float64(n))
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond+s.moment())
		err := c.Write(ctx, &jsonrpc.Request{ID: id, Method: methods[s.roll(len(methods))]})
		cancel()
		s.mu.Lock()
		if err == nil {
			s.owed[n] = 1
		} else {
			s.owed[n] = 0
		}
		s.mu.Unlock()
		if errors.Is(err, supervised.ErrClosed) && !errors.Is(err, supervised.ErrReconnecting) {
			return
		}
		s.dither()
	}
}

// read reads to the end.
func (s *storm) read(c mcp.Connection) {
	for {
		m, err := c.Read(context.Background())
		if err != nil {
			return
		}
		if r, ok := m.(*jsonrpc.Response); ok {
			s.mu.Lock()
			s.answered[r.ID.Raw().(int64)]++
			s.mu.Unlock()
		}
	}
}

// settle looks at what is left when all has come to its end.
func (s *storm) settle() {
	s.close() // once more
	if _, most := s.fleet.Alive(); most > 1 {
		s.Errorf("%s: D4: %d peers alive at once", s.name, most)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, owed := range s.owed {
		if got := s.answered[id]; got != owed {
			s.Errorf("%s: W7: call %d was answered %d times, want %d", s.name, id, got, owed)
		}
	}
}
