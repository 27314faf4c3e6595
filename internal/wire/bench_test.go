package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/internal/wire"
)

// response is an ordinary answer of about 300 bytes to a tools/call.
const response = `{"jsonrpc":"2.0","id":4711,"result":{"content":[{"type":"text","text":"The build took 12.4 s.\n` +
	`All 318 tests passed; 2 were skipped because no \"docker\" was found."}],"structuredContent":` +
	`{"passed":318,"skipped":2,"failed":0,"seconds":12.4,"artifacts":["bin/server","bin/client"]},"isError":false}}`

// request is an ordinary tools/call of about 300 bytes.
const request = `{"jsonrpc":"2.0","id":4711,"method":"tools/call","params":{"_meta":{"progressToken":4711},` +
	`"name":"search","arguments":{"query":"func (s *scanner) text","path":"internal/wire","glob":"*.go",` +
	`"limit":50,"caseSensitive":true,"context":{"before":2,"after":4},"exclude":["testdata","vendor"]}}}`

// large is a response whose text has n bytes.
func large(n int) string {
	return `{"jsonrpc":"2.0","id":4711,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}}`
}

// prose is a response of about n bytes whose text has an escape every forty.
func prose(n int) string {
	return `{"jsonrpc":"2.0","id":4711,"result":{"content":[{"type":"text","text":"` +
		strings.Repeat(`the quick brown fox jumps over the dog\n`, n/40) + `"}]}}`
}

func TestAllocations(t *testing.T) {
	decode := func(line string) func() {
		text := []byte(line)
		return func() { _, _ = wire.Decode(text) }
	}
	m, err := wire.Decode([]byte(request))
	if err != nil {
		t.Fatal(err)
	}
	params := m.(*jsonrpc.Request).Params
	buf := make([]byte, 0, 2*len(request))
	for _, test := range []struct {
		name string
		want float64
		run  func()
	}{
		{"Decode of a response: itself, the id (twice, in the SDK)", 3, decode(response)},
		{"Decode with a low id: the response", 1, decode(`{"jsonrpc":"2.0","id":255,"result":{}}`)},
		{"Decode of a notification: itself, its method", 2, decode(`{"jsonrpc":"2.0","method":"notifications/message"}`)},
		{"Append", 0, func() { _, _ = wire.Append(buf, m) }},
		{"Path", 0, func() { _, _ = wire.Path(params, "_meta", "progressToken") }},
	} {
		if got := testing.AllocsPerRun(100, test.run); got > test.want {
			t.Errorf("%s: %v allocations, want %v", test.name, got, test.want)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, input := range []struct{ name, text string }{
		{"response", response},
		{"request", request},
		{"large", large(1 << 20)},
		{"prose", prose(1 << 20)},
	} {
		line := []byte(input.text)
		for _, codec := range []struct {
			name   string
			decode func([]byte) (jsonrpc.Message, error)
		}{{"wire", wire.Decode}, {"sdk", jsonrpc.DecodeMessage}} {
			b.Run(fmt.Sprintf("%s=%d/%s", input.name, len(line), codec.name), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(line)))
				for b.Loop() {
					if _, err := codec.decode(line); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, input := range []struct{ name, text string }{
		{"request", request},
		{"response", response},
		{"large", large(1 << 20)},
	} {
		m, err := wire.Decode([]byte(input.text))
		if err != nil {
			b.Fatal(err)
		}
		buf := make([]byte, 0, len(input.text)+100)
		for _, codec := range []struct {
			name   string
			encode func(jsonrpc.Message) ([]byte, error)
		}{
			{"wire", func(m jsonrpc.Message) ([]byte, error) { return wire.Append(buf, m) }},
			{"sdk", jsonrpc.EncodeMessage},
		} {
			b.Run(fmt.Sprintf("%s=%d/%s", input.name, len(input.text), codec.name), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(input.text)))
				for b.Loop() {
					if _, err := codec.encode(m); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkPath(b *testing.B) {
	m, err := wire.Decode([]byte(request))
	if err != nil {
		b.Fatal(err)
	}
	params := m.(*jsonrpc.Request).Params
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := wire.Path(params, "_meta", "progressToken"); !ok {
			b.Fatal("not found")
		}
	}
}
