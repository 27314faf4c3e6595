package supervised_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// serverEnv has the test binary be a server instead.
const serverEnv = "SUPERVISED_TEST_SERVER"

func TestMain(m *testing.M) {
	switch mode, old := strings.CutPrefix(os.Getenv(serverEnv), "old "); {
	case old:
		serveOld(mode, os.Stdin, os.Stdout)
		return
	case mode != "":
		serve()
		return
	}
	goleak.VerifyTestMain(m)
}

// serve is a server of the SDK on stdin and stdout.
func serve() {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	text := func(s string) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}, nil, nil
	}
	type none struct{}
	mcp.AddTool(s, &mcp.Tool{Name: "pid"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return text(fmt.Sprint(os.Getpid()))
	})
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Text string `json:"text"`
	}) (*mcp.CallToolResult, any, error) {
		return text(in.Text)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "size"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Text string `json:"text"`
	}) (*mcp.CallToolResult, any, error) {
		return text(fmt.Sprint(len(in.Text)))
	})
	mcp.AddTool(s, &mcp.Tool{Name: "big"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Bytes int `json:"bytes"`
	}) (*mcp.CallToolResult, any, error) {
		return text(strings.Repeat("x", in.Bytes))
	})
	mcp.AddTool(s, &mcp.Tool{Name: "hang"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	mcp.AddTool(s, &mcp.Tool{Name: "exit"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Code int `json:"code"`
	}) (*mcp.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "why")
		os.Exit(in.Code)
		return nil, nil, nil
	})
	// A tool with an effect that is seen, and no answer.
	mcp.AddTool(s, &mcp.Tool{Name: "append"}, func(ctx context.Context, _ *mcp.CallToolRequest, in struct {
		File string `json:"file"`
	}) (*mcp.CallToolResult, any, error) {
		f, err := os.OpenFile(in.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintln(f, "ran")
		f.Close()
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	s.AddResource(&mcp.Resource{URI: "test://pid", Name: "pid"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://pid", Text: fmt.Sprint(os.Getpid())}}}, nil
	})
	prompt := func(name string) {
		s.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
	}
	prompt("first")
	mcp.AddTool(s, &mcp.Tool{Name: "change prompts"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		prompt(fmt.Sprint("p", time.Now().UnixNano()))
		return text("changed")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "update"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		if err := s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "test://pid"}); err != nil {
			return nil, nil, err
		}
		return text("updated")
	})
	// Adding a tool is a change of the list, which subscribers are told of.
	mcp.AddTool(s, &mcp.Tool{Name: "change"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		mcp.AddTool(s, &mcp.Tool{Name: fmt.Sprint("t", time.Now().UnixNano())}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return text("")
		})
		return text("changed")
	})
	stubborn := os.Getenv(serverEnv) == "stubborn"
	if stubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	if stubborn {
		select {}
	}
}
