package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Every peer gets right answers under every load, which Open and Run check, to more requests than a window holds.
func TestEveryPeerCarriesEveryLoad(t *testing.T) {
	for _, load := range Loads() {
		for _, peer := range load.Peers() {
			t.Run(load.String()+"/"+string(peer), func(t *testing.T) {
				session, err := Open(children, peer, load)
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range []int{1, 2, 3*load.Window + 5, load.Window + 1} {
					if err := session.Run(n); err != nil {
						t.Errorf("%d times: %v", n, err)
					}
				}
				if err := session.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestMessagesAreAsLongAsTheyShouldBe(t *testing.T) {
	for _, load := range Loads() {
		if load.Kind == ToolCall {
			continue
		}
		m := newMessages(load.Size, 1)
		if got := len(m.line()); got != load.Size {
			t.Errorf("%v: the line has %d bytes", load, got)
		}
		encoded, err := jsonrpc.EncodeMessage(m.at(0))
		if err != nil {
			t.Fatal(err)
		}
		if want, got := string(m.line()), string(encoded)+"\n"; want != got {
			t.Errorf("%v: a peer that encodes writes %.200q, one that does not %.200q", load, got, want)
		}
	}
}

func TestWrongAnswersAreFound(t *testing.T) {
	m := newMessages(small, 2)
	right := func() *jsonrpc.Response { return &jsonrpc.Response{ID: m.at(0).ID, Result: m.params} }
	for name, spoil := range map[string]func(*jsonrpc.Response){
		"another id":       func(r *jsonrpc.Response) { r.ID = m.at(1).ID },
		"an error":         func(r *jsonrpc.Response) { r.Error = &jsonrpc.Error{} },
		"one byte less":    func(r *jsonrpc.Response) { r.Result = r.Result[1:] },
		"an answer at all": func(r *jsonrpc.Response) { r.Result = nil },
	} {
		answer := right()
		spoil(answer)
		if check(m.at(0), answer) == nil {
			t.Errorf("%s passes", name)
		}
	}
	if err := check(m.at(0), right()); err != nil {
		t.Error(err)
	}
	if check(m.at(0), m.at(0)) == nil {
		t.Error("a request passes")
	}
}

// A connection that mixes up two answers is found out in the middle of a run.
func TestMixedUpAnswersAreFound(t *testing.T) {
	for name, run := range map[string]func(*connection) error{
		"ping-pong": func(c *connection) error { return c.pingPong(20) },
		"pipelined": func(c *connection) error { return c.pipelined(20, 4) },
	} {
		m := newMessages(small, 16)
		conn, closeConn, err := connect(Command, children.Echo)
		if err != nil {
			t.Fatal(err)
		}
		c := &connection{conn: &mixed{Connection: conn, m: m}, messages: m, closeConn: closeConn}
		if err := run(c); err == nil || !strings.Contains(err.Error(), "the answer to") {
			t.Errorf("%s: got %v", name, err)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
}

type mixed struct {
	mcp.Connection
	m     *messages
	reads int
}

func (c *mixed) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	c.reads++
	if a, ok := m.(*jsonrpc.Response); ok && c.reads == 9 {
		a.ID = c.m.at(0).ID
	}
	return m, err
}

func TestWindow(t *testing.T) {
	const size, n = 4, 100_000
	w := newWindow(size)
	sent := make(chan int, 2*size)
	go func() {
		for i := range n {
			w.acquire()
			sent <- i
		}
	}()
	for range n {
		if open := len(sent); open > size {
			t.Fatalf("%d are open", open)
		}
		<-sent
		w.release(1)
	}
	if got := w.answered.Load(); got != n {
		t.Errorf("%d answered", got)
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		all  []float64
		want Spread
	}{
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{9, 1, 2}, Spread{2, 1, 9}},
		{[]float64{4, 1, 2, 9}, Spread{3, 1, 9}},
	} {
		if got := spread(tt.all); got != tt.want {
			t.Errorf("%v: want %v, got %v", tt.all, tt.want, got)
		}
	}
}

func TestRequirements(t *testing.T) {
	for _, tt := range []struct {
		name             string
		r                Requirement
		ours, other      float64
		holds, tolerable bool
	}{
		{"at most, reached", Requirement{kind: atMost, limit: 1.2}, 12, 10, true, true},
		{"at most, missed", Requirement{kind: atMost, limit: 1.2}, 13, 10, false, true},
		{"at most, missed by far", Requirement{kind: atMost, limit: 1.2}, 19, 10, false, false},
		{"at least, reached", Requirement{kind: atLeast, limit: 15}, 150, 10, true, true},
		{"at least, missed", Requirement{kind: atLeast, limit: 15}, 110, 10, false, true},
		{"at least, missed by far", Requirement{kind: atLeast, limit: 15}, 99, 10, false, false},
		{"the ratio is reached, the difference not", Requirement{kind: atMostOr, limit: 1.15, slack: 400}, 11000, 10000, true, true},
		{"the difference is reached, the ratio not", Requirement{kind: atMostOr, limit: 1.15, slack: 400}, 500, 100, true, true},
		{"neither", Requirement{kind: atMostOr, limit: 1.15, slack: 400}, 1600, 1000, false, true},
		{"neither by far", Requirement{kind: atMostOr, limit: 1.15, slack: 400}, 2000, 1000, false, false},
		{"a count that is reached", Requirement{kind: noMore, limit: 1}, 5, 4, true, true},
		{"a count that is missed", Requirement{kind: noMore, limit: 1}, 5.1, 4, false, false},
		{"a count in all", Requirement{kind: inAll, limit: 8}, 8, 0, true, true},
		{"a count in all, missed", Requirement{kind: inAll, limit: 8}, 9, 0, false, false},
		{"nothing is required", Requirement{}, 9, 1, true, true},
	} {
		v := tt.r.judge([]float64{tt.ours}, []float64{tt.other})
		if v.Holds != tt.holds || v.Tolerable != tt.tolerable {
			t.Errorf("%s: holds %t, tolerable %t", tt.name, v.Holds, v.Tolerable)
		}
	}
}

// The ratio is the median of the ratios of what ran next to each other, not the ratio of two medians.
func TestRatiosArePairwise(t *testing.T) {
	v := Requirement{kind: atMost, limit: 1}.judge([]float64{1, 20, 30}, []float64{2, 10, 30})
	if want := (Spread{1, 0.5, 2}); v.Compared != want {
		t.Errorf("want %v, got %v", want, v.Compared)
	}
}

func TestRounded(t *testing.T) {
	for count, want := range map[float64]float64{4.02: 4, 3.97: 4, 4.1: 4.1, 0: 0} {
		if got := rounded(count); got != want {
			t.Errorf("%v: want %v, got %v", count, want, got)
		}
	}
}

func TestRowsHaveContests(t *testing.T) {
	contenders := make(map[string]bool)
	for _, c := range Contests(children) {
		for _, one := range c.Contenders {
			contenders[c.Name+"/"+one.Name] = true
		}
	}
	names := make(map[string]bool)
	for _, r := range Rows() {
		if names[r.Name()] {
			t.Errorf("two rows have the name %q", r.Name())
		}
		names[r.Name()] = true
		for _, who := range []string{r.Ours, r.Other} {
			if who != "" && !contenders[r.Contest+"/"+who] {
				t.Errorf("%s: no such contender: %q", r.Name(), who)
			}
		}
	}
}

func TestContendersTakeTurns(t *testing.T) {
	var order strings.Builder
	contender := func(name string) Contender {
		return Contender{Name: name, Turn: func(Pace) (Sample, error) {
			order.WriteString(name)
			return Sample{Nanos: 1}, nil
		}}
	}
	c := &Contest{Name: "c", Contenders: []Contender{contender("A"), contender("B"), contender("C")}}
	samples, err := c.Turns(Pace{}, 3, map[string]bool{"A": true, "C": true})
	if err != nil {
		t.Fatal(err)
	}
	if order.String() != "ACACAC" || len(samples["A"]) != 3 || len(samples["B"]) != 0 {
		t.Errorf("order %s, samples %v", &order, samples)
	}
}

// What takes a process each time, once and small.
func TestSpecialContests(t *testing.T) {
	for _, c := range []*Contest{deathContest(children), restartContest(children), replayContest(children), idleContest(), transitionContest()} {
		for _, one := range c.Contenders {
			s, err := one.Turn(Pace{Turn: time.Millisecond, Lots: 2})
			if err != nil || s.Nanos+s.Bytes <= 0 {
				t.Errorf("%s, %s: %+v, %v", c.Name, one.Name, s, err)
			}
		}
	}
}

func TestReplaceKeepsWhatIsWrittenByHand(t *testing.T) {
	got, err := Replace("# Title\n\n"+begin+"\nold\n"+end+"\n\nby hand\n", "new\n")
	if want := "# Title\n\n" + begin + "\n\nnew\n\n" + end + "\n\nby hand\n"; err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	for _, document := range []string{"", begin, end + begin, begin + end + begin + end} {
		if _, err := Replace(document, "new"); err == nil {
			t.Errorf("%q passes", document)
		}
	}
}
