package supervised_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/retry"
)

// idOf is a request id: a string, or a number.
func idOf(v any) jsonrpc.ID {
	if n, ok := v.(int); ok {
		v = float64(n)
	}
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		panic(err)
	}
	return id
}

// ask is a request.
func ask(id any, method string) *jsonrpc.Request {
	return &jsonrpc.Request{ID: idOf(id), Method: method, Params: json.RawMessage(`{}`)}
}

// listen is a request for a stream.
func listen(id any) *jsonrpc.Request {
	return &jsonrpc.Request{ID: idOf(id), Method: "subscriptions/listen", Params: json.RawMessage(`{"notifications":{"toolsListChanged":true}}`)}
}

// cancelled is the cancellation of the request id, by either side.
func cancelled(id jsonrpc.ID) *jsonrpc.Request {
	return &jsonrpc.Request{Method: "notifications/cancelled", Params: fmt.Appendf(nil, `{"requestId":%s}`, encoded(id))}
}

// delivery is a notification for the stream id.
func delivery(id jsonrpc.ID, what string) *jsonrpc.Request {
	return &jsonrpc.Request{Method: "notifications/" + what, Params: fmt.Appendf(nil, `{"_meta":{%q:%s}}`, mcp.MetaKeySubscriptionID, encoded(id))}
}

func encoded(id jsonrpc.ID) []byte {
	b, err := json.Marshal(id.Raw())
	if err != nil {
		panic(err)
	}
	return b
}

// writes sends requests and notifications as the client.
func (r *rig) writes(ms ...jsonrpc.Message) {
	r.Helper()
	for _, m := range ms {
		if err := r.conn.Write(context.Background(), m); err != nil {
			r.Errorf("Write of %s: %v", line(m), err)
		}
	}
}

// got is what was written to a peer, once nothing moves any more: "tools/list 1", "notifications/cancelled 1".
func (r *rig) got(p *peertest.Peer) []string {
	synctest.Wait()
	return summary(p)
}

func summary(p *peertest.Peer) []string {
	var got []string
	for _, m := range p.Got() {
		switch m := m.(type) {
		case *jsonrpc.Request:
			var params struct{ RequestID any }
			json.Unmarshal(m.Params, &params)
			switch {
			case m.IsCall():
				got = append(got, fmt.Sprintf("%s %v", m.Method, m.ID.Raw()))
			case params.RequestID != nil:
				got = append(got, fmt.Sprintf("%s %v", m.Method, params.RequestID))
			default:
				got = append(got, m.Method)
			}
		case *jsonrpc.Response:
			got = append(got, fmt.Sprintf("answer %v", m.ID.Raw()))
		}
	}
	return got
}

// replaced has the peer that serves die, and waits until nothing moves: a replacement serves, or is held up.
func (r *rig) replaced() *peertest.Peer {
	r.Helper()
	r.wantState(supervised.StateServing)
	r.Last().Die(errCrash)
	synctest.Wait()
	return r.Last()
}

// A gate holds up the writing of one message to a peer.
type gate struct {
	method string // of the message
	id     any    // of the call; nil: any
	deaf   bool   // the Write ignores its context
	open   chan struct{}
}

// gated holds up the peer of mint n at g.
func (r *rig) gated(n int, g gate) (open func()) {
	g.open = make(chan struct{})
	r.onMint(n, func(_ context.Context, p *peertest.Peer) error {
		p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
			q, ok := m.(*jsonrpc.Request)
			if !ok || q.Method != g.method || g.id != nil && q.ID != idOf(g.id) {
				return nil
			}
			done := ctx.Done()
			if g.deaf {
				done = nil
			}
			select {
			case <-g.open:
				return nil
			case <-p.Closed():
				return io.ErrClosedPipe
			case <-done:
				return ctx.Err()
			}
		}
		return nil
	})
	return sync.OnceFunc(func() { close(g.open) })
}

// atOnce has a replacement minted at once, any number of times; and keeps the calls that read.
func atOnce(opts ...supervised.Option) []supervised.Option {
	return append([]supervised.Option{supervised.WithRestartDelay(0), supervised.WithMaxRestarts(1000), keeping}, opts...)
}

// A listener opens streams with all that their _meta wants, and hears what they get.
type listener struct {
	mu    sync.Mutex
	heard []string
}

func (l *listener) take(m *jsonrpc.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, m.Method)
}

// hears is what the handler was called with since it was asked last, once nothing moves any more.
func (l *listener) hears() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard
	l.heard = nil
	return heard
}

// fullMeta is what the protocol wants of a request's _meta.
func fullMeta() mcp.Meta {
	return mcp.Meta{
		mcp.MetaKeyProtocolVersion:    "2026-07-28",
		mcp.MetaKeyClientInfo:         map[string]any{"name": "client", "version": "1"},
		mcp.MetaKeyClientCapabilities: map[string]any{},
	}
}

// listens opens a stream to a resource of its own.
func (r *rig) listens(f func(*jsonrpc.Request)) *supervised.Stream {
	r.Helper()
	r.ids++
	return r.listensTo(&mcp.NotificationSubscriptions{ResourceSubscriptions: []string{fmt.Sprint("file:///", r.ids)}}, f)
}

func (r *rig) listensTo(filter *mcp.NotificationSubscriptions, f func(*jsonrpc.Request)) *supervised.Stream {
	r.Helper()
	s, err := r.Listen(context.Background(), &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: filter}, f)
	if err != nil {
		r.Fatal("Listen: ", err)
	}
	return s
}

// ended is what Await returns now; "open" where it would wait.
func ended(s *supervised.Stream) string {
	synctest.Wait()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(nil)
	if err := s.Await(ctx); err != context.Canceled {
		return kind(err)
	}
	return "open"
}

