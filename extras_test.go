package supervised_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

func TestX1_ChangedServer(t *testing.T) {
	change := func(from, to string) string {
		if !strings.Contains(hello2025, from) {
			panic(from)
		}
		return strings.Replace(hello2025, from, to, 1)
	}
	for _, tt := range []struct {
		name    string
		hello   string // of the second life
		changed bool
	}{
		{"X1 the same", hello2025, false},
		{"X1 another name", change(`"name":"strict"`, `"name":"secret"`), true},
		{"X1 another version", change(`"version":"1"`, `"version":"1.0"`), true},
		{"X1 no server info", change(`,"serverInfo":{"name":"strict","version":"1"}`, ``), true},
		{"X1 a capability more", change(`"logging":{}`, `"logging":{},"prompts":{}`), true},
		{"X1 a capability less", change(`"logging":{},`, ``), true},
		{"X1 a capability of another kind", change(`"listChanged":true`, `"listChanged":false`), true},
		{"X1 an experimental capability", change(`"logging":{}`, `"logging":{},"experimental":{"x":{}}`), true},
		{"X1 capabilities in another order", change(`"tools":{"listChanged":true},"logging":{},`, ` "logging" : { }, "tools":{"listChanged":true},`), false},
		{"X1 another title", change(`"version":"1"`, `"version":"1","title":"secret"`), false},
		{"X1 other instructions", change(`"serverInfo"`, `"instructions":"secret","serverInfo"`), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			logger, log := logtest.NewNullLogger()
			inBubble(t, func(r *rig) {
				r.overStrict(&strict{mute: -1, hello: func(life int) string {
					if life == 1 || life == 2 {
						return tt.hello
					}
					return hello2025
				}})
				var inHook []bool
				r.OnReconnect(func(context.Context) error { inHook = append(inHook, r.Stats().ServerChanged); return nil })
				r.connect()
				r.shakesHands()
				want(r, "changed, in the first life", false, r.Stats().ServerChanged)
				// The third is as the second was, the fourth as the first: it is compared to what the client knows.
				for life, changed := range []bool{tt.changed, tt.changed, false} {
					log.Reset()
					r.crashes()
					want(r, fmt.Sprint("changed, after death ", life), changed, r.Stats().ServerChanged)
					warned := 0
					for _, e := range log.AllEntries() {
						text, _ := e.String()
						want(r, "what servers say in "+text, false, strings.Contains(text, "secret"))
						if e.Level == logrus.WarnLevel && strings.Contains(e.Message, "changed") {
							warned++
						}
					}
					want(r, fmt.Sprint("warnings, after death ", life), changed, warned == 1)
				}
				r.hooks()
				want(r, "what OnReconnect sees", []bool{tt.changed, tt.changed, false}, inHook)
				want(r, "restarts", 3, r.Stats().Restarts)
			}, supervised.WithLogger(logger))
		})
	}
}

// A server that has changed and never served has changed nothing.
func TestX1_ChangedServerThatFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1, hello: func(life int) string {
			if life == 1 {
				return strings.Replace(hello2025, `"name":"strict"`, `"name":"another"`, 1)
			}
			return hello2025
		}})
		r.onWrite(1, "2 subscriptions/listen", func(ctx context.Context, p *peertest.Peer) error {
			p.Die(errCrash)
			<-ctx.Done()
			return ctx.Err()
		})
		r.connect()
		r.shakesHands()
		r.ask(2, "subscriptions/listen", `{}`)
		r.crashes()
		want(r, "lives", 3, r.Minted())
		want(r, "changed", false, r.Stats().ServerChanged)
	})
}

const (
	toolsChanged     = "notifications/tools/list_changed"
	promptsChanged   = "notifications/prompts/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
)

