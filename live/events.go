package live

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// maxViewers bounds the event streams that are open.
	maxViewers = 100
	// heartbeat is how long a stream is silent at most. The script counts on it.
	heartbeat = 15 * time.Second
	// poll is how often the counters are looked at, of which no hook tells.
	poll = 500 * time.Millisecond
	// pause is the shortest time between two updates of a viewer: what happens in it is in the next one.
	pause = 100 * time.Millisecond
	// patience is for a viewer to take one update.
	patience = 10 * time.Second
)

// A viewer is one stream of events.
type viewer struct {
	wake chan struct{} // holds one: there is something new
}

// wake tells all viewers that there is something new. It waits for none: one who is still busy with what was before
// will find all of it at once.
func (p *Page) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for v := range p.viewers {
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
}

// enter lets a viewer in; false: there are too many, or the page is closed.
func (p *Page) enter() (*viewer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.viewers) >= maxViewers {
		return nil, false
	}
	v := &viewer{wake: make(chan struct{}, 1)}
	p.viewers[v] = true
	return v, true
}

func (p *Page) leave(v *viewer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.viewers, v)
}

// serveEvents sends updates until the client goes, the page is closed, or the transport is taken off it.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request, asked string) {
	h := w.Header()
	h.Set("X-Accel-Buffering", "no") // nginx
	viewer, ok := p.enter()
	if !ok {
		h.Set("Retry-After", "5")
		http.Error(w, "no more viewers", http.StatusServiceUnavailable)
		return
	}
	defer p.leave(viewer)
	h.Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	s := &stream{page: p, writer: w, control: http.NewResponseController(w)}
	_ = s.control.SetWriteDeadline(time.Time{}) // the server's is for pages; where there is none to set, there is none
	if err := s.control.Flush(); errors.Is(err, http.ErrNotSupported) {
		http.Error(w, "events cannot be sent through the handler that this page is behind: it hides Flush", http.StatusInternalServerError)
		return
	}

	beat, look, rest := p.clock.Timer(heartbeat), p.clock.Ticker(poll), p.clock.Timer(pause)
	defer beat.Stop()
	defer look.Stop()
	defer rest.Stop()
	if s.send("retry: 1000\n\n") != nil {
		return
	}
	var shown parts
	woken, rested := true, true
	for {
		if woken && rested {
			v, ok := p.look(asked)
			if !ok {
				_ = s.send("event: gone\ndata: -\n\n")
				return
			}
			if news := shown.update(v); news != nil {
				beat.Reset(heartbeat)
				rest.Reset(pause)
				rested = false
				if s.send("data: "+string(news)+"\n\n") != nil {
					return
				}
			}
			woken = false
		}
		select {
		case <-viewer.wake:
			woken = true
		case <-look.C:
			woken = true
		case <-rest.C:
			rested = true
		case <-beat.C:
			beat.Reset(heartbeat)
			if s.send("event: beat\ndata: -\n\n") != nil {
				return
			}
		case <-p.done:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// A stream writes to one viewer.
type stream struct {
	page    *Page
	writer  io.Writer
	control *http.ResponseController
}

// send writes text and has it go out. It fails where the client has gone, or does not take it in time.
func (s *stream) send(text string) error {
	expired := make(chan struct{})
	timer := s.page.clock.AfterFunc(patience, func() {
		defer close(expired)
		_ = s.control.SetWriteDeadline(time.Unix(1, 0)) // past by any clock: the write ends now
	})
	_, err := io.WriteString(s.writer, text)
	if err == nil {
		err = s.control.Flush()
	}
	if !timer.Stop() {
		<-expired // it must not touch the connection when the handler has returned
		return os.ErrDeadlineExceeded
	}
	return err
}

// parts is what a viewer has been sent. The zero value is nothing.
type parts struct {
	sent    map[string]string
	name    string
	version int // of the record of that name
}

// update returns what is new in a view, as JSON: parts of the page by their id, as HTML, and what is marked in the
// picture. It returns nil where nothing is.
func (p *parts) update(v view) []byte {
	first := p.sent == nil
	if first {
		p.sent = make(map[string]string)
	}
	news := make(map[string]any)
	change := func(part, text string, value any) {
		if old, known := p.sent[part]; !known || old != text {
			p.sent[part] = text
			news[part] = value
		}
	}
	html := func(part string) {
		text := render(part, v)
		change(part, text, text)
	}
	change("title", v.Title(), v.Title())
	html("nav")
	html("state")
	html("counters")
	if first || v.Name != p.name || v.version != p.version {
		p.name, p.version = v.Name, v.version
		html("exits")
		html("transitions")
		change("taken", strings.Join(v.Taken, " "), append([]string{}, v.Taken...))
	}
	change("current", v.Current(), v.Current())
	if len(news) == 0 {
		return nil
	}
	news["asOf"] = v.AsOf.Format(time.TimeOnly)
	text, err := json.Marshal(news)
	if err != nil {
		panic(err) // it is made of strings
	}
	return text
}
