package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/retry"
)

// A supervisor is a supervised echo child in a mode with a process id, whose deaths cost nothing: each is granted a
// replacement, at once.
type supervisor struct {
	*supervised.Transport
	conn mcp.Connection
	next int // the id of the next request

	connected   time.Time      // when the newest connection was; before that is told of in reconnected
	closed      chan time.Time // gets when OnClose was called
	reconnected chan time.Time // gets when OnReconnect was called
}

// unlimited is a budget that grants everything.
type unlimited struct{}

func (unlimited) Spend(budget.Death) (budget.Grant, bool) { return budget.Grant{}, true }

func supervise(echo, mode string) (*supervisor, error) {
	s := &supervisor{next: 2 * firstID, closed: make(chan time.Time, 1), reconnected: make(chan time.Time, 1)}
	factory := func(ctx context.Context) (mcp.Transport, error) {
		t, err := recipe(echo, mode).Mint(ctx)
		return &stamped{t, &s.connected}, err
	}
	keepAll := retry.PolicyFunc(func(*jsonrpc.Request) bool { return true })
	var err error
	s.Transport, err = supervised.New(factory, supervised.WithBudget(unlimited{}), supervised.WithRetryPolicy(keepAll))
	if err != nil {
		return nil, err
	}
	s.OnClose(func(error) {
		select {
		case s.closed <- time.Now():
		default: // of Close
		}
	})
	s.OnReconnect(func(context.Context) error {
		s.reconnected <- time.Now()
		return nil
	})
	s.conn, err = s.Connect(context.Background())
	return s, err
}

// A stamped transport notes when it was connected. The connection is the one that it wraps, as it is.
type stamped struct {
	mcp.Transport
	connected *time.Time
}

func (t *stamped) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	*t.connected = time.Now()
	return c, err
}

// ask makes a call and returns its result.
func (s *supervisor) ask(method, params string) (json.RawMessage, error) {
	s.next++
	r := &jsonrpc.Request{ID: newID(s.next), Method: method, Params: json.RawMessage(params)}
	if err := s.conn.Write(context.Background(), r); err != nil {
		return nil, err
	}
	m, err := s.conn.Read(context.Background())
	if err != nil {
		return nil, err
	}
	a, ok := m.(*jsonrpc.Response)
	switch {
	case !ok || a.ID != r.ID:
		return nil, fmt.Errorf("%s: got %v", method, m)
	case a.Error != nil:
		return nil, a.Error
	}
	return a.Result, nil
}

// number makes a call whose result is a number.
func (s *supervisor) number(method string) (n int, err error) {
	result, err := s.ask(method, `{}`)
	if err == nil {
		err = json.Unmarshal(result, &n)
	}
	return n, err
}

