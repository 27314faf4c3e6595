package supervised_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
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
	"pgregory.net/rapid"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/retry"
)

// connectUnread is connect without a goroutine that reads.
func (r *rig) connectUnread() {
	r.Helper()
	conn, err := r.Transport.Connect(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	r.conn = conn
}

// next is what Read returns, which it must have at hand.
func (r *rig) next() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	m, err := r.conn.Read(ctx)
	if err != nil {
		return "", err
	}
	return line(m), nil
}

// allProcesses has the peers of the fleet be processes.
func (r *rig) allProcesses() {
	r.Process = true
}

// keepAll keeps whatever is in flight.
var keepAll = supervised.WithRetryPolicy(retry.PolicyFunc(func(*jsonrpc.Request) bool { return true }))

func number(n int64) jsonrpc.ID {
	id, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		panic(err)
	}
	return id
}

func TestW1_RefusedAtOnce(t *testing.T) {
	refused := func(r *rig, when, as string) {
		r.Helper()
		begin := time.Now()
		for what, m := range map[string]jsonrpc.Message{
			"call":         &jsonrpc.Request{ID: number(77), Method: "tools/call"},
			"notification": notice("lost"),
			"answer":       &jsonrpc.Response{ID: number(78), Result: []byte(`{}`)},
			"listen":       &jsonrpc.Request{ID: number(79), Method: "subscriptions/listen"},
		} {
			err := r.conn.Write(context.Background(), m)
			want(r, fmt.Sprintf("%s of a %s", when, what), as, kind(err))
			wantIs(r, what, err, supervised.ErrClosed, mcp.ErrConnectionClosed, &jsonrpc.Error{Code: -32005})
			if errors.Is(err, supervised.ErrPeerLost) {
				r.Errorf("%s: want a %s that was never sent not to match ErrPeerLost", when, what)
			}
		}
		want(r, "took", 0, time.Since(begin))
		want(r, "in flight", 0, r.Stats().InFlight)
		want(r, "streams", 0, r.Stats().Streams)
	}
	t.Run("while a replacement is promised", func(t *testing.T) {
		inBubble(t, func(r *rig) {
			r.OnStart = func(_ context.Context, p *peertest.Peer) error {
				if p.Number == 1 {
					time.Sleep(time.Second)
				}
				return nil
			}
			r.connect()
			r.Last().Die(errCrash)
			r.wantState(supervised.StateRespawnPending)
			refused(r, "in the gap", "reconnecting")
			pass(500 * time.Millisecond)
			r.wantState(supervised.StateConnecting)
			refused(r, "while it starts", "reconnecting")
			pass(time.Minute)
			r.wantState(supervised.StateServing)
			want(t, "what was refused and sent later", nil, r.Last().Got())
			want(t, "answers", nil, r.read())
			id, err := r.call("tools/call")
			want(t, "accepted", "ok", kind(err))
			r.Last().Reply(id, `"served"`)
			want(t, "answers", lines(`1 "served"`), r.read())
		})
	})
	t.Run("after Close", func(t *testing.T) {
		inBubble(t, func(r *rig) {
			r.connect()
			r.Transport.Close()
			refused(r, "after Close", "closed")
			want(t, "answers", nil, r.read())
		})
	})
	t.Run("after Close in the gap", func(t *testing.T) {
		inBubble(t, func(r *rig) {
			r.connect()
			r.Last().Die(errCrash)
			synctest.Wait()
			r.Transport.Close()
			refused(r, "after Close", "closed")
		})
	})
	t.Run("after the budget", func(t *testing.T) {
		inBubble(t, func(r *rig) {
			r.connect()
			for range 2 {
				r.Last().Die(errCrash)
				pass(time.Second)
			}
			refused(r, "after the budget", "exhausted")
		}, supervised.WithMaxRestarts(1))
	})
}

// A mall mints in-memory connections to servers of the SDK.
type mall struct {
	mu       sync.Mutex
	sessions []*mcp.ServerSession
}

func (m *mall) mint(context.Context) (mcp.Transport, error) {
	near, far := mcp.NewInMemoryTransports()
	server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	type args struct{ Text string }
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
		if in.Text == "" {
			return nil, nil, errors.New("nothing to say")
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
	})
	session, err := server.Connect(context.Background(), far, nil)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions = append(m.sessions, session)
	return near, nil
}

// crash ends the newest server.
func (m *mall) crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[len(m.sessions)-1].Close()
}

