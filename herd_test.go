package supervised_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/stdio"
)

// The long form of the storms: `task storm`.
var (
	herdProcesses = flag.Bool("herd.processes", false, "run TestHerdOfProcesses, for some minutes")
	herdSeed      = flag.Uint64("herd.seed", 1, "the seed of the jitter of TestHerd and TestHerdOfProcesses")
	herdSize      = flag.Int("herd.size", 200, "how many transports")
	herdRounds    = flag.Int("herd.rounds", 5, "how often all servers of TestHerdOfProcesses die")
	herdWrite     = flag.Bool("herd.write", false, "write the figures of TestHerdOfProcesses into docs/reliability.md")
)

// pacings are the budgets that the storms are tried with. In a round all transports are at the same restart of
// their row, so its ceiling is the same for all.
var pacings = []pacing{
	{"100 ms, as by default", func(int) (budget.Budget, error) { return budget.NewSliding(1000, time.Hour, 100*time.Millisecond) }},
	{"1 s to 8 s, no jitter", func(int) (budget.Budget, error) {
		return budget.NewBackoff(time.Second, 8*time.Second, budget.WithoutJitter())
	}},
	{"1 s to 8 s, full jitter", func(i int) (budget.Budget, error) {
		return budget.NewBackoff(time.Second, 8*time.Second, budget.WithSource(rand.NewPCG(*herdSeed, uint64(i))))
	}},
}

type pacing struct {
	name string
	of   func(i int) (budget.Budget, error)
}

// A herd is many transports whose servers all die at once, again and again.
type herd struct {
	testing.TB
	members []*member
	up      chan *member // has answered a call with a new server
	slow    atomic.Int32 // servers that were not gone 5 s after they were killed (D4)
}

type member struct {
	herd      *herd
	transport *supervised.Transport
	conn      mcp.Connection
	calls     int64
	answers   chan *jsonrpc.Response

	mu     sync.Mutex
	minted []time.Time
	upAt   []time.Time // when the first answer of each server came
	pid    int         // that it told
}

