package supervised_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

// tries calls Listen, for an error.
func (r *rig) tries() error {
	s, err := r.Listen(context.Background(), &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}}, nothing)
	if (s == nil) != (err != nil) {
		r.Errorf("Listen returned %v, %v", s, err)
	}
	return err
}

// nothing is a handler that ignores what it is told.
func nothing(*jsonrpc.Request) {}

// discovers has the client discover, and the server answer; "" is no answer.
func (r *rig) discovers(params json.RawMessage, answer string) {
	r.Helper()
	r.ids++
	id := idOf(fmt.Sprint("discover ", r.ids))
	r.writes(&jsonrpc.Request{ID: id, Method: "server/discover", Params: params})
	switch {
	case answer == "refused":
		r.Last().Say(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: -32022, Message: "no"}})
	case answer != "":
		r.Last().Reply(id, answer)
	}
	r.read()
}

// recorded is the records of a level: the message and the id.
func recorded(records *logtest.Hook, level logrus.Level) (got []string) {
	synctest.Wait() // they come from a goroutine of their own
	for _, e := range records.AllEntries() {
		if e.Level == level {
			got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %v", e.Message, e.Data["id"]), " <nil>"))
		}
	}
	return got
}

func TestS1_ErrorOfEachState(t *testing.T) {
	for _, tt := range []struct {
		name  string
		opts  []supervised.Option
		reach func(r *rig)
		want  string
	}{
		{name: "idle", reach: func(*rig) {}, want: "supervised: not started"},
		{name: "the first connection starts", reach: func(r *rig) {
			r.onStart(0, obedient)
			connecting := r.connecting()
			r.Cleanup(func() { <-connecting })
		}, want: "supervised: not started"},
		{name: "the first connection failed", reach: func(r *rig) {
			r.onStart(0, func(context.Context, *peertest.Peer) error { return errCrash })
			<-r.connecting()
		}, want: "supervised: not started"},
		{name: "serving", reach: func(r *rig) { r.connect() }, want: "ok"},
		{name: "the delay", opts: []supervised.Option{supervised.WithRestartDelay(time.Hour)}, reach: func(r *rig) {
			r.connect()
			r.Last().Die(errCrash)
		}, want: "reconnecting"},
		{name: "a replacement starts", reach: func(r *rig) {
			r.onStart(1, obedient)
			r.connect()
			r.Last().Die(errCrash)
		}, want: "reconnecting"},
		{name: "inside OnClose of a death", reach: func(r *rig) {
			var inside string
			r.OnClose(func(error) { inside = kind(r.tries()) })
			r.connect()
			r.Last().Die(errCrash)
			synctest.Wait()
			want(r, "inside OnClose", "reconnecting", inside)
		}, want: "ok"},
		{name: "the budget is spent", opts: []supervised.Option{supervised.WithMaxRestarts(1)}, reach: func(r *rig) {
			r.connect()
			r.replaced()
			r.Last().Die(errCrash)
		}, want: "exhausted"},
		{name: "the budget is spent, and the last peer is being killed", opts: []supervised.Option{supervised.WithMaxRestarts(1)}, reach: func(r *rig) {
			r.onMint(1, func(_ context.Context, p *peertest.Peer) error {
				p.Process = true
				p.OnKill = func() error { time.Sleep(time.Second); return nil }
				return nil
			})
			r.connect()
			r.replaced()
			r.Last().Die(errCrash)
			r.wantState(supervised.StateExhausted)
		}, want: "exhausted"},
		{name: "draining", reach: func(r *rig) {
			r.OnDrain(func(context.Context) { want(r, "while draining", "ok", kind(r.tries())) })
			r.connect()
			r.Transport.Close()
		}, want: "closed"},
		{name: "closed before it started", reach: func(r *rig) { r.Transport.Close() }, want: "closed"},
		{name: "closed in the gap", opts: []supervised.Option{supervised.WithRestartDelay(time.Hour)}, reach: func(r *rig) {
			r.connect()
			r.Last().Die(errCrash)
			synctest.Wait()
			r.Transport.Close()
		}, want: "closed"},
	} {
		t.Run("S1 "+tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				tt.reach(r)
				synctest.Wait()
				want(r, "Listen", tt.want, kind(r.tries()))
				if tt.want != "ok" {
					want(r, "streams", 0, r.Stats().Streams)
				}
			}, append(atOnce(), tt.opts...)...)
		})
	}
}

func TestS1_ParamsThatCannotBe(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		filter := &mcp.NotificationSubscriptions{}
		for name, call := range map[string]func() (*supervised.Stream, error){
			"nil params": func() (*supervised.Stream, error) { return r.Listen(context.Background(), nil, nothing) },
			"no filter": func() (*supervised.Stream, error) {
				return r.Listen(context.Background(), &mcp.SubscriptionsListenParams{Meta: fullMeta()}, nothing)
			},
			"nil handler": func() (*supervised.Stream, error) {
				return r.Listen(context.Background(), &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: filter}, nil)
			},
			"meta that is no JSON": func() (*supervised.Stream, error) {
				meta := fullMeta()
				meta["x"] = func() {}
				return r.Listen(context.Background(), &mcp.SubscriptionsListenParams{Meta: meta, Notifications: filter}, nothing)
			},
		} {
			s, err := call()
			want(r, name, true, s == nil && err != nil && strings.HasPrefix(err.Error(), "supervised: "))
		}
		want(r, "written", nil, r.got(r.Last()))
		want(r, "streams", 0, r.Stats().Streams)
	})
}

