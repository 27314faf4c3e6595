package wire

import (
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// DecodeError says why a text was refused. It matches (errors.Is, errors.As) a *jsonrpc.Error of the code that
// JSON-RPC has for it: [jsonrpc.CodeParseError] for broken JSON, [jsonrpc.CodeInvalidRequest] for what is no
// message though it is JSON, as far as it was read.
type DecodeError struct {
	Offset int    // of the fault in bytes; 0 where the message as a whole is at fault
	Reason string // for people; repeats nothing of the text
	code   int64
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("wire: %s at offset %d", e.Reason, e.Offset)
}

func (e *DecodeError) Unwrap() error {
	return &jsonrpc.Error{Code: e.code, Message: e.Reason}
}

// EncodeError says why a message cannot be written.
type EncodeError struct {
	Member string // what is at fault: "params", "result", "data" (of an error), or empty: there is no message
	Err    error  // a *DecodeError where Member is broken JSON
}

func (e *EncodeError) Error() string {
	if e.Member == "" {
		return "wire: cannot encode: " + e.Err.Error()
	}
	return "wire: cannot encode " + e.Member + ": " + e.Err.Error()
}

func (e *EncodeError) Unwrap() error { return e.Err }
