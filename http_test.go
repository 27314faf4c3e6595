package supervised_test

//lint:file-ignore SA1019 deprecated by the protocol of now, and what older servers use

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
)

// What can become of a feature over HTTP, in the words of the guide.
const (
	works      = "works"
	wasSent    = "sent"
	wasNotSent = "not sent"
	lost       = "lost"
	goesOn     = "the call fails, the session goes on"
	callEnds   = "the session ends"
	callIsLost = "the call fails with `ErrPeerLost`, the next goes to a new session"
)

// An httpFeature is used twice, by a session over the SDK's transport and by one over a supervised one.
type httpFeature struct {
	name                     string
	unsupervised, supervised string // what becomes of it
	use                      func(w *web) string
}

// modern are features of protocol 2026-07-28, which the SDK's handler speaks where it is stateless.
var modern = []httpFeature{
	{"a tool call and its answer", works, works, func(w *web) string {
		w.connect()
		return w.outcome(w.call("echo", nil))
	}},
	{"progress during a call", works, works, (*web).progress},
	{"`list_changed` to a handler (`subscriptions/listen`)", works, works, (*web).listChanged},
	{"`resources/updated` after `Subscribe` (`subscriptions/listen`)", works, works, func(w *web) string {
		w.connect()
		if err := w.session.Subscribe(w.ctx, &mcp.SubscribeParams{URI: "my://story"}); err != nil {
			w.Fatal(err)
		}
		return w.updated()
	}},
	{"cancellation of a call (`PropagateRequestCancellation`)", works, works, func(w *web) string {
		w.handler.PropagateRequestCancellation = true
		w.connect()
		return w.cancelled()
	}},
	{"`Mcp-Protocol-Version` of a request", wasSent, wasSent, func(w *web) string {
		w.connect()
		w.call("echo", nil)
		return w.header("tools/call", "Mcp-Protocol-Version", "2026-07-28")
	}},
	{"`Mcp-Protocol-Version` of a notification", wasSent, wasNotSent, func(w *web) string {
		w.connect()
		w.notify()
		return w.header("notifications/progress", "Mcp-Protocol-Version", "2026-07-28")
	}},
	{"`Mcp-Method` and `Mcp-Name`", wasSent, wasSent, func(w *web) string {
		w.connect()
		w.call("echo", nil)
		if method := w.header("tools/call", "Mcp-Method", "tools/call"); method != wasSent {
			return method
		}
		return w.header("tools/call", "Mcp-Name", "echo")
	}},
	{"`Mcp-Param-*` of a tool's `x-mcp-header`", wasSent, wasSent, func(w *web) string {
		w.connect()
		if _, err := w.session.ListTools(w.ctx, nil); err != nil {
			w.Fatal(err)
		}
		w.restart() // the binding is the client's, not the server's
		if _, err := w.call("regional", map[string]any{"region": "north"}); err != nil {
			return err.Error()
		}
		return w.header("tools/call", "Mcp-Param-Region", "north")
	}},
}

