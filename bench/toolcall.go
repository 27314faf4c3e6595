package bench

import (
	"context"
	"errors"
	"fmt"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
)

// openCaller starts the server of tools and connects a client to it.
func openCaller(tools string, peer Peer, l Load) (*Session, error) {
	text := fmt.Sprintf("%.*s", l.Size, string(paramsFor(2*l.Size)))
	var call func(context.Context) (string, error)
	var closeClient func() error
	var err error
	if peer == MCPGo {
		call, closeClient, err = mcpgoCaller(tools, text)
	} else {
		call, closeClient, err = sdkCaller(tools, peer, text)
	}
	if err != nil {
		return nil, err
	}
	once := func(ctx context.Context) error {
		got, err := call(ctx)
		if err == nil && got != text {
			err = fmt.Errorf("want %q, got %q", text, got)
		}
		return err
	}
	if err := once(context.Background()); err != nil {
		return nil, errors.Join(err, closeClient())
	}
	return &Session{
		Run:   func(n int) error { return callers(l.Callers, n, once) },
		Close: closeClient,
	}, nil
}

func sdkCaller(tools string, peer Peer, text string) (call func(context.Context) (string, error), closeClient func() error, err error) {
	t, err := transport(peer, tools)
	if err != nil {
		return nil, nil, err
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(context.Background(), t, nil)
	if err != nil {
		return nil, nil, err
	}
	closeClient = session.Close
	if s, ok := t.(*supervised.Transport); ok {
		closeClient = func() error { return errors.Join(session.Close(), s.Close()) }
	}
	params := &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": text}}
	return func(ctx context.Context) (string, error) {
		p := *params // the SDK fills in what it adds
		result, err := session.CallTool(ctx, &p)
		if err != nil {
			return "", err
		}
		if len(result.Content) != 1 {
			return "", errors.New("want one content")
		}
		content, ok := result.Content[0].(*mcp.TextContent)
		if !ok {
			return "", errors.New("want a text")
		}
		return content.Text, nil
	}, closeClient, nil
}

func mcpgoCaller(tools, text string) (call func(context.Context) (string, error), closeClient func() error, err error) {
	c, err := mcpgoclient.NewStdioMCPClient(tools, nil)
	if err != nil {
		return nil, nil, err
	}
	var hello mcpgo.InitializeRequest
	hello.Params.ClientInfo = mcpgo.Implementation{Name: "bench", Version: "1"}
	hello.Params.ProtocolVersion = mcpgo.LATEST_PROTOCOL_VERSION
	if _, err := c.Initialize(context.Background(), hello); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	var request mcpgo.CallToolRequest
	request.Params.Name = "echo"
	request.Params.Arguments = map[string]any{"text": text}
	return func(ctx context.Context) (string, error) {
		result, err := c.CallTool(ctx, request)
		if err != nil {
			return "", err
		}
		if len(result.Content) != 1 {
			return "", errors.New("want one content")
		}
		content, ok := mcpgo.AsTextContent(result.Content[0])
		if !ok {
			return "", errors.New("want a text")
		}
		return content.Text, nil
	}, c.Close, nil
}
