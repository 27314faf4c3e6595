package supervised_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

// A rig is a transport over a fleet of scripted peers, with a journal of what its hooks were told.
type rig struct {
	*testing.T
	*peertest.Fleet
	*supervised.Transport
	conn mcp.Connection

	mu      sync.Mutex
	journal []string
	told    []error           // what OnError was told
	answers []jsonrpc.Message // what Read returned
	readErr error
	ids     int64
}

// inBubble runs f in a bubble of its own, on a fresh rig. Time there moves only while everything waits.
func inBubble(t *testing.T, f func(r *rig), opts ...supervised.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, opts...)
		defer r.Transport.Close() // f may give up
		f(r)
		r.Transport.Close()
		synctest.Wait()
		if now, most := r.Alive(); now != 0 || most > 1 {
			t.Errorf("D4: %d peers alive after Close, %d at once", now, most)
		}
	})
}

func newRig(t *testing.T, opts ...supervised.Option) *rig {
	return newRigOver(t, func(f *peertest.Fleet) supervised.Factory { return f.Mint }, opts...)
}

// newRigOver is a rig whose factory may do other things than mint peers of its fleet.
func newRigOver(t *testing.T, factory func(*peertest.Fleet) supervised.Factory, opts ...supervised.Option) *rig {
	r := &rig{T: t, Fleet: &peertest.Fleet{}}
	tr, err := supervised.New(factory(r.Fleet), opts...)
	if err != nil {
		t.Fatal(err)
	}
	r.Transport = tr
	tr.OnClose(func(cause error) { r.note("close", cause) })
	tr.OnDrain(func(context.Context) { r.note("drain", nil) })
	tr.OnReconnect(func(context.Context) error { r.note("reconnect", nil); return nil })
	tr.OnError(func(err error) { r.note("error", err) })
	return r
}

// note writes a line into the journal.
func (r *rig) note(what string, err error) {
	line := what
	if err != nil {
		line += ": " + err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.journal = append(r.journal, line)
	if what == "error" {
		r.told = append(r.told, err)
	}
}

// connect starts the first connection, and a goroutine that reads.
func (r *rig) connect() {
	r.Helper()
	r.connectIn(context.Background())
}

// connectIn is connect with a context.
func (r *rig) connectIn(ctx context.Context) {
	r.Helper()
	conn, err := r.Transport.Connect(ctx)
	if err != nil {
		r.Fatal(err)
	}
	r.conn = conn
	go func() {
		for {
			m, err := conn.Read(context.Background())
			r.mu.Lock()
			if err != nil {
				r.readErr = err
				r.mu.Unlock()
				return
			}
			r.answers = append(r.answers, m)
			r.mu.Unlock()
		}
	}()
}

// hooks is what the journal has since it was asked last, once nothing moves any more.
func (r *rig) hooks() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.journal
	r.journal = nil
	return j
}

// errors is what OnError was told since it was asked last, once nothing moves any more.
func (r *rig) errors() []error {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.told
	r.told = nil
	return told
}

// read is what Read has returned since it was asked last, once nothing moves any more: "1 ok", "2 peer lost".
func (r *rig) read() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, m := range r.answers {
		lines = append(lines, line(m))
	}
	r.answers = nil
	return lines
}

// line is a message in short.
func line(m jsonrpc.Message) string {
	switch m := m.(type) {
	case *jsonrpc.Request:
		return strings.TrimSpace(fmt.Sprintf("%s %s", m.Method, m.Params))
	case *jsonrpc.Response:
		if m.Error == nil {
			return fmt.Sprintf("%v %s", m.ID.Raw(), m.Result)
		}
		return fmt.Sprintf("%v %s", m.ID.Raw(), kind(m.Error))
	}
	return "?"
}

// kind names the error that a caller would match.
func kind(err error) string {
	var exhausted *supervised.ExhaustedError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &exhausted) && errors.Is(err, supervised.ErrPeerLost):
		return "exhausted, peer lost"
	case errors.As(err, &exhausted):
		return "exhausted"
	case errors.Is(err, supervised.ErrReconnecting):
		return "reconnecting"
	case errors.Is(err, supervised.ErrPeerLost):
		return "peer lost"
	case errors.Is(err, supervised.ErrClosed):
		return "closed"
	}
	return err.Error()
}

// call writes a call under the next id.
func (r *rig) call(method string) (jsonrpc.ID, error) {
	r.ids++
	id, _ := jsonrpc.MakeID(float64(r.ids))
	return id, r.conn.Write(context.Background(), &jsonrpc.Request{ID: id, Method: method, Params: json.RawMessage(`{}`)})
}

// notify writes a notification.
func (r *rig) notify(method, params string) error {
	return r.conn.Write(context.Background(), &jsonrpc.Request{Method: method, Params: json.RawMessage(params)})
}

// want compares, expectation first.
func want[V any](t testing.TB, what string, want, got V) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// wantLen checks how many there are, and gives up where that is wrong: what follows looks at them.
func wantLen[V any](t testing.TB, what string, want int, got []V) {
	t.Helper()
	if len(got) != want {
		t.Fatalf("%s: want %d, got %d: %v", what, want, len(got), got)
	}
}

// wantIs checks that err matches each of the errors.
func wantIs(t testing.TB, what string, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: %v does not match %v", what, err, target)
		}
	}
}

// wantState waits until nothing moves, and compares the state.
func (r *rig) wantState(state supervised.State) {
	r.Helper()
	synctest.Wait()
	want(r, "state", state.String(), r.State().String())
}

// pass lets time pass.
func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// patience is for what must come; nothing that passes takes that long.
const patience = 30 * time.Second

// next waits for the next value.
func next[V any](t testing.TB, what string, c <-chan V) V {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s: nothing came\n%s", what, buf[:runtime.Stack(buf, true)])
		panic("unreachable")
	}
}

// lines is a list for comparison; nothing is nil.
func lines(s ...string) []string { return slices.Clip(s) }

var errCrash = errors.New("crash")

// eventually waits until something holds that no channel tells of.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}
