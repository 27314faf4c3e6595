//go:build unix

package stdio_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestP2_messageKeepsNoMoreThanItHolds: a message whose line is mostly something else kept the whole line in memory as
// long as it was kept itself, so that what waits for a reader was bounded in messages and not in bytes.
func TestP2_messageKeepsNoMoreThanItHolds(t *testing.T) {
	const lines, size = 16, 256 << 10
	pad := strings.Repeat("x", size)
	for _, tt := range []struct{ name, line string }{
		{"request", `{"jsonrpc":"2.0","method":"m","params":{"n":1},"pad":"` + pad + `"}`},
		{"answer", `{"jsonrpc":"2.0","id":1,"result":{"n":1},"pad":"` + pad + `"}`},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"n":1},"pad":"` + pad + `"}}`},
		{"element of an array", `[{"jsonrpc":"2.0","method":"m","params":{"n":1}},{"jsonrpc":"2.0","method":"m","pad":"` + pad + `"}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spawn(t, says(t, strings.Repeat(tt.line+"\n", lines)))
			before := heap()
			var kept []jsonrpc.Message
			for range lines {
				m, err := s.read()
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, m)
			}
			if grown := heap() - before; grown > 8*size { // buffers of the reader's are among it
				t.Errorf("%d messages keep %d bytes", lines, grown)
			}
			for _, m := range kept {
				checkIntact(t, m)
			}
		})
	}
}

func checkIntact(t *testing.T, m jsonrpc.Message) {
	t.Helper()
	const want = `{"n":1}`
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m.Params != nil && string(m.Params) != want {
			t.Errorf("params: %s", m.Params)
		}
	case *jsonrpc.Response:
		if e, ok := m.Error.(*jsonrpc.Error); ok && string(e.Data) != want || !ok && string(m.Result) != want {
			t.Errorf("got %+v", m)
		}
	}
}

func heap() int {
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return int(mem.HeapAlloc)
}
