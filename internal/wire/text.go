package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote returns the value of a valid JSON string.
func unquote(raw []byte) string {
	return string(unescape(raw[1 : len(raw)-1]))
}

// unescape returns the value of what stands between the quotes of a valid JSON string: raw itself where each
// byte stands for itself. Invalid UTF-8 and unpaired surrogates become U+FFFD.
func unescape(raw []byte) []byte {
	if literal(raw) {
		return raw
	}
	text := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		if raw[0] == '\\' {
			var r rune
			r, raw = unescapeRune(raw)
			text = utf8.AppendRune(text, r)
			continue
		}
		r, size := utf8.DecodeRune(raw)
		text = utf8.AppendRune(text, r)
		raw = raw[size:]
	}
	return text
}

// literal reports whether each byte of raw stands for itself.
func literal(raw []byte) bool {
	for i, c := range raw {
		if c == '\\' {
			return false
		}
		if c >= utf8.RuneSelf {
			return bytes.IndexByte(raw[i:], '\\') < 0 && utf8.Valid(raw[i:])
		}
	}
	return true
}

// unescapeRune reads the escape that raw begins with, both of them for a surrogate pair.
func unescapeRune(raw []byte) (r rune, rest []byte) {
	c, rest := raw[1], raw[2:]
	switch c {
	case 'b':
		return '\b', rest
	case 'f':
		return '\f', rest
	case 'n':
		return '\n', rest
	case 'r':
		return '\r', rest
	case 't':
		return '\t', rest
	case 'u':
		r, rest = hex4(rest), rest[4:]
	default:
		return rune(c), rest
	}
	if !utf16.IsSurrogate(r) {
		return r, rest
	}
	if len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(rest[2:])); pair != utf8.RuneError {
			return pair, rest[6:]
		}
	}
	return utf8.RuneError, rest
}

// hex4 returns the value of four hexadecimal digits.
func hex4(digits []byte) (r rune) {
	for _, c := range digits[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		default:
			c = c&^0x20 - 'A' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendText appends s as a JSON string, as encoding/json does without HTML escaping: invalid UTF-8 becomes
// \ufffd, and U+2028 and U+2029 are escaped.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0 // of what is yet to be copied
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c < ' ' || c == '"' || c == '\\' {
				dst = appendEscape(append(dst, s[start:i]...), c)
				start = i + 1
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if escaped := runeEscape(r, size); escaped != "" {
			dst = append(append(dst, s[start:i]...), escaped...)
			start = i + size
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
}

func runeEscape(r rune, size int) string {
	switch {
	case r == utf8.RuneError && size == 1:
		return `\ufffd`
	case r == '\u2028':
		return `\u2028`
	case r == '\u2029':
		return `\u2029`
	}
	return ""
}