// newHerd connects as many transports, each to a server of its own.
func newHerd(t testing.TB, size int, p pacing, factory func(i int) supervised.Factory) *herd {
	h := &herd{TB: t, up: make(chan *member, size)}
	for i := range size {
		b, err := p.of(i)
		if err != nil {
			t.Fatal(err)
		}
		m, mint := &member{herd: h, answers: make(chan *jsonrpc.Response)}, factory(i)
		h.members = append(h.members, m)
		m.transport, err = supervised.New(func(ctx context.Context) (mcp.Transport, error) {
			m.mu.Lock()
			m.minted = append(m.minted, time.Now())
			m.mu.Unlock()
			return mint(ctx)
		}, supervised.WithBudget(b), supervised.WithConnectTimeout(5*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		m.transport.OnError(func(err error) {
			if strings.Contains(err.Error(), "not gone") {
				h.slow.Add(1)
				return
			}
			t.Errorf("transport %d: %v", i, err)
		})
		m.transport.OnReconnect(func(context.Context) error { go m.call(); return nil })
		if m.conn, err = m.transport.Connect(context.Background()); err != nil {
			t.Fatal(err)
		}
		go m.read()
		go m.call()
	}
	return h
}

// call makes a call and waits for its answer.
func (m *member) call() {
	m.mu.Lock()
	m.calls++
	id, _ := jsonrpc.MakeID(float64(m.calls))
	m.mu.Unlock()
	if err := m.conn.Write(context.Background(), &jsonrpc.Request{ID: id, Method: "tools/call", Params: []byte(`{"name":"pid"}`)}); err != nil {
		m.herd.Errorf("a call to a new server: %v", err)
		return
	}
	answer := <-m.answers
	var result struct{ PID int }
	if err := errors.Join(answer.Error, json.Unmarshal(answer.Result, &result)); err != nil || answer.ID != id {
		m.herd.Errorf("call %v: answer %v %s: %v", id, answer.ID, answer.Result, err)
		return
	}
	m.mu.Lock()
	m.upAt = append(m.upAt, time.Now())
	m.pid = result.PID
	m.mu.Unlock()
	m.herd.up <- m
}

func (m *member) read() {
	for {
		msg, err := m.conn.Read(context.Background())
		if err != nil {
			return
		}
		if r, ok := msg.(*jsonrpc.Response); ok {
			m.answers <- r
		}
	}
}

// allUp waits until every transport has an answer from a new server.
func (h *herd) allUp(patience time.Duration) {
	h.Helper()
	deadline := time.After(patience)
	for n := range h.members {
		select {
		case <-h.up:
		case <-deadline:
			h.Fatalf("only %d of %d are up after %v", n, len(h.members), patience)
		}
	}
}

// storm has all servers die, in as many rounds, each when all are up, and returns the figures of each.
func (h *herd) storm(rounds int, patience time.Duration, kill func(i int, m *member)) (figures []figure) {
	h.Helper()
	h.allUp(patience)
	for round := 1; round <= rounds; round++ {
		died := time.Now()
		for i, m := range h.members {
			kill(i, m)
		}
		h.allUp(patience)
		var f figure
		for i, m := range h.members {
			if got := m.transport.Stats(); got.Generation != round || got.Restarts != round || got.State != supervised.StateServing {
				h.Errorf("round %d, transport %d: %+v", round, i, got)
			}
			m.mu.Lock()
			if len(m.minted) != round+1 || len(m.upAt) != round+1 {
				h.Errorf("round %d, transport %d: %d servers minted, %d answered", round, i, len(m.minted), len(m.upAt))
			}
			f.minted = append(f.minted, m.minted[round].Sub(died))
			f.took = append(f.took, m.upAt[round].Sub(m.minted[round]))
			f.up = append(f.up, m.upAt[round].Sub(died))
			m.mu.Unlock()
		}
		figures = append(figures, f)
	}
	return figures
}

func (h *herd) close() {
	var closing sync.WaitGroup
	for _, m := range h.members {
		closing.Go(func() {
			if err := m.transport.Close(); err != nil {
				h.Errorf("close: %v", err)
			}
		})
	}
	closing.Wait()
}

// A figure is one round's: when each replacement was minted and had answered, both after the deaths, and how long it
// took from the one to the other.
type figure struct{ minted, up, took []time.Duration }

// spread is the time between the first and the last mint.
func (f figure) spread() time.Duration { return slices.Max(f.minted) - slices.Min(f.minted) }

// busiest is how many were minted in the fullest tenth of a second.
func (f figure) busiest() (most int) {
	for _, begin := range f.minted {
		n := 0
		for _, m := range f.minted {
			if m >= begin && m-begin < 100*time.Millisecond {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// atOnce is how many were coming up at the same time, at most.
func (f figure) atOnce() (most int) {
	for _, now := range f.minted {
		n := 0
		for i := range f.minted {
			if f.minted[i] <= now && now < f.up[i] {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// The short form: scripted servers, whose start takes 5 ms of one of two cores. Time is virtual, so the figures are
// the same each time.
func TestHerd(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 2
	}
	for i, p := range pacings {
		if i == 0 {
			continue // all at once, too
		}
		t.Run(p.name, func(t *testing.T) {
			var figures []figure
			synctest.Test(t, func(t *testing.T) {
				cores := make(chan struct{}, 2)
				fleets := make([]peertest.Fleet, *herdSize)
				h := newHerd(t, *herdSize, p, func(i int) supervised.Factory {
					fleets[i].OnMint = func(_ context.Context, p *peertest.Peer) error {
						p.Process = true
						p.Answer = func(r *jsonrpc.Request) *jsonrpc.Response {
							return &jsonrpc.Response{ID: r.ID, Result: []byte(`{}`)}
						}
						return nil
					}
					fleets[i].OnStart = func(context.Context, *peertest.Peer) error {
						cores <- struct{}{}
						time.Sleep(5 * time.Millisecond)
						<-cores
						return nil
					}
					return fleets[i].Mint
				})
				figures = h.storm(rounds, time.Hour, func(i int, _ *member) { fleets[i].Last().Die(errCrash) })
				h.close()
				if n := h.slow.Load(); n > 0 {
					t.Errorf("%d servers were not gone in time", n)
				}
				for i := range fleets {
					if now, most := fleets[i].Alive(); now != 0 || most != 1 {
						t.Errorf("transport %d: %d servers alive after Close, %d at once", i, now, most)
					}
				}
			})
			ceiling := time.Second
			for round, f := range figures {
				t.Logf("round %d: minted in %v, at most %d in 100 ms, at most %d coming up at once, the last up after %v",
					round+1, f.spread(), f.busiest(), f.atOnce(), slices.Max(f.up))
				if last := slices.Max(f.minted); last > ceiling {
					t.Errorf("round %d: minted after %v, want %v at most", round+1, last, ceiling)
				}
				if strings.Contains(p.name, "full") {
					// Evenly over the ceiling: on the average this many in a tenth of a second.
					average := *herdSize * int(100*time.Millisecond) / int(ceiling)
					if f.spread() < ceiling*9/10 || f.busiest() > 3*average {
						t.Errorf("round %d: minted in %v, %d of them in 100 ms, want about %v and %d", round+1, f.spread(), f.busiest(), ceiling, average)
					}
				} else if f.spread() != 0 || f.busiest() != *herdSize {
					t.Errorf("round %d: minted in %v, %d of them in 100 ms, want all at once", round+1, f.spread(), f.busiest())
				}
				ceiling *= 2
			}
		})
	}
}

// herdServer is a server in a few lines of shell, that is busy for a moment before it reads anything.
const herdServer = `
i=0
while [ $i -lt 3000 ]; do i=$((i+1)); done
while read -r line; do
	id=${line#*\"id\":}
	echo "{\"jsonrpc\":\"2.0\",\"id\":${id%%[,\}]*},\"result\":{\"pid\":$$}}"
done`

// The long form: processes, and real time. It kills what it was told the pid of, which its own servers are.
func TestHerdOfProcesses(t *testing.T) {
	if !*herdProcesses {
		t.Skip("-herd.processes runs it")
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	var table strings.Builder
	load := "" // of whatever else the machine did
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = ", load average before " + strings.Fields(string(text))[0]
	}
	fmt.Fprintf(&table, "%d transports, each over a process that is busy for a moment when it starts; all of them killed at once, %d times in a row.\n"+
		"%s/%s, %d cores%s, seed %d, %s. From the fourth column on the figures are of the last round, in which the delays are longest.\n\n",
		*herdSize, *herdRounds, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), load, *herdSeed, time.Now().UTC().Format(time.DateOnly))
	table.WriteString("| delay | deaths | recovered | minted within | in the fullest 100 ms | coming up at once | mint to first answer, median | longest | all up after | not gone in 5 s (D4) |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, p := range pacings {
		h := newHerd(t, *herdSize, p, func(int) supervised.Factory { return stdio.Command{Args: []string{"sh", "-c", herdServer}}.Mint })
		figures := h.storm(*herdRounds, 10*time.Minute, func(_ int, m *member) {
			m.mu.Lock()
			defer m.mu.Unlock()
			server, err := os.FindProcess(m.pid)
			if err == nil {
				err = server.Kill()
			}
			if err != nil {
				t.Errorf("kill: %v", err)
			}
		})
		h.close()
		recovered := 0
		for _, f := range figures {
			recovered += len(f.up)
		}
		last, ms := figures[len(figures)-1], time.Millisecond
		row := fmt.Sprintf("| %s | %d | %d | %v | %d | %d | %v | %v | %v | %d |\n", p.name, *herdSize**herdRounds, recovered,
			last.spread().Round(ms), last.busiest(), last.atOnce(),
			slices.Sorted(slices.Values(last.took))[len(last.took)/2].Round(ms), slices.Max(last.took).Round(ms), slices.Max(last.up).Round(ms),
			h.slow.Load())
		t.Log(row)
		table.WriteString(row)
	}
	if *herdWrite && !t.Failed() {
		const begin, end = "<!-- storms: begin -->\n", "<!-- storms: end -->\n"
		page := document(t, "docs/reliability.md")
		before, rest, opened := strings.Cut(page, begin)
		_, after, closed := strings.Cut(rest, end)
		if !opened || !closed {
			t.Fatal("docs/reliability.md has no place for the figures")
		}
		page = before + begin + "\n" + table.String() + "\n" + end + after
		if err := os.WriteFile("docs/reliability.md", []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
