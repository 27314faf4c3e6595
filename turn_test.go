package supervised

import (
	"context"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestW7_RouseWhileTheTurnIsTakenForTheFirstTime: the turn that the pump has left is taken without the lock, before
// there is a context to read under. What was pushed meanwhile called that context off.
func TestW7_RouseWhileTheTurnIsTakenForTheFirstTime(t *testing.T) {
	l := newLedger()
	p := newPeer(0, context.Background(), clock.New())
	defer p.cancel(nil)
	r := &reading{peer: p, ledger: l, shared: true}
	l.reading.Store(r)
	l.hear(0, func(jsonrpc.ID) bool { return false })
	l.admit()
	l.release()

	l.mu.Lock() // of one who passes something on, such as the notices after a reconnect
	r.owner.Store(ownerNobody)
	taken := make(chan bool)
	go func() { taken <- r.takeAgain(context.Background()) }()
	for r.owner.Load() != ownerCaller {
		time.Sleep(time.Millisecond)
	}
	func() {
		defer l.mu.Unlock()
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("rouse: panic: %v", v)
			}
		}()
		l.push(&jsonrpc.Request{Method: "notifications/tools/list_changed"})
	}()
	if <-taken {
		t.Error("the turn was taken though something waits for Read")
	}
	if r.timer != nil {
		r.timer.Stop()
	}
}
