package retry_test

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/retry"
)

func Example() {
	for _, r := range []*jsonrpc.Request{
		{Method: "resources/read", Params: json.RawMessage(`{"uri":"file:///notes"}`)},
		{Method: "resources/read", Params: json.RawMessage(`{"uri":"file:///notes","requestState":"c2Vl"}`)},
		{Method: "tools/call", Params: json.RawMessage(`{"name":"now"}`)},
	} {
		fmt.Println(r.Method, retry.ReadOnly.Retain(r))
	}
	// Output:
	// resources/read true
	// resources/read false
	// tools/call false
}

// Someone who knows that a tool of their server changes nothing keeps its calls
// too. A call that carries on a dialogue is still not for another process.
func ExamplePolicyFunc() {
	policy := retry.PolicyFunc(func(r *jsonrpc.Request) bool {
		if r.Method != "tools/call" {
			return retry.ReadOnly.Retain(r)
		}
		var call struct{ Name string }
		return json.Unmarshal(r.Params, &call) == nil && call.Name == "now" && !retry.Continuation(r)
	})
	for _, params := range []string{
		`{"name":"now"}`,
		`{"name":"now","inputResponses":{"zone":"UTC"}}`,
		`{"name":"launch"}`,
	} {
		r := &jsonrpc.Request{Method: "tools/call", Params: json.RawMessage(params)}
		fmt.Println(params, policy.Retain(r))
	}
	// Output:
	// {"name":"now"} true
	// {"name":"now","inputResponses":{"zone":"UTC"}} false
	// {"name":"launch"} false
}
