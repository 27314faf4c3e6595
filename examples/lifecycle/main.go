// Lifecycle draws the path that a transport has really taken. Run it with
//
//	go run ./examples/lifecycle [folder]
//
// It supervises a server, kills it twice, closes, and writes what OnTransition told of
// that into the folder (default: the current one):
//
//	path.dot       the lifecycle with the path marked and counted, for Graphviz
//	path.mmd       the same, for Mermaid
//	sequence.mmd   the path step by step, with times and causes, for Mermaid
//
// An SVG comes from the first of them, without a Graphviz on the system, by
//
//	go -C diagram/svg run ./dotsvg <path.dot >path.svg
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/diagram"
	"github.com/seed7990db67/supervised/stdio"
)

func main() {
	log.SetFlags(0)
	folder := "."
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	run := func() error { return record(context.Background(), folder) }
	if folder == "server" {
		run = serve
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// A recorder keeps the steps that a transport makes.
type recorder struct {
	mu    sync.Mutex
	begun time.Time
	steps []diagram.Step[supervised.State, supervised.Event]
}

// add is an OnTransition hook.
func (r *recorder) add(t supervised.Transition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun.IsZero() {
		r.begun = t.At
	}
	note := fmt.Sprintf("after %v, connection %d", t.At.Sub(r.begun).Round(time.Millisecond), t.Generation)
	if t.Cause != nil {
		note += ": " + t.Cause.Error()
	}
	r.steps = append(r.steps, diagram.Step[supervised.State, supervised.Event]{
		From: t.From, Event: t.Event, Guard: t.Guard, Note: note,
	})
}

// path returns the lifecycle with the steps marked.
func (r *recorder) path() (*diagram.Diagram[supervised.State, supervised.Event], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, err := diagram.New(supervised.Lifecycle(), supervised.LifecycleSpec(), diagram.Options{
		Title:    "What a transport did whose server was killed twice",
		Emphasis: []string{"budget left"},
	})
	if err != nil {
		return nil, err
	}
	return d.Taken(r.steps...)
}

func record(ctx context.Context, folder string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	transport, err := supervised.New(stdio.Command{Args: []string{self, "server"}}.Mint)
	if err != nil {
		return err
	}
	defer transport.Close()
	var r recorder
	closed := make(chan struct{})
	transport.OnTransition(func(t supervised.Transition) {
		r.add(t)
		if t.To == supervised.StateClosed {
			close(closed)
		}
	})
	if err := killTwice(ctx, transport); err != nil {
		return err
	}
	if err := transport.Close(); err != nil {
		return err
	}
	<-closed // hooks run beside the transport

	d, err := r.path()
	if err != nil {
		return err
	}
	if d, err = d.At(transport.State()); err != nil {
		return err
	}
	var errs []error
	for name, text := range map[string]string{"path.dot": d.DOT(), "path.mmd": d.Mermaid(), "sequence.mmd": d.Sequence()} {
		errs = append(errs, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	fmt.Print(d.Markdown())
	return errors.Join(errs...)
}

// killTwice uses a server, kills it, and uses the next one, until the third has
// answered.
func killTwice(ctx context.Context, transport *supervised.Transport) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "lifecycle", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return err
	}
	for server := 1; ; server++ {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "pid"})
		if err != nil || server == 3 {
			return err
		}
		died := make(chan struct{})
		remove := transport.OnClose(func(error) { close(died) })
		pid, err := strconv.Atoi(result.Content[0].(*mcp.TextContent).Text)
		if err != nil {
			return err
		}
		process, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		if err := process.Kill(); err != nil {
			return err
		}
		<-died
		remove()
		if err := transport.WaitServing(ctx); err != nil {
			return err
		}
	}
}

// serve is an ordinary server of the SDK.
func serve() error {
	server := mcp.NewServer(&mcp.Implementation{Name: "lifecycle", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "pid", Description: "says which process this is"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strconv.Itoa(os.Getpid())}}}, nil, nil
		})
	return server.Run(context.Background(), &mcp.StdioTransport{})
}