// TestS1_ReturnsOnceWritten: the context bounds the Write, and a stream that was not written is none.
func TestS1_ReturnsOnceWritten(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := r.gated(0, gate{method: "subscriptions/listen"})
		r.connect()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		listening := later(func() error {
			_, err := r.Listen(ctx, &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}}, nothing)
			return err
		})
		wantPending(r, "Listen, which is being written", listening)
		pass(time.Second)
		wantIs(r, "Listen", <-listening, context.DeadlineExceeded)
		want(r, "streams", 0, r.Stats().Streams)

		listening = later(r.tries)
		wantPending(r, "Listen, which is being written", listening)
		open()
		want(r, "Listen", nil, <-listening)
		want(r, "the peer lives", 1, r.Minted())
		want(r, "sent again", 1, len(r.got(r.replaced())))
	}, atOnce()...)
}

// TestS1_ContextBoundsTheWriteAlone: its end ends no stream, also below: a transport over HTTP reads the deliveries
// under the context of the Write. Its values get there.
func TestS1_ContextBoundsTheWriteAlone(t *testing.T) {
	inBubble(t, func(r *rig) {
		var got []context.Context
		r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error { got = append(got, ctx); return ctx.Err() }
			return nil
		}
		r.connect()
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), key{}, "value"), time.Second)
		var l listener
		s, err := r.Listen(ctx, &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}}, l.take)
		cancel()
		want(r, "Listen", nil, err)
		pass(time.Hour)
		r.replaced()
		r.Last().Say(delivery(s.ID(), "one"))
		want(r, "hears", lines("notifications/one"), l.hears())
		want(r, "written", 2, len(got))
		want(r, "the context below, where it is still served", nil, got[1].Err())
		for i, ctx := range got {
			want(r, fmt.Sprint("value in life ", i), any("value"), ctx.Value(key{}))
		}
		_, bounded := got[1].Deadline()
		want(r, "deadline of the one after", false, bounded)
	}, atOnce()...)
}

// TestS1_EndOfTheContextEndsNothing is the same for the peer that was listened to first.
func TestS1_EndOfTheContextEndsNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		var below context.Context
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error { below = ctx; return nil }
			return nil
		})
		r.connect()
		ctx, cancel := context.WithCancel(context.Background())
		_, err := r.Listen(ctx, &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}}, nothing)
		want(r, "Listen", nil, err)
		cancel()
		synctest.Wait()
		want(r, "the context below", nil, below.Err())
	})
}

// TestS1_Rejected: a request that the transport will not take is the caller's affair and no stream.
func TestS1_Rejected(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.onMint(0, func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(context.Context, jsonrpc.Message) error {
				return fmt.Errorf("busy: %w", &jsonrpc.Error{Code: -32005, Message: "rejected by transport"})
			}
			return nil
		})
		r.connect()
		wantIs(r, "Listen", r.tries(), &jsonrpc.Error{Code: -32005})
		want(r, "streams", 0, r.Stats().Streams)
		want(r, "sent again", nil, r.got(r.replaced()))
	}, atOnce()...)
}