func TestW1_SessionSurvivesARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mall{}
		r := newRigOver(t, func(*peertest.Fleet) supervised.Factory { return m.mint })
		client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
		session, err := client.Connect(context.Background(), r.Transport, nil)
		if err != nil {
			t.Fatal(err)
		}
		echo := func() error {
			_, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"Text": "hello"}})
			return err
		}
		want(t, "served", nil, echo())
		for range 3 {
			m.crash()
			synctest.Wait()
			err := echo()
			wantIs(t, "in the gap", err, supervised.ErrReconnecting, mcp.ErrConnectionClosed)
			pass(100 * time.Millisecond)
			want(t, "served by the replacement", nil, echo())
		}
		r.Transport.Close()
		want(t, "how the session ended", nil, session.Wait()) // until it has, the SDK gives a new call the bare end
		wantIs(t, "after Close", echo(), mcp.ErrConnectionClosed)
	})
}

func TestW2_OnePeerAfterTheOther(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.OnStart = func(_ context.Context, p *peertest.Peer) error {
			for i := range 3 {
				p.Say(notice(fmt.Sprint(p.Number, i)))
			}
			return nil
		}
		r.connectUnread()
		for range 2 {
			r.Last().Say(notice("last words of " + fmt.Sprint(r.Last().Number)))
			r.Last().Die(io.EOF)
			pass(100 * time.Millisecond)
		}
		for _, text := range []string{"0 0", "0 1", "0 2", "last words of 0", "1 0", "1 1", "1 2", "last words of 1", "2 0", "2 1", "2 2"} {
			got, err := r.next()
			want(t, "read", nil, err)
			want(t, "read", fmt.Sprintf("notifications/message %q", text), got)
		}
		_, err := r.next()
		wantSame(t, "behind the last, its context's", context.DeadlineExceeded, err)

		r.Last().Say(notice("one more"))
		synctest.Wait()
		r.Transport.Close()
		got, err := r.next()
		want(t, "read", nil, err)
		want(t, "before the end", `notifications/message "one more"`, got)
		for range 3 {
			_, err = r.next()
			wantSame(t, "the end", io.EOF, err)
		}
	})
}

func TestW2_TheBudgetsEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connectUnread()
		r.Last().Die(io.EOF)
		pass(time.Second)
		r.Last().Say(notice("last"))
		r.call("tools/call")
		r.Last().Die(io.EOF)
		synctest.Wait()
		for _, text := range []string{`notifications/message "last"`, "1 exhausted, peer lost"} {
			got, err := r.next()
			want(t, "read", nil, err)
			want(t, "read", text, got)
		}
		for range 3 {
			_, err := r.next()
			wantSame(t, "the end", r.Err(), err)
			want(t, "looks like a clean end", false, errors.Is(err, io.EOF))
		}
	}, supervised.WithMaxRestarts(1))
}

// A context that ends takes no message with it.
func TestW2_ImpatientReader(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connectUnread()
		const n = 200
		go func() {
			for i := range n {
				time.Sleep(time.Millisecond)
				r.Last().Say(notice(fmt.Sprint(i)))
			}
		}()
		for got := 0; got < n; {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(3))*time.Millisecond)
			m, err := r.conn.Read(ctx)
			cancel()
			if err == nil {
				want(t, "read", fmt.Sprintf(`notifications/message "%d"`, got), line(m))
				got++
			}
		}
	})
}

// More than waits for Read at most: the peer waits, and nothing of it is lost with the peer.
func TestW2_SlowReader(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connectUnread()
		big := strings.Repeat(" ", 100<<10)
		for i := range 60 {
			r.Last().Say(&jsonrpc.Request{Method: fmt.Sprint("x/", i), Params: []byte(big)})
		}
		id, _ := r.call("tools/call")
		r.Last().Reply(id, `"and this"`)
		r.Last().Die(errCrash)
		pass(time.Hour)
		for i := range 60 {
			got, err := r.next()
			want(t, "read", nil, err)
			want(t, "read", fmt.Sprint("x/", i), got)
			synctest.Wait()
		}
		got, _ := r.next()
		want(t, "the answer behind them", `1 "and this"`, got)
		pass(time.Second)
		want(t, "hooks", lines("close: crash", "reconnect"), r.hooks())
	})
}