// older are features of a session that begins with initialize.
var older = []httpFeature{
	{"the handshake: `server/discover` refused, then `initialize`", works, works, func(w *web) string {
		w.connect()
		want(w, "refused", 1, w.count("POST", "server/discover"))
		want(w, "version", "2025-11-25", w.session.InitializeResult().ProtocolVersion)
		return w.outcome(w.call("echo", nil))
	}},
	{"the handshake: `ProtocolVersion` \"2025-06-18\"", works, works, func(w *web) string {
		w.protocol = "2025-06-18"
		w.connect()
		want(w, "asked", 0, w.count("POST", "server/discover"))
		want(w, "version", "2025-06-18", w.session.InitializeResult().ProtocolVersion)
		return w.outcome(w.call("echo", nil))
	}},
	{"`Mcp-Session-Id`, `ID` of the session", works, works, func(w *web) string {
		w.connect()
		w.call("echo", nil)
		id := w.session.ID()
		want(w, "an id", true, id != "")
		if w.header("tools/call", "Mcp-Session-Id", id) != wasSent {
			return wasNotSent
		}
		return works
	}},
	{"DELETE at `Close`", wasSent, wasSent, func(w *web) string {
		w.connect()
		id := w.session.ID()
		w.session.Close()
		if w.supervisor != nil {
			next(w, "Done", w.supervisor.Done())
		}
		return w.header("DELETE", "Mcp-Session-Id", id)
	}},
	{"`Mcp-Protocol-Version` after the handshake", wasSent, wasNotSent, func(w *web) string {
		w.connect()
		w.call("echo", nil)
		return w.header("tools/call", "Mcp-Protocol-Version", "2025-11-25")
	}},
	{"a server that insists on that header", works, "the budget is spent, the session ends", func(w *web) string {
		w.intercept(insists)
		w.connect()
		if w.supervisor != nil {
			next(w, "Done", w.supervisor.Done())
			wantIs(w, "Err", w.supervisor.Err(), supervised.ErrClosed)
			return "the budget is spent, the session ends"
		}
		return w.outcome(w.call("echo", nil))
	}},
	{"the same, where the `HTTPClient` sets the header", works, works, func(w *web) string {
		w.intercept(insists)
		w.client.Transport = versioned{w.client.Transport}
		w.connect()
		w.restart()
		return w.outcome(w.call("echo", nil))
	}},
	{"the standalone GET stream", "opened", "not opened", func(w *web) string {
		w.connect() // which waits for the answer to GET
		w.call("echo", nil)
		if w.count("GET", "") == 0 {
			return "not opened"
		}
		return "opened"
	}},
	{"`list_changed` to a handler", works, lost, (*web).listChanged},
	{"`resources/updated` after `Subscribe`", works, lost, func(w *web) string {
		w.connect()
		if err := w.session.Subscribe(w.ctx, &mcp.SubscribeParams{URI: "my://story"}); err != nil {
			w.Fatal(err)
		}
		return w.updated()
	}},
	{"a log message outside of a call", works, lost, func(w *web) string {
		w.connect()
		if err := w.session.SetLoggingLevel(w.ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
			w.Fatal(err)
		}
		if err := w.peer().Log(w.ctx, &mcp.LoggingMessageParams{Level: "error", Data: "x"}); err != nil {
			return lost
		}
		return w.hears("notifications/message")
	}},
	{"a request of the server outside of a call", works, "refused to the server at once", func(w *web) string {
		w.connect()
		if _, err := w.peer().ListRoots(w.ctx, nil); err != nil {
			want(w, "refusal", true, errors.Is(err, &jsonrpc.Error{Code: -32005}))
			return "refused to the server at once"
		}
		return works
	}},
	{"progress during a call", works, works, (*web).progress},
	{"roots, sampling and elicitation during a call", works, works, func(w *web) string {
		w.connect()
		return w.outcome(w.call("ask", nil))
	}},
	{"cancellation of a call", works, works, func(w *web) string {
		w.connect()
		return w.cancelled()
	}},
	{"a call's stream is resumed before its first message (`EventStore`)", works, goesOn, (*web).resumed},
	{"the same with that `HTTPClient`", works, works, func(w *web) string {
		w.client.Transport = versioned{w.client.Transport}
		return w.resumed()
	}},
	{"a call's stream is resumed after its first message (`EventStore`)", works, works, func(w *web) string {
		w.progressFirst = true
		return w.resumed()
	}},
	{"the standalone stream is resumed (`EventStore`)", works, "there is none", func(w *web) string {
		w.handler.EventStore = mcp.NewMemoryEventStore(nil)
		w.connect()
		if w.count("GET", "") == 0 {
			return "there is none"
		}
		w.web.CloseClientConnections()
		w.idle.CloseIdleConnections()
		if _, err := w.call("change", nil); err != nil {
			w.Fatal(err)
		}
		return w.hears("notifications/tools/list_changed")
	}},
}