// TestR0_AnswersBeforeAllIsRead: the pipe holds nothing, and the replacement does not read on until its answer
// is taken.
func TestR0_AnswersBeforeAllIsRead(t *testing.T) {
	const size = 64 << 10
	blob := strings.Repeat("x", size)
	for _, tt := range []struct {
		name  string
		calls int
		pair  func() (pipeEnd, mcp.Transport)
	}{
		{"messages", 1000, newHandover},
		{"bytes", 50, newBytePipe},
	} {
		if testing.Short() {
			tt.calls /= 10
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := make(chan pipeEnd, 2)
				tr, err := supervised.New(func(context.Context) (mcp.Transport, error) {
					s, client := tt.pair()
					servers <- s
					return client, nil
				}, atOnce()...)
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				conn, err := tr.Connect(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				first := <-servers
				go first.serve(tt.calls, func(jsonrpc.ID, int) jsonrpc.Message { return nil })
				for i := range tt.calls {
					err := conn.Write(context.Background(), &jsonrpc.Request{ID: idOf(i), Method: "tools/list", Params: fmt.Appendf(nil, `{"cursor":"%d-%s"}`, i, blob)})
					if err != nil {
						t.Fatal(err)
					}
				}
				first.Close()
				second := <-servers
				go second.serve(tt.calls, func(id jsonrpc.ID, length int) jsonrpc.Message {
					return &jsonrpc.Response{ID: id, Result: fmt.Append(nil, length > size)}
				})
				for i := range tt.calls {
					m, err := conn.Read(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					if got := line(m); got != fmt.Sprint(i, " true") {
						t.Fatalf("answer %d: %s", i, got)
					}
				}
				synctest.Wait()
				want(t, "state", "serving", tr.State().String())
				want(t, "no second attempt", 1, tr.Stats().Restarts)
			})
		})
	}
}

// A pipeEnd is the server's end of two pipes that hold nothing.
type pipeEnd interface {
	// serve takes n requests, and has the answer to each taken before it reads on.
	serve(n int, answer func(id jsonrpc.ID, length int) jsonrpc.Message)
	Close() error
}

// A handover is a pipe of messages.
type handover struct {
	in, out chan jsonrpc.Message
	closed  chan struct{}
	close   func()
}

func newHandover() (pipeEnd, mcp.Transport) {
	h := &handover{in: make(chan jsonrpc.Message), out: make(chan jsonrpc.Message), closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	return h, h
}

func (h *handover) Connect(context.Context) (mcp.Connection, error) { return h, nil }
func (h *handover) SessionID() string                               { return "" }
func (h *handover) Close() error                                    { h.close(); return nil }

func (h *handover) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-h.out:
		return m, nil
	case <-h.closed:
		return nil, io.EOF
	}
}

func (h *handover) Write(_ context.Context, m jsonrpc.Message) error {
	select {
	case h.in <- m:
		return nil
	case <-h.closed:
		return io.ErrClosedPipe
	}
}

func (h *handover) serve(n int, answer func(jsonrpc.ID, int) jsonrpc.Message) {
	for range n {
		select {
		case m := <-h.in:
			q := m.(*jsonrpc.Request)
			if a := answer(q.ID, len(q.Params)); a != nil {
				select {
				case h.out <- a:
				case <-h.closed:
				}
			}
		case <-h.closed:
			return
		}
	}
}

// A bytePipe is two of io.Pipe, as the SDK's IOTransport uses them.
type bytePipe struct {
	in  *io.PipeReader
	out *io.PipeWriter
}

func newBytePipe() (pipeEnd, mcp.Transport) {
	fromServer, toClient := io.Pipe()
	fromClient, toServer := io.Pipe()
	return &bytePipe{fromClient, toClient}, &mcp.IOTransport{Reader: fromServer, Writer: toServer}
}

func (b *bytePipe) serve(n int, answer func(jsonrpc.ID, int) jsonrpc.Message) {
	in := bufio.NewReader(b.in)
	for range n {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := jsonrpc.DecodeMessage(text)
		if err != nil {
			return
		}
		q := m.(*jsonrpc.Request)
		if a := answer(q.ID, len(q.Params)); a != nil {
			text, _ := jsonrpc.EncodeMessage(a)
			if _, err := b.out.Write(append(text, '\n')); err != nil {
				return
			}
		}
	}
}

func (b *bytePipe) Close() error { b.in.Close(); return b.out.Close() }

// What a replacement says while it is replayed to is held, but answers; it is delivered in order.
func TestR0_HoldsWhatIsSaidMeanwhile(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := r.gated(1, gate{method: "tools/list", id: "b"})
		r.connect()
		var l listener
		s := r.listens(l.take)
		r.writes(listen("mine"), ask("a", "tools/list"), ask("b", "tools/list"))

		p := r.replaced()
		want(r, "state", "connecting", r.State().String())
		p.Say(
			&jsonrpc.Request{Method: "notifications/one"},
			ask(0, "roots/list"),
			delivery(s.ID(), "two"),
			delivery(idOf("mine"), "three"),
			&jsonrpc.Response{ID: idOf("a"), Result: json.RawMessage(`"now"`)},
			delivery(s.ID(), "progress"),
			delivery(s.ID(), "four"),
			ask(1, "sampling/createMessage"),
			&jsonrpc.Request{Method: "notifications/five"},
		)
		want(r, "passes at once", lines(`a "now"`), r.read())
		want(r, "the stream hears meanwhile", nil, l.hears())

		open()
		r.wantState(supervised.StateServing)
		want(r, "delivered then", lines(
			"notifications/one",
			"roots/list {}",
			`notifications/three {"_meta":{"io.modelcontextprotocol/subscriptionId":"mine"}}`,
			fmt.Sprintf(`notifications/progress {"_meta":{"io.modelcontextprotocol/subscriptionId":%q}}`, s.ID().Raw()),
			"sampling/createMessage {}",
			"notifications/five",
		), r.read())
		want(r, "the stream hears then", lines("notifications/two", "notifications/four"), l.hears())

		p.Say(&jsonrpc.Request{Method: "notifications/six"})
		want(r, "said while it serves", lines("notifications/six"), r.read())
	}, atOnce()...)
}

// A server's ping must not wait: it is answered for the client.
func TestR0_HoldsNoPing(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := r.gated(1, gate{method: "tools/list", id: "a"})
		r.connect()
		r.writes(ask("a", "tools/list"))
		p := r.replaced()
		p.Say(ask(0, "ping"))
		want(r, "got", lines("answer 0"), r.got(p))
		open()
		r.wantState(supervised.StateServing)
		want(r, "the client", nil, r.read())
	}, atOnce()...)
}

