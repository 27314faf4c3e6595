package retry

import (
	"bytes"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/internal/wire"
)

// Policy decides which requests outlive the peer that was carrying them.
//
// Retain is asked about calls, never about notifications: about each one that
// was sent and not answered when its peer died. True keeps it, to be sent again
// to the replacement as it stands; false fails it. Retain may be called from
// several goroutines at once, answers at once, and does not change the request.
// It must not call Connect, Restart or Close of the transport that asks: these
// wait for the step that the question is part of.
type Policy interface {
	Retain(r *jsonrpc.Request) bool
}

// PolicyFunc is a function as a [Policy].
type PolicyFunc func(r *jsonrpc.Request) bool

// Retain returns f(r).
func (f PolicyFunc) Retain(r *jsonrpc.Request) bool { return f(r) }

// Never keeps no request.
var Never Policy = PolicyFunc(func(*jsonrpc.Request) bool { return false })

// ReadOnly keeps the requests that read a server's state and leave it as it was:
// the calls of server/discover, tools/list, prompts/list, prompts/get,
// resources/list, resources/templates/list, resources/read and
// completion/complete. No tool's call is among them, whatever the tool says of
// itself, and nothing that the protocol does not define.
//
// It keeps no [Continuation] either, whatever its method.
var ReadOnly Policy = PolicyFunc(func(r *jsonrpc.Request) bool {
	switch r.Method {
	case "server/discover",
		"tools/list",
		"prompts/list", "prompts/get",
		"resources/list", "resources/templates/list", "resources/read",
		"completion/complete":
		return !Continuation(r)
	}
	return false
})

// Continuation reports whether a request carries on one that the server answered
// with questions: whether its params have a member inputResponses or
// requestState, the latter being state that only the server that gave it out can
// read. A new process may know nothing of it, so such a request is never sent
// again as it stands.
//
// Only the params' own members count, not those of an object inside. Params that
// are missing or null have none. Params that are anything else than a well-formed
// JSON object are taken for a continuation, since nobody can say what they are.
//
// The params are read once, nothing is decoded and nothing allocated.
func Continuation(r *jsonrpc.Request) bool {
	if len(r.Params) == 0 {
		return false
	}
	params := bytes.Trim(r.Params, " \t\r\n")
	if string(params) == "null" {
		return false
	}
	continues, ok := wire.Any(params, "inputResponses", "requestState")
	return continues || !ok
}
