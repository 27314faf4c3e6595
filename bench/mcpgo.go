package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	mcpgo "github.com/mark3labs/mcp-go/client/transport"
	mcpgotypes "github.com/mark3labs/mcp-go/mcp"
)

// An mcpgoLink is a link over the stdio transport of mcp-go. That has no Read and no Write, but a call that returns
// with its answer; so pipelined is as many callers as the window holds requests. An id is never used again: it
// forgets a call only after its caller was answered, and would forget the next one of that id.
type mcpgoLink struct {
	stdio    *mcpgo.Stdio
	messages *messages
	ids      atomic.Int64
}

func dialMCPGo(echo string, m *messages) (*mcpgoLink, error) {
	s := mcpgo.NewStdio(echo, nil)
	if err := s.Start(context.Background()); err != nil {
		return nil, err
	}
	return &mcpgoLink{stdio: s, messages: m}, nil
}

func (l *mcpgoLink) call(ctx context.Context) (*mcpgo.JSONRPCResponse, error) {
	r := mcpgo.JSONRPCRequest{JSONRPC: "2.0", ID: mcpgotypes.NewRequestId(firstID + l.ids.Add(1)), Method: "tools/call", Params: l.messages.params}
	a, err := l.stdio.SendRequest(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case a.Error != nil:
		return nil, errors.New(a.Error.Message)
	case len(a.Result) != len(l.messages.params):
		return nil, errors.New("an answer has the wrong length")
	}
	return a, nil
}

func (l *mcpgoLink) verify() error {
	for range 4 {
		a, err := l.call(context.Background())
		if err != nil {
			return err
		}
		if !bytes.Equal(a.Result, l.messages.params) {
			return fmt.Errorf("want %.80q, got %.80q", l.messages.params, a.Result)
		}
	}
	return nil
}

func (l *mcpgoLink) pingPong(n int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range n {
		if _, err := l.call(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *mcpgoLink) pipelined(n, size int) error {
	return callers(size, n, func(ctx context.Context) error {
		_, err := l.call(ctx)
		return err
	})
}

func (l *mcpgoLink) close() error { return l.stdio.Close() }

// callers makes n calls from so many goroutines and returns the first error.
func callers(count, n int, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for range min(count, n) {
		all.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if err := call(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
