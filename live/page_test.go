package live_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
	"github.com/seed7990db67/supervised/stdio"
)

// text is what is left of HTML without its elements, scripts and styles: what a reader sees, more or less.
func text(doc string) string {
	for _, without := range []string{`(?s)<(script|style|svg)\b.*?</(script|style|svg)>`, `<[^>]*>`} {
		doc = regexp.MustCompile(without).ReplaceAllString(doc, " ")
	}
	return strings.Join(strings.Fields(html.UnescapeString(doc)), " ")
}

// section returns the text of the element with an id, up to the next section.
func section(doc, id string) string {
	_, doc, _ = strings.Cut(doc, `id="`+id+`"`)
	_, doc, _ = strings.Cut(doc, ">")
	doc, _, _ = strings.Cut(doc, "</section>")
	return text(doc)
}

// marked returns the ids in the picture that have a class.
func marked(doc, class string) (ids []string) {
	for _, m := range regexp.MustCompile(`id="([^"]*)" class="(?:taken |current )*`+class+` `).FindAllStringSubmatch(doc, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

func TestPageShowsWhatHappened(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.add("files").start()
		time.Sleep(time.Second)
		s.die(&stdio.ExitError{Code: 3, Stderr: "first\nout of memory\n"})
		time.Sleep(time.Second)
		s.die(&stdio.ExitError{Code: -1, Signal: syscall.SIGKILL})
		doc := r.get("").Body.String()

		if !strings.Contains(doc, "<title>serving · files · supervised</title>") {
			t.Error("no title")
		}
		_, state, _ := strings.Cut(doc, `id="state"`)
		state, _, _ = strings.Cut(state, "</p>")
		if d := cmp.Diff("● serving A server is up.", text("<"+state)); d != "" {
			t.Errorf("state (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{"state-serving"}, marked(doc, "current")); d != "" {
			t.Errorf("current (-want +got):\n%s", d)
		}
		want := []string{"edge-connecting-connected", "edge-connecting-connected-2", "choice-connecting-connected"}
		if d := cmp.Diff(want, marked(doc, "taken")); d != "" {
			t.Errorf("taken (-want +got):\n%s", d)
		}
		const exits = "00:00:02.000 connection 1 code -1 signal killed stdio: signal: killed " +
			"00:00:01.000 connection 0 code 3 stdio: exit status 3: out of memory first out of memory"
		if d := cmp.Diff(exits, section(doc, "exits")); d != "" {
			t.Errorf("exits (-want +got):\n%s", d)
		}
		const transitions = "00:00:02.000 connecting → to serving connected / onReconnect connection 2 " +
			"00:00:02.000 respawn-pending → to connecting respawn connection 2 " +
			"00:00:02.000 serving → to respawn-pending peer-died [budget left] / onClose connection 1 stdio: signal: killed " +
			"00:00:01.000 connecting → to serving connected / onReconnect connection 1 " +
			"00:00:01.000 respawn-pending → to connecting respawn connection 1 " +
			"00:00:01.000 serving → to respawn-pending peer-died [budget left] / onClose connection 0 stdio: exit status 3: out of memory " +
			"00:00:00.000 connecting → to serving connected [first connection] connection 0 " +
			"00:00:00.000 idle → to connecting start connection 0"
		if d := cmp.Diff(transitions, section(doc, "transitions")); d != "" {
			t.Errorf("transitions (-want +got):\n%s", d)
		}
		const counters = "Connection 2 Restarts 2 Restarts in the window 2 Calls in flight 0 Streams 0 Last exit code none " +
			"Last exit stdio: signal: killed"
		if d := cmp.Diff(counters, section(doc, "counters")); d != "" {
			t.Errorf("counters (-want +got):\n%s", d)
		}
	})
}

// TestFailedAttemptsAreExits: a server that never served has an exit too, and each end is there once.
func TestFailedAttemptsAreExits(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.add("files", supervised.WithMaxRestarts(2)).start()
		s.fleet.OnMint = func(_ context.Context, p *peertest.Peer) error {
			if p.Number == 1 {
				return fmt.Errorf("no handshake: %w", &stdio.ExitError{Code: 2})
			}
			return nil
		}
		s.die(&stdio.ExitError{Code: 1})
		s.die(&stdio.ExitError{Code: 3})
		<-s.Done()
		synctest.Wait()
		doc := r.get("?transport=files").Body.String()
		got := regexp.MustCompile(`code \S+`).FindAllString(section(doc, "exits"), -1)
		if d := cmp.Diff([]string{"code 3", "code 2", "code 1"}, got); d != "" {
			t.Errorf("exits (-want +got):\n%s", d)
		}
		if !strings.Contains(section(doc, "counters"), "Closed for good supervised: restart budget of 2 in 1m0s spent") {
			t.Errorf("counters: %s", section(doc, "counters"))
		}

		// A replacement that is withdrawn is no exit, and a restart that was asked for is one.
		asked := r.add("asked", supervised.WithMaxRestarts(1)).start()
		if err := asked.Restart(errors.New("no answer")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		asked.fleet.OnMint = func(context.Context, *peertest.Peer) error { return errors.New("the disk is full") }
		asked.die(errors.New("gone"))
		<-asked.Done()
		synctest.Wait()
		doc = r.get("?transport=asked").Body.String()
		const want = "00:00:00.000 connection 2 no exit code the disk is full " +
			"00:00:00.000 connection 1 no exit code gone 00:00:00.000 connection 0 no exit code no answer"
		if d := cmp.Diff(want, section(doc, "exits")); d != "" {
			t.Errorf("exits (-want +got):\n%s", d)
		}

		failing := r.add("failing")
		failing.fleet.OnMint = func(context.Context, *peertest.Peer) error { return errors.New("the disk is full") }
		if _, err := failing.Connect(context.Background()); err == nil {
			t.Error("Connect succeeded")
		}
		synctest.Wait()
		doc = r.get("?transport=failing").Body.String()
		if d := cmp.Diff("00:00:00.000 connection 0 no exit code the disk is full", section(doc, "exits")); d != "" {
			t.Errorf("exits (-want +got):\n%s", d)
		}
	})
}

