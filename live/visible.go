package live

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// head returns the beginning of a text, at most limit bytes of it.
func head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// tail returns the end of a text, at most limit bytes of it.
func tail(text string, limit int) string {
	cut := len(text) - limit
	if cut <= 0 {
		return text
	}
	for cut < len(text) && !utf8.RuneStart(text[cut]) {
		cut++
	}
	return "…" + text[cut:]
}

// visible returns a text in lines, with what does not print escaped as in a Go string: no terminal sequence, and no mark
// that turns the direction of writing round, has an effect on what a reader sees. It does not escape for HTML.
func visible(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			quoted := strconv.Quote(text[:1])
			b.WriteString(quoted[1 : len(quoted)-1])
		case r == '\n', r == '\t', unicode.IsPrint(r):
			b.WriteString(text[:size])
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
}
