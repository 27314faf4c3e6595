package stdio

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised/internal/ambient"
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

// FuzzP5_printable has a server write anything, in any pieces. Whatever shows it, a log, an error or an excerpt, gets
// only what prints, and no more than it should; no line is lost, and none is begun anew by a piece.
func FuzzP5_printable(f *testing.F) {
	f.Add([]byte("plain text\nmore\r\n\n"), uint16(3))
	f.Add([]byte("\x1b]0;title\x07\x1b[2J\u202e\u2066\u200b\x00\x7f\u0085\u009b31m\ufeff"), uint16(1))
	f.Add([]byte("\xff\xc3\xe2\x80\xed\xa0\xbd\xf4\x90\x80\x80\ufffd"), uint16(2))
	f.Add(bytes.Repeat([]byte("日"), 400), uint16(1000))
	f.Add(append(bytes.Repeat([]byte("x"), lineMax+2), "\r\n\x1b\r"...), uint16(700))
	f.Fuzz(func(t *testing.T, text []byte, size uint16) {
		shown := printable(text, 6*len(text)+10) // the longest escape of a byte has 4, that of a character 10
		for limit := range min(20, len(text)) {
			cut := printable(text, limit)
			if len(cut) > limit || !strings.HasPrefix(shown, cut) || len(cut)+10 < min(limit, len(shown)) {
				t.Fatalf("cut to %d: %q of %q", limit, cut, shown)
			}
		}
		wantPrintable(t, shown)
		if again := printable([]byte(shown), len(shown)); again != shown {
			t.Errorf("%q is shown as %q, and that as %q", text, shown, again)
		}
		wantPrintable(t, (&ExitError{Code: 1, Stderr: string(text)}).Error())
		stray := newStrayLineError(text, nil)
		wantPrintable(t, stray.Error())
		wantPrintable(t, stray.Excerpt)

		var want []string
		for line := range bytes.Lines(text) {
			line, _ = bytes.CutSuffix(line, newline)
			want = append(want, printable(bytes.TrimSuffix(line, []byte("\r")), lineMax))
		}
		if got := logged(text, 1+int(size)); !slices.Equal(want, got) {
			t.Errorf("in pieces of %d (-want +got):\n%s", 1+int(size), cmp.Diff(want, got))
		}
	})
}

// logged is what a log gets of text that comes in pieces.
func logged(text []byte, size int) (lines []string) {
	logger := ambient.Discard().(*logrus.Logger)
	logger.SetLevel(logrus.InfoLevel)
	records := logtest.NewLocal(logger)
	l := &lineLog{log: logger}
	for piece := range slices.Chunk(text, size) {
		l.Write(piece)
	}
	l.flush()
	for _, e := range records.AllEntries() {
		lines = append(lines, e.Data["line"].(string))
	}
	return lines
}

// wantPrintable checks that a text cannot steer what shows it.
func wantPrintable(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("does not print: %q", text)
	}
}