// Nothing but the replay is written to a replacement that does not serve yet, and nothing of it is queued.
func TestR0_NothingElseIsWritten(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := r.gated(1, gate{method: "tools/list", id: "kept"})
		r.connect()
		r.Last().Say(ask(7, "roots/list"))
		var up jsonrpc.ID
		synctest.Wait()
		r.mu.Lock()
		up = r.answers[0].(*jsonrpc.Request).ID
		r.mu.Unlock()
		r.writes(ask("kept", "tools/list"), listen("stream"))
		p := r.replaced()
		r.read()
		want(r, "state", "connecting", r.State().String())

		refused := map[string]string{"call": "reconnecting", "notification": "reconnecting", "Listen": "reconnecting", "restart": "reconnecting", "ping": "ok", "answer to the old peer": "ok"}
		_, err := r.call("tools/call")
		_, listening := r.Listen(context.Background(), &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}}, func(*jsonrpc.Request) {})
		want(r, "refused", refused, map[string]string{
			"call":                   kind(err),
			"notification":           kind(r.notify("notifications/progress", "{}")),
			"Listen":                 kind(listening),
			"restart":                kind(r.Restart(errCrash)),
			"ping":                   kind(r.conn.Write(context.Background(), ask("ping", "ping"))),
			"answer to the old peer": kind(r.conn.Write(context.Background(), &jsonrpc.Response{ID: up, Result: json.RawMessage(`{}`)})),
		})
		want(r, "answers", lines("ping {}"), r.read())
		want(r, "written to it", nil, r.got(p))
		open()
		r.wantState(supervised.StateServing)
		want(r, "written to it", lines("tools/list kept", "subscriptions/listen stream"), r.got(p))
		_, err = r.call("tools/call")
		want(r, "accepted", "ok", kind(err))
	}, atOnce()...)
}

// TestR0_DeathInIt: a death during handshake or replay is a failed attempt. The next gets what is still open.
func TestR0_DeathInIt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		blind func(r *rig, p *peertest.Peer) // scripts the replacement that dies
		got   []string                       // by it
		again []string                       // by the one after it
		reads []string                       // by the client meanwhile
	}{
		{
			name:  "as it starts",
			blind: func(_ *rig, p *peertest.Peer) { p.Die(errCrash); p.OnWrite = untilClosed(p) },
			again: lines("tools/list a", "tools/list b", "subscriptions/listen s"),
		}, {
			name: "its first Write fails",
			blind: func(_ *rig, p *peertest.Peer) {
				p.OnWrite = func(context.Context, jsonrpc.Message) error { return errCrash }
			},
			again: lines("tools/list a", "tools/list b", "subscriptions/listen s"),
		}, {
			name: "in the midst",
			blind: func(_ *rig, p *peertest.Peer) {
				p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
					if m.(*jsonrpc.Request).ID == idOf("b") {
						p.Die(errCrash)
						<-p.Closed()
						return io.ErrClosedPipe
					}
					return nil
				}
			},
			got:   lines("tools/list a"),
			again: lines("tools/list a", "tools/list b", "subscriptions/listen s"),
		}, {
			name: "having answered one",
			blind: func(r *rig, p *peertest.Peer) {
				p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
					if m.(*jsonrpc.Request).ID == idOf("b") {
						p.Reply(idOf("a"), `"a"`)
						p.Die(errCrash)
						<-p.Closed()
						return io.ErrClosedPipe
					}
					return nil
				}
			},
			got:   lines("tools/list a"),
			again: lines("tools/list b", "subscriptions/listen s"),
			reads: lines(`a "a"`),
		}, {
			name: "at the stream, having answered all",
			blind: func(r *rig, p *peertest.Peer) {
				p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
					if m.(*jsonrpc.Request).ID == idOf("s") {
						p.Reply(idOf("b"), `"b"`)
						p.Reply(idOf("a"), `"a"`)
						return errCrash
					}
					return nil
				}
			},
			got:   lines("tools/list a", "tools/list b"),
			again: lines("subscriptions/listen s"),
			reads: lines(`b "b"`, `a "a"`),
		}, {
			name: "having said what is not an answer",
			blind: func(r *rig, p *peertest.Peer) {
				p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
					if m.(*jsonrpc.Request).ID == idOf("s") {
						p.Say(&jsonrpc.Request{Method: "notifications/one"}, ask(0, "roots/list"))
						p.Die(errCrash)
						<-p.Closed()
						return io.ErrClosedPipe
					}
					return nil
				}
			},
			got:   lines("tools/list a", "tools/list b"),
			again: lines("tools/list a", "tools/list b", "subscriptions/listen s"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.onMint(1, func(_ context.Context, p *peertest.Peer) error { tt.blind(r, p); return nil })
				r.connect()
				r.writes(listen("s"), ask("a", "tools/list"), ask("b", "tools/list"))
				r.Last().Die(errCrash)
				pass(time.Second)
				r.wantState(supervised.StateServing)

				want(r, "minted", 3, r.Minted())
				want(r, "got by the one that died", tt.got, r.got(r.Peer(1)))
				want(r, "got by the one after it", tt.again, r.got(r.Peer(2)))
				want(r, "reads", tt.reads, r.read())
				hooks := r.hooks()
				want(r, "hooks", 3, len(hooks))
				want(r, "the death", "close: crash", hooks[0])
				want(r, "the attempt", true, strings.HasPrefix(hooks[1], "error: "))
				want(r, "the replacement", "reconnect", hooks[2])
				want(r, "restarts spent", 2, r.Stats().RestartsInWindow)
			}, atOnce()...)
		})
	}
}

// untilClosed is a Write that ends with the connection alone.
func untilClosed(p *peertest.Peer) func(context.Context, jsonrpc.Message) error {
	return func(context.Context, jsonrpc.Message) error { <-p.Closed(); return io.ErrClosedPipe }
}

