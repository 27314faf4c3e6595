package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// heartbeat is a resource that changes twenty times a second.
const heartbeat = "quickstart://heartbeat"

// runServer is an ordinary server of the SDK. It knows nothing of supervision.
func runServer(ctx context.Context) error {
	pid := strconv.Itoa(os.Getpid())
	server := mcp.NewServer(&mcp.Implementation{Name: "quickstart", Version: "1.0.0"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	mcp.AddTool(server, &mcp.Tool{Name: "pid", Description: "says which process this is"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: pid}}}, nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "work", Description: "takes longer than this process will live"},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			<-ctx.Done()
			return nil, nil, ctx.Err()
		})
	server.AddResource(&mcp.Resource{Name: "heartbeat", URI: heartbeat, MIMEType: "text/plain"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			now := time.Now().Format(time.RFC3339Nano)
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: heartbeat, Text: now}}}, nil
		})
	go beat(ctx, server, pid)
	return server.Run(ctx, &mcp.StdioTransport{})
}

// beat tells whoever subscribed that the heartbeat has changed, and which process says so.
func beat(ctx context.Context, server *mcp.Server, pid string) {
	for range time.Tick(50 * time.Millisecond) {
		_ = server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{
			URI:  heartbeat,
			Meta: mcp.Meta{"pid": pid},
		})
	}
}