func TestX2_RefreshNotices(t *testing.T) {
	for _, tt := range []struct {
		name         string
		capabilities string
		notices      []string
	}{
		{"X2 all of them", `{"tools":{},"prompts":{"listChanged":true},"resources":{},"logging":{}}`, lines(promptsChanged, resourcesChanged, toolsChanged)},
		{"X2 tools", `{"tools":{}}`, lines(toolsChanged)},
		{"X2 prompts", `{"prompts":{},"completions":{}}`, lines(promptsChanged)},
		{"X2 resources", `{"resources":{"subscribe":true}}`, lines(resourcesChanged)},
		{"X2 none of them", `{"logging":{},"experimental":{"tools":{}}}`, lines()},
	} {
		for name, first := range map[string]*jsonrpc.Request{
			"initialize":      rawCall(1, "initialize", initParams),
			"server/discover": rawCall(1, "server/discover", discovery),
		} {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
						p.Answer = func(q *jsonrpc.Request) *jsonrpc.Response {
							return &jsonrpc.Response{ID: q.ID, Result: []byte(`{"protocolVersion":"2025-11-25","supportedVersions":["2026-07-28"],` +
								`"capabilities":` + tt.capabilities + `,"serverInfo":{"name":"a","version":"1"}}`)}
						}
						return nil
					}
					r.OnReconnect(func(context.Context) error { time.Sleep(time.Second); r.note("hook is over", nil); return nil })
					r.connect()
					want(r, "written", nil, r.conn.Write(context.Background(), first))
					want(r, "answers, and nothing beside", 1, len(r.read()))
					r.notify("notifications/initialized", `{}`)
					for range 3 {
						r.crashes()
						pass(500 * time.Millisecond)
						want(r, "while the hook runs", lines(), r.read())
						pass(time.Second)
						want(r, "hooks", "hook is over", last(r.hooks()))
						notices := r.read()
						slices.Sort(notices)
						want(r, "notices", tt.notices, notices)
					}
				}, supervised.WithRefreshNotices())
			})
		}
	}
}

// One that dies while the hooks run is owed none; the one after it has its own.
func TestX2_OnlyForAReplacementThatServes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1})
		hold := make(chan struct{})
		r.OnReconnect(func(context.Context) error { <-hold; return nil })
		r.connect()
		r.shakesHands()
		r.Last().Die(errCrash)
		pass(100 * time.Millisecond)
		r.wantState(supervised.StateServing)
		r.Last().Die(errCrash)
		r.wantState(supervised.StateRespawnPending)
		close(hold)
		want(r, "after the first", lines(), r.read())
		pass(time.Second)
		want(r, "after the second", lines(toolsChanged, resourcesChanged), r.read())
	}, supervised.WithRefreshNotices())
}

func TestX2_OffByDefault(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overStrict(&strict{mute: -1})
		r.connect()
		r.shakesHands()
		r.crashes()
		want(r, "read", lines(), r.read())
	})
}

// A process that takes the place of one that did not know the probe is no replacement (E3): nothing was cached.
func TestX2_NotAfterTheProbe(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		r.probes()
		r.Last().Die(errCrash)
		want(r, "read", 1, len(r.read()))
	}, supervised.WithRefreshNotices())
}

// overModern has every peer be a server of protocol 2026-07-28 whose lists may be kept for an hour, and tell the life
// that they are of.
func (r *rig) overModern() {
	r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
		name := fmt.Sprint("life ", p.Number)
		p.Answer = func(q *jsonrpc.Request) *jsonrpc.Response {
			a := &jsonrpc.Response{ID: q.ID}
			switch q.Method {
			case "server/discover":
				a.Result = fmt.Appendf(nil, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}},`+
					`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":%q,"version":"1"}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}`, name)
			case "tools/list":
				a.Result = fmt.Appendf(nil, `{"tools":[{"name":%q,"inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":3600000,"cacheScope":"private"}`, name)
			case "prompts/list":
				a.Result = fmt.Appendf(nil, `{"prompts":[{"name":%q}],"resultType":"complete","ttlMs":3600000,"cacheScope":"private"}`, name)
			case "resources/list":
				a.Result = fmt.Appendf(nil, `{"resources":[{"name":%q,"uri":"test://x"}],"resultType":"complete","ttlMs":3600000,"cacheScope":"private"}`, name)
			case "resources/templates/list":
				a.Result = fmt.Appendf(nil, `{"resourceTemplates":[{"name":%q,"uriTemplate":"test://{x}"}],"resultType":"complete","ttlMs":3600000,"cacheScope":"private"}`, name)
			case "resources/read":
				a.Result = fmt.Appendf(nil, `{"contents":[{"uri":"test://x","text":%q}],"resultType":"complete","ttlMs":3600000,"cacheScope":"private"}`, name)
			default:
				a.Error = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
			}
			return a
		}
		return nil
	}
}