// TestR0_DeathInTheHandshake: the same for the older protocol's.
func TestR0_DeathInTheHandshake(t *testing.T) {
	for name, script := range map[string]func(p *peertest.Peer){
		"at initialize": func(p *peertest.Peer) { p.Answer = nil; p.Die(errCrash) },
		"instead of its answer": func(p *peertest.Peer) {
			p.Answer = func(*jsonrpc.Request) *jsonrpc.Response { p.Die(errCrash); return nil }
		},
		"it is refused":    func(p *peertest.Peer) { p.Answer = refuse },
		"it is silent":     func(p *peertest.Peer) { p.Answer = nil },
		"at initialized":   func(p *peertest.Peer) { p.OnWrite = failAt("notifications/initialized") },
		"it will not read": func(p *peertest.Peer) { p.OnWrite = untilClosed(p) },
		"it answers and says a lot": func(p *peertest.Peer) {
			p.Say(&jsonrpc.Request{Method: "notifications/one"})
			p.OnWrite = failAt("notifications/initialized")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
					p.Answer = serve2025
					if p.Number == 1 {
						script(p)
					}
					return nil
				}
				r.connect()
				r.writes(&jsonrpc.Request{ID: idOf("i"), Method: "initialize", Params: json.RawMessage(`{"protocolVersion":"2025-11-25"}`)},
					&jsonrpc.Request{Method: "notifications/initialized"})
				r.read()
				r.Last().Die(errCrash)
				pass(time.Minute)
				r.wantState(supervised.StateServing)
				want(r, "minted", 3, r.Minted())
				want(r, "the client reads", nil, r.read())
				hooks := r.hooks()
				want(r, "the death", "close: crash", hooks[0])
				want(r, "the attempt", true, strings.HasPrefix(hooks[1], "error: "))
				want(r, "the rest", lines("reconnect"), hooks[2:])
			}, atOnce()...)
		})
	}
}

// failAt is a Write that fails at a method.
func failAt(method string) func(context.Context, jsonrpc.Message) error {
	return func(_ context.Context, m jsonrpc.Message) error {
		if q, ok := m.(*jsonrpc.Request); ok && q.Method == method {
			return errCrash
		}
		return nil
	}
}

func refuse(q *jsonrpc.Request) *jsonrpc.Response {
	return &jsonrpc.Response{ID: q.ID, Error: &jsonrpc.Error{Code: -32603, Message: "no"}}
}

// TestR0_NotWrittenInTime: the connect timeout bounds the replay, whatever a Write does.
func TestR0_NotWrittenInTime(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf %v", deaf), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.gated(1, gate{method: "subscriptions/listen", deaf: deaf})
				r.connect()
				r.writes(listen("s"), ask("a", "tools/list"))
				p := r.replaced()
				pass(5*time.Second - 1)
				want(r, "state", "connecting", r.State().String())
				p.Reply(idOf("a"), `"late"`)
				want(r, "answers pass", lines(`a "late"`), r.read())
				pass(1)
				r.wantState(supervised.StateServing)
				told := r.errors()
				want(r, "told", 1, len(told))
				wantIs(r, "told", told[0], context.DeadlineExceeded)
				hooks := r.hooks()
				want(r, "no OnClose for it", lines("close: crash", "reconnect"), lines(hooks[0], hooks[len(hooks)-1]))
				want(r, "hooks", 3, len(hooks))
				want(r, "the next one got", lines("subscriptions/listen s"), r.got(r.Last()))
			}, atOnce(supervised.WithConnectTimeout(5*time.Second))...)
		})
	}
}

// TestR0_DeliveredWhenItServes: whoever reads what was held finds a transport that serves: calls, answers and
// streams are taken. Readers that never rest are there as soon as it is let go.
func TestR0_DeliveredWhenItServes(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	var mu sync.Mutex
	failed := make(map[string]int)
	fails := func(what string) { mu.Lock(); defer mu.Unlock(); failed[what]++ }
	var f peertest.Fleet
	f.OnMint = func(_ context.Context, p *peertest.Peer) error {
		if p.Number > 0 {
			p.Say(ask(p.Number, "roots/list"))
		}
		return nil
	}
	tr, err := supervised.New(f.Mint, atOnce(supervised.WithMaxRestarts(rounds))...)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	conn, err := tr.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	go func() {
		for n := 0; ; {
			m, err := conn.Read(ctx) // of what is there: it does not wait
			if errors.Is(err, context.Canceled) {
				continue
			}
			if err != nil {
				return
			}
			q, ok := m.(*jsonrpc.Request)
			if !ok || q.Method != "roots/list" {
				continue
			}
			n++
			if s := tr.State(); s != supervised.StateServing {
				fails("state " + s.String())
			}
			if err := conn.Write(context.Background(), &jsonrpc.Response{ID: q.ID, Result: json.RawMessage(`{}`)}); err != nil {
				fails("answer: " + kind(err))
			}
			if err := conn.Write(context.Background(), ask(n, "tools/call")); err != nil {
				fails("call: " + kind(err))
			}
			s, err := tr.Listen(context.Background(), &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}}, func(*jsonrpc.Request) {})
			if err != nil {
				fails("Listen: " + kind(err))
			} else {
				s.Close()
			}
			heard <- struct{}{}
		}
	}()
	for range rounds {
		if err := tr.WaitServing(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := tr.Restart(errCrash); err != nil {
			t.Fatal(err)
		}
		next(t, "what was held", heard)
	}
	mu.Lock()
	defer mu.Unlock()
	want(t, "refused to whoever had read it", map[string]int{}, failed)
}

// TestR0_HeldBeyondTheBound: a replacement that says more than is held goes on being read once it serves.
func TestR0_HeldBeyondTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("scans 70 MiB")
	}
	inBubble(t, func(r *rig) {
		open := r.gated(1, gate{method: "tools/list", id: "a"})
		r.connect()
		var l listener
		s := r.listens(l.take)
		r.writes(ask("a", "tools/list"))
		p := r.replaced()
		const n = 70
		big := delivery(s.ID(), "big")
		big.Params = append(bytes.TrimSuffix(big.Params, []byte("}")), `,"blob":"`+strings.Repeat("x", 1<<20)+`"}`...)
		for range n {
			p.Say(big)
		}
		synctest.Wait()
		open()
		r.wantState(supervised.StateServing)
		p.Reply(idOf("a"), `"a"`)
		want(r, "answer behind it", lines(`a "a"`), r.read())
		want(r, "deliveries", n, len(l.hears()))
	}, atOnce()...)
}

