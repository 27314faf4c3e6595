//go:build unix

package supervised_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
)

func TestOverCommandTransport(t *testing.T) {
	factory := func(ctx context.Context) (mcp.Transport, error) {
		server := server()
		cmd := exec.CommandContext(ctx, server.Args[0])
		cmd.Env = append(os.Environ(), server.Env...)
		return &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}, nil
	}
	h := supervise(t, factory)
	for range 3 {
		cause := h.kill()
		exit, ok := errors.AsType[*exec.ExitError](cause)
		if !ok {
			t.Fatalf("no exit in %v", cause)
		}
		want(t, "signal", syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
		h.change()
	}
	pid := h.pid()
	want(t, "Close", nil, h.Close())
	want(t, "the process", error(syscall.ESRCH), syscall.Kill(pid, 0))
}

// inProcess is a factory of servers in this process. The connection of each is sent on servers; closing it is a
// death without a last word.
func inProcess(servers chan<- mcp.Connection, pair func() (client, server mcp.Transport)) supervised.Factory {
	return func(ctx context.Context) (mcp.Transport, error) {
		s := mcp.NewServer(&mcp.Implementation{Name: "in process"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "change"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			mcp.AddTool(s, &mcp.Tool{Name: "another"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "changed"}}}, nil, nil
		})
		client, server := pair()
		_, err := s.Connect(context.WithoutCancel(ctx), tapped{server, servers}, nil)
		return client, err
	}
}

// tapped is a transport whose connections are sent on conns as well.
type tapped struct {
	mcp.Transport
	conns chan<- mcp.Connection
}

func (t tapped) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err == nil {
		t.conns <- conn
	}
	return conn, err
}

func TestOverInProcessTransports(t *testing.T) {
	pairs := map[string]func() (client, server mcp.Transport){
		"InMemoryTransport": func() (mcp.Transport, mcp.Transport) {
			client, server := mcp.NewInMemoryTransports()
			return client, server
		},
		"IOTransport": func() (mcp.Transport, mcp.Transport) {
			fromServer, toClient := io.Pipe()
			fromClient, toServer := io.Pipe()
			return &mcp.IOTransport{Reader: fromServer, Writer: toServer}, &mcp.IOTransport{Reader: fromClient, Writer: toClient}
		},
	}
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			servers := make(chan mcp.Connection, 10)
			h := supervise(t, inProcess(servers, pair))
			for range 3 {
				h.change()
				next(t, "the server", servers).Close()
				h.recovered()
			}
			_, err := h.tool("change", nil)
			want(t, "the last one serves", "ok", kind(err))
			want(t, "Close", nil, h.Close())
			want(t, "Wait", nil, h.session.Wait())
			_, err = h.tool("change", nil)
			wantIs(t, "a call after Close", err, mcp.ErrConnectionClosed)
		})
	}
}

// TestC7_SessionCloseThatWaits: the SDK waits for a call that is never answered; Close ends that.
func TestC7_SessionCloseThatWaits(t *testing.T) {
	for _, order := range []string{"session first", "transport first"} {
		t.Run(order, func(t *testing.T) {
			h := supervise(t, server().Mint)
			pid := h.pid()
			syscall.Kill(pid, syscall.SIGSTOP)
			failed := make(chan error, 1)
			go func() {
				_, err := h.session.CallTool(context.Background(), &mcp.CallToolParams{Name: "hang"})
				failed <- err
			}()
			eventually(t, "the call is in flight", func() bool { return h.Stats().InFlight == 1 })
			ends := []func() error{h.session.Close, h.Close}
			if order == "transport first" {
				ends[0], ends[1] = ends[1], ends[0]
			}
			ended := make(chan error, 2)
			for _, end := range ends {
				go func() { ended <- end() }()
			}
			want(t, "one end", nil, next(t, "one end", ended))
			want(t, "the other", nil, next(t, "the other", ended))
			wantIs(t, "the call", next(t, "the call", failed), mcp.ErrConnectionClosed)
			want(t, "the process", error(syscall.ESRCH), syscall.Kill(pid, 0))
		})
	}
}

// TestB6_SessionSeesTheEnd: a session of the SDK learns that the budget is spent.
func TestB6_SessionSeesTheEnd(t *testing.T) {
	h := supervise(t, server().Mint, supervised.WithMaxRestarts(1))
	h.kill()
	_, err := h.tool("exit", map[string]any{"code": 7})
	exhausted, ok := errors.AsType[*supervised.ExhaustedError](err)
	if !ok {
		t.Fatalf("the call: %v", err)
	}
	want(t, "restarts", 1, exhausted.Restarts)
	wantIs(t, "the call", err, supervised.ErrClosed, supervised.ErrPeerLost, mcp.ErrConnectionClosed)
	wantExit(t, err, 7, nil, "why")

	wantExit(t, h.session.Wait(), 7, nil, "why")
	next(t, "Done", h.Done())
	wantExit(t, h.Err(), 7, nil, "why")
	_, err = h.tool("pid", nil)
	wantIs(t, "a later call", err, mcp.ErrConnectionClosed)
}

// TestS2_OverTheSDK: the SDK's client and servers, in process.
func TestS2_OverTheSDK(t *testing.T) {
	servers := make(chan mcp.Connection, 10)
	tr, err := supervised.New(inProcess(servers, func() (mcp.Transport, mcp.Transport) {
		client, server := mcp.NewInMemoryTransports()
		return client, server
	}), atOnce()...)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	session, err := client.Connect(context.Background(), tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	nobody, err := tr.Listen(ctx, &mcp.SubscriptionsListenParams{Notifications: &mcp.NotificationSubscriptions{}}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "a stream of nothing ends at once", nil, nobody.Await(ctx))
	want(t, "what is honoured of it", &mcp.NotificationSubscriptions{}, nobody.Acknowledged())

	heard := make(chan string, 100)
	s, err := tr.Listen(ctx, &mcp.SubscriptionsListenParams{Notifications: &mcp.NotificationSubscriptions{ToolsListChanged: true, PromptsListChanged: true}}, func(m *jsonrpc.Request) { heard <- m.Method })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		conn := next(t, "connection", servers)
		if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "change", Arguments: map[string]any{}}); err != nil {
			t.Fatal(err)
		}
		want(t, "heard", "notifications/tools/list_changed", next(t, "list_changed", heard))
		want(t, "honoured", true, s.Acknowledged() != nil && s.Acknowledged().ToolsListChanged)
		back := make(chan struct{})
		remove := tr.OnReconnect(func(context.Context) error { close(back); return nil })
		conn.Close()
		next(t, "the replacement", back)
		remove()
	}
	want(t, "Close", nil, tr.Close())
	wantIs(t, "Await", s.Await(ctx), supervised.ErrClosed)
	want(t, "streams", 0, tr.Stats().Streams)
	want(t, "heard besides", 0, len(heard))
}