// TestNothingOfAServerIsMarkup: whatever a server wrote is text on the page, and in the events.
func TestNothingOfAServerIsMarkup(t *testing.T) {
	const evil = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>'\"&amp;{{.}} \x1b[31m \u202e \xff \x00 ${1} \u2028"
	const shown = `</pre><script>alert(1)</script><img src=x onerror=alert(2)>'"&amp;{{.}} \x1b[31m \u202e \xff \x00 ${1} \u2028`
	inBubble(t, func(r *rig) {
		s := r.add("files").start()
		w := r.watch("")
		w.events()
		s.die(fmt.Errorf("%s: %w", evil, &stdio.ExitError{Code: 1, Stderr: evil}))
		time.Sleep(time.Second)
		synctest.Wait()

		doc := r.get("").Body.String()
		updates := ""
		for _, e := range w.events() {
			for _, part := range slices.Sorted(maps.Keys(e.parts)) {
				updates += fmt.Sprint(e.parts[part])
			}
		}
		for what, got := range map[string]string{"page": doc, "events": updates} {
			if n := strings.Count(got, "<script"); what == "page" && n != 1 || what == "events" && n != 0 {
				t.Errorf("%s: %d scripts", what, n)
			}
			for _, never := range []string{"<img", "\x1b", "\u202e", "\u2028", "\x00", "\xff"} {
				if strings.Contains(got, never) {
					t.Errorf("%s: has %q", what, never)
				}
			}
		}
		_, stderr, _ := strings.Cut(doc, "<pre")
		stderr, _, _ = strings.Cut(stderr, "</pre>")
		_, stderr, _ = strings.Cut(stderr, ">")
		if d := cmp.Diff(shown, html.UnescapeString(stderr)); d != "" {
			t.Errorf("stderr (-want +got):\n%s", d)
		}
	})
}

func TestListOfTransports(t *testing.T) {
	inBubble(t, func(r *rig) {
		if got := r.get("").Body.String(); !strings.Contains(got, "No transport yet") || strings.Contains(got, "<nav id=\"nav\" aria-label=\"Transports\"><ul>") {
			t.Errorf("an empty page: %s", text(got))
		}
		r.add("files").start()
		second := r.add("files")
		r.add("<b> & ?transport=x")
		nav := func(query string) string {
			doc := r.get(query).Body.String()
			_, doc, _ = strings.Cut(doc, "<nav")
			doc, _, _ = strings.Cut(doc, "</nav>")
			return doc
		}
		if d := cmp.Diff("files ● serving files (2) ○ idle <b> & ?transport=x ○ idle", text("<"+nav(""))); d != "" {
			t.Errorf("list (-want +got):\n%s", d)
		}
		// Each link leads to its transport, which is then the one that is shown.
		links := regexp.MustCompile(`href="(.*?)"`).FindAllStringSubmatch(nav(""), -1)
		var names []string
		for _, link := range links {
			query := html.UnescapeString(link[1])
			shown := regexp.MustCompile(`href="([^"]*)" aria-current="page"`).FindAllStringSubmatch(nav(query), -1)
			if len(shown) != 1 || shown[0][1] != link[1] {
				t.Errorf("%s leads to %v", query, shown)
			}
			names = append(names, regexp.MustCompile(`<h1>(.*?)</h1>`).FindStringSubmatch(r.get(query).Body.String())[1])
		}
		if d := cmp.Diff([]string{"files", "files (2)", "&lt;b&gt; &amp; ?transport=x"}, names); d != "" {
			t.Errorf("headings (-want +got):\n%s", d)
		}

		second.remove()
		second.remove()
		if got := r.get("?transport=files+(2)").Code; got != http.StatusNotFound {
			t.Errorf("want 404 for one that was removed, got %d", got)
		}
		if d := cmp.Diff("files ● serving <b> & ?transport=x ○ idle", text("<"+nav(""))); d != "" {
			t.Errorf("list (-want +got):\n%s", d)
		}
		r.page.Close()
		r.page.Close()
		r.page.Add("late", second.Transport)()
		if got := text("<" + nav("")); strings.Contains(got, "late") {
			t.Errorf("list after Close: %s", got)
		}
	})
}