// ends are the ways in which the server can fail.
var ends = []struct {
	httpFeature
	modern bool
}{
	{httpFeature{"no connection at a call", goesOn, goesOn, func(w *web) string {
		w.connect()
		w.stop()
		_, err := w.call("echo", nil)
		w.start()
		return w.aftermath(err)
	}}, true},
	{httpFeature{"429, 500, 502, 503 or 504 at a call", goesOn, goesOn, func(w *web) string {
		w.connect()
		var outcome string
		for _, status := range []int{429, 500, 502, 503, 504} {
			outcome = w.refused(status)
			want(w, fmt.Sprint(status), goesOn, outcome)
		}
		return outcome
	}}, true},
	{httpFeature{"another status that is no success, without a JSON-RPC error", callEnds, callIsLost, func(w *web) string {
		w.connect()
		return w.refused(http.StatusForbidden)
	}}, true},
	{httpFeature{"the server goes away with a call in flight", goesOn, goesOn, func(w *web) string {
		w.handler.PropagateRequestCancellation = true // the end of the server waits for the call otherwise
		w.connect()
		failed := make(chan error, 1)
		go func() {
			_, err := w.call("hang", nil)
			failed <- err
		}()
		next(w, "the call", w.hanging)
		w.stop()
		err := next(w, "its end", failed)
		want(w, "it is a loss", false, errors.Is(err, supervised.ErrPeerLost))
		w.start()
		return w.aftermath(err)
	}}, true},
	{httpFeature{"`list_changed` after the server was started again", lost, lost, func(w *web) string {
		w.connect()
		w.stop()
		w.start()
		if w.supervisor != nil {
			eventually(w, "the end of the stream", func() bool { return w.supervisor.Stats().Streams == 0 })
			w.restart() // which brings back no stream that had ended
		}
		if _, err := w.call("change", nil); err != nil {
			w.Fatal(err)
		}
		if w.count("POST", "subscriptions/listen") == 1 {
			return lost
		}
		return w.hears("notifications/tools/list_changed")
	}}, true},
	{httpFeature{"the server has forgotten the session (404 at a call)", callEnds, callIsLost, func(w *web) string {
		w.connect()
		before := w.session.ID()
		w.peer().Close()
		_, err := w.call("echo", nil)
		want(w, "session missing", w.supervisor == nil, errors.Is(err, mcp.ErrSessionMissing) && !errors.Is(err, supervised.ErrPeerLost))
		outcome := w.aftermath(err)
		if outcome == callIsLost {
			want(w, "another session", true, w.session.ID() != "" && w.session.ID() != before)
			want(w, "DELETE of what is gone", 0, w.count("DELETE", ""))
		}
		return outcome
	}}, false},
	{httpFeature{"the server goes away while nothing is in flight (`MaxRetries` -1)", callEnds, "not noticed before the next call", func(w *web) string {
		w.noRetries = true
		w.connect()
		w.stop()
		if w.supervisor == nil {
			ended := make(chan error, 1)
			go func() { ended <- w.session.Wait() }()
			want(w, "a reason", true, next(w, "the end", ended) != nil)
			w.start()
			return callEnds
		}
		w.start()
		want(w, "state", supervised.StateServing, w.supervisor.State())
		want(w, "connections", 0, w.supervisor.Stats().Generation)
		_, err := w.call("echo", nil)
		want(w, "the next call", callIsLost, w.aftermath(err))
		return "not noticed before the next call"
	}}, false},
}

// TestX3_HTTP: what works over the SDK's streamable transport, with supervision and without. The guide shows the
// same rows.
func TestX3_HTTP(t *testing.T) {
	var told [][]string
	try := func(era string, f httpFeature, modern bool) {
		told = append(told, []string{f.name, f.unsupervised, f.supervised})
		t.Run(era+"/"+f.name, func(t *testing.T) {
			t.Parallel()
			for name, expected := range map[string]string{"unsupervised": f.unsupervised, "supervised": f.supervised} {
				t.Run(name, func(t *testing.T) {
					w := newWeb(t, modern, name == "supervised")
					want(t, "outcome", expected, f.use(w))
				})
			}
		})
	}
	for _, f := range modern {
		try("2026-07-28", f, true)
	}
	for _, f := range older {
		try("older", f, false)
	}
	for _, e := range ends {
		try("ends", e.httpFeature, e.modern)
	}

	_, section, _ := strings.Cut(document(t, "docs/guide.md"), "\n## HTTP\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var shown [][]string
	for row := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(row, "| ---") || strings.HasPrefix(row, "| feature |") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		shown = append(shown, cells[:3])
	}
	want(t, "docs/guide.md shows", told, shown)
}