// TestS1_Meta: what params lack comes from the last discovery, or is named.
func TestS1_Meta(t *testing.T) {
	const (
		version = mcp.MetaKeyProtocolVersion
		info    = mcp.MetaKeyClientInfo
		caps    = mcp.MetaKeyClientCapabilities
	)
	both := `{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{}}`
	filled := map[string]any{version: "2026-07-28", info: map[string]any{"name": "discoverer", "version": "9"}, caps: map[string]any{"roots": map[string]any{}}}
	with := func(k string, v any) map[string]any {
		m := make(map[string]any)
		for key, value := range filled {
			m[key] = value
		}
		m[k] = v
		return m
	}
	for _, tt := range []struct {
		name  string
		told  func(r *rig)
		given mcp.Meta
		meta  map[string]any
		lacks []string
	}{
		{name: "nothing known", told: func(*rig) {}, lacks: lines(version, info, caps)},
		{name: "nothing known but what is given", told: func(*rig) {}, given: mcp.Meta{info: map[string]any{"name": "me"}}, lacks: lines(version, caps)},
		{name: "all given", told: func(*rig) {}, given: mcp.Meta{version: "v", info: "i", caps: "c"}, meta: map[string]any{version: "v", info: "i", caps: "c"}},
		{name: "discovered", told: func(r *rig) { r.discovers(discoverParams("2026-07-28"), both) }, meta: filled},
		{name: "what is given counts", told: func(r *rig) { r.discovers(discoverParams("2026-07-28"), both) },
			given: mcp.Meta{info: map[string]any{"name": "me"}}, meta: with(info, map[string]any{"name": "me"})},
		{name: "what else is given", told: func(r *rig) { r.discovers(discoverParams("2026-07-28"), both) },
			given: mcp.Meta{"com.example/x": true}, meta: with("com.example/x", true)},
		{name: "not answered", told: func(r *rig) { r.discovers(discoverParams("2026-07-28"), "") }, lacks: lines(version, info, caps)},
		{name: "refused", told: func(r *rig) { r.discovers(discoverParams("2026-07-28"), "refused") }, lacks: lines(version, info, caps)},
		{name: "refused, then negotiated", told: func(r *rig) {
			r.discovers(discoverParams("2027-01-01"), "refused")
			r.discovers(discoverParams("2026-07-28"), both)
		}, meta: filled},
		{name: "negotiated by the answer", told: func(r *rig) { r.discovers(discoverParams("2027-01-01"), both) }, meta: filled},
		{name: "nothing to negotiate", told: func(r *rig) {
			r.discovers(discoverParams("2026-07-28"), `{"supportedVersions":["2025-11-25"],"capabilities":{}}`)
		}, lacks: lines(version)},
		{name: "the last discovery", told: func(r *rig) {
			r.discovers(json.RawMessage(strings.ReplaceAll(string(discoverParams("2026-07-28")), "discoverer", "older")), both)
			r.discovers(discoverParams("2026-07-28"), both)
		}, meta: filled},
		{name: "the last that succeeded", told: func(r *rig) {
			r.discovers(discoverParams("2026-07-28"), both)
			r.discovers(json.RawMessage(`{}`), "refused")
		}, meta: filled},
		{name: "after a respawn", told: func(r *rig) {
			r.discovers(discoverParams("2026-07-28"), both)
			r.replaced()
		}, meta: filled},
		{name: "answered by a replacement", told: func(r *rig) {
			r.writes(ask("first of all", "tools/list")) // so that it is no probe
			r.writes(&jsonrpc.Request{ID: idOf("d"), Method: "server/discover", Params: discoverParams("2026-07-28")})
			r.replaced().Reply(idOf("d"), both)
		}, meta: filled},
	} {
		t.Run("S1 "+tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				tt.told(r)
				synctest.Wait()
				given := len(tt.given)
				before := len(r.Last().Got())
				p := &mcp.SubscriptionsListenParams{Meta: tt.given, Notifications: &mcp.NotificationSubscriptions{ResourceSubscriptions: []string{"file:///a"}}}
				_, err := r.Listen(context.Background(), p, nothing)
				want(r, "what the caller gave is as it was", given, len(p.Meta))
				if len(tt.lacks) > 0 {
					if err == nil {
						r.Fatal("Listen returned no error")
					}
					var named []string
					for _, k := range []string{version, info, caps} {
						if strings.Contains(err.Error(), k) {
							named = append(named, k)
						}
					}
					want(r, "named in "+err.Error(), tt.lacks, named)
					want(r, "written", before, len(r.Last().Got()))
					return
				}
				want(r, "Listen", nil, err)
				var got struct {
					Meta          map[string]any  `json:"_meta"`
					Notifications json.RawMessage `json:"notifications"`
				}
				q := r.Last().Got()[before].(*jsonrpc.Request)
				want(r, "params", nil, json.Unmarshal(q.Params, &got))
				want(r, "_meta", tt.meta, got.Meta)
				want(r, "filter", `{"resourceSubscriptions":["file:///a"]}`, string(got.Notifications))
				want(r, "method", "subscriptions/listen", q.Method)
			}, atOnce()...)
		})
	}
}

// TestS1_ID: the id is that of the request, no other stream has it, and it does not change.
func TestS1_ID(t *testing.T) {
	seen := make(map[string]bool)
	var prefixes []string
	for range 2 {
		inBubble(t, func(r *rig) {
			r.connect()
			var ids []jsonrpc.ID
			for range 3 {
				s := r.listens(nothing)
				id, ok := s.ID().Raw().(string)
				want(r, "a string", true, ok)
				want(r, "given out before", false, seen[id])
				seen[id] = true
				ids = append(ids, s.ID())
				prefixes = append(prefixes, id)
				for range 2 {
					r.replaced()
					want(r, "the same", true, s.ID() == ids[len(ids)-1])
				}
			}
			var sent []jsonrpc.ID
			for _, m := range r.Last().Got() {
				sent = append(sent, m.(*jsonrpc.Request).ID)
			}
			want(r, "the requests have them", true, slices.Equal(ids, sent))
		}, atOnce()...)
	}
	a, b := prefixes[0], prefixes[3]
	common := 0
	for common < len(a) && common < len(b) && a[common] == b[common] {
		common++
	}
	if random := min(len(a), len(b)) - common; random < 16 {
		t.Errorf("two transports share too much of their ids: %s, %s", a, b)
	}
}