// TestListsAreBounded: a server that dies for ever fills no memory.
func TestListsAreBounded(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.add("files").start()
		for i := range 60 {
			s.die(&stdio.ExitError{Code: i, Stderr: strings.Repeat("x", 20<<10)})
		}
		doc := r.get("").Body.String()
		for part, want := range map[string]int{"exits": 20, "transitions": 100} {
			_, list, _ := strings.Cut(doc, `id="`+part+`"`)
			list, _, _ = strings.Cut(list, "</section>")
			if got := strings.Count(list, "<li>"); got != want {
				t.Errorf("want %d %s, got %d", want, part, got)
			}
		}
		if len(doc) > 300<<10 {
			t.Errorf("the page has %d bytes", len(doc))
		}
		if got := section(doc, "exits"); !strings.HasPrefix(got, "00:00:00.000 connection 59 code 59 ") {
			t.Errorf("the first exit is not the last: %.80s", got)
		}
	})
}

func TestNothingCanBeChanged(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.add("files").start()
		for _, query := range []string{"", "?events", "?transport=nobody"} {
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PROPFIND", "get"} {
				w := httptest.NewRecorder()
				r.page.ServeHTTP(w, httptest.NewRequest(method, "/"+query, nil))
				if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
					t.Errorf("%s %s: %d, Allow %q", method, query, w.Code, w.Header().Get("Allow"))
				}
			}
		}
		for _, query := range []string{"", "?events"} {
			w := httptest.NewRecorder()
			r.page.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/"+query, nil)) // returns
			if w.Code != http.StatusOK || query != "" && w.Body.Len() > 0 {
				t.Errorf("HEAD %s: %d, %d bytes", query, w.Code, w.Body.Len())
			}
		}
	})
}

func TestHeaders(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.add("files")
		w := r.watch("")
		for query, header := range map[string]http.Header{"": r.get("").Header(), "?events": w.Header(), "?transport=nobody": r.get("?transport=nobody").Header()} {
			for name, want := range map[string]string{
				"Cache-Control":                "no-store",
				"Referrer-Policy":              "no-referrer",
				"X-Content-Type-Options":       "nosniff",
				"Cross-Origin-Resource-Policy": "same-origin",
				"Content-Type":                 map[string]string{"": "text/html; charset=utf-8", "?events": "text/event-stream"}[query],
			} {
				if got := header.Get(name); want != "" && got != want {
					t.Errorf("%q: %s: want %q, got %q", query, name, want, got)
				}
			}
			policy := header.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
				t.Errorf("%q: policy %q", query, policy)
			}
		}
	})
}

// TestPageStandsByItself: nothing on it leads to another host or to a path of its own choice, so that it can be mounted
// anywhere; and nothing is inline that the policy forbids.
func TestPageStandsByItself(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.add("one")
		r.add("two")
		doc := r.get("").Body.String()
		for _, m := range regexp.MustCompile(`\b(?:href|src|action|srcset|data|poster)="([^"]*)"`).FindAllStringSubmatch(doc, -1) {
			if !strings.HasPrefix(m[1], "?") && m[1] != "data:," {
				t.Errorf("it refers to %q", m[1])
			}
		}
		without := strings.ReplaceAll(doc, "http://www.w3.org/2000/svg", "") // a name, not an address
		for _, never := range []string{`//\w`, `url\(`, `@import`, `\bstyle="`, `\bon\w+="`, `javascript:`} {
			for _, at := range regexp.MustCompile(never).FindAllStringIndex(without, -1) {
				t.Errorf("it has %q", without[max(0, at[0]-30):min(len(without), at[1]+30)])
			}
		}
	})
}
