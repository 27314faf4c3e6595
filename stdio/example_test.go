//go:build unix

package stdio_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/stdio"
)

// A command is a recipe. Each transport that it mints is one process.
func ExampleCommand() {
	ctx := context.Background()
	command := stdio.Command{
		Args: []string{"sh", "-c", `read -r request; echo '{"jsonrpc":"2.0","id":1,"result":{"greeting":"'"$GREETING"'"}}'`},
		Env:  []string{"GREETING=hello"},
	}
	transport, err := command.Mint(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := transport.Connect(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	id, _ := jsonrpc.MakeID(1.0)
	if err := conn.Write(ctx, &jsonrpc.Request{ID: id, Method: "greet", Params: json.RawMessage(`{}`)}); err != nil {
		fmt.Println(err)
		return
	}
	answer, err := conn.Read(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", answer.(*jsonrpc.Response).Result)
	// Output: {"greeting":"hello"}
}

// How a process ended is found in the error that Read returns.
func ExampleExitError() {
	ctx := context.Background()
	transport, err := stdio.Command{Args: []string{"sh", "-c", "echo no configuration >&2; exit 23"}}.Mint(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := transport.Connect(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	_, err = conn.Read(ctx)
	var exit *stdio.ExitError
	if errors.As(err, &exit) {
		fmt.Println(exit.Code)
		fmt.Println(exit)
	}
	// Output:
	// 23
	// stdio: exit status 23: no configuration
}