// TestS1_Overlap: a stream that asks for what an open one asks for is logged at warning.
func TestS1_Overlap(t *testing.T) {
	type filter = mcp.NotificationSubscriptions
	for _, tt := range []struct {
		name string
		a, b filter
		want int
	}{
		{"tools", filter{ToolsListChanged: true}, filter{ToolsListChanged: true, PromptsListChanged: true}, 1},
		{"prompts", filter{PromptsListChanged: true, ResourcesListChanged: true}, filter{PromptsListChanged: true}, 1},
		{"resources", filter{ResourcesListChanged: true}, filter{ResourcesListChanged: true}, 1},
		{"a resource", filter{ResourceSubscriptions: []string{"a", "b"}}, filter{ResourceSubscriptions: []string{"c", "b"}}, 1},
		{"other lists", filter{ToolsListChanged: true}, filter{PromptsListChanged: true, ResourcesListChanged: true}, 0},
		{"other resources", filter{ResourceSubscriptions: []string{"a"}}, filter{ResourceSubscriptions: []string{"b"}, ResourcesListChanged: true}, 0},
		{"nothing", filter{}, filter{}, 0},
	} {
		for _, opener := range []string{"Listen", "client"} {
			t.Run("S1 "+tt.name+" "+opener, func(t *testing.T) {
				logger, records := logtest.NewNullLogger()
				inBubble(t, func(r *rig) {
					r.connect()
					id := idOf("s")
					if opener == "Listen" {
						id = r.listensTo(&tt.a, nothing).ID()
					} else {
						params, _ := json.Marshal(&mcp.SubscriptionsListenParams{Notifications: &tt.a})
						r.writes(&jsonrpc.Request{ID: id, Method: "subscriptions/listen", Params: params})
					}
					second := r.listensTo(&tt.b, nothing)
					want(r, "warnings", tt.want, len(recorded(records, logrus.WarnLevel)))
					r.Last().Reply(id, `{}`)
					r.Last().Say(cancelled(second.ID()))
					synctest.Wait()
					r.listensTo(&tt.b, nothing)
					want(r, "warnings, once nothing is open", tt.want, len(recorded(records, logrus.WarnLevel)))
				}, supervised.WithLogger(logger))
			})
		}
	}
}

// TestS1_ManyStreams: opening one takes no longer where many are open.
func TestS1_ManyStreams(t *testing.T) {
	few, many := 100, 1000
	if testing.Short() {
		few, many = 50, 500
	}
	open := func(n int) (spent time.Duration) {
		var f peertest.Fleet
		tr, err := supervised.New(f.Mint)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		if _, err := tr.Connect(context.Background()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for i := range n {
			p := &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{ResourceSubscriptions: []string{fmt.Sprint("file:///", i)}}}
			if _, err := tr.Listen(context.Background(), p, nothing); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(start)
	}
	linear(t, few, many, open)
}

// TestS1_Acknowledged: what the server honours is no delivery, and the latest counts.
func TestS1_Acknowledged(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		var l, other listener
		s, o := r.listens(l.take), r.listens(other.take)
		ack := func(s *supervised.Stream, filter string) *jsonrpc.Request {
			return &jsonrpc.Request{Method: "notifications/subscriptions/acknowledged",
				Params: fmt.Appendf(nil, `{"_meta":{%q:%s},"notifications":%s}`, mcp.MetaKeySubscriptionID, encoded(s.ID()), filter)}
		}
		type filter = mcp.NotificationSubscriptions
		want(r, "before the server said it", (*filter)(nil), s.Acknowledged())
		r.Last().Say(ack(s, `{"toolsListChanged":true}`), delivery(s.ID(), "one"))
		want(r, "deliveries", lines("notifications/one"), l.hears())
		want(r, "first", &filter{ToolsListChanged: true}, s.Acknowledged())

		r.replaced()
		want(r, "before the replacement said it", &filter{ToolsListChanged: true}, s.Acknowledged())
		r.Last().Say(ack(s, `{"resourceSubscriptions":["a"]}`), ack(s, `{"promptsListChanged":true}`))
		want(r, "deliveries", nil, l.hears())
		want(r, "the latest", &filter{PromptsListChanged: true}, s.Acknowledged())

		open := r.gated(2, gate{method: "subscriptions/listen", id: o.ID().Raw()})
		r.replaced().Say(ack(s, `{}`))
		synctest.Wait()
		open()
		synctest.Wait()
		want(r, "said while it was replayed to", &filter{}, s.Acknowledged())
		want(r, "of the other", (*filter)(nil), o.Acknowledged())
		want(r, "the client reads", nil, r.read())
		want(r, "deliveries of the other", nil, other.hears())
		s.Close()
		want(r, "after Close", &filter{}, s.Acknowledged())
	}, atOnce()...)
}