func TestW3_WrittenBeforeTheEnd(t *testing.T) {
	ends := map[string]func(*peertest.Peer){
		"read error":        func(p *peertest.Peer) { p.Hangup(errCrash) },
		"end of file":       func(p *peertest.Peer) { p.Hangup(io.EOF) },
		"exit":              func(p *peertest.Peer) { p.Exit(&peertest.Exit{Code: 1}) },
		"exit, then output": func(p *peertest.Peer) { p.Exit(&peertest.Exit{}); p.Hangup(io.EOF) },
		"output, then exit": func(p *peertest.Peer) { p.Hangup(io.EOF); p.Exit(&peertest.Exit{}) },
		"write": func(p *peertest.Peer) {
			p.OnWrite = func(context.Context, jsonrpc.Message) error { return io.ErrClosedPipe }
		},
	}
	for name, end := range ends {
		for _, process := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, process %v", name, process), func(t *testing.T) {
				inBubble(t, func(r *rig) {
					r.Process = process
					r.connect()
					p := r.Last()
					var answers []string
					for i := range 100 {
						id, _ := r.call("tools/call")
						answers = append(answers, fmt.Sprintf("%d %d", id.Raw(), i))
					}
					for i := range 100 {
						p.Reply(number(int64(i+1)), fmt.Sprint(i))
					}
					end(p)
					if name == "write" {
						wantIs(t, "a notification", r.notify("notifications/x", `{}`), supervised.ErrPeerLost)
					}
					if name == "exit" && !process {
						p.Hangup(io.EOF)
					}
					want(t, "answers", answers, r.read())
					pass(time.Second)
					want(t, "minted", 2, r.Minted())
					want(t, "sent again", nil, r.Last().Got())
					want(t, "answers", nil, r.read())
				}, keepAll)
			})
		}
	}
}

func TestW3_Linger(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		first  func(*peertest.Peer)
		then   func(*peertest.Peer) // at 100 ms; nil: nothing
		answer time.Duration        // when the answer comes
		dead   time.Duration        // when the death is acted on
	}{
		{"an exit whose output stays open", func(p *peertest.Peer) { p.Exit(&peertest.Exit{Code: 7}) }, nil, 249 * ms, 250 * ms},
		{"too late an answer", func(p *peertest.Peer) { p.Exit(&peertest.Exit{Code: 7}) }, nil, 251 * ms, 250 * ms},
		{"the output ends meanwhile", func(p *peertest.Peer) { p.Exit(&peertest.Exit{Code: 7}) }, func(p *peertest.Peer) { p.Hangup(io.EOF) }, 99 * ms, 100 * ms},
		{"the exit is late", func(p *peertest.Peer) { p.Hangup(io.EOF) }, func(p *peertest.Peer) { p.Exit(&peertest.Exit{Code: 7}) }, 0, 100 * ms},
		{"no exit", func(p *peertest.Peer) { p.Hangup(io.EOF) }, nil, 0, 250 * ms},
		{"a write fails", breakWrites, nil, 249 * ms, 250 * ms},
		{"a write fails, and the output ends behind the answer", breakWrites, func(p *peertest.Peer) { p.Die(&peertest.Exit{}) }, 99 * ms, 100 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.allProcesses()
				r.connect()
				p := r.Last()
				id, _ := r.call("tools/call")
				begin := time.Now()
				var dead atomic.Int64
				r.OnTransition(func(tr supervised.Transition) {
					if tr.Event == supervised.EventPeerDied {
						dead.Store(int64(tr.At.Sub(begin)))
					}
				})
				reply := func() { p.Reply(id, `"in time"`) }
				if tt.answer == 0 {
					reply()
				} else {
					time.AfterFunc(tt.answer, reply)
				}
				tt.first(p)
				r.notify("notifications/x", `{}`) // an end of what the peer reads shows only then
				if tt.then != nil {
					time.AfterFunc(100*ms, func() { tt.then(p) })
				}
				pass(time.Second)
				want(t, "acted on", tt.dead, time.Duration(dead.Load()))
				answer := `1 "in time"`
				if tt.answer > tt.dead {
					answer = "1 peer lost"
				}
				want(t, "answers", lines(answer), r.read())
				want(t, "hooks", 2, len(r.hooks()))
			})
		})
	}
}

// breakWrites ends what a peer reads.
func breakWrites(p *peertest.Peer) {
	p.OnWrite = func(context.Context, jsonrpc.Message) error { return io.ErrClosedPipe }
}

// The wait for a dying peer holds up nobody: it serves on, and what it does not answer is lost with it.
func TestW3_CallsWhileItLingers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.allProcesses()
		r.connect()
		p := r.Last()
		p.Exit(&peertest.Exit{Code: 1})
		pass(100 * time.Millisecond)
		r.wantState(supervised.StateServing)
		answered, err := r.call("tools/call")
		want(t, "accepted", "ok", kind(err))
		_, err = r.call("tools/call")
		want(t, "accepted", "ok", kind(err))
		p.Reply(answered, `"yes"`)
		pass(time.Second)
		want(t, "answers", lines(`1 "yes"`, "2 peer lost"), r.read())
	})
}

