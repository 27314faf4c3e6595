package wire

import "github.com/modelcontextprotocol/go-sdk/jsonrpc"

// scanner walks over one JSON text (RFC 8259), checking it on the way.
//
// The first fault sticks: it cuts the text short where it was found, so that every later step finds the end of
// the text and does nothing. Callers therefore walk on and ask for the fault once, at the end.
type scanner struct {
	data  []byte
	pos   int
	room  int    // levels of nesting that may still be opened
	first bool   // begin was the last step: no comma is due
	fault string // why the text is refused; empty while it is not
	code  int64  // the JSON-RPC error code that belongs to fault
}

const unexpectedEnd = "unexpected end"

// fail refuses the text as broken JSON.
func (s *scanner) fail(why string) { s.refuse(jsonrpc.CodeParseError, why) }

// reject refuses the value that comes next: as what has no place in a message, unless it is broken JSON.
func (s *scanner) reject(why string) {
	start := s.pos
	s.value()
	if s.fault == "" {
		s.pos = start
		s.refuse(jsonrpc.CodeInvalidRequest, why)
	}
}

// refuse notes the fault at the current position, unless there was one before.
func (s *scanner) refuse(code int64, why string) {
	if s.fault == "" {
		s.code, s.fault = code, why
	}
	s.data = s.data[:s.pos]
}

// err returns the fault, or nil where there was none.
func (s *scanner) err() error {
	if s.fault == "" {
		return nil
	}
	return &DecodeError{Offset: s.pos, Reason: s.fault, code: s.code}
}

// peek returns the next byte, or 0, which stands nowhere in JSON, at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// space skips white space.
func (s *scanner) space() {
	for s.pos < len(s.data) && isSpace(s.data[s.pos]) {
		s.pos++
	}
}

// end skips white space and fails unless the text ends there.
func (s *scanner) end() {
	s.space()
	if s.pos < len(s.data) {
		s.fail("bytes after the end of the value")
	}
}

// begin steps over the bracket that opens an object or array. Until next returns false, its members or
// elements follow:
//
//	for s.begin(); s.next('}'); {
//		key, value := s.key(), s.raw()
//		...
//	}
func (s *scanner) begin() {
	if s.room == 0 {
		s.fail("nested too deep")
		return
	}
	s.room--
	s.pos++
	s.first = true
}

// next moves to the next member or element. It returns false once it has stepped over closing instead, or
// at a fault.
func (s *scanner) next(closing byte) bool {
	first := s.first
	s.first = false
	s.space()
	switch c := s.peek(); {
	case s.pos == len(s.data):
		s.fail(unexpectedEnd)
	case c == closing:
		s.pos++
		s.room++
	case first:
		return true
	case c == ',':
		s.pos++
		s.space()
		return true
	default:
		s.fail("comma or closing bracket expected")
	}
	return false
}

// name steps over a member's key and colon and returns what stands between the quotes.
func (s *scanner) name() []byte {
	start := s.pos
	end := s.skipName(start)
	if end < 0 {
		return nil
	}
	s.pos = end
	// From the colon back to the quote that closes the key.
	for end--; s.data[end] != '"'; end-- {
	}
	return s.data[start+1 : end]
}

// key steps over a member's key and colon and returns the key.
func (s *scanner) key() []byte { return unescape(s.name()) }

// raw steps over a value and returns its bytes, with no room to append.
func (s *scanner) raw() []byte {
	start := s.pos
	s.value()
	return s.data[start:s.pos:s.pos]
}

// value steps over a value.
func (s *scanner) value() {
	if end := s.skip(s.pos); end >= 0 {
		s.pos = end
	}
}

// literal steps over word.
func (s *scanner) literal(word string) {
	if end := s.skipLiteral(s.pos, word); end >= 0 {
		s.pos = end
	}
}

func isSpace(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t')
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
