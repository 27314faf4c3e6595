package retry

// scanMembers reads params, the text of a JSON object or null, and reports
// whether any member of the object itself has one of the names. Ok is false when
// the text is anything else; found then means nothing.
//
// It agrees with encoding/json on what is well formed, to the byte, and on what
// a member is called: names are compared with their escapes undone, and a name
// that occurs twice counts each time. FuzzReadOnly holds it to that.
func scanMembers(params []byte, names []string) (found, ok bool) {
	s := scanner{text: params, names: names}
	s.space()
	if len(s.text) == 0 || s.text[0] != '{' && s.text[0] != 'n' {
		return false, false
	}
	ok = s.value()
	s.space()
	return s.found, ok && len(s.text) == 0
}

// scanner reads JSON once, front to back, without decoding it: params may be
// megabytes, and all that is asked of them is the names of a few members. Each
// method consumes what it is named after, or returns false, after which the
// scanner is of no more use.
type scanner struct {
	text  []byte // what is left
	depth int    // objects and arrays that are open
	names []string
	found bool // one of the names occurred in the outermost object
}

// maxDepth is where encoding/json gives up, so that a hostile text cannot use up
// the stack.
const maxDepth = 10000

func (s *scanner) value() bool {
	s.space()
	if len(s.text) == 0 {
		return false
	}
	switch s.text[0] {
	case '{':
		return s.object()
	case '[':
		return s.array()
	case '"':
		_, ok := s.str()
		return ok
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

func (s *scanner) object() bool {
	if !s.open('{') {
		return false
	}
	if s.close('}') {
		return true
	}
	for {
		s.space()
		name, ok := s.str()
		if !ok || !s.punctuation(':') {
			return false
		}
		if s.depth == 1 {
			for _, want := range s.names {
				s.found = s.found || spells(name, want)
			}
		}
		if !s.value() {
			return false
		}
		if !s.punctuation(',') {
			return s.close('}')
		}
	}
}

func (s *scanner) array() bool {
	if !s.open('[') {
		return false
	}
	if s.close(']') {
		return true
	}
	for {
		if !s.value() {
			return false
		}
		if !s.punctuation(',') {
			return s.close(']')
		}
	}
}

func (s *scanner) open(bracket byte) bool {
	s.depth++
	return s.depth <= maxDepth && s.byte(bracket)
}

func (s *scanner) close(bracket byte) bool {
	if !s.punctuation(bracket) {
		return false
	}
	s.depth--
	return true
}

// str consumes a string and returns what stands between its quotes, escapes and
// all.
func (s *scanner) str() (inside []byte, ok bool) {
	if !s.byte('"') {
		return nil, false
	}
	text := s.text
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			s.text = text[i+1:]
			return text[:i], true
		case c < ' ':
			return nil, false
		case c == '\\':
			size := escape(text[i:])
			if size == 0 {
				return nil, false
			}
			i += size - 1
		}
	}
	return nil, false
}

// escape returns the length of the escape that text, which starts with a
// backslash, begins with, or 0 if that is none.
func escape(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(text[2:]); ok {
			return 6
		}
	}
	return 0
}

func (s *scanner) literal(word string) bool {
	if len(s.text) < len(word) || string(s.text[:len(word)]) != word {
		return false
	}
	s.text = s.text[len(word):]
	return true
}

func (s *scanner) number() bool {
	s.byte('-')
	if !s.byte('0') && !s.digits() {
		return false
	}
	if s.byte('.') && !s.digits() {
		return false
	}
	if s.byte('e') || s.byte('E') {
		_ = s.byte('+') || s.byte('-')
		return s.digits()
	}
	return true
}

// digits consumes one digit or more.
func (s *scanner) digits() bool {
	n := 0
	for n < len(s.text) && '0' <= s.text[n] && s.text[n] <= '9' {
		n++
	}
	s.text = s.text[n:]
	return n > 0
}

// punctuation consumes the character and any white space before it, or leaves
// the character alone if it is another.
func (s *scanner) punctuation(c byte) bool {
	s.space()
	return s.byte(c)
}

// byte consumes the character if it comes next.
func (s *scanner) byte(c byte) bool {
	if len(s.text) == 0 || s.text[0] != c {
		return false
	}
	s.text = s.text[1:]
	return true
}

func (s *scanner) space() {
	for len(s.text) > 0 {
		switch s.text[0] {
		case ' ', '\t', '\n', '\r':
			s.text = s.text[1:]
		default:
			return
		}
	}
}

// spells reports whether the inside of a JSON string, well formed, stands for
// name, which consists of ASCII letters.
func spells(inside []byte, name string) bool {
	for ; len(inside) > 0 && name != ""; name = name[1:] {
		c, size := rune(inside[0]), 1
		if c == '\\' {
			// Of all escapes only this one can stand for a letter. The others give a
			// backslash here, which is no letter either.
			if r, ok := hex4(inside[2:]); ok && inside[1] == 'u' {
				c, size = r, 6
			}
		}
		if c != rune(name[0]) {
			return false
		}
		inside = inside[size:]
	}
	return len(inside) == 0 && name == ""
}

// hex4 returns the number that text begins with, in four hexadecimal digits.
func hex4(text []byte) (n rune, ok bool) {
	if len(text) < 4 {
		return 0, false
	}
	for _, c := range text[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | rune(c)
	}
	return n, true
}