func TestW4_NotHeardAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.allProcesses()
		r.connect()
		old := r.Last()
		hold := make(chan struct{})
		held := make(chan error, 1)
		old.OnWrite = func(context.Context, jsonrpc.Message) error { <-hold; return io.ErrClosedPipe }
		go func() { held <- r.notify("notifications/x", `{}`) }()
		synctest.Wait()
		old.OnWrite = nil
		lost, _ := r.call("tools/call")
		kept, _ := r.call("tools/list")
		old.Exit(&peertest.Exit{Code: 1}) // its output stays open
		pass(time.Second)
		r.wantState(supervised.StateServing)
		want(t, "answers", lines("1 peer lost"), r.read())
		want(t, "hooks", 2, len(r.hooks()))
		want(t, "kept", lines("tools/list"), r.Last().Methods())

		old.Say(notice("from the grave"), &jsonrpc.Request{ID: number(9), Method: "sampling/createMessage"})
		old.Reply(lost, `"late"`)
		old.Reply(kept, `"late"`)
		old.Report(errBoom)
		old.Hangup(errCrash)
		close(hold)
		pass(time.Hour)
		wantIs(t, "the writer alone is told", <-held, supervised.ErrPeerLost)
		want(t, "heard of it", nil, r.read())
		want(t, "hooks", nil, r.hooks())
		r.wantState(supervised.StateServing)
		want(t, "minted", 2, r.Minted())
		r.Last().Reply(kept, `"from the replacement"`)
		want(t, "answers", lines(`2 "from the replacement"`), r.read())
	}, supervised.WithRetryLostRequests())
}

func TestW4_NotHeardAfterClose(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.allProcesses()
		r.connect()
		id, _ := r.call("tools/call")
		r.Transport.Close()
		want(t, "answers", lines("1 closed"), r.read())
		r.hooks()
		r.Last().Reply(id, `"late"`)
		r.Last().Report(errBoom)
		r.Last().Hangup(errCrash)
		pass(time.Hour)
		want(t, "answers", nil, r.read())
		want(t, "hooks", nil, r.hooks())
	})
}

// A peer whose Read goes on after its end is asked for nothing more than it can be kept from saying.
func TestW4_StaleReader(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		for i := range 100 {
			old := r.Last()
			go func() {
				for range 10 {
					old.Say(notice(fmt.Sprint("from ", old.Number)))
				}
			}()
			want(t, "restart", nil, r.Restart(errBoom))
			synctest.Wait()
			want(t, "newest", i+1, r.Last().Number)
			r.Last().Say(notice(fmt.Sprint("at last ", r.Last().Number)))
			said := r.read()
			want(t, "the last word is the replacement's", fmt.Sprintf(`notifications/message "at last %d"`, i+1), said[len(said)-1])
			for _, text := range said[:len(said)-1] {
				want(t, "before that", fmt.Sprintf(`notifications/message "from %d"`, i), text)
			}
		}
	})
}

func TestW5_AWriteThatIsGivenUpIsForgotten(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		p := r.Last()
		p.OnWrite = func(ctx context.Context, _ jsonrpc.Message) error { <-ctx.Done(); return ctx.Err() }
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		err := r.conn.Write(ctx, &jsonrpc.Request{ID: number(1), Method: "tools/call"})
		wantSame(t, "its context's", context.DeadlineExceeded, err)
		want(t, "took", time.Second, time.Since(begin))
		want(t, "in flight", 0, r.Stats().InFlight)
		p.Reply(number(1), `"late"`)
		pass(time.Second)
		want(t, "answers", nil, r.read())
		want(t, "hooks", nil, r.hooks())

		p.OnWrite = nil
		want(t, "the id is free", nil, r.conn.Write(context.Background(), &jsonrpc.Request{ID: number(1), Method: "tools/call"}))
		p.Reply(number(1), `"in time"`)
		want(t, "answers", lines(`1 "in time"`), r.read())
	})
}

func TestW5_CloseEndsABlockedWrite(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		p := r.Last()
		p.OnWrite = func(context.Context, jsonrpc.Message) error { <-p.Closed(); return io.ErrClosedPipe }
		call, note := make(chan error, 1), make(chan error, 1)
		go func() { _, err := r.call("tools/call"); call <- err }()
		go func() { note <- r.notify("notifications/x", `{}`) }()
		synctest.Wait()
		r.Transport.Close()
		want(t, "the call", nil, <-call)
		if <-note == nil {
			t.Error("want the notification to fail")
		}
		want(t, "answers", lines("1 closed"), r.read())
		want(t, "hooks", lines("drain", "close"), r.hooks())
	})
}

func TestW6_AnAnswerIsNeverTooEarly(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		p := r.Last()
		p.OnWrite = func(_ context.Context, m jsonrpc.Message) error {
			p.Reply(m.(*jsonrpc.Request).ID, `"early"`)
			time.Sleep(time.Second)
			return nil
		}
		_, err := r.call("tools/call")
		want(t, "written", nil, err)
		want(t, "answers", lines(`1 "early"`), r.read())
		want(t, "in flight", 0, r.Stats().InFlight)
	})
}

