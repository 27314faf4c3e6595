package stdio

import (
	"bytes"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// slackMax is how much more of its line than it holds, and as much again, a message may keep in memory, in bytes.
const slackMax = 256

// detached is m, which aliases a line of size bytes, with a copy of what it holds where that line is mostly something
// else: a member that nobody knows, or the other elements of an array. Whoever bounds what waits for its reader goes by
// what messages hold, and a server could have each keep a whole line.
func detached(m jsonrpc.Message, size int) jsonrpc.Message {
	if size <= slackMax {
		return m
	}
	switch m := m.(type) {
	case *jsonrpc.Request:
		if wasteful(size, len(m.Params)) {
			m.Params = bytes.Clone(m.Params)
		}
	case *jsonrpc.Response:
		failure, _ := errors.AsType[*jsonrpc.Error](m.Error)
		if failure != nil && wasteful(size, len(m.Result)+len(failure.Data)) {
			failure.Data = bytes.Clone(failure.Data)
		}
		if wasteful(size, len(m.Result)) {
			m.Result = bytes.Clone(m.Result)
		}
	}
	return m
}

func wasteful(size, held int) bool { return size-held > held+slackMax }