// TestR0_StreamThatEndsMeanwhile: what a replacement says to a stream before it ends it is the stream's, also
// while it is replayed to.
func TestR0_StreamThatEndsMeanwhile(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		var l listener
		s := r.listens(l.take)
		r.writes(listen("last"))
		open := r.gated(1, gate{method: "subscriptions/listen", id: "last"})
		p := r.replaced()
		p.Say(delivery(s.ID(), "one"), delivery(s.ID(), "two"))
		p.Reply(s.ID(), `{}`)
		synctest.Wait()
		open()
		r.wantState(supervised.StateServing)
		want(r, "the stream hears", lines("notifications/one", "notifications/two"), l.hears())
		want(r, "Await", "ok", ended(s))
		want(r, "the client reads", nil, r.read())
	}, atOnce()...)
}

// TestR0_WhatIsSentAgainOutlivesItsWrite: a transport over HTTP reads the answer under the context of the Write.
func TestR0_WhatIsSentAgainOutlivesItsWrite(t *testing.T) {
	inBubble(t, func(r *rig) {
		var mu sync.Mutex
		written := make(map[string]context.Context)
		r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
				mu.Lock()
				defer mu.Unlock()
				written[fmt.Sprint(m.(*jsonrpc.Request).ID.Raw())] = ctx
				return nil
			}
			return nil
		})
		r.connect()
		r.writes(listen("stream"), ask("call", "tools/list"))
		r.replaced()
		r.wantState(supervised.StateServing)
		mu.Lock()
		defer mu.Unlock()
		for _, id := range []string{"call", "stream"} {
			want(r, "context of "+id+" while it is open", nil, written[id].Err())
		}
	}, atOnce()...)
}

// TestR0_AnswerBeforeItsWriteReturns: a request that was answered was taken, whenever its Write returns and with
// whatever.
func TestR0_AnswerBeforeItsWriteReturns(t *testing.T) {
	logger, records := logtest.NewNullLogger()
	inBubble(t, func(r *rig) {
		r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
				if q, ok := m.(*jsonrpc.Request); ok && q.IsCall() {
					p.Reply(q.ID, `{}`)
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(time.Second):
					}
				}
				return nil
			}
			return nil
		})
		r.connect()
		r.writes(ask("a", "tools/list"), ask("b", "resources/read"))
		r.replaced()
		pass(time.Minute)
		r.wantState(supervised.StateServing)
		want(r, "answers", lines("a {}", "b {}"), r.read())
		want(r, "logged at error", nil, recorded(records, logrus.ErrorLevel))
		want(r, "minted", 2, r.Minted())
	}, atOnce(supervised.WithLogger(logger))...)
}

// TestR0_TenThousandStreams: the time of a replay grows as the number of streams does.
func TestR0_TenThousandStreams(t *testing.T) {
	few, many := 1000, 10000
	if testing.Short() {
		few, many = 200, 2000
	}
	replay := func(streams int) time.Duration {
		var f peertest.Fleet
		tr, err := supervised.New(f.Mint, atOnce()...)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		conn, err := tr.Connect(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for i := range streams {
			if err := conn.Write(context.Background(), listen(i)); err != nil {
				t.Fatal(err)
			}
		}
		fastest := time.Hour
		for range 3 {
			back := make(chan struct{})
			remove := tr.OnReconnect(func(context.Context) error { close(back); return nil })
			start := time.Now()
			if err := tr.Restart(errCrash); err != nil {
				t.Fatal(err)
			}
			next(t, "the replacement", back)
			fastest = min(fastest, time.Since(start))
			remove()
			got := f.Last().Got()
			want(t, "replayed", streams, len(got))
			for i, m := range got {
				if id := m.(*jsonrpc.Request).ID; id != idOf(i) {
					t.Fatalf("stream %d of the replay is %v", i, id.Raw())
				}
			}
		}
		return fastest
	}
	linear(t, few, many, replay)
}

// linear fails where the time that f takes grows faster than n. What is linear shows it as soon as the machine lets it;
// what is not never does.
func linear(t *testing.T, few, many int, f func(n int) time.Duration) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		a, b := f(few), f(many)
		t.Logf("%d: %v, %d: %v", few, a, many, b)
		if b <= 4*time.Duration(many/few)*a+200*time.Millisecond {
			return
		}
		if attempt == 10 {
			t.Fatalf("%d took %v, %d took %v: that is not linear", few, a, many, b)
		}
	}
}

