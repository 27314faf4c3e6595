package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// frame feeds pieces to a framer and returns the lines that come out.
func frame(limit int, pieces ...[]byte) ([]string, error) {
	f := &framer{max: limit}
	var lines []string
	take := func() error {
		for {
			line, err := f.next()
			if line == nil || err != nil {
				return err
			}
			lines = append(lines, string(line))
		}
	}
	for _, piece := range pieces {
		f.in = bytes.Clone(piece)
		if err := take(); err != nil {
			return lines, err
		}
		for i := range piece {
			piece[i] = '#' // the feeder may use its memory again
		}
	}
	f.ended = true
	return lines, take()
}

func TestP2_lines(t *testing.T) {
	const bom = "\ufeff"
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"P2 nothing", "", nil},
		{"P2 one line", "a\n", []string{"a"}},
		{"P2 CR LF", "a\r\nb\r\n", []string{"a", "b"}},
		{"P2 CR alone ends no line", "a\rb\n", []string{"a\rb"}},
		{"P2 blank lines", "\n\r\n \t\na\n\n\n", []string{"a"}},
		{"P2 last line without a newline", "a\nb", []string{"a", "b"}},
		{"P2 last line blank", "a\n  ", []string{"a"}},
		{"P2 byte-order mark of the stream", bom + "a\nb\n", []string{"a", "b"}},
		{"P2 byte-order mark of a line", "a\n" + bom + "b\n", []string{"a", "b"}},
		{"P2 byte-order mark alone", bom + "\n" + bom + "\r\n", nil},
		{"P2 byte-order mark inside", "a" + bom + "\n", []string{"a" + bom}},
		{"P2 as long as allowed", "0123456789\n0123456789", []string{"0123456789", "0123456789"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for size := 1; size <= len(tt.in)+1; size++ {
				var pieces [][]byte
				for piece := range slices.Chunk([]byte(tt.in), size) {
					pieces = append(pieces, bytes.Clone(piece))
				}
				got, err := frame(10, pieces...)
				if err != nil {
					t.Fatalf("in pieces of %d: %v", size, err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Fatalf("in pieces of %d (-want +got):\n%s", size, diff)
				}
			}
		})
	}
}

func TestP2_lineOverTheLimit(t *testing.T) {
	for _, in := range []string{"a\n01234567890\n", "a\n01234567890", "a\n" + strings.Repeat(" ", 11)} {
		for size := 1; size <= len(in); size++ {
			got, err := frame(10, slices.Collect(slices.Chunk([]byte(in), size))...)
			var long *LineTooLongError
			if !errors.As(err, &long) || long.Max != 10 || err.Error() != "stdio: line over 10 bytes" {
				t.Fatalf("%q in pieces of %d: got %v", in, size, err)
			}
			if diff := cmp.Diff([]string{"a"}, got); diff != "" {
				t.Fatalf("%q in pieces of %d (-want +got):\n%s", in, size, diff)
			}
		}
	}
}

func TestP2_memoryStaysBounded(t *testing.T) {
	const limit = 1 << 20
	f := &framer{max: limit}
	chunk := bytes.Repeat([]byte("x"), 48<<10)
	for fed := 0; ; fed += len(chunk) {
		f.in = chunk
		_, err := f.next()
		if cap(f.held) > limit {
			t.Fatalf("holds %d bytes", cap(f.held))
		}
		if err != nil {
			if fed+len(chunk) <= limit || fed > limit {
				t.Errorf("refused after %d bytes", fed)
			}
			if f.held != nil || f.in != nil {
				t.Error("the line is still held")
			}
			return
		}
	}
}

func TestP2_bufferFitsItsLine(t *testing.T) {
	f := &framer{max: 16 << 20}
	for _, size := range []int{1, 5000, 5 << 20, 100_000, 100} {
		in := append(bytes.Repeat([]byte("x"), size), '\n')
		for piece := range slices.Chunk(in, chunkSize) {
			f.in = piece
			line, err := f.next()
			if err != nil {
				t.Fatal(err)
			}
			if line != nil && cap(line) > size+8<<10 {
				t.Errorf("a line of %d bytes has a buffer of %d", size, cap(line))
			}
		}
		if cap(f.held) > spareMax {
			t.Errorf("%d bytes are held after a line of %d", cap(f.held), size)
		}
	}
}

// FuzzP2_framer puts numbered messages between any noise, and cuts the stream anywhere.
func FuzzP2_framer(f *testing.F) {
	f.Add([]byte("noise"), []byte{1})
	f.Add([]byte("\xef\xbb\xbf\r\n \x00\xff"), []byte{3, 0, 200, 7})
	f.Add([]byte("\n\n\xef\xbb"), []byte{1, 1, 2})
	f.Add(bytes.Repeat([]byte("z"), 300), []byte{255, 255})
	f.Fuzz(func(t *testing.T, noise, cuts []byte) {
		const messages, limit = 4, 256
		tooLong := slices.ContainsFunc(bytes.Split(noise, newline), func(line []byte) bool { return len(line) > limit })
		var stream []byte
		for i := range messages {
			stream = append(stream, noise...)
			stream = append(stream, '\n')
			stream = fmt.Appendf(stream, `{"message":%d}`+"\n", i)
		}
		var pieces [][]byte
		for rest := stream; len(rest) > 0; {
			n := len(rest)
			if len(cuts) > 0 {
				n = min(n, 1+int(cuts[0]))
				cuts = append(cuts[1:len(cuts):len(cuts)], cuts[0]+1)
			}
			pieces = append(pieces, bytes.Clone(rest[:n]))
			rest = rest[n:]
		}

		lines, err := frame(limit, pieces...)
		if tooLong != (err != nil) {
			t.Fatalf("a line over the limit: %v; got %v", tooLong, err)
		}
		if tooLong {
			return
		}
		next := 0
		for _, line := range lines {
			if line == "" || strings.Contains(line, "\n") || line != strings.Trim(line, " \t\r") {
				t.Fatalf("got the line %q", line)
			}
			if line == fmt.Sprintf(`{"message":%d}`, next) {
				next++
			}
		}
		if next != messages {
			t.Fatalf("%d of %d messages came through: %q", next, messages, lines)
		}
		whole, _ := frame(limit, bytes.Clone(stream))
		if diff := cmp.Diff(whole, lines); diff != "" {
			t.Fatalf("cuts made a difference (-whole +cut):\n%s", diff)
		}
	})
}

func BenchmarkFramer(b *testing.B) {
	for _, size := range []int{200, 4 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			line := append(bytes.Repeat([]byte("x"), size), '\n')
			chunks := slices.Collect(slices.Chunk(line, chunkSize))
			f := &framer{max: 16 << 20}
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				for _, f.in = range chunks {
					if _, err := f.next(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
