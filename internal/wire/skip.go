package wire

import (
	"encoding/binary"
	"math/bits"
)

// What skips a part of the text gets the place where it begins and returns the place behind it, or -1 at a fault,
// which is noted. Places are passed on in registers: in the scanner itself each step would load and store one,
// which is most of what a short message costs.

// faultAt notes why the text is refused at i, and returns -1.
func (s *scanner) faultAt(i int, why string) int {
	s.pos = i
	s.fail(why)
	return -1
}

// skip skips a value.
func (s *scanner) skip(i int) int {
	b := s.data
	if i >= len(b) {
		return s.faultAt(i, "value expected")
	}
	switch c := b[i]; c {
	case '"':
		return s.skipText(i)
	case '{':
		return s.skipContainer(i, '}')
	case '[':
		return s.skipContainer(i, ']')
	case 't':
		return s.skipLiteral(i, "true")
	case 'f':
		return s.skipLiteral(i, "false")
	case 'n':
		return s.skipLiteral(i, "null")
	default:
		if c == '-' || isDigit(c) {
			return s.skipNumber(i)
		}
		return s.faultAt(i, "value expected")
	}
}

// skipContainer skips an object or an array, which closing ends.
func (s *scanner) skipContainer(i int, closing byte) int {
	if s.room == 0 {
		return s.faultAt(i, "nested too deep")
	}
	s.room--
	b := s.data
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == closing {
		s.room++
		return i + 1
	}
	for {
		if closing == '}' {
			if i = s.skipName(i); i < 0 {
				return -1
			}
		}
		if i = s.skip(i); i < 0 {
			return -1
		}
		i = skipSpace(b, i)
		switch {
		case i >= len(b):
			return s.faultAt(i, unexpectedEnd)
		case b[i] == closing:
			s.room++
			return i + 1
		case b[i] != ',':
			return s.faultAt(i, "comma or closing bracket expected")
		}
		i = skipSpace(b, i+1)
	}
}

// skipName skips a member's key, its colon and the white space around that.
func (s *scanner) skipName(i int) int {
	b := s.data
	if i >= len(b) || b[i] != '"' {
		return s.faultAt(i, "object key expected")
	}
	if i = s.skipText(i); i < 0 {
		return -1
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return s.faultAt(i, "colon expected")
	}
	return skipSpace(b, i+1)
}

// skipText skips a string, from quote to quote.
func (s *scanner) skipText(i int) int {
	b := s.data
	i++
	for {
		for ; len(b)-i >= 8; i += 8 {
			if marks := special(binary.LittleEndian.Uint64(b[i:])); marks != 0 {
				i += bits.TrailingZeros64(marks) / 8
				break
			}
		}
		if i >= len(b) {
			return s.faultAt(i, unexpectedEnd)
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return s.faultAt(i, "control character in a string")
		case c != '\\':
			i++ // one of the last few of the text
			continue
		}
		if i++; i >= len(b) {
			return s.faultAt(i, "unknown escape in a string")
		}
		switch b[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i++
		case 'u':
			i++
			for end := i + 4; i < end; i++ {
				if i >= len(b) || !isHex(b[i]) {
					return s.faultAt(i, "hexadecimal digit expected")
				}
			}
		default:
			return s.faultAt(i, "unknown escape in a string")
		}
	}
}

func (s *scanner) skipLiteral(i int, word string) int {
	if end := i + len(word); end <= len(s.data) && string(s.data[i:end]) == word {
		return end
	}
	return s.faultAt(i, "value expected")
}

func (s *scanner) skipNumber(i int) int {
	b := s.data
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = s.skipDigits(i); i < 0 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = s.skipDigits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return s.skipDigits(i)
	}
	return i
}

// skipDigits skips one digit or more.
func (s *scanner) skipDigits(i int) int {
	b, start := s.data, i
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	if i == start {
		return s.faultAt(i, "digit expected")
	}
	return i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// special marks, by its high bit, the lowest of eight bytes that does not stand for itself inside a string. Bytes
// above that one may be marked wrongly.
func special(w uint64) uint64 {
	const ones = 0x0101010101010101
	// A byte below what is subtracted borrows into its high bit, where it had none. Flipping one bit takes the quote
	// (0x22) to 0x20, next to the control characters, and nothing else below 0x21.
	low, slash := w^2*ones, w^'\\'*ones
	return ((low - 0x21*ones) | (slash - ones)) &^ w & (0x80 * ones)
}
