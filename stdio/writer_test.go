//go:build unix

package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestD1_GatheredLinesBehindAnImpatientWriter: lines that were gathered went with one that the server was slow to
// take, whose writer left. When it could not be written after that nobody was told, and their calls were never
// answered.
func TestD1_GatheredLinesBehindAnImpatientWriter(t *testing.T) {
	out, in := pipe(t)
	lost := make(chan struct{}, 1)
	w := newWriter(in, new(flow), func() { lost <- struct{}{} })
	defer w.end(errClosed)

	w.flushing = true // the goroutine that is to write them has not come to run
	if err := w.write(context.Background(), &jsonrpc.Request{Method: "short"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	long := &jsonrpc.Request{Method: "long", Params: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
	if err := w.write(ctx, long); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("write: want %v, got %v", context.DeadlineExceeded, err)
	}
	out.Close()
	w.flush()
	if w.failure() == nil {
		t.Error("the writer has not ended")
	}
	select {
	case <-lost:
	case <-time.After(10 * time.Second):
		t.Error("nobody was told that the gathered line was lost")
	}
}
