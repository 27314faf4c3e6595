package supervised_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
)

// TestR1_OverHTTP: the streamable transport reads a stream under the context of its Write. The stream outlives both
// the context of Listen and the connection.
func TestR1_OverHTTP(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "change"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		mcp.AddTool(s, &mcp.Tool{Name: "another"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	defer web.Close()
	defer web.CloseClientConnections()
	client := web.Client()
	tr, err := supervised.New(func(context.Context) (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: client}, nil
	}, atOnce()...)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	back := make(chan struct{}, 10)
	tr.OnReconnect(func(context.Context) error { back <- struct{}{}; return nil })
	session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(context.Background(), tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()

	heard := make(chan string, 100)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	stream, err := tr.Listen(ctx, &mcp.SubscriptionsListenParams{Notifications: &mcp.NotificationSubscriptions{ToolsListChanged: true}}, func(m *jsonrpc.Request) { heard <- m.Method })
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "change", Arguments: map[string]any{}}); err != nil {
			t.Fatal(err)
		}
		want(t, "heard", "notifications/tools/list_changed", next(t, "list_changed", heard))
		if err := tr.Restart(errCrash); err != nil {
			t.Fatal(err)
		}
		next(t, "the replacement", back)
	}
	stream.Close()
}

// TestX3_HTTPConnectionsAreUsedAgain: a transport reads a response to its end behind the answer to a call. Where that
// is called off, the next call costs another connection.
func TestX3_HTTPConnectionsAreUsedAgain(t *testing.T) {
	const calls = 300
	opened := func(guarded bool) int64 {
		w := newWeb(t, false, guarded)
		var dialed atomic.Int64
		w.idle.DisableKeepAlives = false
		w.idle.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		w.connect()
		before := dialed.Load()
		for range calls {
			if _, err := w.call("echo", nil); err != nil {
				t.Fatal(err)
			}
		}
		return dialed.Load() - before
	}
	bare, wrapped := opened(false), opened(true)
	t.Logf("connections for %d calls: %d, supervised %d", calls, bare, wrapped)
	if wrapped > bare+calls/30 {
		t.Errorf("%d connections for %d calls, %d without supervision", wrapped, calls, bare)
	}
}