// TestS2_Outcomes: what Await returns, for each end.
func TestS2_Outcomes(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(r *rig, s *supervised.Stream)
		want string
		is   []error
	}{
		{name: "open", end: func(*rig, *supervised.Stream) {}, want: "open"},
		{name: "deaths", end: func(r *rig, _ *supervised.Stream) { r.replaced(); r.replaced(); r.Restart(errCrash) }, want: "open"},
		{name: "a death, in the gap", end: func(r *rig, _ *supervised.Stream) {
			r.onMint(1, obedient)
			r.Last().Die(errCrash)
		}, want: "open"},
		{name: "attempts that fail", end: func(r *rig, _ *supervised.Stream) {
			r.onMint(1, func(context.Context, *peertest.Peer) error { return errCrash })
			r.onStart(2, func(context.Context, *peertest.Peer) error { return errCrash })
			r.onMint(3, func(_ context.Context, p *peertest.Peer) error {
				p.OnWrite = failAt("subscriptions/listen")
				return nil
			})
			r.replaced()
			pass(time.Second) // what a Write that broke may take
			r.wantState(supervised.StateServing)
			want(r, "minted", 5, r.Minted())
		}, want: "open"},
		{name: "a result", end: func(r *rig, s *supervised.Stream) { r.Last().Reply(s.ID(), `{}`) }, want: "ok"},
		{name: "a result of the third peer", end: func(r *rig, s *supervised.Stream) { r.replaced(); r.replaced().Reply(s.ID(), `{}`) }, want: "ok"},
		{name: "a result of a peer that dies of it", end: func(r *rig, s *supervised.Stream) { r.Last().Reply(s.ID(), `{}`); r.replaced() }, want: "ok"},
		{name: "a refusal", end: func(r *rig, s *supervised.Stream) {
			r.Last().Say(&jsonrpc.Response{ID: s.ID(), Error: &jsonrpc.Error{Code: -32601, Message: "what?"}})
		}, want: "what?"},
		{name: "a refusal by the replacement", end: func(r *rig, s *supervised.Stream) {
			r.onMint(1, func(_ context.Context, p *peertest.Peer) error { p.Answer = refuse; return nil })
			r.replaced()
		}, want: "no"},
		{name: "the server's cancellation", end: func(r *rig, s *supervised.Stream) { r.Last().Say(cancelled(s.ID())) }, want: supervised.ErrStreamClosed.Error(), is: []error{supervised.ErrStreamClosed}},
		{name: "its own Close", end: func(_ *rig, s *supervised.Stream) { s.Close() }, want: supervised.ErrStreamClosed.Error(), is: []error{supervised.ErrStreamClosed}},
		{name: "its own Close in the gap", end: func(r *rig, s *supervised.Stream) {
			r.onMint(1, obedient)
			r.Last().Die(errCrash)
			synctest.Wait()
			s.Close()
		}, want: supervised.ErrStreamClosed.Error(), is: []error{supervised.ErrStreamClosed}},
		{name: "the budget", end: func(r *rig, _ *supervised.Stream) { r.replaced(); r.replaced(); r.Last().Die(errCrash) }, want: "exhausted, peer lost", is: []error{supervised.ErrClosed, errCrash}},
		{name: "the budget, with attempts that fail", end: func(r *rig, _ *supervised.Stream) {
			r.onMint(1, func(context.Context, *peertest.Peer) error { return errCrash })
			r.onMint(2, func(context.Context, *peertest.Peer) error { return errCrash })
			r.Last().Die(errCrash)
		}, want: "exhausted, peer lost", is: []error{supervised.ErrClosed, errCrash}},
		{name: "Close of the transport", end: func(r *rig, _ *supervised.Stream) { r.Transport.Close() }, want: "closed"},
		{name: "Close of the connection", end: func(r *rig, _ *supervised.Stream) { r.conn.Close() }, want: "closed"},
		{name: "Close of the transport in the gap", end: func(r *rig, _ *supervised.Stream) {
			r.onMint(1, obedient)
			r.Last().Die(errCrash)
			synctest.Wait()
			r.Transport.Close()
		}, want: "closed"},
		{name: "Close of the transport while a replacement is replayed to", end: func(r *rig, _ *supervised.Stream) {
			r.gated(1, gate{method: "subscriptions/listen"})
			r.Last().Die(errCrash)
			synctest.Wait()
			r.Transport.Close()
		}, want: "closed"},
		{name: "a death in the drain", end: func(r *rig, _ *supervised.Stream) {
			r.OnDrain(func(ctx context.Context) { r.Last().Die(errCrash); <-ctx.Done() })
			r.Transport.Close()
		}, want: "closed"},
	} {
		t.Run("S2 "+tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				var l listener
				s := r.listens(l.take)
				waiting := make(chan error, 2)
				for range 2 {
					go func() { waiting <- s.Await(context.Background()) }()
				}
				tt.end(r, s)
				got := ended(s)
				if tt.want == "exhausted, peer lost" {
					got = strings.Replace(got+", peer lost", ", peer lost, peer lost", ", peer lost", 1) // whether it matches ErrPeerLost is left open
				}
				want(r, "Await", tt.want, got)
				if tt.want == "open" {
					want(r, "streams", 1, r.Stats().Streams)
					r.Transport.Close()
					return
				}
				want(r, "streams", 0, r.Stats().Streams)
				for range 2 {
					want(r, "whoever waits", ended(s), kind(<-waiting))
				}
				wantIs(r, "Await", s.Await(context.Background()), tt.is...)
				if tt.want == "what?" {
					e, ok := s.Await(context.Background()).(*jsonrpc.Error)
					want(r, "the server's own error", true, ok && e.Code == -32601)
				}
				settled := ended(s)
				s.Close()
				r.Transport.Close()
				want(r, "Await, after other ends", settled, ended(s))
				want(r, "the client reads", nil, r.read())
			}, append(atOnce(), supervised.WithMaxRestarts(2+3*btoi(tt.want == "open")))...)
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestS2_ContextOfAwait ends the wait and nothing else.
func TestS2_ContextOfAwait(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		s := r.listens(nothing)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		wantIs(r, "Await", s.Await(ctx), context.DeadlineExceeded)
		want(r, "the stream", "open", ended(s))
		r.Last().Reply(s.ID(), `{}`)
		want(r, "the stream", "ok", ended(s))
	})
}