// A registration that comes while the calls are divided goes to the one side or the other: the policy is asked
// once for each call that was let in, and none is left behind.
func TestW6_TheDoorIsShutInOneStep(t *testing.T) {
	for range 30 {
		inBubble(t, func(r *rig) {
			r.connect()
			var written, refused atomic.Int32
			var all sync.WaitGroup
			for w := range 8 {
				all.Go(func() {
					for i := range 50 {
						err := r.conn.Write(context.Background(), &jsonrpc.Request{ID: number(int64(w*1000 + i)), Method: "tools/call"})
						if err == nil {
							written.Add(1)
						} else if errors.Is(err, supervised.ErrReconnecting) {
							refused.Add(1)
						}
					}
				})
			}
			for w := range 8 {
				all.Go(func() { r.Last().Reply(number(int64(w*1000)), `"one of them"`) })
			}
			r.Last().Die(errCrash)
			all.Wait()
			want(t, "all", 400, written.Load()+refused.Load())
			want(t, "answers", int(written.Load()), len(r.read()))
			want(t, "in flight", 0, r.Stats().InFlight)
		})
	}
}

// Each row is one call under id 1. However it ends: an error from Write and no answer, or nil and one answer.
func TestW7_OneAnswer(t *testing.T) {
	untilClosed := func(p *peertest.Peer) func(context.Context, jsonrpc.Message) error {
		return func(context.Context, jsonrpc.Message) error { <-p.Closed(); return io.ErrClosedPipe }
	}
	untilDone := func(ctx context.Context, _ jsonrpc.Message) error { <-ctx.Done(); return ctx.Err() }
	second := time.Second
	for _, tt := range []struct {
		name   string
		write  func(p *peertest.Peer) func(context.Context, jsonrpc.Message) error // nil: taken
		act    func(r *rig, p *peertest.Peer, cancel func())
		err    string // of Write
		answer []string
	}{
		{
			"blocked in a peer that dies", untilClosed,
			func(r *rig, p *peertest.Peer, _ func()) { p.Die(errCrash) }, "ok", lines("1 peer lost"),
		},
		{
			"blocked in a peer that is closed", untilClosed,
			func(r *rig, p *peertest.Peer, _ func()) { r.Transport.Close() }, "ok", lines("1 closed"),
		},
		{
			"blocked in a peer that is restarted", untilClosed,
			func(r *rig, p *peertest.Peer, _ func()) { r.Restart(errBoom) }, "ok", lines("1 peer lost"),
		},
		{
			"given up before the peer dies", func(*peertest.Peer) func(context.Context, jsonrpc.Message) error { return untilDone },
			func(r *rig, p *peertest.Peer, cancel func()) { cancel(); synctest.Wait(); p.Die(errCrash) }, "context canceled", nil,
		},
		{
			"given up after the peer died", func(*peertest.Peer) func(context.Context, jsonrpc.Message) error { return untilDone },
			func(r *rig, p *peertest.Peer, cancel func()) { p.Die(errCrash); synctest.Wait(); cancel() }, "ok", lines("1 peer lost"),
		},
		{
			"given up after Close", func(*peertest.Peer) func(context.Context, jsonrpc.Message) error { return untilDone },
			func(r *rig, p *peertest.Peer, cancel func()) { r.Transport.Close(); cancel() }, "ok", lines("1 closed"),
		},
		{
			"answered, then given up", func(p *peertest.Peer) func(context.Context, jsonrpc.Message) error { return untilDone },
			func(r *rig, p *peertest.Peer, cancel func()) { p.Reply(number(1), `1`); synctest.Wait(); cancel() }, "ok", lines("1 1"),
		},
		{
			"answered, then the write fails", untilClosed,
			func(r *rig, p *peertest.Peer, cancel func()) {
				p.Reply(number(1), `1`)
				synctest.Wait()
				p.Die(errCrash)
			}, "ok", lines("1 1"),
		},
		{
			"the write fails", func(p *peertest.Peer) func(context.Context, jsonrpc.Message) error {
				return func(context.Context, jsonrpc.Message) error { return errCrash }
			},
			func(r *rig, p *peertest.Peer, cancel func()) { pass(second) }, "ok", lines("1 peer lost"),
		},
		{
			"the write fails, and it was answered", func(p *peertest.Peer) func(context.Context, jsonrpc.Message) error {
				return func(context.Context, jsonrpc.Message) error { p.Reply(number(1), `1`); return errCrash }
			},
			func(r *rig, p *peertest.Peer, cancel func()) { pass(second) }, "ok", lines("1 1"),
		},
		{
			"rejected", func(p *peertest.Peer) func(context.Context, jsonrpc.Message) error {
				return func(context.Context, jsonrpc.Message) error { return &jsonrpc.Error{Code: -32005, Message: "no"} }
			},
			func(r *rig, p *peertest.Peer, cancel func()) { p.Reply(number(1), `1`); p.Die(errCrash) }, "no", nil,
		},
		{
			"answered twice", nil,
			func(r *rig, p *peertest.Peer, cancel func()) { p.Reply(number(1), `1`); p.Reply(number(1), `2`) }, "ok", lines("1 1"),
		},
		{
			"answered, and then the peer dies", nil,
			func(r *rig, p *peertest.Peer, cancel func()) { p.Reply(number(1), `1`); p.Die(errCrash) }, "ok", lines("1 1"),
		},
		{
			"lost, then answered", nil,
			func(r *rig, p *peertest.Peer, cancel func()) {
				p.Die(errCrash)
				synctest.Wait()
				p.Reply(number(1), `1`)
			}, "ok", lines("1 peer lost"),
		},
		{
			"answered by the replacement, unasked", nil,
			func(r *rig, p *peertest.Peer, cancel func()) {
				p.Die(errCrash)
				pass(second)
				r.Last().Reply(number(1), `1`)
			}, "ok", lines("1 peer lost"),
		},
		{
			"other ids answered", nil,
			func(r *rig, p *peertest.Peer, cancel func()) {
				text, _ := jsonrpc.MakeID("1")
				p.Reply(text, `1`)
				p.Reply(number(2), `1`)
				p.Reply(jsonrpc.ID{}, `1`)
			}, "ok", lines("1 closed"),
		},
		{
			"the context ends when it is written", nil,
			func(r *rig, p *peertest.Peer, cancel func()) { cancel(); pass(second); p.Reply(number(1), `1`) }, "ok", lines("1 1"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				p := r.Last()
				if tt.write != nil {
					p.OnWrite = tt.write(p)
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				got := make(chan error, 1)
				go func() { got <- r.conn.Write(ctx, &jsonrpc.Request{ID: number(1), Method: "tools/call"}) }()
				synctest.Wait()
				tt.act(r, p, cancel)
				want(t, "Write", tt.err, kind(<-got))
				pass(time.Second)
				r.Transport.Close()
				want(t, "answers", tt.answer, r.read())
				want(t, "in flight", 0, r.Stats().InFlight)
			})
		})
	}
}

