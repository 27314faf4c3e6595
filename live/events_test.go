package live_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/live"
)

// keys returns the names of the parts of an update, but for the time.
func keys(update map[string]any) (names []string) {
	for name := range update {
		if name != "asOf" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestUpdates(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.add("files")
		r.add("mail")
		w := r.watch("")
		all := []string{"counters", "current", "exits", "nav", "state", "taken", "title", "transitions"}
		first := w.update()
		if d := cmp.Diff(all, keys(first)); d != "" {
			t.Errorf("parts of the first (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]any{"state-idle", []any{}, "00:00:00"}, []any{first["current"], first["taken"], first["asOf"]}); d != "" {
			t.Errorf("first (-want +got):\n%s", d)
		}

		// Each thing that happens comes at once, or where it is too soon after another, with the next.
		time.Sleep(time.Second)
		s.start()
		update := w.update()
		if update["current"] != "state-connecting" && update["current"] != "state-serving" {
			t.Errorf("current: %v", update["current"])
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		for _, e := range w.events() {
			maps.Copy(update, e.parts)
		}
		const steps = "00:00:01.000 connecting → to serving connected [first connection] connection 0 00:00:01.000 idle → to connecting start connection 0"
		if d := cmp.Diff([]any{"state-serving", steps}, []any{update["current"], text(fmt.Sprint(update["transitions"]))}); d != "" {
			t.Errorf("when it serves (-want +got):\n%s", d)
		}

		// What is the same is not sent again.
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, e := range w.events() {
			if e.name != "beat" {
				t.Errorf("while nothing happens: %v", e)
			}
		}

		// A counter that no hook tells of is seen all the same.
		id, err := jsonrpc.MakeID("1")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.conn.Write(context.Background(), &jsonrpc.Request{ID: id, Method: "tools/call"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		update = w.update()
		if d := cmp.Diff([]string{"counters"}, keys(update)); d != "" {
			t.Errorf("parts (-want +got):\n%s", d)
		}
		if got := text(update["counters"].(string)); !strings.Contains(got, "Calls in flight 1") {
			t.Errorf("counters: %s", got)
		}

		// Another transport changes the list, and nothing else.
		other := r.add("other")
		time.Sleep(time.Second)
		synctest.Wait()
		if d := cmp.Diff([]string{"nav"}, keys(w.update())); d != "" {
			t.Errorf("parts (-want +got):\n%s", d)
		}
		other.start()
		time.Sleep(time.Second)
		synctest.Wait()
		for _, e := range w.events() {
			if d := cmp.Diff([]string{"nav"}, keys(e.parts)); d != "" {
				t.Errorf("parts (-want +got):\n%s", d)
			}
		}
	})
}

// TestHeartbeat: a stream is never silent for more than 15 s, and says no more than it has to.
func TestHeartbeat(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.add("files").start()
		w := r.watch("")
		w.update()
		beats := func(n int) {
			t.Helper()
			if got := w.events(); len(got) != n || n > 0 && got[0].name != "beat" {
				t.Errorf("want %d beats, got %v", n, got)
			}
		}
		time.Sleep(14999 * time.Millisecond)
		synctest.Wait()
		beats(0)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		beats(1)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		beats(0)
		s.die(errors.New("gone")) // an update is a sign of life as well
		w.events()
		time.Sleep(14 * time.Second)
		synctest.Wait()
		for _, e := range w.events() {
			if e.name == "beat" {
				t.Error("a beat 14 s after an update")
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		beats(1)
	})
}

// TestStreamsEnd: with the client, with the page, with the transport that is taken off it; and nothing else ends them.
func TestStreamsEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.add("files").start()
		client, page, first, gone := r.watch("transport=files"), r.watch("transport=files"), r.watch(""), r.watch("transport=files")
		ended := func(want ...bool) {
			t.Helper()
			synctest.Wait()
			if d := cmp.Diff(want, []bool{client.ended(), gone.ended(), first.ended(), page.ended()}); d != "" {
				t.Errorf("client, gone, first, page (-want +got):\n%s", d)
			}
		}
		ended(false, false, false, false)
		client.leave()
		ended(true, false, false, false)

		s.Transport.Close()
		ended(true, false, false, false)
		gone.events()
		page.block(true) // and is told later
		s.remove()
		time.Sleep(100 * time.Millisecond)
		ended(true, true, false, false)
		events := gone.events()
		if len(events) == 0 || events[len(events)-1].name != "gone" {
			t.Errorf("want to be told that it is gone, got %v", events)
		}

		// Who asked for no name is shown the next.
		first.events()
		r.add("next")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := first.update()["title"]; got != "idle · next · supervised" {
			t.Errorf("title: %v", got)
		}

		page.block(false)
		r.page.Close()
		ended(true, true, true, true)
		if w := r.watch(""); w.status != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("events after Close: %d", w.status)
		}
		if got := r.get("").Code; got != http.StatusOK {
			t.Errorf("the page after Close: %d", got)
		}
	})
}

