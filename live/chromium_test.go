//go:build unix

package live_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/live"
	"github.com/seed7990db67/supervised/stdio"
)

// evil is what the server writes to its stderr.
const evil = `<script>document.title = "taken over"</script></pre><img src=x onerror="document.title = 'taken over'">`

// roleEnv has the test binary be a server of the SDK instead.
const roleEnv = "LIVE_TEST_SERVER"

func init() {
	if os.Getenv(roleEnv) == "" {
		return
	}
	fmt.Fprintln(os.Stderr, evil)
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "pid"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strconv.Itoa(os.Getpid())}}}, nil, nil
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(0)
}

// TestInChromium has a real browser show a real server that is killed.
func TestInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	b := newBrowser(t)
	page := live.New()
	var now atomic.Pointer[live.Page] // what is served
	now.Store(page)
	mux := http.NewServeMux()
	mux.HandleFunc("/supervised/", func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) })
	site := httptest.NewServer(mux)
	defer site.Close()
	defer func() { now.Load().Close() }()

	server := stdio.Command{Args: []string{must(os.Executable())}, Env: []string{roleEnv + "=1", "GORACE=atexit_sleep_ms=0", "GOGC=off"}}
	transport := must(supervised.New(server.Mint, supervised.WithMaxRestarts(3), supervised.WithRestartDelay(0)))
	defer transport.Close()
	// A death is followed by no restart until the page has shown it.
	shown, over := make(chan struct{}), make(chan struct{})
	transport.OnClose(func(error) {
		select {
		case <-shown:
		case <-over:
		}
	})
	defer close(over)
	page.Add("files", transport)
	mail := must(supervised.New(func(context.Context) (mcp.Transport, error) { return nil, errors.New("no mail today") }))
	page.Add(`mail & "more" <b>`, mail)

	b.look(1280, 900, "light")
	b.open(site.URL + "/supervised/")
	const state = `document.querySelector('#state strong').innerText`
	b.await(state + ` === '○idle'`)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session := must(client.Connect(t.Context(), transport, nil))
	b.await(state + ` === '●serving'`)
	// The page is as it was loaded, and has been sent what has happened since.
	b.eval("window.region = document.querySelector('#state'), true")

	var delays []time.Duration
	for range 3 {
		result := must(session.CallTool(t.Context(), &mcp.CallToolParams{Name: "pid"}))
		pid := must(strconv.Atoi(result.Content[0].(*mcp.TextContent).Text))
		killed := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		seen := time.UnixMilli(int64(b.await(state + ` === '↻respawn-pending' && document.querySelector('.lifecycle .current').id === 'state-respawn-pending'`)))
		delays = append(delays, seen.Sub(killed))
		shown <- struct{}{}
		b.await(state + ` === '●serving'`)
	}
	t.Logf("from the kill of a server to the page: %v", delays)
	if best := min(delays[0], delays[1], delays[2]); best > time.Second {
		t.Errorf("the page shows a death after %v at best", best)
	}
	// What is read out is what changes in an element that stays.
	if b.eval("window.region.isConnected && window.region.getAttribute('aria-live')") != "polite" {
		t.Error("the region that is read out was replaced")
	}

	// What the server wrote is text, in what was sent and in what is loaded.
	for _, how := range []string{"sent", "loaded"} {
		if how == "loaded" {
			b.open(site.URL + "/supervised/?transport=files")
		}
		b.await(`document.querySelectorAll('#exits pre').length === 3`)
		if got := b.eval(`document.querySelector('#exits pre').innerText`); strings.TrimSpace(fmt.Sprint(got)) != evil {
			t.Errorf("%s: stderr: %v", how, got)
		}
		if got := b.eval(`document.querySelectorAll('main script, main img').length`); got != 0.0 {
			t.Errorf("%s: %v elements were made of it", how, got)
		}
		if got := b.eval(`document.title`); got != "serving · files · supervised" {
			t.Errorf("%s: title %v", how, got)
		}
	}
	lit := b.eval(`['current', 'taken'].map(c => [...document.querySelectorAll('.lifecycle .' + c)].map(e => e.id).sort().join(' ')).join('; ')`)
	if d := cmp.Diff("state-serving; choice-connecting-connected edge-connecting-connected edge-connecting-connected-2", lit); d != "" {
		t.Errorf("in the picture (-want +got):\n%s", d)
	}

	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{390, 1280} {
			b.look(width, 844, scheme)
			b.open(site.URL + "/supervised/?transport=files")
			name := fmt.Sprintf("%s-%d", scheme, width)
			if got := b.eval(`document.documentElement.scrollWidth`).(float64); got > float64(width) {
				t.Errorf("%s: it is %v wide", name, got)
			}
			if got := b.eval(contrasts).(string); got != "" {
				t.Errorf("%s: contrast under 7:1:\n%s", name, got)
			}
			// The state of now is in sight, in the part of the picture that is.
			if got := b.eval(`(() => {
				const frame = document.querySelector('#picture').getBoundingClientRect(), state = document.querySelector('.current').getBoundingClientRect();
				return state.left >= frame.left && state.right <= frame.right && state.top >= frame.top && state.bottom <= frame.bottom;
			})()`); got != true {
				t.Errorf("%s: the state is scrolled out of sight", name)
			}
			b.shoot(name)
		}
	}

	// A link leads to another transport, by keyboard as well.
	b.eval(`document.querySelector('nav a:not([aria-current])').focus()`)
	b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"})
	b.await(`document.readyState === 'complete' && document.querySelector('h1').innerText === 'mail & "more" <b>' && ` + state + ` === '○idle'`)
	if _, err := mail.Connect(t.Context()); err == nil {
		t.Error("mail has come")
	}
	b.await(`document.querySelector('#exits').innerText.includes('no mail today')`)

	// A page that is out of date says so, and goes on when it can.
	page.Close()
	b.await(`document.body.classList.contains('stale') && document.querySelector('#link').innerText.startsWith('Not connected; this is how it was at ')`)
	b.shoot("stale-1280")
	next := live.New()
	next.Add(`mail & "more" <b>`, transport)
	now.Store(next)
	b.await(`!document.body.classList.contains('stale') && ` + state + ` === '●serving'`)
	if got := b.eval("document.querySelector('#link').innerText"); got != "" {
		t.Errorf("connected again, it says %q", got)
	}
	next.Close()

	b.mu.Lock()
	defer b.mu.Unlock()
	for _, address := range b.asked {
		if !strings.HasPrefix(address, site.URL+"/supervised/") && address != "data:," {
			t.Errorf("it asked for %s", address)
		}
	}
	for _, complaint := range b.log {
		if !strings.Contains(complaint, "503") { // of the page that was closed
			t.Errorf("the browser complains: %s", complaint)
		}
	}
}