// Whichever of two things at one moment comes first: an error and no answer, or nil and one answer.
func TestW7_GivenUpAsThePeerDies(t *testing.T) {
	for range 50 {
		inBubble(t, func(r *rig) {
			r.connect()
			p := r.Last()
			p.OnWrite = func(ctx context.Context, _ jsonrpc.Message) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-p.Closed():
					return io.ErrClosedPipe
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			got := make(chan error, 1)
			go func() { got <- r.conn.Write(ctx, &jsonrpc.Request{ID: number(1), Method: "tools/call"}) }()
			synctest.Wait()
			go cancel()
			go p.Die(errCrash)
			answers := 0
			if <-got == nil {
				answers = 1
			}
			pass(time.Second)
			want(t, "answers", answers, len(r.read()))
		})
	}
}

func TestW7_DuplicateID(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		p := r.Last()
		write := func(method string) error {
			return r.conn.Write(context.Background(), &jsonrpc.Request{ID: number(1), Method: method})
		}
		want(t, "the first", nil, write("tools/call"))
		for _, method := range []string{"tools/call", "tools/list", "subscriptions/listen"} {
			err := write(method)
			wantIs(t, "the second", err, &jsonrpc.Error{Code: -32005})
			if err == nil || !strings.Contains(err.Error(), "1") {
				t.Errorf("want an error that names the id, got %v", err)
			}
		}
		want(t, "sent", lines("tools/call"), p.Methods())
		p.Reply(number(1), `"first"`)
		want(t, "answers", lines(`1 "first"`), r.read())
		want(t, "free again", nil, write("tools/call"))
		p.Die(errCrash)
		want(t, "answers", lines("1 peer lost"), r.read())
		pass(time.Second)
		want(t, "free again", nil, write("tools/call"))
		want(t, "hooks", lines("close: crash", "reconnect"), r.hooks())
	})
}

// A walk is what happened to calls and messages while peers came and went.
type walk struct {
	calls  map[int64]string // how Write ended, as kind names it
	heard  []jsonrpc.Message
	closes int
	served int
	most   int
	late   map[string]bool // what peers said after their deaths were acted on
}