// TestS2_AtOnce: whatever the handler is doing, these ends are seen at once.
func TestS2_AtOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(r *rig, s *supervised.Stream)
		want []string
	}{
		{"Close", func(_ *rig, s *supervised.Stream) { s.Close() }, lines(supervised.ErrStreamClosed.Error())},
		{"the server's cancellation", func(r *rig, s *supervised.Stream) { r.Last().Say(cancelled(s.ID())) }, lines(supervised.ErrStreamClosed.Error())},
		{"Close of the transport", func(r *rig, s *supervised.Stream) { r.Transport.Close() }, lines("closed")},
		{"a graceful end, then Close", func(r *rig, s *supervised.Stream) {
			r.Last().Reply(s.ID(), `{}`)
			synctest.Wait()
			s.Close()
		}, lines("ok", supervised.ErrStreamClosed.Error())},
		{"a graceful end, then Close of the transport", func(r *rig, s *supervised.Stream) {
			r.Last().Reply(s.ID(), `{}`)
			synctest.Wait()
			r.Transport.Close()
		}, lines("ok", "closed")},
	} {
		t.Run("S2 "+tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.connect()
				free := make(chan struct{})
				defer close(free)
				s := r.listens(func(*jsonrpc.Request) { <-free })
				r.Last().Say(delivery(s.ID(), "one"), delivery(s.ID(), "two"))
				synctest.Wait()
				tt.end(r, s)
				if got := ended(s); !slices.Contains(tt.want, got) {
					r.Errorf("Await: want one of %q, got %q", tt.want, got)
				}
			})
		})
	}
}

// TestS2_StreamsFailBeforeTheHooksAreTold: B6, for streams.
func TestS2_StreamsFailBeforeTheHooksAreTold(t *testing.T) {
	inBubble(t, func(r *rig) {
		var s *supervised.Stream
		var seen []string
		r.OnError(func(error) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			seen = append(seen, kind(s.Await(ctx)))
		})
		r.connect()
		s = r.listens(nothing)
		r.replaced()
		r.Last().Die(errCrash)
		synctest.Wait()
		want(r, "inside OnError", 1, len(seen))
		want(r, "inside OnError", true, strings.HasPrefix(seen[0], "exhausted"))
	}, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
}

// TestS3_InOrder: one at a time, in order, over respawns.
func TestS3_InOrder(t *testing.T) {
	const lives, each = 4, 500
	inBubble(t, func(r *rig) {
		r.connect()
		var at, wrong, busy atomic.Int32
		s := r.listens(func(m *jsonrpc.Request) {
			if busy.Add(1) != 1 {
				wrong.Add(1)
			}
			if m.Method != fmt.Sprint("notifications/", at.Load()) {
				wrong.Add(1)
			}
			if at.Load()%100 == 0 {
				runtime.Gosched()
			}
			at.Add(1)
			busy.Add(-1)
		})
		for life := range lives {
			for i := range each {
				r.Last().Say(delivery(s.ID(), fmt.Sprint(life*each+i)))
			}
			r.replaced()
		}
		synctest.Wait()
		want(r, "heard", int32(lives*each), at.Load())
		want(r, "out of order, or at once", int32(0), wrong.Load())
	}, atOnce()...)
}

// TestS3_SlowHandler: it stops nothing else.
func TestS3_SlowHandler(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		free := make(chan struct{})
		var l, other listener
		slow := r.listens(func(m *jsonrpc.Request) { <-free; l.take(m) })
		quick := r.listens(other.take)
		id, _ := r.call("tools/call")
		r.Last().Say(delivery(slow.ID(), "one"), delivery(slow.ID(), "two"), delivery(quick.ID(), "three"), &jsonrpc.Request{Method: "notifications/four"}, ask(1, "roots/list"))
		r.Last().Reply(id, `"five"`)
		want(r, "the client", lines("notifications/four", "roots/list {}", `3 "five"`), r.read())
		want(r, "the other stream", lines("notifications/three"), other.hears())
		want(r, "the slow one", nil, l.hears())
		p := r.replaced()
		r.wantState(supervised.StateServing)
		p.Say(delivery(slow.ID(), "six"), delivery(quick.ID(), "seven"))
		want(r, "the other stream", lines("notifications/seven"), other.hears())
		close(free)
		want(r, "the slow one", lines("notifications/one", "notifications/two", "notifications/six"), l.hears())
	}, atOnce()...)
}

