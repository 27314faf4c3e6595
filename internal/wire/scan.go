package wire

import (
	"encoding/binary"
	"math/bits"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

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
	if s.peek() != '"' {
		s.fail("object key expected")
		return nil
	}
	start := s.pos + 1
	s.text()
	end := s.pos - 1
	s.space()
	if s.peek() != ':' {
		s.fail("colon expected")
		return nil
	}
	s.pos++
	s.space()
	return s.data[start:end]
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
	switch c := s.peek(); c {
	case '"':
		s.text()
	case '{':
		for s.begin(); s.next('}'); {
			s.name()
			s.value()
		}
	case '[':
		for s.begin(); s.next(']'); {
			s.value()
		}
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		if c == '-' || isDigit(c) {
			s.number()
			return
		}
		s.fail("value expected")
	}
}

// literal steps over word.
func (s *scanner) literal(word string) {
	if end := s.pos + len(word); end <= len(s.data) && string(s.data[s.pos:end]) == word {
		s.pos = end
		return
	}
	s.fail("value expected")
}

// number steps over a number.
func (s *scanner) number() {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else {
		s.digits()
	}
	if s.peek() == '.' {
		s.pos++
		s.digits()
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		s.digits()
	}
}

// digits steps over one digit or more.
func (s *scanner) digits() {
	start := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	if s.pos == start {
		s.fail("digit expected")
	}
}

func isSpace(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t')
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// text steps over a string, from quote to quote.
func (s *scanner) text() {
	s.pos++
	for {
		s.pos += plain(s.data[s.pos:])
		switch c := s.peek(); {
		case c == '"':
			s.pos++
			return
		case c == '\\':
			s.escape()
		case s.pos == len(s.data):
			s.fail(unexpectedEnd)
			return
		default:
			s.fail("control character in a string")
			return
		}
	}
}

// escape steps over a backslash and what belongs to it.
func (s *scanner) escape() {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
	case 'u':
		s.pos++
		for range 4 {
			if !isHex(s.peek()) {
				s.fail("hexadecimal digit expected")
				return
			}
			s.pos++
		}
	default:
		s.fail("unknown escape in a string")
	}
}

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// plain returns how many bytes at the front of b stand for themselves inside a string: all up to the first
// quote, backslash or control character. It takes eight bytes a step.
func plain(b []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x80 * ones
	)
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		// A byte that is zero after the xor, or less than a space, borrows into its high bit. Bytes above
		// it may be marked wrongly by that borrow, but only the lowest mark counts.
		quote, slash := w^'"'*ones, w^'\\'*ones
		if marks := ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w) & highs; marks != 0 {
			return n + bits.TrailingZeros64(marks)/8
		}
	}
	for n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}
