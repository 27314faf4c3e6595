package wire

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Member returns the member of object that has the given key, the last of several. It aliases object. It
// returns false if there is none, or if object is no object or broken anywhere.
func Member(object json.RawMessage, key string) (json.RawMessage, bool) {
	s := scanner{data: object, room: maxDepth}
	s.space()
	if s.peek() != '{' {
		return nil, false
	}
	var member json.RawMessage
	for s.begin(); s.next('}'); {
		if string(s.key()) == key {
			member = s.raw()
		} else {
			s.value()
		}
	}
	s.end()
	if s.fault != "" {
		return nil, false
	}
	return member, member != nil
}

// Any reports whether object has a member of one of the keys. Ok is false, and found with it, if object is no
// object or broken anywhere; it may nest as deep as what [Append] writes.
func Any(object json.RawMessage, keys ...string) (found, ok bool) {
	s := scanner{data: object, room: maxRawDepth}
	s.space()
	if s.peek() != '{' {
		return false, false
	}
	for s.begin(); s.next('}'); {
		key := s.key()
		for _, k := range keys {
			found = found || string(key) == k
		}
		s.value()
	}
	s.end()
	ok = s.fault == ""
	return found && ok, ok
}

// Path returns what [Member] finds by the first key, in that by the second, and so on; with no keys object
// itself.
func Path(object json.RawMessage, keys ...string) (json.RawMessage, bool) {
	for _, key := range keys {
		var ok bool
		if object, ok = Member(object, key); !ok {
			return nil, false
		}
	}
	return object, true
}

// ID returns the id that raw is, by the rules of [Decode]. It returns false for null and whatever is neither
// string nor number.
func ID(raw json.RawMessage) (jsonrpc.ID, bool) {
	value, ok := single(raw)
	if !ok {
		return jsonrpc.ID{}, false
	}
	id, ok := parseID(value)
	return id, ok && id.IsValid()
}

// Text returns the value of the JSON string that raw is. It returns false for anything else.
func Text(raw json.RawMessage) (string, bool) {
	value, ok := single(raw)
	if !ok || value[0] != '"' {
		return "", false
	}
	return unquote(value), true
}

// single returns the one valid JSON value in raw without the white space around it.
func single(raw []byte) ([]byte, bool) {
	s := scanner{data: raw, room: maxDepth}
	s.space()
	value := s.raw()
	s.end()
	return value, s.fault == ""
}