// contrasts lists the texts that stand out too little from what is behind them.
const contrasts = `(() => {
	const parse = c => (c.match(/[\d.]+/g) || []).map(Number);
	const light = c => {
		const [r, g, b] = parse(c).slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = getComputedStyle(e).backgroundColor, alpha = parse(c)[3];
			if (alpha === undefined || alpha === 1) return c;
		}
		return 'rgb(255, 255, 255)';
	};
	const poor = [];
	const check = (what, a, b) => { if (!(ratio(a, b) >= 7)) poor.push(ratio(a, b).toFixed(2) + ' ' + a + ' on ' + b + ': ' + what.slice(0, 40)); };
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let texts = 0;
	for (let n; n = walker.nextNode();) {
		const e = n.parentElement;
		if (!n.data.trim() || e.closest('script, style, title, desc, noscript')) continue;
		texts++;
		if (!e.closest('svg')) { check(n.data, getComputedStyle(e).color, behind(e)); continue; }
		const own = e.closest('.state')?.querySelector('rect');
		for (const rect of own ? [own] : document.querySelectorAll('.lifecycle .paper, .lifecycle .region rect')) {
			check(n.data, getComputedStyle(e).fill, getComputedStyle(rect).fill);
		}
	}
	return texts < 100 ? 'only ' + texts + ' texts were found' : poor.join('\n');
})()`
