package stdio

import (
	"strings"
	"testing"
)

func TestP5_printable(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		limit    int
		want     string
	}{
		{"P5 plain", "plain text", 100, "plain text"},
		{"P5 quotes and backslashes stay", `"a\b"`, 100, `"a\b"`},
		{"P5 letters of all scripts stay", "naïve 日本語 🙂", 100, "naïve 日本語 🙂"},
		{"P5 terminal sequences", "\x1b[31mred\x07", 100, `\x1b[31mred\a`},
		{"P5 line ends", "a\tb\rc\nd\u2028e", 100, `a\tb\rc\nd\u2028e`},
		{"P5 invalid UTF-8", "\xff\xc3(", 100, `\xff\xc3(`},
		{"P5 the replacement character itself", "\ufffd", 100, "\ufffd"},
		{"P5 cut", strings.Repeat("x", 11), 10, strings.Repeat("x", 10)},
		{"P5 cut before an escape that does not fit", "12345678\x1b", 10, "12345678"},
		{"P5 cut before a character that does not fit", "123456789日", 10, "123456789"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := printable([]byte(tt.in), tt.limit); got != tt.want {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
}