// TestTooManyViewers: one more than a hundred is refused, and gets in when another one leaves.
func TestTooManyViewers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.add("files")
		var all []*watcher
		for range 100 {
			all = append(all, r.watch(""))
		}
		for _, w := range all {
			w.update()
		}
		if w := r.watch(""); w.status != http.StatusServiceUnavailable || !w.ended() {
			t.Errorf("the 101st: %d", w.status)
		}
		all[0].leave()
		synctest.Wait()
		if w := r.watch(""); w.status != http.StatusOK || w.ended() {
			t.Errorf("in place of the first: %d", w.status)
		}
	})
}

// TestSlowViewer: one that takes nothing holds up no hook and nobody else, is sent the newest when it goes on, and is
// given up when it does not.
func TestSlowViewer(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.add("files").start()
		slow, stuck, quick := r.watch(""), r.watch(""), r.watch("")
		for _, w := range []*watcher{slow, stuck, quick} {
			w.update()
		}
		slow.block(true)
		stuck.block(true)
		const deaths = 100
		for range deaths {
			s.die(errors.New("gone"))
			time.Sleep(5 * time.Millisecond)
			if s.State() != supervised.StateServing {
				t.Fatalf("it is %v: something waits", s.State())
			}
		}
		quickly := len(quick.events())
		if quickly < 4 || quickly > 10 { // in half a second, one in a tenth
			t.Errorf("the quick one got %d updates", quickly)
		}
		slow.block(false)
		time.Sleep(time.Second)
		synctest.Wait()
		events := slow.events()
		if n := len(events); n == 0 || n > 3 {
			t.Fatalf("the slow one got %d updates", n)
		}
		last := ""
		for _, e := range events {
			if c, ok := e.parts["counters"].(string); ok {
				last = text(c)
			}
		}
		if !strings.Contains(last, "Restarts 100 ") {
			t.Errorf("the last that it got: %s", last)
		}

		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !stuck.ended() || slow.ended() || quick.ended() {
			t.Errorf("ended: the stuck one %t, the slow one %t, the quick one %t", stuck.ended(), slow.ended(), quick.ended())
		}
	})
}

// TestNoFlush: behind a handler through which no event could get out at once, the page says so.
func TestNoFlush(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.add("files")
		w := httptest.NewRecorder()
		r.page.ServeHTTP(struct{ http.ResponseWriter }{w}, httptest.NewRequest(http.MethodGet, "/?events", nil))
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "Flush") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// TestClock: the page goes by its clock alone.
func TestClock(t *testing.T) {
	inBubble(t, func(r *rig) {
		mock := clock.NewMock()
		mock.Set(time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC))
		r.page = live.New(live.WithClock(mock), live.WithClock(nil))
		r.add("files", supervised.WithClock(mock))
		w, stuck := r.watch(""), r.watch("")
		if got := w.update()["asOf"]; got != "07:08:09" {
			t.Errorf("the first update is of %v", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := w.events(); len(got) > 0 {
			t.Errorf("while its clock stands: %v", got)
		}
		for range 3 {
			mock.Add(15 * time.Second)
			synctest.Wait()
			if got := w.events(); len(got) != 1 || got[0].name != "beat" {
				t.Errorf("want a beat, got %v", got)
			}
		}
		stuck.block(true)
		mock.Add(15 * time.Second)
		synctest.Wait()
		if stuck.ended() {
			t.Error("a viewer was given up at once")
		}
		mock.Add(10 * time.Second)
		synctest.Wait()
		if !stuck.ended() {
			t.Error("a viewer that takes nothing was not given up")
		}
	})
}

// TestOverHTTP: updates go out at once through a real server that has a write timeout, and a client that goes away
// leaves nothing (which TestMain looks for).
func TestOverHTTP(t *testing.T) {
	fleet := &peertest.Fleet{}
	transport, err := supervised.New(fleet.Mint)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	page := live.New()
	page.Add("files", transport)
	mux := http.NewServeMux()
	mux.Handle("/deep/er/", http.StripPrefix("/deep", page))
	server := httptest.NewUnstartedServer(mux)
	server.Config.WriteTimeout = 100 * time.Millisecond
	server.Config.RegisterOnShutdown(page.Close)
	server.Start()
	defer server.Close()

	lines := follow(t, server.URL+"/deep/er/?transport=files&events=")
	<-lines
	time.Sleep(2 * server.Config.WriteTimeout) // what has to be seen is that nothing ends in it
	if _, err := transport.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	served := false
	for line := range lines {
		if served = strings.Contains(line, `"current":"state-serving"`); served {
			break
		}
	}
	if !served {
		t.Error("the stream ended before it was told that a server is up")
	}
	if err := server.Config.Shutdown(t.Context()); err != nil { // waits for the stream
		t.Errorf("Shutdown: %v", err)
	}
	for range lines {
	}
}

// follow reads the events at an address, and returns those lines that say something. The channel is closed at the end
// of the stream.
func follow(t *testing.T, address string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", response.Status, response.Header)
	}
	lines := make(chan string)
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
		client.CloseIdleConnections()
	})
	go func() {
		defer close(done)
		defer close(lines)
		defer response.Body.Close()
		scanner := bufio.NewScanner(response.Body)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			if line := scanner.Text(); strings.HasPrefix(line, "data: {") || strings.HasPrefix(line, "event:") {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return lines
}
