package wire

import (
	"encoding/json"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxDepth is how deep arrays and objects may nest in a message, itself included: the SDK's limit.
const maxDepth = 1000

// Decode reads the one JSON-RPC message that line holds. A text with a "method" member, be it empty, is a
// request; one without is a response and needs an id.
//
// The message's Params, Result and error Data alias line; its strings do not. An error is a *[DecodeError].
//
// As in the SDK:
//   - Keys are case-sensitive, and unknown ones are skipped.
//   - Of members with the same key the last one counts. But a later "error" object only replaces the members
//     that it has, and null for "jsonrpc", "code" or "message" leaves them as they were.
//   - A null id is none, a null method is the empty one; a null error is no error. Null params or a null
//     result are kept as such.
//   - A numeric id is a float64 cut to an int64, so that 1.9 is 1 and an integer beyond 2⁵³ may be rounded.
//   - Invalid UTF-8 and unpaired surrogates in a decoded string become U+FFFD.
func Decode(line []byte) (jsonrpc.Message, error) {
	s := scanner{data: line, room: maxDepth}
	s.space()
	e := s.envelope()
	s.end()
	if err := s.err(); err != nil {
		return nil, err
	}
	m, reason := e.message()
	if reason != "" {
		return nil, &DecodeError{Reason: reason, code: jsonrpc.CodeInvalidRequest}
	}
	return m, nil
}

// An Array is what was not taken yet of a JSON array. The zero value is an empty one.
type Array struct {
	scanner scanner
	more    bool
}

// OpenArray returns the JSON array that line holds, which it checks as a whole. An empty array is an error, as for
// JSON-RPC; an error is a *[DecodeError].
//
// It takes no memory for the elements: there may be half as many as the line has bytes.
func OpenArray(line []byte) (Array, error) {
	a := Array{scanner: scanner{data: line, room: maxDepth + 1}}
	a.scanner.space()
	s := a.scanner
	if s.peek() != '[' {
		s.reject("array expected")
		return Array{}, s.err()
	}
	count := 0
	for s.begin(); s.next(']'); count++ {
		s.value()
	}
	s.end()
	if count == 0 {
		s.refuse(jsonrpc.CodeInvalidRequest, "empty array")
	}
	if err := s.err(); err != nil {
		return Array{}, err
	}
	a.scanner.begin()
	a.more = a.scanner.next(']')
	return a, nil
}

// More reports whether there is an element left.
func (a *Array) More() bool { return a.more }

// Next takes the next element; nil: there is none left. It aliases the line and may nest as deep as a line of its own.
func (a *Array) Next() []byte {
	if !a.more {
		return nil
	}
	element := a.scanner.raw()
	a.more = a.scanner.next(']')
	return element
}

// IsArray reports whether the first byte of line that is no white space opens a JSON array.
func IsArray(line []byte) bool {
	s := scanner{data: line}
	s.space()
	return s.peek() == '['
}

// envelope is a message's members, as found.
type envelope struct {
	tagged bool // jsonrpc is "2.0"
	id     json.RawMessage
	method json.RawMessage
	params json.RawMessage
	result json.RawMessage
	err    *jsonrpc.Error
}

func (s *scanner) envelope() (e envelope) {
	if s.peek() != '{' {
		s.reject("object expected")
		return e
	}
	for s.begin(); s.next('}'); {
		switch string(s.key()) {
		case "jsonrpc":
			if tag, ok := s.optional("jsonrpc is no string"); ok {
				e.tagged = string(tag) == "2.0"
			}
		case "id":
			e.id = s.raw()
		case "method":
			e.method = s.raw()
		case "params":
			e.params = s.raw()
		case "result":
			e.result = s.raw()
		case "error":
			e.err = s.failure(e.err)
		default:
			s.value()
		}
	}
	return e
}

// failure reads an error object over what an earlier one left.
func (s *scanner) failure(e *jsonrpc.Error) *jsonrpc.Error {
	switch s.peek() {
	case 'n':
		s.literal("null")
		return nil
	case '{':
	default:
		s.reject("error is no object")
		return nil
	}
	if e == nil {
		e = new(jsonrpc.Error)
	}
	for s.begin(); s.next('}'); {
		switch string(s.key()) {
		case "code":
			if code, ok := s.integer(); ok {
				e.Code = code
			}
		case "message":
			if message, ok := s.optional("error message is no string"); ok {
				e.Message = string(message)
			}
		case "data":
			e.Data = s.raw()
		default:
			s.value()
		}
	}
	return e
}

// optional reads a string and returns it unescaped. For null it returns false, anything else it rejects with
// why.
func (s *scanner) optional(why string) ([]byte, bool) {
	switch s.peek() {
	case '"':
		if raw := s.raw(); s.fault == "" {
			return unescape(raw[1 : len(raw)-1]), true
		}
	case 'n':
		s.literal("null")
	default:
		s.reject(why)
	}
	return nil, false
}

// integer reads an error code. For null it returns false.
func (s *scanner) integer() (int64, bool) {
	if s.peek() == 'n' {
		s.literal("null")
		return 0, false
	}
	start := s.pos
	code, err := strconv.ParseInt(string(s.raw()), 10, 64)
	if err != nil && s.fault == "" {
		s.pos = start
		s.reject("error code is no integer of 64 bits")
	}
	return code, err == nil
}

// message makes a message of the members, or says why they are none.
func (e *envelope) message() (m jsonrpc.Message, reason string) {
	if !e.tagged {
		return nil, `jsonrpc is not "2.0"`
	}
	id, ok := parseID(e.id)
	if !ok {
		return nil, "id is neither string nor number"
	}
	switch {
	case e.method != nil:
		request := &jsonrpc.Request{ID: id, Params: e.params}
		switch e.method[0] {
		case '"':
			request.Method = unquote(e.method)
		case 'n':
		default:
			return nil, "method is no string"
		}
		return request, ""
	case !id.IsValid():
		return nil, "neither method nor id"
	}
	response := &jsonrpc.Response{ID: id, Result: e.result}
	if e.err != nil { // else Error would hold a nil pointer
		response.Error = e.err
	}
	return response, ""
}

// lowIDs holds the ids that a session starts with: making an ID costs allocations.
var lowIDs = func() (ids [256]jsonrpc.ID) {
	for i := range ids {
		ids[i], _ = jsonrpc.MakeID(float64(i))
	}
	return ids
}()

// parseID makes an ID of a valid JSON value, an invalid ID for null or none. It returns false for any other
// value that is no id.
func parseID(raw []byte) (jsonrpc.ID, bool) {
	if len(raw) == 0 || raw[0] == 'n' {
		return jsonrpc.ID{}, true
	}
	var v any
	switch c := raw[0]; {
	case c == '"':
		v = unquote(raw)
	case c == '-' || isDigit(c):
		f, ok := parseNumber(raw)
		if !ok {
			return jsonrpc.ID{}, false
		}
		if 0 <= f && f < float64(len(lowIDs)) {
			return lowIDs[int(f)], true
		}
		v = f
	default:
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.MakeID(v)
	return id, err == nil
}

// parseNumber returns the value of a valid JSON number, false where it is beyond float64.
func parseNumber(raw []byte) (float64, bool) {
	if n, ok := parseDigits(raw); ok {
		return float64(n), true // rounds as ParseFloat does
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil
}

// parseDigits returns the value of digits, false where there is anything else or perhaps more than an int64
// holds.
func parseDigits(digits []byte) (n int64, ok bool) {
	if len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if !isDigit(c) {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}