// The handshake of a session before 2026-07-28.
const (
	hello       = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`
	initialize  = `{"jsonrpc":"2.0","id":1000000,"method":"initialize","params":` + hello + "}\n"
	initialized = "notifications/initialized"
)

func (s *supervisor) shakeHands() error {
	if _, err := s.ask("initialize", hello); err != nil {
		return err
	}
	return s.conn.Write(context.Background(), &jsonrpc.Request{Method: initialized})
}

// hold makes n calls that are never answered.
func (s *supervisor) hold(n int) error {
	params := json.RawMessage(`{"uri":"file:///srv/notes/today.md"}`)
	for i := range n {
		r := &jsonrpc.Request{ID: newID(firstID + i), Method: "hold", Params: params}
		if err := s.conn.Write(context.Background(), r); err != nil {
			return err
		}
	}
	return s.holds(n)
}

// holds makes sure that the child has n calls that it does not answer, no more and no less.
func (s *supervisor) holds(n int) error {
	held, err := s.number("held")
	if err == nil && held != n {
		err = fmt.Errorf("the child holds %d calls, want %d", held, n)
	}
	return err
}

// A life is how one death and the replacement after it went.
type life struct {
	killed, closed, connected, reconnected time.Time
}

// kill kills the child and waits for the next.
func (s *supervisor) kill() (l life, err error) {
	pid, err := s.number("pid")
	if err != nil {
		return l, err
	}
	l.killed = time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return l, err
	}
	l.closed, l.reconnected = <-s.closed, <-s.reconnected
	l.connected = s.connected
	return l, nil
}

// lots is a contender that is measured a number of times in each turn; what counts is the median of those.
func lots(name string, turn func(n int) ([]time.Duration, error)) Contender {
	return Contender{Name: name, Turn: func(pace Pace) (Sample, error) {
		times, err := turn(pace.Lots)
		if err != nil {
			return Sample{}, err
		}
		slices.Sort(times)
		return Sample{Nanos: float64(times[len(times)/2])}, nil
	}}
}

// lives kills the child of one supervisor n times.
func lives(echo string, prepare func(*supervisor) error, between func(life) time.Duration) func(n int) ([]time.Duration, error) {
	return func(n int) (times []time.Duration, err error) {
		s, err := supervise(echo, "old")
		if err != nil {
			return nil, err
		}
		defer s.Close()
		if err := prepare(s); err != nil {
			return nil, err
		}
		for range n {
			l, err := s.kill()
			if err != nil {
				return nil, err
			}
			times = append(times, between(l))
		}
		return times, nil
	}
}

// deathContest: how soon is a death known?
func deathContest(children *Children) *Contest {
	return &Contest{Name: "death", Contenders: []Contender{
		lots("Wait", func(n int) (times []time.Duration, err error) {
			for range n {
				d, err := waited(children.Echo)
				if err != nil {
					return nil, err
				}
				times = append(times, d)
			}
			return times, nil
		}),
		lots(string(Supervised), lives(children.Echo, func(*supervisor) error { return nil },
			func(l life) time.Duration { return l.closed.Sub(l.killed) })),
	}}
}

// waited is the time from SIGKILL to the return of Wait, which was waiting.
func waited(echo string) (time.Duration, error) {
	cmd, in, out, err := startPiped(echo, "old")
	if err != nil {
		return 0, err
	}
	defer in.Close()
	defer out.Close()
	if err := answersInitialize(in, out); err != nil {
		return 0, err
	}
	returned := make(chan time.Time, 1)
	go func() {
		_ = cmd.Wait() // killed
		returned <- time.Now()
	}()
	time.Sleep(time.Millisecond) // so that it waits: no more can be observed of it
	killed := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		return 0, err
	}
	return (<-returned).Sub(killed), nil
}

// answersInitialize sends initialize and waits for the answer.
func answersInitialize(in io.Writer, out io.Reader) error {
	if _, err := in.Write([]byte(initialize)); err != nil {
		return err
	}
	var answer []byte
	for chunk := make([]byte, 4<<10); !bytes.HasSuffix(answer, []byte("\n")); {
		n, err := out.Read(chunk)
		if err != nil {
			return err
		}
		answer = append(answer, chunk[:n]...)
	}
	if !bytes.Contains(answer, []byte("protocolVersion")) {
		return fmt.Errorf("initialize: got %q", answer)
	}
	return nil
}

// restartContest: how soon is there a replacement that knows the client?
func restartContest(children *Children) *Contest {
	return &Contest{Name: "restart", Contenders: []Contender{
		lots("fork, exec, initialize", func(n int) (times []time.Duration, err error) {
			for range n {
				d, err := started(children.Echo)
				if err != nil {
					return nil, err
				}
				times = append(times, d)
			}
			return times, nil
		}),
		lots(string(Supervised), lives(children.Echo, (*supervisor).shakeHands,
			func(l life) time.Duration { return l.reconnected.Sub(l.closed) })),
	}}
}

// started is the time of a start up to the answer to initialize.
func started(echo string) (time.Duration, error) {
	start := time.Now()
	cmd, in, out, err := startPiped(echo, "old")
	if err != nil {
		return 0, err
	}
	defer out.Close()
	err = answersInitialize(in, out)
	took := time.Since(start)
	_ = in.Close()
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	return took, err
}

// The numbers of calls that are compared.
const (
	few      = 10
	fair     = 10_000
	plenty   = 100_000
	inFlight = "%d in flight"
	kept     = "%d kept"
)

// flightContest: does a round trip notice the calls that are in flight?
func flightContest(children *Children) *Contest {
	c := &Contest{Name: "round trip, calls in flight"}
	for _, n := range []int{few, plenty} {
		c.Contenders = append(c.Contenders, repeated(fmt.Sprintf(inFlight, n), func() (*Session, error) {
			s, err := supervise(children.Echo, "hold")
			if err != nil {
				return nil, err
			}
			m := newMessages(small, 16)
			for i, r := range m.requests {
				r.ID = newID(3*firstID + i)
			}
			link := &connection{conn: s.conn, messages: m, closeConn: s.Close}
			err = s.hold(n)
			if err == nil {
				err = link.verify()
			}
			if err != nil {
				s.Close()
				return nil, err
			}
			return &Session{Run: link.pingPong, Close: link.close}, nil
		}))
	}
	return c
}

// replayContest: how long does a replay take? That is from the replacement's being connected to OnReconnect.
func replayContest(children *Children) *Contest {
	c := &Contest{Name: "replay"}
	for _, n := range []int{fair, plenty} {
		c.Contenders = append(c.Contenders, Contender{Name: fmt.Sprintf(kept, n), Turn: func(Pace) (Sample, error) {
			s, err := supervise(children.Echo, "hold")
			if err != nil {
				return Sample{}, err
			}
			defer s.Close()
			if err := s.hold(n); err != nil {
				return Sample{}, err
			}
			l, err := s.kill()
			if err != nil {
				return Sample{}, err
			}
			return Sample{Nanos: float64(l.reconnected.Sub(l.connected))}, s.holds(n)
		}})
	}
	return c
}
