package supervised

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestH3_ReportedBehindTheHooksOfTheTransition: the hooks of one transition were queued one by one, so that what the
// first did wrong was now and then reported between the two.
func TestH3_ReportedBehindTheHooksOfTheTransition(t *testing.T) {
	for range 3000 {
		tr, err := New(func(context.Context) (mcp.Transport, error) { panic("nothing is minted") })
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var told []string
		reported := make(chan struct{})
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, what)
		}
		tr.OnTransition(func(Transition) {
			for h := tr.life.hooks; ; runtime.Gosched() {
				h.mu.Lock()
				n := len(h.queue)
				h.mu.Unlock()
				if n > 0 {
					return
				}
			}
		})
		tr.OnDrain(func(context.Context) { note("drain"); panic("drain") })
		tr.OnClose(func(error) { note("close") })
		tr.OnError(func(error) { note("error"); close(reported) })
		tr.Close()
		<-reported
		mu.Lock()
		got := slices.Clone(told)
		mu.Unlock()
		if d := cmp.Diff([]string{"drain", "close", "error"}, got); d != "" {
			t.Fatalf("hooks (-want +got):\n%s", d)
		}
	}
}