// TestS3_Overrun: the buffer is what a stream may lag by. Beyond it the stream is over, and everybody is told.
func TestS3_Overrun(t *testing.T) {
	for _, n := range []int{1, 2, 100} {
		t.Run(fmt.Sprint("S3 buffer ", n), func(t *testing.T) {
			logger, records := logtest.NewNullLogger()
			inBubble(t, func(r *rig) {
				r.connect()
				free := make(chan struct{})
				var l, other listener
				s := r.listens(func(m *jsonrpc.Request) { l.take(m); <-free })
				bystander := r.listens(other.take)
				for i := range n {
					r.Last().Say(delivery(s.ID(), fmt.Sprint(i)))
				}
				want(r, "Await, at the edge", "open", ended(s))
				want(r, "heard", lines("notifications/0"), l.hears())

				for i := range 5 {
					r.Last().Say(delivery(s.ID(), fmt.Sprint(n+i)))
				}
				r.Last().Say(delivery(bystander.ID(), "other"))
				synctest.Wait()
				want(r, "Await, while the handler is busy", supervised.ErrDeliveryDropped.Error(), ended(s))
				wantIs(r, "Await", s.Await(context.Background()), supervised.ErrDeliveryDropped)
				want(r, "the server is told", 1, count(r.got(r.Last()), fmt.Sprint("notifications/cancelled ", s.ID().Raw())))
				got := recorded(records, logrus.ErrorLevel)
				want(r, "logged once", 1, len(got))
				want(r, "with its id", true, strings.HasSuffix(got[0], " "+s.ID().Raw().(string)))
				want(r, "streams", 1, r.Stats().Streams)
				close(free)
				want(r, "heard after it", nil, l.hears())
				want(r, "the other stream", lines("notifications/other"), other.hears())
				s.Close()
				want(r, "Await, after Close", supervised.ErrDeliveryDropped.Error(), ended(s))
				want(r, "sent again", lines(fmt.Sprint("subscriptions/listen ", bystander.ID().Raw())), r.got(r.replaced()))
				want(r, "logged once", 1, len(recorded(records, logrus.ErrorLevel)))
			}, atOnce(supervised.WithStreamBuffer(n), supervised.WithLogger(logger))...)
		})
	}
}

// TestS3_LagIsOfNow: a stream that keeps up is not held to what it lagged by before.
func TestS3_LagIsOfNow(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		var l listener
		s := r.listens(l.take)
		for range 100 {
			r.Last().Say(delivery(s.ID(), "a"), delivery(s.ID(), "b"))
			want(r, "heard", 2, len(l.hears()))
		}
		want(r, "Await", "open", ended(s))
	}, supervised.WithStreamBuffer(2))
}

// TestS3_OverrunByWhatWasHeld: what a replacement said while it was replayed to counts, and it is told.
func TestS3_OverrunByWhatWasHeld(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	logger, records := logtest.NewNullLogger()
	inBubble(t, func(r *rig) {
		r.connect()
		told := 0
		for n := range rounds {
			free := make(chan struct{})
			s := r.listens(func(*jsonrpc.Request) { <-free })
			r.onMint(n+1, func(_ context.Context, p *peertest.Peer) error {
				for range 3 {
					p.Say(delivery(s.ID(), "x"))
				}
				p.OnWrite = func(context.Context, jsonrpc.Message) error { synctest.Wait(); return nil }
				return nil
			})
			r.Last().Die(errCrash)
			time.Sleep(time.Second)
			synctest.Wait()
			r.wantState(supervised.StateServing)
			want(r, "Await", supervised.ErrDeliveryDropped.Error(), ended(s))
			told += count(r.got(r.Last()), fmt.Sprint("notifications/cancelled ", s.ID().Raw()))
			close(free)
		}
		want(r, "the server is told, each time", rounds, told)
		want(r, "logged, each time", rounds, len(recorded(records, logrus.ErrorLevel)))
	}, atOnce(supervised.WithStreamBuffer(1), supervised.WithLogger(logger))...)
}

// TestS4_HandlerThatPanics is reported, and the stream goes on.
func TestS4_HandlerThatPanics(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		var l listener
		s := r.listens(func(m *jsonrpc.Request) {
			l.take(m)
			switch m.Method {
			case "notifications/error":
				panic(errCrash)
			case "notifications/text":
				panic("text")
			case "notifications/nil":
				var none *jsonrpc.Request
				_ = none.Method // a runtime error
			case "notifications/exit":
				runtime.Goexit()
			}
		})
		r.Last().Say(delivery(s.ID(), "error"), delivery(s.ID(), "text"), delivery(s.ID(), "nil"), delivery(s.ID(), "exit"), delivery(s.ID(), "last"))
		want(r, "heard", lines("notifications/error", "notifications/text", "notifications/nil", "notifications/exit", "notifications/last"), l.hears())
		told := r.errors()
		if len(told) < 3 {
			r.Fatalf("OnError was told %v", told)
		}
		wantIs(r, "told", told[0], errCrash)
		want(r, "told", true, strings.Contains(told[1].Error(), "text"))
		var fault runtime.Error
		want(r, "told", true, errors.As(told[2], &fault))
		want(r, "the stream", "open", ended(s))
		r.replaced().Say(delivery(s.ID(), "again"))
		want(r, "heard", lines("notifications/again"), l.hears())
		r.Last().Say(delivery(s.ID(), "text"))
		r.Last().Reply(s.ID(), `{}`)
		want(r, "the stream", "ok", ended(s))
		want(r, "minted", 2, r.Minted())
	}, atOnce()...)
}