// lives is which life of the server a session has each of the things from that the SDK's client caches.
func lives(t testing.TB, session *mcp.ClientSession) map[string]string {
	t.Helper()
	ctx := context.Background()
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := session.ListPrompts(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := session.ListResources(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	templates, err := session.ListResourceTemplates(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	resource, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://x"})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"server info": session.InitializeResult().ServerInfo.Name,
		"tools":       tools.Tools[0].Name,
		"prompts":     prompts.Prompts[0].Name,
		"resources":   resources.Resources[0].Name,
		"templates":   templates.ResourceTemplates[0].Name,
		"a resource":  resource.Contents[0].Text,
	}
}

// What the SDK's client has cached of a server outlives it: after a respawn it is told what is not true any more,
// until the time to live is over.
func TestX2_SDKCacheIsNotInvalidated(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overModern()
		session := r.sdk(nil, nil)
		first := map[string]string{
			"server info": "life 0", "tools": "life 0", "prompts": "life 0", "resources": "life 0", "templates": "life 0", "a resource": "life 0",
		}
		want(r, "in the first life", first, lives(r, session))
		r.crashes()
		want(r, "in the second", first, lives(r, session))
		want(r, "what that was asked", lines(), r.took(1))
		pass(time.Hour)
		want(r, "an hour later", map[string]string{
			"server info": "life 0", "tools": "life 1", "prompts": "life 1", "resources": "life 1", "templates": "life 1", "a resource": "life 1",
		}, lives(r, session))
	})
}

// With notices the client drops its lists. The server info and what it has read of resources it keeps: no
// notification of a list tells it otherwise.
func TestX2_SDKCacheWithRefreshNotices(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.overModern()
		changes := make(chan string, 10)
		session := r.sdk(&mcp.ClientOptions{
			ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { changes <- "tools" },
			PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { changes <- "prompts" },
			ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { changes <- "resources" },
		}, nil)
		lives(r, session)
		for life := 1; life <= 3; life++ {
			r.crashes()
			want(r, "told", map[string]int{"tools": 1, "prompts": 1, "resources": 1}, counted(lines(<-changes, <-changes, <-changes)))
			now := fmt.Sprint("life ", life)
			want(r, "in "+now, map[string]string{
				"server info": "life 0", "tools": now, "prompts": now, "resources": now, "templates": now, "a resource": "life 0",
			}, lives(r, session))
		}
	}, supervised.WithRefreshNotices())
}

// The connection has the methods of mcp.Connection and no more: nothing that is found by type is promised for peers
// that may differ.
func TestX3_ConnectionAndNothingMore(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.Fleet.Process = true
		r.connect()
		methods := func(t reflect.Type) []string {
			names := lines()
			for i := range t.NumMethod() {
				names = append(names, t.Method(i).Name)
			}
			return names
		}
		want(r, "methods", methods(reflect.TypeFor[mcp.Connection]()), methods(reflect.TypeOf(r.conn)))
		_, exiter := r.conn.(supervised.Exiter)
		_, killer := r.conn.(supervised.Killer)
		_, reporter := r.conn.(supervised.Reporter)
		want(r, "what the peer's own connection has", []bool{false, false, false}, []bool{exiter, killer, reporter})
	})
}
