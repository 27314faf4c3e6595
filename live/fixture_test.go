package live_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/live"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // the page shows the time of the place
	goleak.VerifyTestMain(m)
}

// A rig is a page, and transports over scripted peers.
type rig struct {
	*testing.T
	page *live.Page
}

// inBubble runs f on a fresh page, where time moves only while everything waits.
func inBubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, page: live.New()}
		defer r.page.Close()
		f(r)
	})
}

// A server is a transport on the page, and its peers.
type server struct {
	*rig
	*supervised.Transport
	fleet  *peertest.Fleet
	conn   mcp.Connection // once it was started
	remove func()
}

// add puts a transport on the page that may restart very often, and at once.
func (r *rig) add(name string, opts ...supervised.Option) *server {
	r.Helper()
	fleet := &peertest.Fleet{}
	opts = append([]supervised.Option{supervised.WithMaxRestarts(1e6), supervised.WithRestartDelay(0)}, opts...)
	transport, err := supervised.New(fleet.Mint, opts...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { transport.Close() })
	return &server{rig: r, Transport: transport, fleet: fleet, remove: r.page.Add(name, transport)}
}

// start connects, and waits until all is done that comes of it.
func (s *server) start() *server {
	s.Helper()
	var err error
	if s.conn, err = s.Connect(context.Background()); err != nil {
		s.Fatal(err)
	}
	synctest.Wait()
	return s
}

// die ends the server of now, and waits until all is done that comes of it.
func (s *server) die(err error) {
	s.fleet.Last().Die(err)
	synctest.Wait()
}

// get asks the page for something.
func (r *rig) get(query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/any/where/"+query, nil))
	return w
}

// A watcher is a client that reads the events of a page.
type watcher struct {
	*testing.T
	leave func()
	done  chan struct{} // closed when the handler has returned

	mu       sync.Mutex
	header   http.Header
	status   int
	body     bytes.Buffer
	flushed  int // bytes of body
	blocked  bool
	deadline time.Time
	changed  sync.Cond // of blocked, deadline
}

// watch asks for events, and waits for the first of them.
func (r *rig) watch(query string) *watcher {
	ctx, leave := context.WithCancel(context.Background())
	w := &watcher{T: r.T, leave: leave, done: make(chan struct{}), header: make(http.Header), status: http.StatusOK}
	w.changed.L = &w.mu
	go func() {
		defer close(w.done)
		r.page.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/?events&"+query, nil))
	}()
	r.Cleanup(leave)
	synctest.Wait()
	return w
}

func (w *watcher) Header() http.Header    { return w.header }
func (w *watcher) WriteHeader(status int) { w.status = status }

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.blocked && w.deadline.IsZero() {
		w.changed.Wait()
	}
	if !w.deadline.IsZero() {
		return 0, os.ErrDeadlineExceeded
	}
	return w.body.Write(p)
}

func (w *watcher) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed = w.body.Len()
}

func (w *watcher) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = at
	w.changed.Broadcast()
	return nil
}

// block has the client take no more, or go on.
func (w *watcher) block(blocked bool) {
	w.mu.Lock()
	w.blocked = blocked
	w.changed.Broadcast()
	w.mu.Unlock()
	synctest.Wait()
}

// ended reports whether the stream is over.
func (w *watcher) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// An event is what the client got: its name, "" for an update, and the parts of that.
type event struct {
	name  string
	parts map[string]any
}

// events returns what has reached the client since the last call.
func (w *watcher) events() (got []event) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.flushed != w.body.Len() {
		w.Errorf("%d bytes were written and %d sent", w.body.Len(), w.flushed)
	}
	for block := range strings.SplitSeq(w.body.String(), "\n\n") {
		e := event{}
		data := false
		for line := range strings.SplitSeq(block, "\n") {
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "event":
				e.name = value
			case "data":
				data = true
				if e.name == "" {
					if err := json.Unmarshal([]byte(value), &e.parts); err != nil {
						w.Errorf("%v in %s", err, value)
					}
				}
			case "retry", "":
			default:
				w.Errorf("unknown line %q", line)
			}
		}
		if data {
			got = append(got, e)
		}
	}
	w.body.Reset()
	w.flushed = 0
	return got
}

// update returns the only event since the last call, which is an update.
func (w *watcher) update() map[string]any {
	w.Helper()
	got := w.events()
	if len(got) != 1 || got[0].name != "" {
		w.Fatalf("want one update, got %v", got)
	}
	return got[0].parts
}

// must returns v, and ends the test program on an error.
func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
