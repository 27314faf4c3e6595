//go:build unix

package live_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A browser is a Chromium that shows one page. It is driven through two pipes, by the DevTools protocol: a message is
// JSON, and ends with a zero byte.
type browser struct {
	*testing.T
	to      io.Writer
	session string
	works   bool // it has done what it was told

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
	log     []string // what the console and the policy complained of, and the addresses that were asked
	asked   []string
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// newBrowser starts a Chromium, or skips the test where there is none.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if exec.Command(name, "--version").Run() == nil { // one that is there may still not work
			program = name
			break
		}
	}
	if program == "" {
		if os.Getenv("CHROMIUM_REQUIRED") != "" {
			t.Fatal("there is no Chromium")
		}
		t.Skip("there is no Chromium")
	}
	commands, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.Command(program, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--user-data-dir="+filepath.Join(home, "profile"), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.ExtraFiles = []*os.File{commands, answers} // 3 and 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	commands.Close()
	answers.Close()
	b := &browser{T: t, to: to, waiting: make(map[int]chan reply)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(from)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		to.Close()
		<-read
		from.Close()
	})

	target := b.call("", "Target.createTarget", map[string]any{"url": "about:blank"})
	session := b.call("", "Target.attachToTarget", map[string]any{"targetId": target["targetId"], "flatten": true})
	b.session = session["sessionId"].(string)
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.do(domain+".enable", nil)
	}
	b.works = true
	return b
}

// read hands the answers to those who wait for them, until the browser ends.
func (b *browser) read(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			break
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case m.ID != 0:
			b.waiting[m.ID] <- m.reply
			delete(b.waiting, m.ID)
		case m.Method == "Network.requestWillBeSent":
			var p struct{ Request struct{ URL string } }
			_ = json.Unmarshal(m.Params, &p)
			b.asked = append(b.asked, p.Request.URL)
		case m.Method == "Log.entryAdded", m.Method == "Runtime.exceptionThrown", m.Method == "Runtime.consoleAPICalled", m.Method == "Page.javascriptDialogOpening":
			b.log = append(b.log, m.Method+" "+string(m.Params))
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, waits := range b.waiting {
		close(waits)
		delete(b.waiting, id)
	}
	b.waiting = nil
}

// call sends a command and returns its result.
func (b *browser) call(session, method string, params any) map[string]any {
	b.Helper()
	b.mu.Lock()
	b.next++
	id, waits := b.next, make(chan reply, 1)
	if b.waiting == nil {
		b.mu.Unlock()
		b.giveUp("the browser has ended")
	}
	b.waiting[id] = waits
	b.mu.Unlock()
	message := map[string]any{"id": id, "method": method, "params": params}
	if params == nil {
		message["params"] = struct{}{}
	}
	if session != "" {
		message["sessionId"] = session
	}
	text, err := json.Marshal(message)
	if err != nil {
		b.giveUp("%v", err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.giveUp("%v", err)
	}
	select {
	case r, ok := <-waits:
		switch {
		case !ok:
			b.giveUp("%s: the browser has ended", method)
		case r.Error != nil && method == "Runtime.evaluate" && strings.Contains(r.Error.Message, "navigated"):
			return b.call(session, method, params) // the page went, and with it the question; there is another one
		case r.Error != nil:
			b.giveUp("%s: %s", method, r.Error.Message)
		}
		var result map[string]any
		if err := json.Unmarshal(r.Result, &result); err != nil {
			b.giveUp("%v", err)
		}
		return result
	case <-time.After(browserPatience):
		b.giveUp("%s: no answer", method)
		return nil
	}
}

// giveUp fails the test. A browser that has never worked is as none.
func (b *browser) giveUp(format string, args ...any) {
	b.Helper()
	if !b.works && os.Getenv("CHROMIUM_REQUIRED") == "" {
		b.Skip("Chromium does not work here: " + fmt.Sprintf(format, args...))
	}
	b.Fatalf(format, args...)
}

// browserPatience bounds every wait for the browser. Nothing that works takes near as long.
const browserPatience = 30 * time.Second

// do sends a command to the page.
func (b *browser) do(method string, params any) map[string]any {
	b.Helper()
	return b.call(b.session, method, params)
}

// eval returns the value of an expression in the page, or of its promise.
func (b *browser) eval(expression string) any {
	b.Helper()
	r := b.do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if e, failed := r["exceptionDetails"]; failed {
		b.Fatalf("%s: %v", expression, e)
	}
	return r["result"].(map[string]any)["value"]
}

// await waits in the page until an expression is true, and returns when that was by its clock, in milliseconds since
// 1970.
func (b *browser) await(expression string) (at float64) {
	b.Helper()
	at, ok := b.eval(fmt.Sprintf(`new Promise(resolve => {
		const end = result => { clearTimeout(late); clearInterval(often); resolve(result); };
		const late = setTimeout(end, %d, null);
		const look = () => { try { if (%s) end(Date.now()); } catch { /* the page is not all there yet */ } };
		const often = setInterval(look, 5);
		look();
	})`, browserPatience.Milliseconds()/2, expression)).(float64)
	if !ok {
		b.Fatalf("it never came to be: %s\nthe page:\n%v\nlog: %q", expression, b.eval("document.body.innerText"), b.log)
	}
	return at
}

// open shows an address, and waits until it is loaded.
func (b *browser) open(address string) {
	b.Helper()
	b.do("Page.navigate", map[string]any{"url": address})
	b.await("document.readyState === 'complete' && location.href !== 'about:blank'")
}

// look has the page be of a size and a colour scheme.
func (b *browser) look(width, height int, scheme string) {
	b.Helper()
	b.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

// shoot writes a picture of the whole page to the directory that the environment names, if it names one.
func (b *browser) shoot(name string) {
	b.Helper()
	dir := os.Getenv("LIVE_SCREENSHOTS")
	if dir == "" {
		return
	}
	shot := b.do("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true})
	png, err := base64.StdEncoding.DecodeString(shot["data"].(string))
	if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600)); err != nil {
		b.Fatal(err)
	}
}