// A web is a server of the SDK over HTTP and a session with it, which may be supervised.
type web struct {
	*testing.T
	ctx      context.Context
	handler  mcp.StreamableHTTPOptions
	server   mcp.ServerOptions
	client   *http.Client
	idle     *http.Transport // what the client has, beneath
	protocol string
	guarded  bool

	noRetries     bool // the session ends as soon as a stream does
	progressFirst bool // before a tool ends its stream

	supervisor *supervised.Transport // nil: the session has none
	session    *mcp.ClientSession
	back       chan struct{} // a replacement serves

	heard   chan string // methods of the notifications that the client got
	missed  chan string // methods of those that the server could not deliver
	hanging chan struct{}
	unhung  chan error // why the context of a call that hung has ended
	over    chan struct{}

	mcp     *mcp.Server
	web     *httptest.Server
	address string

	mu     sync.Mutex
	visits []visit
	status func(visit) int
}

// A visit is a request that the server got.
type visit struct {
	verb, method string // of HTTP, and of the message in it
	header       http.Header
}

func newWeb(t *testing.T, modern, guarded bool) *web {
	w := &web{
		T: t, handler: mcp.StreamableHTTPOptions{Stateless: modern}, guarded: guarded,
		// A request must not go to a connection of a server that is gone: one that its end has not reached yet.
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		back:   make(chan struct{}, 100), heard: make(chan string, 100), missed: make(chan string, 100),
		hanging: make(chan struct{}, 10), unhung: make(chan error, 10), over: make(chan struct{}),
	}
	w.idle = w.client.Transport.(*http.Transport)
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithTimeout(context.Background(), patience)
	t.Cleanup(func() {
		cancel()
		close(w.over)
		if w.supervisor != nil {
			w.supervisor.Close()
		}
		if w.session != nil {
			w.session.Close()
		}
		w.stop()
		if w.mcp != nil {
			for s := range w.mcp.Sessions() {
				s.Close()
			}
		}
		w.idle.CloseIdleConnections()
	})
	return w
}

// connect starts the server and a session with it.
func (w *web) connect() {
	w.Helper()
	if err := w.tryConnect(); err != nil {
		w.Fatal(err)
	}
}

func (w *web) tryConnect() error {
	w.mcp = w.newServer()
	w.start()
	var transport mcp.Transport = w.transport()
	if w.guarded {
		var err error
		w.supervisor, err = supervised.New(func(context.Context) (mcp.Transport, error) { return w.transport(), nil },
			supervised.WithRestartDelay(0), supervised.WithMaxRestarts(3))
		if err != nil {
			w.Fatal(err)
		}
		w.supervisor.OnReconnect(func(context.Context) error { w.back <- struct{}{}; return nil })
		transport = w.supervisor
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { w.heard <- "notifications/tools/list_changed" },
		ResourceUpdatedHandler: func(context.Context, *mcp.ResourceUpdatedNotificationRequest) {
			w.heard <- "notifications/resources/updated"
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { w.heard <- "notifications/progress" },
		LoggingMessageHandler:       func(context.Context, *mcp.LoggingMessageRequest) { w.heard <- "notifications/message" },
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "sampled"}}, nil
		},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
	})
	session, err := client.Connect(w.ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: w.protocol})
	w.session = session
	return err
}

func (w *web) transport() *mcp.StreamableClientTransport {
	t := &mcp.StreamableClientTransport{Endpoint: "http://" + w.address, HTTPClient: w.client}
	if w.noRetries {
		t.MaxRetries = -1
	}
	return t
}

