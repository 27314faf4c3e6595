package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/internal/ambient"
	"github.com/seed7990db67/supervised/internal/wire"
)

// frame feeds pieces to a framer and returns the lines that come out.
func frame(limit int, pieces ...[]byte) ([]string, error) {
	f := &framer{max: limit}
	var lines []string
	take := func() error {
		for {
			line, err := f.next()
			if cap(f.held) > limit {
				panic(fmt.Sprintf("%d bytes are held", cap(f.held)))
			}
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
		if diff := cmp.Diff(naively(stream), lines); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// naively is a stream that is all there cut into lines.
func naively(stream []byte) (lines []string) {
	for line := range bytes.SplitSeq(stream, newline) {
		if text := strings.Trim(strings.TrimPrefix(string(line), string(byteOrderMark)), " \t\r"); text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

// FuzzP2_read puts numbered messages between any noise, as FuzzP2_framer does, and reads them from a pipe: what is
// skipped is reported, and every message comes through.
func FuzzP2_read(f *testing.F) {
	f.Add([]byte("noise"), uint16(1))
	f.Add([]byte(`[{"jsonrpc":"2.0","method":"a"},{},{"jsonrpc":"2.0","id":1,"result":{}}]`), uint16(7))
	f.Add([]byte("[[]]\r\n[\n[]\nnull\n{\"jsonrpc\":\"2.0\",\"id\":[]}"), uint16(3))
	f.Add([]byte("\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n\x00\xff"), uint16(200))
	f.Fuzz(func(t *testing.T, noise []byte, size uint16) {
		const messages, limit = 3, 1 << 10
		if len(noise) > limit {
			return // FuzzP2_framer has lines over the limit
		}
		var stream []byte
		for i := range messages {
			stream = fmt.Appendf(append(stream, noise...), "\n{\"jsonrpc\":\"2.0\",\"method\":\"between\",\"params\":%d}\n", i)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			defer w.Close()
			for piece := range slices.Chunk(stream, 1+int(size)) {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}()
		c := &connection{stdout: newReader(r, limit), clock: clock.New(), log: ambient.Discard(), exited: make(chan struct{})}
		c.exit = &ExitError{}
		close(c.exited)
		stray, next, read := 0, 0, 0
		c.OnReport(func(error) { stray++ })
		for {
			m, err := c.Read(t.Context())
			if err != nil {
				if err != c.exit {
					t.Errorf("the end is %v", err)
				}
				break
			}
			read++
			if n, ok := m.(*jsonrpc.Request); ok && n.Method == "between" && string(n.Params) == fmt.Sprint(next) {
				next++
			}
		}
		<-wrote
		if next != messages {
			t.Errorf("%d of %d messages came through %q", next, messages, noise)
		}
		// A line is a message, a stray, or an array of those; one whose elements cannot be told apart is a stray.
		want := 0
		for _, line := range naively(stream) {
			elements := []json.RawMessage{json.RawMessage(line)}
			if wire.IsArray([]byte(line)) && json.Valid([]byte(line)) {
				json.Unmarshal([]byte(line), &elements)
			}
			want += max(1, len(elements))
		}
		if read+stray != want {
			t.Errorf("%d messages and %d reports, want %d in all", read, stray, want)
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