// TestS4_HandlerThatCalls may call anything, also what ends its stream.
func TestS4_HandlerThatCalls(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		var s *supervised.Stream
		var l listener
		ready := make(chan struct{})
		s = r.listens(func(m *jsonrpc.Request) {
			<-ready
			l.take(m)
			switch m.Method {
			case "notifications/listen":
				want(r, "Listen", nil, r.tries())
			case "notifications/restart":
				want(r, "Restart", nil, r.Restart(errCrash))
			case "notifications/close":
				want(r, "Close", nil, s.Close())
				want(r, "Await", supervised.ErrStreamClosed.Error(), kind(s.Await(context.Background())))
				want(r, "Close of the transport", nil, r.Transport.Close())
			}
		})
		close(ready)
		r.Last().Say(delivery(s.ID(), "listen"), delivery(s.ID(), "restart"))
		synctest.Wait()
		r.wantState(supervised.StateServing)
		r.Last().Say(delivery(s.ID(), "close"), delivery(s.ID(), "after"))
		r.wantState(supervised.StateClosed)
		want(r, "heard", lines("notifications/listen", "notifications/restart", "notifications/close"), l.hears())
	}, atOnce()...)
}

// TestS5_OlderSession has no streams, whatever _meta says.
func TestS5_OlderSession(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-11-25"} {
		t.Run("S5 "+version, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
					p.Answer = func(q *jsonrpc.Request) *jsonrpc.Response {
						switch q.Method {
						case "initialize":
							return &jsonrpc.Response{ID: q.ID, Result: fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{},"serverInfo":{"name":"s","version":"1"}}`, version)}
						case "server/discover":
							return &jsonrpc.Response{ID: q.ID, Result: fmt.Appendf(nil, `{"supportedVersions":[%q],"capabilities":{}}`, version)}
						}
						return nil
					}
					return nil
				}
				r.connect()
				r.writes(&jsonrpc.Request{ID: idOf("d"), Method: "server/discover", Params: discoverParams("2026-07-28")})
				synctest.Wait()
				r.writes(&jsonrpc.Request{ID: idOf("i"), Method: "initialize", Params: json.RawMessage(`{"protocolVersion":"2025-11-25"}`)},
					&jsonrpc.Request{Method: "notifications/initialized"})
				synctest.Wait()
				for range 2 {
					before := r.got(r.Last())
					err := r.tries()
					if err == nil {
						r.Fatal("Listen returned no error")
					}
					want(r, "it says why: "+err.Error(), true, strings.Contains(err.Error(), version) && strings.Contains(err.Error(), "2026-07-28"))
					want(r, "it is no refusal that passes", false, errors.Is(err, supervised.ErrReconnecting) || errors.Is(err, supervised.ErrClosed))
					want(r, "written", before, r.got(r.Last()))
					want(r, "streams", 0, r.Stats().Streams)
					r.replaced()
				}
			}, atOnce()...)
		})
	}
}

// TestS_Racing: opening, ending, awaiting, deliveries, deaths and the end of it all at once. Whoever awaits is
// told, and nothing is left.
func TestS_Racing(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		var f peertest.Fleet
		f.OnMint = func(_ context.Context, p *peertest.Peer) error {
			p.OnWrite = func(_ context.Context, m jsonrpc.Message) error {
				if q, ok := m.(*jsonrpc.Request); ok && q.IsCall() {
					p.Say(delivery(q.ID, "one"), delivery(q.ID, "subscriptions/acknowledged"), delivery(q.ID, "two"))
					switch len(p.Got()) % 5 {
					case 1:
						p.Reply(q.ID, `{}`)
					case 2:
						p.Say(cancelled(q.ID))
					}
				}
				return nil
			}
			return nil
		}
		tr, err := supervised.New(f.Mint, atOnce(supervised.WithStreamBuffer(1))...)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tr.Connect(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				if _, err := conn.Read(context.Background()); err != nil {
					return
				}
			}
		}()
		stop := make(chan struct{})
		var deaths sync.WaitGroup
		deaths.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f.Last().Die(errCrash)
					runtime.Gosched()
				}
			}
		})
		var users sync.WaitGroup
		outcomes := make(chan error, 1000)
		for g := range 8 {
			users.Go(func() {
				for i := range 20 {
					s, err := tr.Listen(context.Background(), &mcp.SubscriptionsListenParams{Meta: fullMeta(), Notifications: &mcp.NotificationSubscriptions{}}, func(*jsonrpc.Request) { runtime.Gosched() })
					if err != nil {
						if k := kind(err); k != "reconnecting" && k != "closed" {
							t.Errorf("Listen: %v", err)
						}
						continue
					}
					users.Go(func() { outcomes <- s.Await(context.Background()) })
					if (g+i)%2 == 0 {
						users.Go(func() { s.Close(); s.Acknowledged() })
						s.Close()
					}
				}
				if g == 0 {
					tr.Close()
				}
			})
		}
		waited := make(chan error, 1)
		go func() { users.Wait(); waited <- nil }()
		next(t, "all who await", waited)
		close(stop)
		deaths.Wait()
		close(outcomes)
		for err := range outcomes {
			if k := kind(err); !slices.Contains(lines("ok", "closed", supervised.ErrStreamClosed.Error(), supervised.ErrDeliveryDropped.Error()), k) {
				t.Errorf("Await: %v", err)
			}
		}
		want(t, "streams", 0, tr.Stats().Streams)
		want(t, "state", "closed", tr.State().String())
	}
}
