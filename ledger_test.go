package supervised

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestW2_AnswerBehindWhatWasHeld: between the door and the release of what was held back, a call may come in and be
// answered. Its answer overtook what the peer had said before it.
func TestW2_AnswerBehindWhatWasHeld(t *testing.T) {
	l := newLedger()
	ctx := context.Background()
	l.hear(0, func(jsonrpc.ID) bool { return false })
	l.deliver(ctx, 0, &jsonrpc.Request{Method: "notifications/first"})
	l.admit()
	id, _ := jsonrpc.MakeID(1.0)
	if err := l.register(0, &call{request: &jsonrpc.Request{ID: id, Method: "tools/call"}, ctx: ctx}); err != nil {
		t.Fatal(err)
	}
	l.deliver(ctx, 0, &jsonrpc.Request{Method: "notifications/second"})
	l.deliver(ctx, 0, &jsonrpc.Response{ID: id, Result: json.RawMessage(`"third"`)})
	l.release()
	var got []string
	for range 3 {
		m, err := l.read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *jsonrpc.Request:
			got = append(got, m.Method)
		case *jsonrpc.Response:
			got = append(got, string(m.Result))
		}
	}
	if d := cmp.Diff([]string{"notifications/first", "notifications/second", `"third"`}, got); d != "" {
		t.Errorf("read (-want +got):\n%s", d)
	}
}