// newServer is a server whose tools use what HTTP has to carry.
func (w *web) newServer() *mcp.Server {
	w.server.SubscribeHandler = func(context.Context, *mcp.SubscribeRequest) error { return nil }
	w.server.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, &w.server)
	s.AddResource(&mcp.Resource{URI: "my://story", Name: "story"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "my://story", Text: "Once"}}}, nil
	})
	tool := func(name string, properties map[string]any, run func(context.Context, *mcp.CallToolRequest) error) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object", "properties": properties}},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if err := run(ctx, r); err != nil {
					return nil, err
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name}}}, nil
			})
	}
	none := map[string]any{}
	tool("echo", none, func(context.Context, *mcp.CallToolRequest) error { return nil })
	tool("regional", map[string]any{"region": map[string]any{"type": "string", "x-mcp-header": "Region"}},
		func(context.Context, *mcp.CallToolRequest) error { return nil })
	tool("progress", none, func(ctx context.Context, r *mcp.CallToolRequest) error {
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		if err != nil {
			return err
		}
		select { // the answer comes behind the progress, by another message of the same stream
		case m := <-w.heard:
			w.heard <- m
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	tool("ask", none, func(ctx context.Context, r *mcp.CallToolRequest) error {
		_, roots := r.Session.ListRoots(ctx, nil)
		_, sampled := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{
			MaxTokens: 1, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "?"}}},
		})
		_, elicited := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?", RequestedSchema: map[string]any{"type": "object", "properties": none}})
		return errors.Join(roots, sampled, elicited)
	})
	tool("hang", none, func(ctx context.Context, r *mcp.CallToolRequest) error {
		w.hanging <- struct{}{}
		select {
		case <-ctx.Done():
			w.unhung <- ctx.Err()
			return ctx.Err()
		case <-w.over:
			return nil
		}
	})
	tool("pause", none, func(ctx context.Context, r *mcp.CallToolRequest) error {
		if w.progressFirst {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1}); err != nil {
				return err
			}
		}
		r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		return nil
	})
	tool("change", none, func(context.Context, *mcp.CallToolRequest) error {
		s.AddTool(&mcp.Tool{Name: "another", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
		return nil
	})
	s.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, r)
			if err != nil && strings.HasPrefix(method, "notifications/") {
				w.missed <- method
			}
			return result, err
		}
	})
	return s
}

// start has the server listen, with no memory of its sessions.
func (w *web) start() {
	w.Helper()
	if w.address == "" {
		w.address = "127.0.0.1:0"
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.mcp }, &w.handler)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if status := w.visited(r); status != 0 {
			http.Error(rw, "refused", status)
			return
		}
		handler.ServeHTTP(rw, r)
	}))
	s.Listener.Close()
	eventually(w, "the address is free", func() (free bool) {
		l, err := net.Listen("tcp", w.address)
		s.Listener = l
		return err == nil
	})
	s.Start()
	w.web, w.address = s, s.Listener.Addr().String()
}

// stop is the end of the server: it answers nobody, and whoever connects is refused.
func (w *web) stop() {
	if w.web != nil {
		w.web.Listener.Close()
		w.web.CloseClientConnections()
		w.web.Close()
		w.web = nil
	}
}

// visited notes a request; it returns the status that it is to be refused with, if it is.
func (w *web) visited(r *http.Request) int {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var message struct{ Method string }
	json.Unmarshal(body, &message)
	v := visit{r.Method, message.Method, r.Header.Clone()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visits = append(w.visits, v)
	if w.status == nil {
		return 0
	}
	return w.status(v)
}

// intercept has requests refused with the status that f returns, unless that is 0.
func (w *web) intercept(f func(visit) int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = f
}

// insists refuses what comes after the handshake without the header for the version.
func insists(v visit) int {
	if v.header.Get("Mcp-Session-Id") != "" && v.header.Get("Mcp-Protocol-Version") == "" {
		return http.StatusBadRequest
	}
	return 0
}

// versioned sets the header for the version where the transport does not know it.
type versioned struct{ http.RoundTripper }

func (v versioned) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Mcp-Session-Id") != "" && r.Header.Get("Mcp-Protocol-Version") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	return v.RoundTripper.RoundTrip(r)
}

// count is how many requests came with a verb and a method; "": a request without a message.
func (w *web) count(verb, method string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.visits {
		if v.verb == verb && v.method == method {
			n++
		}
	}
	return n
}

// header reports whether the last request with a method, of the message or of HTTP, had a header with a value.
func (w *web) header(method, name, value string) string {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.visits) - 1; i >= 0; i-- {
		v := w.visits[i]
		if v.method != method && (v.method != "" || v.verb != method) {
			continue
		}
		if got := v.header.Get(name); got == value {
			return wasSent
		} else if got != "" {
			return got
		}
		return wasNotSent
	}
	return "no such request"
}

