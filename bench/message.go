package bench

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The sizes of messages, in bytes of a request's line with its newline. The answer is 15 bytes shorter or so.
const (
	small  = 300
	medium = 16 << 10
	large  = 1 << 20
)

// firstID makes all ids as long as each other, and none of them one of the first few hundred that a session
// begins with, which anybody can have ready.
const firstID = 1_000_000

// The line of a request, as all peers write it; the parts around the id and the params.
const (
	lineHead   = `{"jsonrpc":"2.0","id":`
	lineMethod = `,"method":"tools/call","params":`
	answerHead = `,"result":`
)

// messages are the requests of a load, made before it: making them is the same work for everybody and none of
// theirs. An id is used again when its call was answered.
type messages struct {
	params   json.RawMessage
	requests []*jsonrpc.Request
}

// newMessages makes n requests of size bytes.
func newMessages(size, n int) *messages {
	m := &messages{params: paramsFor(size)}
	for i := range n {
		m.requests = append(m.requests, &jsonrpc.Request{ID: newID(firstID + i), Method: "tools/call", Params: m.params})
	}
	return m
}

// at returns the request of turn i.
func (m *messages) at(i int) *jsonrpc.Request { return m.requests[i%len(m.requests)] }

// line is the request's line for a peer that writes bytes; the id stands behind lineHead, in 7 digits.
func (m *messages) line() []byte {
	return fmt.Appendf(nil, "%s%d%s%s}\n", lineHead, firstID, lineMethod, m.params)
}

// answer is the length of an answer's line.
func (m *messages) answer() int {
	return len(fmt.Sprintf("%s%d%s%s}\n", lineHead, firstID, answerHead, m.params))
}

func newID(n int) jsonrpc.ID {
	id, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		panic(err) // a number is always one
	}
	return id
}

// paramsFor returns params that make a line of size bytes: those of a tool that is given a text, of the kind that
// tools are given, with an escape here and there.
func paramsFor(size int) json.RawMessage {
	const head, tail = `{"name":"write","arguments":{"path":"/srv/notes/today.md","text":"`, `"}}`
	return json.RawMessage(head + escapedText(size-len(lineHead)-7-len(lineMethod)-len("}\n")-len(head)-len(tail)) + tail)
}

// escapedText returns n bytes of the inside of a JSON string.
func escapedText(n int) string {
	const sentence = `- it asked \"what does the server say, and when?\" and wrote the answer down, line by line\n`
	return strings.Repeat(sentence, n/len(sentence)) + strings.Repeat("x", n%len(sentence))
}