// Whatever a walk does, each call whose Write returned nil has one answer, each other none, and peers are heard in
// their order, up to their deaths.
func TestW7_Walks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{
			"call", "call", "call", "call", "keep", "give up", "twice", "reply", "reply", "reply again", "reply nonsense",
			"say", "say", "die", "exit", "hang up", "break", "restart", "ghost", "pass", "pass a lot",
		}), 1, 60).Draw(rt, "steps")
		picks := rapid.SliceOfN(rapid.IntRange(0, 1<<20), len(steps), len(steps)).Draw(rt, "picks")
		kept := rapid.Bool().Draw(rt, "keeps")
		process := rapid.Bool().Draw(rt, "process")
		settle := rapid.Bool().Draw(rt, "settles")

		var w walk
		synctest.Test(t, func(t *testing.T) { w = wander(t, steps, picks, kept, process, settle) })

		answers := make(map[int64]int)
		var peer, serial int
		for _, m := range w.heard {
			switch m := m.(type) {
			case *jsonrpc.Response:
				answers[m.ID.Raw().(int64)]++
			case *jsonrpc.Request:
				var p, s int
				fmt.Sscanf(string(m.Params), `"%d %d"`, &p, &s)
				if p < peer || p == peer && s <= serial {
					rt.Errorf("W2: %d of peer %d was read behind %d of peer %d", s, p, serial, peer)
				}
				peer, serial = p, s
				if w.late[string(m.Params)] {
					rt.Errorf("W4: %s was said after the death", m.Params)
				}
			}
		}
		for id, end := range w.calls {
			n := 0
			if end == "ok" {
				n = 1
			}
			if answers[id] != n {
				rt.Errorf("W7: call %d, whose Write returned %s, has %d answers", id, end, answers[id])
			}
			delete(answers, id)
		}
		if len(answers) > 0 {
			rt.Errorf("W7: answers to %v, which were not called", slices.Collect(maps.Keys(answers)))
		}
		if w.most > 1 {
			rt.Errorf("D4: %d peers alive at once", w.most)
		}
		if w.closes != w.served {
			rt.Errorf("D3: %d calls of OnClose for %d connections", w.closes, w.served)
		}
	})
}