// call calls a tool; its text is its name.
func (w *web) call(name string, args map[string]any) (string, error) {
	if args == nil {
		args = map[string]any{}
	}
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	params.SetProgressToken("token")
	r, err := w.session.CallTool(w.ctx, params)
	if err != nil {
		return "", err
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if text != name || r.IsError {
		return "", errors.New(text)
	}
	return text, nil
}

// outcome is that of a call.
func (w *web) outcome(_ string, err error) string {
	if err != nil {
		return err.Error()
	}
	return works
}

// notify has the client send a notification, and waits until it came.
func (w *web) notify() {
	w.Helper()
	if err := w.session.NotifyProgress(w.ctx, &mcp.ProgressNotificationParams{ProgressToken: "x", Progress: 1}); err != nil {
		w.Fatal(err)
	}
}

// hears waits for a notification, or for the server to fail to deliver it.
func (w *web) hears(method string) string {
	w.Helper()
	select {
	case m := <-w.heard:
		want(w, "notification", method, m)
		return works
	case m := <-w.missed:
		want(w, "notification", method, m)
		return lost
	case <-w.ctx.Done():
		return "neither heard nor missed"
	}
}

func (w *web) listChanged() string {
	w.connect()
	if _, err := w.call("change", nil); err != nil {
		w.Fatal(err)
	}
	return w.hears("notifications/tools/list_changed")
}

func (w *web) progress() string {
	w.connect()
	if outcome := w.outcome(w.call("progress", nil)); outcome != works {
		return outcome
	}
	return w.hears("notifications/progress")
}

// resumed calls a tool that ends the stream of the call before it answers.
func (w *web) resumed() string {
	w.handler.EventStore = mcp.NewMemoryEventStore(nil)
	w.connect()
	if _, err := w.call("pause", nil); err != nil {
		return w.aftermath(err)
	}
	if last := w.header("GET", "Last-Event-Id", ""); last == wasSent || last == wasNotSent {
		return "not resumed"
	}
	return works
}

// updated has the server say that a resource has changed.
func (w *web) updated() string {
	if err := w.mcp.ResourceUpdated(w.ctx, &mcp.ResourceUpdatedNotificationParams{URI: "my://story"}); err != nil {
		w.Fatal(err)
	}
	return w.hears("notifications/resources/updated")
}

// cancelled cancels a call while the server has it.
func (w *web) cancelled() string {
	ctx, cancel := context.WithCancel(w.ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := w.session.CallTool(ctx, &mcp.CallToolParams{Name: "hang", Arguments: map[string]any{}})
		failed <- err
	}()
	next(w, "the call", w.hanging)
	cancel()
	wantIs(w, "the call", next(w, "its end", failed), context.Canceled)
	next(w, "the end of its context", w.unhung)
	return works
}

// peer is the server's side of the session.
func (w *web) peer() *mcp.ServerSession {
	w.Helper()
	for s := range w.mcp.Sessions() {
		if s.ID() == w.session.ID() {
			return s
		}
	}
	w.Fatal("no such session")
	return nil
}

// restart has the connection replaced, where it is supervised.
func (w *web) restart() {
	w.Helper()
	if w.supervisor == nil {
		return
	}
	if err := w.supervisor.Restart(errCrash); err != nil {
		w.Fatal(err)
	}
	next(w, "the replacement", w.back)
}

// refused is the outcome of a call that gets a status.
func (w *web) refused(status int) string {
	w.intercept(func(v visit) int {
		if v.method == "tools/call" {
			return status
		}
		return 0
	})
	_, err := w.call("echo", nil)
	w.intercept(nil)
	return w.aftermath(err)
}

// aftermath says what is left after a call that failed.
func (w *web) aftermath(err error) string {
	w.Helper()
	if err == nil {
		return "the call does not fail"
	}
	died := errors.Is(err, supervised.ErrPeerLost)
	if died {
		next(w, "the replacement", w.back)
	}
	switch _, again := w.call("echo", nil); {
	case again != nil && errors.Is(again, mcp.ErrConnectionClosed):
		return callEnds
	case again != nil:
		return again.Error()
	case died:
		return callIsLost
	}
	if w.supervisor != nil {
		want(w, "restarts", 0, w.supervisor.Stats().RestartsInWindow)
		want(w, "connections", 0, w.supervisor.Stats().Generation)
	}
	return goesOn
}
