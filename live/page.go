package live

import (
	"fmt"
	"slices"
	"sync"

	"github.com/benbjohnson/clock"

	"github.com/seed7990db67/supervised"
)

// A Page shows transports to whoever asks for it by HTTP. Make one with New. All methods may be called from any
// goroutine at any time.
type Page struct {
	clock clock.Clock
	done  chan struct{} // closed by Close

	mu      sync.Mutex
	closed  bool
	records []*record // in the order of Add
	viewers map[*viewer]bool
}

// An Option changes what New makes.
type Option func(*Page)

// WithClock has the page take the time from c; nil is clock.New(), as without it. Give it the clock of the transports.
func WithClock(c clock.Clock) Option {
	return func(p *Page) {
		if c != nil {
			p.clock = c
		}
	}
}

// New returns a page that shows nothing yet. It starts nothing.
func New(opts ...Option) *Page {
	p := &Page{clock: clock.New(), done: make(chan struct{}), viewers: make(map[*viewer]bool)}
	for _, opt := range opts {
		opt(p)
	}
	return p
}

// Add has the page show t under a name, below those that were added before, and know what happens to it from now on:
// add it before Connect. Where the name is taken, or empty, the next that is free with a number is used, "files (2)".
// A transport that was closed stays on the page until remove is called, which is idempotent. After Close, Add does
// nothing.
//
// What the page registers with t are hooks that write down what they are told, and neither wait for a viewer nor call
// anything of t.
func (p *Page) Add(name string, t *supervised.Transport) (remove func()) {
	if name == "" {
		name = "transport"
	}
	r := &record{transport: t, changed: p.wake}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return func() {}
	}
	r.name = name
	for n := 2; p.find(r.name) != nil; n++ {
		r.name = fmt.Sprintf("%s (%d)", name, n)
	}
	p.records = append(p.records, r)
	p.mu.Unlock()

	forget := r.listen()
	p.wake()
	return func() {
		forget()
		p.mu.Lock()
		p.records = slices.DeleteFunc(p.records, func(other *record) bool { return other == r })
		p.mu.Unlock()
		p.wake()
	}
}

// Close ends the event streams of all viewers, whose pages then say that they are out of date. An http.Server does not
// end them by itself: its Shutdown waits for them unless it was told, with RegisterOnShutdown(page.Close). The
// transports are not touched. Close is idempotent; what is on the page can still be asked for.
func (p *Page) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.done)
	}
}

// find returns the record of that name; nil: there is none. p.mu is held.
func (p *Page) find(name string) *record {
	if i := slices.IndexFunc(p.records, func(r *record) bool { return r.name == name }); i >= 0 {
		return p.records[i]
	}
	return nil
}

// choose returns all records, and the one that a viewer asked for by name; without a name the first, nil where there is
// none. ok is false where no record has the name.
func (p *Page) choose(name string) (all []*record, one *record, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all = slices.Clone(p.records)
	switch {
	case name != "":
		one = p.find(name)
		return all, one, one != nil
	case len(all) > 0:
		one = all[0]
	}
	return all, one, true
}