// TestR1_SameRequests: the streams are sent again as they were, after the kept calls, in the order of opening,
// to each replacement, and nothing else is.
func TestR1_SameRequests(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		extra := &mcp.RequestExtra{}
		odd := &jsonrpc.Request{ID: idOf("odd \" id"), Method: "subscriptions/listen", Params: json.RawMessage(" {\"notifications\" : {\"x\":1e3, \"\\u0078\":\"<&>\"} }\n"), Extra: extra}
		r.writes(&jsonrpc.Request{ID: idOf("d"), Method: "server/discover", Params: discoverParams("2026-07-28")})
		r.Last().Reply(idOf("d"), `{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
		want(r, "discovered", 1, len(r.read()))
		r.writes(ask(1, "tools/list"), listen(2))
		a := r.listens(func(*jsonrpc.Request) {})
		r.writes(ask(3, "tools/call"), odd)
		b := r.listens(func(*jsonrpc.Request) {})
		r.writes(ask(4, "tools/list"), listen("2"))
		first := make(map[jsonrpc.ID]*jsonrpc.Request)
		bytesOf := make(map[jsonrpc.ID]string)
		for _, m := range r.Last().Got() {
			q := m.(*jsonrpc.Request)
			first[q.ID], bytesOf[q.ID] = q, string(q.Params)
		}

		order := []jsonrpc.ID{idOf(1), idOf(4), idOf(2), a.ID(), odd.ID, b.ID(), idOf("2")}
		for life := range 3 {
			p := r.replaced()
			r.wantState(supervised.StateServing)
			var got []jsonrpc.ID
			for _, m := range p.Got() {
				q := m.(*jsonrpc.Request)
				got = append(got, q.ID)
				want(r, "method", first[q.ID].Method, q.Method)
				want(r, "params", bytesOf[q.ID], string(q.Params))
				want(r, "Extra", true, first[q.ID].Extra == q.Extra)
			}
			if !slices.Equal(order, got) {
				r.Errorf("life %d: want %v, got %v", life+1, order, got)
			}
		}
		want(r, "open", 5, r.Stats().Streams)
		r.writes(cancelled(idOf(2)), listen(2)) // opened again: it is the last now
		order = append(slices.Delete(order, 2, 3), idOf(2))
		want(r, "order", len(order), len(r.replaced().Got()))
		want(r, "the last", true, idOf(2) == r.Last().Got()[len(order)-1].(*jsonrpc.Request).ID)
	}, atOnce()...)
}

// TestR1_ContextOfTheWriteIsOver: a stream is open until one of R2 happens, and the end of the context that bounded
// its Write is none of them.
func TestR1_ContextOfTheWriteIsOver(t *testing.T) {
	inBubble(t, func(r *rig) {
		obey := func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(ctx context.Context, _ jsonrpc.Message) error { return ctx.Err() }
			return nil
		}
		r.onMint(1, obey)
		r.connect()
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), key{}, "value"), time.Second)
		want(r, "Write", nil, r.conn.Write(ctx, listen("s")))
		s, err := r.Listen(ctx, &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}}, func(*jsonrpc.Request) {})
		want(r, "Listen", nil, err)
		cancel()
		pass(time.Minute)
		p := r.replaced()
		want(r, "sent again", lines("subscriptions/listen s", fmt.Sprint("subscriptions/listen ", s.ID().Raw())), r.got(p))
		want(r, "open", 2, r.Stats().Streams)
	}, atOnce()...)
}

type key struct{}

// TestR1_WriteInFlightAtTheDeath: a stream whose request was being written when its peer died is open.
func TestR1_WriteInFlightAtTheDeath(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error { p.OnWrite = untilClosed(p); return nil })
		r.connect()
		written := later(func() error { return r.conn.Write(context.Background(), listen("s")) })
		var s *supervised.Stream
		listened := later(func() (err error) {
			s, err = r.Listen(context.Background(), &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}}, func(*jsonrpc.Request) {})
			return err
		})
		wantPending(r, "Write", written)
		p := r.replaced()
		want(r, "Write", nil, <-written)
		want(r, "Listen", nil, <-listened)
		got := r.got(p)
		slices.Sort(got)
		want(r, "sent again", lines("subscriptions/listen s", fmt.Sprint("subscriptions/listen ", s.ID().Raw())), got)
	}, atOnce()...)
}

func discoverParams(version string) json.RawMessage {
	return fmt.Appendf(nil, `{"_meta":{%q:%q,%q:{"name":"discoverer","version":"9"},%q:{"roots":{}}}}`,
		mcp.MetaKeyProtocolVersion, version, mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities)
}

// R2 is about every way of ending a stream, at every moment.
type ending struct {
	name string
	end  func(r *rig, p *peertest.Peer, s *supervised.Stream, id jsonrpc.ID)
	told bool   // the end is the client's: a server that has the request is to learn it
	how  string // Await
}

var byTheServer = []ending{
	{name: "result", end: func(_ *rig, p *peertest.Peer, _ *supervised.Stream, id jsonrpc.ID) { p.Reply(id, `{}`) }, how: "ok"},
	{name: "error", end: func(_ *rig, p *peertest.Peer, _ *supervised.Stream, id jsonrpc.ID) {
		p.Say(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: -32602, Message: "refused"}})
	}, how: "refused"},
	{name: "server's cancellation", end: func(_ *rig, p *peertest.Peer, _ *supervised.Stream, id jsonrpc.ID) { p.Say(cancelled(id)) }, how: supervised.ErrStreamClosed.Error()},
}

var byTheClient = []ending{
	{name: "client's cancellation", end: func(r *rig, _ *peertest.Peer, _ *supervised.Stream, id jsonrpc.ID) { r.writes(cancelled(id)) }, told: true, how: supervised.ErrStreamClosed.Error()},
	{name: "Close", end: func(r *rig, _ *peertest.Peer, s *supervised.Stream, id jsonrpc.ID) {
		if s == nil {
			r.writes(cancelled(id))
			return
		}
		want(r, "Close", nil, s.Close())
	}, told: true, how: supervised.ErrStreamClosed.Error()},
}

// TestR2_OverIsOver: a stream that is over is sent to no replacement, and the server that has it is told where the
// end was not its own.
func TestR2_OverIsOver(t *testing.T) {
	for _, moment := range []string{"while serving", "in the gap", "before it is sent again", "after it was sent again", "after it was sent again, and the replacement dies"} {
		for _, e := range append(slices.Clone(byTheServer), byTheClient...) {
			if !e.told && (moment == "in the gap" || moment == "before it is sent again") {
				continue // no server has it
			}
			for _, opener := range []string{"client", "Listen"} {
				t.Run(fmt.Sprintf("R2 %s %s of %s", e.name, moment, opener), func(t *testing.T) {
					inBubble(t, func(r *rig) {
						r.connect()
						var s *supervised.Stream
						id := idOf(5)
						if opener == "Listen" {
							s = r.listens(func(*jsonrpc.Request) {})
							id = s.ID()
						} else {
							r.writes(listen(5))
						}
						r.writes(ask("kept", "tools/list"), listen("last"))
						named := fmt.Sprint("subscriptions/listen ", id.Raw())
						told := fmt.Sprint("notifications/cancelled ", id.Raw())

						var has *peertest.Peer // the one that is to be told
						switch moment {
						case "while serving":
							has = r.Last()
							e.end(r, has, s, id)
							synctest.Wait()
						case "in the gap":
							open := make(chan struct{})
							r.onMint(1, func(context.Context, *peertest.Peer) error { <-open; return nil })
							r.replaced()
							e.end(r, nil, s, id)
							synctest.Wait()
							close(open)
						case "before it is sent again":
							open := r.gated(1, gate{method: "tools/list", id: "kept"})
							p := r.replaced()
							e.end(r, p, s, id)
							synctest.Wait()
							open()
						default:
							open := r.gated(1, gate{method: "subscriptions/listen", id: "last"})
							p := r.replaced()
							want(r, "sent again", lines("tools/list kept", named), r.got(p))
							e.end(r, p, s, id)
							synctest.Wait()
							if moment == "after it was sent again" {
								has = p
								open()
							} else {
								p.Die(errCrash)
							}
						}
						r.wantState(supervised.StateServing)
						if has != nil && e.told {
							want(r, "the server that has it is told", 1, count(r.got(has), told))
						}
						if s != nil {
							want(r, "Await", e.how, ended(s))
						}
						for range 2 {
							want(r, "streams", 1, r.Stats().Streams)
							want(r, "the next one gets", lines("tools/list kept", "subscriptions/listen last"), r.got(r.replaced()))
						}
						for i := range r.Minted() {
							if p := r.Peer(i); p != has {
								want(r, fmt.Sprintf("peer %d, which had it not or is dead, is told", i), 0, count(r.got(p), told))
							}
						}
					}, atOnce()...)
				})
			}
		}
	}
}

// count is how often s is in ss.
func count(ss []string, s string) (n int) {
	for _, each := range ss {
		if each == s {
			n++
		}
	}
	return n
}

// TestR2_CloseIsAtOnce: a Stream that is closed while a replacement is being replayed to, right before it would be
// sent again, is not sent again. Close has returned: there is nothing to wait for.
func TestR2_CloseIsAtOnce(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	inBubble(t, func(r *rig) {
		var s *supervised.Stream
		r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(_ context.Context, m jsonrpc.Message) error {
				if q, ok := m.(*jsonrpc.Request); ok && q.Method == "tools/list" && p.Number > 0 {
					s.Close()
				}
				return nil
			}
			return nil
		}
		r.connect()
		r.writes(ask("kept", "tools/list"))
		sent := 0
		for range rounds {
			s = r.listens(func(*jsonrpc.Request) {})
			p := r.replaced()
			r.wantState(supervised.StateServing)
			sent += count(r.got(p), fmt.Sprint("subscriptions/listen ", s.ID().Raw()))
		}
		want(r, "sent again after Close", 0, sent)
	}, atOnce()...)
}

// TestR2_CloseIsToldInOrder: the server learns of the end of one stream before it is asked for the next.
func TestR2_CloseIsToldInOrder(t *testing.T) {
	logger, records := logtest.NewNullLogger()
	inBubble(t, func(r *rig) {
		r.connect()
		swapped := 0
		for range 50 {
			s := r.listensTo(&mcp.NotificationSubscriptions{ToolsListChanged: true}, func(*jsonrpc.Request) {})
			s.Close()
			again := r.listensTo(&mcp.NotificationSubscriptions{ToolsListChanged: true}, func(*jsonrpc.Request) {})
			got := r.got(r.Last())
			if slices.Index(got, fmt.Sprint("notifications/cancelled ", s.ID().Raw())) > slices.Index(got, fmt.Sprint("subscriptions/listen ", again.ID().Raw())) {
				swapped++
			}
			again.Close()
			synctest.Wait()
		}
		want(r, "asked for the next one first", 0, swapped)
		want(r, "told of an overlap", 0, len(records.AllEntries()))
	}, atOnce(supervised.WithLogger(logger))...)
}

// TestR2_ToldBeforeAnythingElse: a stream that is closed after it was sent again, while the rest is: the replacement
// learns that before it is asked for the same again. The SDK's server would end the new stream otherwise.
func TestR2_ToldBeforeAnythingElse(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	inBubble(t, func(r *rig) {
		tools := &mcp.NotificationSubscriptions{ToolsListChanged: true}
		r.connect()
		r.writes(listen("last"))
		swapped, told := 0, 0
		for n := range rounds {
			a := r.listensTo(tools, nothing)
			r.writes(cancelled(idOf("last")), listen("last"))
			open := r.gated(n+1, gate{method: "subscriptions/listen", id: "last"})
			p := r.replaced()
			a.Close()
			again := make(chan *supervised.Stream)
			go func() {
				if err := r.WaitServing(context.Background()); err != nil {
					r.Error(err)
				}
				again <- r.listensTo(tools, nothing)
			}()
			synctest.Wait()
			open()
			b := <-again
			got := r.got(p)
			end, begin := slices.Index(got, fmt.Sprint("notifications/cancelled ", a.ID().Raw())), slices.Index(got, fmt.Sprint("subscriptions/listen ", b.ID().Raw()))
			if end >= 0 {
				told++
			}
			if end > begin {
				swapped++
			}
			b.Close()
		}
		want(r, "told", rounds, told)
		want(r, "asked for the next one first", 0, swapped)
	}, atOnce()...)
}

// TestR2_ForgottenAfterItWasSentAgain: Listen whose context ends while its Write to a dead peer still blocks. The
// replacement has the request by then, and is told that nobody wants it.
func TestR2_ForgottenAfterItWasSentAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(ctx context.Context, _ jsonrpc.Message) error { <-ctx.Done(); return ctx.Err() }
			return nil
		})
		r.connect()
		ctx, cancel := context.WithCancel(context.Background())
		listening := later(func() error {
			_, err := r.Listen(ctx, &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}}, nothing)
			return err
		})
		wantPending(r, "Listen", listening)
		p := r.replaced()
		want(r, "sent again", 1, len(r.got(p)))
		cancel()
		wantIs(r, "Listen", <-listening, context.Canceled)
		want(r, "streams", 0, r.Stats().Streams)
		got := r.got(p)
		want(r, "the replacement is told", true, len(got) == 2 && strings.HasPrefix(got[1], "notifications/cancelled "))
	}, atOnce()...)
}

// TestR2_RequestOfTheServerWithTheSameID: ids count for each side on its own. A cancellation by the server is of its
// own request while that is open, and of the stream otherwise.
func TestR2_RequestOfTheServerWithTheSameID(t *testing.T) {
	for name, over := range map[string]func(r *rig, up jsonrpc.ID){
		"cancelled": func(r *rig, _ jsonrpc.ID) { r.Last().Say(cancelled(idOf(5))) },
		"answered":  func(r *rig, up jsonrpc.ID) { r.writes(&jsonrpc.Response{ID: up, Result: json.RawMessage(`{}`)}) },
		"cancelled, answered": func(r *rig, up jsonrpc.ID) {
			r.Last().Say(cancelled(idOf(5)))
			synctest.Wait()
			r.writes(&jsonrpc.Response{ID: up, Result: json.RawMessage(`{}`)})
		},
		"of a server now dead": func(r *rig, _ jsonrpc.ID) { r.replaced() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				r.writes(listen(5))
				r.Last().Say(ask(5, "roots/list"))
				synctest.Wait()
				r.mu.Lock()
				up := r.answers[0].(*jsonrpc.Request).ID
				r.mu.Unlock()
				over(r, up)
				synctest.Wait()
				want(r, "the stream is open", 1, r.Stats().Streams)
				r.read()

				r.Last().Say(cancelled(idOf(5)))
				want(r, "the client learns that its stream is over", lines(`notifications/cancelled {"requestId":5}`), r.read())
				want(r, "the stream is over", 0, r.Stats().Streams)
				want(r, "sent again", nil, r.got(r.replaced()))
			}, atOnce()...)
		})
	}
}

// TestR2_CancelledByAReplacementThatThenDies: the word of a server counts, also if it did not live to serve.
func TestR2_CancelledByAReplacementThatThenDies(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.writes(listen("s"), listen("last"))
		r.gated(1, gate{method: "subscriptions/listen", id: "last"})
		p := r.replaced()
		want(r, "sent again", lines("subscriptions/listen s"), r.got(p))
		p.Say(cancelled(idOf("s")))
		synctest.Wait()
		p.Die(errCrash)
		r.wantState(supervised.StateServing)
		want(r, "the next one gets", lines("subscriptions/listen last"), r.got(r.Last()))
	}, atOnce()...)
}

// TestR3_AListenThatCannotBeTaken stays open, and is logged.
func TestR3_AListenThatCannotBeTaken(t *testing.T) {
	rejected := fmt.Errorf("busy: %w", &jsonrpc.Error{Code: -32005, Message: "rejected by transport"})
	for _, tt := range []struct {
		name   string
		err    error
		failed bool // the attempt
	}{
		{"R3 rejected", rejected, false},
		{"R3 the connection breaks", errCrash, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			logger, records := logtest.NewNullLogger()
			inBubble(t, func(r *rig) {
				r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
					p.OnWrite = func(_ context.Context, m jsonrpc.Message) error {
						if m.(*jsonrpc.Request).ID == idOf("b") {
							return tt.err
						}
						return nil
					}
					return nil
				})
				r.connect()
				r.writes(listen("a"), listen("b"), listen("c"))
				p := r.replaced()
				pass(time.Second) // what a Write that broke may take
				r.wantState(supervised.StateServing)
				after := p
				if tt.failed {
					after = r.Peer(2)
					want(r, "got", lines("subscriptions/listen a"), r.got(r.Peer(1)))
				} else {
					want(r, "got, the others too", lines("subscriptions/listen a", "subscriptions/listen c"), r.got(p))
					want(r, "open", 3, r.Stats().Streams)
					after = r.replaced()
				}
				want(r, "the one after it gets", lines("subscriptions/listen a", "subscriptions/listen b", "subscriptions/listen c"), r.got(after))
				var failures []any
				for _, e := range records.AllEntries() {
					if e.Level == logrus.ErrorLevel {
						failures = append(failures, e.Data["id"])
					}
				}
				want(r, "logged at error, by id", []any{"b"}, failures)
				want(r, "the client reads", nil, r.read())
			}, atOnce(supervised.WithLogger(logger))...)
		})
	}
}

// TestR4_WhoGetsWhat: a delivery goes to the stream of its id and nowhere else.
func TestR4_WhoGetsWhat(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		var a, b listener
		sa, sb := r.listens(a.take), r.listens(b.take)
		gone := r.listens(func(*jsonrpc.Request) { t.Error("a delivery to a stream that is closed") })
		gone.Close()
		r.writes(listen(7), listen("7"))
		synctest.Wait()
		ids := sa.ID().Raw().(string)
		meta := func(method, meta string) *jsonrpc.Request {
			return &jsonrpc.Request{Method: "notifications/" + method, Params: json.RawMessage(`{"_meta":` + meta + `}`)}
		}
		tag := func(raw string) string { return fmt.Sprintf(`{%q:%s}`, mcp.MetaKeySubscriptionID, raw) }
		escaped := fmt.Sprintf(`"\u%04x%s"`, ids[0], ids[1:])

		r.Last().Say(
			delivery(sa.ID(), "a"), delivery(sb.ID(), "b"), delivery(sa.ID(), "a2"),
			meta("escaped", tag(escaped)),
			delivery(idOf(7), "number"), delivery(idOf("7"), "string"), delivery(gone.ID(), "gone"), delivery(idOf("unknown"), "unknown"),
			&jsonrpc.Request{Method: "notifications/untagged", Params: json.RawMessage(`{}`)},
			&jsonrpc.Request{Method: "notifications/bare"},
			meta("null", tag("null")), meta("object", tag(`{"a":1}`)), meta("list", tag(`["`+ids+`"]`)), meta("float", tag("1.5")), meta("nometa", "null"), meta("text", `"x"`),
			&jsonrpc.Request{Method: "notifications/outside", Params: fmt.Appendf(nil, `{%q:%q}`, mcp.MetaKeySubscriptionID, ids)},
			delivery(sa.ID(), "progress"),
			&jsonrpc.Request{ID: idOf(1), Method: "roots/list", Params: delivery(sa.ID(), "x").Params},
			delivery(sb.ID(), "b2"),
		)
		want(r, "stream a", lines("notifications/a", "notifications/a2", "notifications/escaped"), a.hears())
		want(r, "stream b", lines("notifications/b", "notifications/b2"), b.hears())
		var client []string
		for _, l := range r.read() {
			method, _, _ := strings.Cut(strings.TrimPrefix(l, "notifications/"), " ")
			client = append(client, method)
		}
		want(r, "the client", lines("number", "string", "gone", "unknown", "untagged", "bare", "null", "object", "list", "float", "nometa", "text", "outside", "progress", "roots/list"), client)

		p := r.replaced()
		r.read() // the server's request is cancelled
		p.Say(delivery(sb.ID(), "again"), delivery(idOf(7), "number"))
		want(r, "stream b after a respawn", lines("notifications/again"), b.hears())
		want(r, "the client after a respawn", 1, len(r.read()))
		want(r, "stream a after a respawn", nil, a.hears())
	}, atOnce()...)
}

// TestR4_WithoutAHandle: where nobody has called Listen, all of it is the client's.
func TestR4_WithoutAHandle(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.writes(listen("s"))
		ack := delivery(idOf("s"), "subscriptions/acknowledged")
		r.Last().Say(ack, delivery(idOf("s"), "tools/list_changed"))
		want(r, "the client", 2, len(r.read()))
	}, supervised.WithRetryPolicy(retry.Never))
}
