package stdio

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// printable returns text with what does not print escaped as in a Go string, cut to at most limit bytes. A
// terminal or a log that shows it cannot be steered by it.
func printable(text []byte, limit int) string {
	out := make([]byte, 0, min(len(text), limit))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		before := len(out)
		switch {
		case r == utf8.RuneError && size == 1:
			const hex = "0123456789abcdef"
			out = append(out, '\\', 'x', hex[text[0]>>4], hex[text[0]&0xf])
		case unicode.IsPrint(r):
			out = append(out, text[:size]...)
		default:
			quoted := strconv.QuoteRune(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		if len(out) > limit {
			return string(out[:before])
		}
		text = text[size:]
	}
	return string(out)
}