// wander takes the steps, in a bubble.
func wander(t *testing.T, steps []string, picks []int, kept, process, settle bool) (w walk) {
	plenty, _ := budget.NewTumbling(1000, time.Hour, 10*time.Millisecond)
	opts := []supervised.Option{supervised.WithBudget(plenty)}
	if kept {
		opts = append(opts, supervised.WithRetryLostRequests())
	}
	r := newRig(t, opts...)
	r.Process = process
	r.connect()
	w = walk{calls: make(map[int64]string), late: make(map[string]bool)}
	ids, serial := int64(0), 0
	write := func(ctx context.Context, id int64, method string) {
		w.calls[id] = kind(r.conn.Write(ctx, &jsonrpc.Request{ID: number(id), Method: method}))
	}
	for i, step := range steps {
		p := r.Last()
		some := number(int64(1 + picks[i]%max(1, int(ids))))
		switch step {
		case "call":
			ids++
			write(context.Background(), ids, "tools/call")
		case "keep":
			ids++
			write(context.Background(), ids, "tools/list")
		case "give up":
			ids++
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			write(ctx, ids, "tools/list")
		case "twice": // an id again: refused while its call is in flight, another call once that was answered
			answered := r.answered(some)
			if err := r.conn.Write(context.Background(), &jsonrpc.Request{ID: some, Method: "tools/call"}); err == nil {
				if w.calls[some.Raw().(int64)] == "ok" && !answered {
					t.Errorf("W7: call %v was let in twice", some.Raw())
				}
				w.calls[some.Raw().(int64)] = "ok"
			} else if answered {
				w.calls[some.Raw().(int64)] = kind(err)
			}
			ids = max(ids, some.Raw().(int64))
		case "reply", "reply again":
			p.Reply(some, fmt.Sprint(p.Number))
		case "reply nonsense":
			p.Reply(number(1<<30), `"nonsense"`)
		case "say":
			serial++
			p.Say(notice(fmt.Sprint(p.Number, " ", serial)))
		case "die":
			p.Die(errCrash)
		case "exit":
			p.Exit(&peertest.Exit{Code: 1})
		case "hang up":
			p.Hangup(io.EOF)
		case "break":
			if r.State() == supervised.StateServing {
				p.OnWrite = func(context.Context, jsonrpc.Message) error { return io.ErrClosedPipe }
			}
		case "restart":
			r.Restart(errBoom)
		case "ghost":
			if r.Minted() > 1 && r.State() == supervised.StateServing {
				ghost := r.Peer(picks[i] % (r.Minted() - 1))
				serial++
				m := notice(fmt.Sprint(ghost.Number, " ", serial))
				w.late[string(m.Params)] = true
				ghost.Reply(some, `"ghost"`)
				ghost.Say(m)
				ghost.Hangup(errCrash)
			}
		case "pass":
			pass(time.Duration(picks[i]%20) * time.Millisecond)
		case "pass a lot":
			pass(time.Second)
		}
		if settle {
			synctest.Wait()
		}
	}
	pass(time.Second)
	if r.State() != supervised.StateServing {
		t.Errorf("want it to serve again, it is %v", r.State())
	}
	w.served = r.Stats().Generation + 1
	r.Transport.Close()
	for _, line := range r.hooks() {
		if strings.HasPrefix(line, "close") {
			w.closes++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.heard = r.answers
	_, w.most = r.Alive()
	return w
}

// answered reports whether the call id was answered, and forgets that it was.
func (r *rig) answered(id jsonrpc.ID) bool {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.answers)
	r.answers = slices.DeleteFunc(r.answers, func(m jsonrpc.Message) bool {
		a, ok := m.(*jsonrpc.Response)
		return ok && a.ID == id
	})
	if len(r.answers) < n-1 {
		r.Errorf("W7: call %v has %d answers", id.Raw(), n-len(r.answers))
	}
	return len(r.answers) < n
}

// Thirty deaths under eight writers, under real time: each call whose Write returned nil is answered, once, also
// one that was written while the calls of its peer were divided.
func TestW7_ThirtyDeathsUnderEightWriters(t *testing.T) {
	const deaths, writers = 30, 8
	plenty, err := budget.NewTumbling(1000, time.Hour, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, supervised.WithBudget(plenty))
	r.OnMint = func(_ context.Context, p *peertest.Peer) error {
		p.Process = p.Number%2 == 0
		p.Answer = func(q *jsonrpc.Request) *jsonrpc.Response {
			if q.ID.Raw().(int64)%3 == 0 {
				return nil // for the death to answer
			}
			return &jsonrpc.Response{ID: q.ID, Result: []byte(`"answered"`)}
		}
		return nil
	}
	r.connectUnread()
	defer r.Transport.Close()

	type pending struct{ answers chan *jsonrpc.Response }
	var calls sync.Map // of pending, by id
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			m, err := r.conn.Read(context.Background())
			if err != nil {
				return
			}
			a := m.(*jsonrpc.Response)
			if c, ok := calls.Load(a.ID); !ok {
				t.Errorf("an answer to %v, which was not called", a.ID.Raw())
			} else {
				select {
				case c.(pending).answers <- a:
				default:
					t.Errorf("a second answer to %v", a.ID.Raw())
				}
			}
		}
	}()

	var ids, written, lost atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				id := number(ids.Add(1))
				c := pending{make(chan *jsonrpc.Response, 1)}
				calls.Store(id, c)
				if err := r.conn.Write(context.Background(), &jsonrpc.Request{ID: id, Method: "tools/call"}); err != nil {
					if !errors.Is(err, supervised.ErrReconnecting) {
						t.Errorf("want a refusal in the gap, got %v", err)
						return
					}
					if err := r.WaitServing(context.Background()); err != nil {
						t.Errorf("want it to serve again, got %v", err)
						return
					}
					continue
				}
				written.Add(1)
				select {
				case a := <-c.answers:
					if a.Error != nil {
						lost.Add(1)
						wantIs(t, "lost", a.Error, supervised.ErrPeerLost)
					}
				case <-ended:
					t.Errorf("call %v was never answered", id.Raw())
					return
				}
			}
		})
	}
	for i := range deaths {
		for before := written.Load(); written.Load() < before+writers; {
			if err := r.WaitServing(context.Background()); err != nil {
				t.Fatal(err)
			}
			if r.Stats().InFlight >= writers { // all of them wait for a death
				break
			}
			runtime.Gosched()
		}
		switch p := r.Last(); i % 3 {
		case 0:
			p.Die(errCrash)
		case 1:
			p.Exit(errCrash)
			p.Hangup(errBoom)
		default:
			for r.Restart(errBoom) != nil {
				if err := r.WaitServing(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for r.Stats().Generation <= i {
			if err := r.WaitServing(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	writing := make(chan struct{})
	go func() { all.Wait(); close(writing) }()
	for over := false; !over; { // whoever waits for a death has one, however late he wrote
		r.Restart(errBoom)
		select {
		case <-writing:
			over = true
		default:
			runtime.Gosched()
		}
	}
	r.Transport.Close()
	<-ended
	if lost.Load() == 0 || written.Load() == lost.Load() {
		t.Errorf("want some calls answered and some lost, got %d written and %d lost", written.Load(), lost.Load())
	}
}
