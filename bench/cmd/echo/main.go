// Command echo is the peer at the other end of every connection-level benchmark: it answers each line of its
// input that has an id, at the least cost there is, so that what is measured is the other side.
//
// The answer's result is what the request had as params, so both lines have about the same size. No JSON is
// decoded: the id and the params are found by a scan for the bytes in front of them, which is right for the
// encoders that the benchmarks use and for nothing else. Answers are gathered and written when the input runs
// dry. A line without an id is a notification and is dropped.
//
// With an argument it knows some methods: "pid" asks for the process id. With "hold" a request of the method "hold"
// is counted and never answered, and "held" asks for the count. With "old" it is a server of a protocol before
// 2026-07-28: initialize gets the answer of a handshake, server/discover a refusal.
package main

import (
	"bytes"
	"os"
	"strconv"
)

const (
	inputSize = 4 << 20  // more than the longest line, several times
	readMin   = 64 << 10 // what a pipe holds: never read into less
	direct    = 4 << 10  // params of this size are written from where they are, not copied
)

var (
	idKey     = []byte(`"id":`)
	paramsKey = []byte(`"params":`)
)

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	(&echo{mode: mode, in: make([]byte, inputSize), out: make([]byte, 0, 2*readMin)}).run()
}

type echo struct {
	mode string
	in   []byte
	out  []byte
	held int
}

func (e *echo) run() {
	start, end := 0, 0 // e.in[start:end] was read and not yet looked at as a line
	scanned := 0       // e.in[start:scanned] holds no newline
	for {
		i := bytes.IndexByte(e.in[scanned:end], '\n')
		if i >= 0 {
			e.line(e.in[start : scanned+i+1])
			start = scanned + i + 1
			scanned = start
			continue
		}
		scanned = end
		e.flush()
		switch {
		case start == end:
			start, end, scanned = 0, 0, 0
		case len(e.in)-end < readMin:
			copy(e.in, e.in[start:end])
			start, end, scanned = 0, end-start, end-start
		}
		if end == len(e.in) {
			os.Exit(2) // a line longer than any that is sent
		}
		n := read(e.in[end:])
		if n <= 0 {
			return
		}
		end += n
	}
}

// line answers one line, which ends with its newline.
func (e *echo) line(line []byte) {
	i := bytes.Index(line, idKey)
	if i < 0 {
		return
	}
	id := line[i+len(idKey):]
	n := 0
	for id[n] != ',' && id[n] != '}' {
		n++
	}
	id, rest := id[:n], id[n:]
	if e.mode != "" && e.special(line, id) {
		return
	}
	e.head(id)
	i = bytes.Index(rest, paramsKey)
	if i < 0 {
		e.out = append(e.out, "{}}\n"...)
		return
	}
	rest = rest[i+len(paramsKey):] // params, the closing brace of the request, the newline
	if len(rest) >= direct {
		e.flush()
		write(rest)
		return
	}
	if len(e.out)+len(rest) > readMin {
		e.flush()
	}
	e.out = append(e.out, rest...)
}

func (e *echo) head(id []byte) {
	e.out = append(e.out, `{"jsonrpc":"2.0","id":`...)
	e.out = append(e.out, id...)
	e.out = append(e.out, `,"result":`...)
}

// special does what the mode wants done with a request, if anything.
func (e *echo) special(line, id []byte) bool {
	has := func(method string) bool {
		return bytes.Contains(line[:min(len(line), 200)], []byte(`"method":"`+method+`"`))
	}
	old := e.mode == "old"
	switch {
	case has("hold"):
		e.held++
	case has("held"):
		e.number(id, e.held)
	case has("pid"):
		e.number(id, os.Getpid())
	case old && has("initialize"):
		e.head(id)
		e.out = append(e.out, `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"echo","version":"1"}}}`+"\n"...)
	case old && has("server/discover"):
		e.out = append(e.out, `{"jsonrpc":"2.0","id":`...)
		e.out = append(e.out, id...)
		e.out = append(e.out, `,"error":{"code":-32601,"message":"method not found"}}`+"\n"...)
	default:
		return false
	}
	return true
}

func (e *echo) number(id []byte, n int) {
	e.head(id)
	e.out = strconv.AppendInt(e.out, int64(n), 10)
	e.out = append(e.out, "}\n"...)
}

func (e *echo) flush() {
	if len(e.out) > 0 {
		write(e.out)
		e.out = e.out[:0]
	}
}
