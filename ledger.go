package supervised

import (
	"context"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const methodListen = "subscriptions/listen"

// A ledger knows what must be answered, kept, replayed or dropped: it holds the calls in flight and the open
// streams in the order of their first sending, and the messages that wait for Read. It has one lock, so that
// each question about a message and a death has one answer.
//
// A call is registered before it is written, and registering binds it to the current generation. The door to
// a generation is shut for registrations by shut, and for all that its peer says by seal (W4, W6).
type ledger struct {
	mu sync.Mutex

	generation int  // the one that is heard
	heard      bool // what that generation says is taken
	door       bool // calls may be registered against it
	holding    bool // it is being replayed to: only answers pass, the rest is held back

	calls   map[jsonrpc.ID]*call // calls and streams, by id
	flight  list                 // calls
	streams list                 // subscriptions/listen requests that are open

	inbox inbox

	wake chan struct{} // holds a token when Read has something to look at
	room chan struct{} // holds a token when deliver may have room again, or was superseded
}

// A call is a request of the client that awaits its answer.
type call struct {
	request    *jsonrpc.Request
	ctx        context.Context // of its Write: its values and its life
	generation int             // the one that it was last sent to; -1: none yet
	prev, next *call
	in         *list // the list that it is in; nil: it was answered or withdrawn
}

func newLedger() *ledger {
	return &ledger{
		calls: make(map[jsonrpc.ID]*call),
		wake:  make(chan struct{}, 1),
		room:  make(chan struct{}, 1),
	}
}

// errSealed: the generation is not open for calls.
var errSealed = errors.New("supervised: generation sealed")

// register takes a call in for generation, before it is written. It fails with errSealed, or with an error
// that names the id where that is in use.
func (l *ledger) register(generation int, ctx context.Context, r *jsonrpc.Request) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.door || generation != l.generation {
		return nil, errSealed
	}
	if l.calls[r.ID] != nil {
		return nil, idInUse(r.ID.Raw())
	}
	c := &call{request: r, ctx: ctx, generation: generation}
	l.calls[r.ID] = c
	if r.Method == methodListen {
		l.streams.push(c)
	} else {
		l.flight.push(c)
	}
	return c, nil
}

// withdraw takes a call out whose Write failed. It reports false where the call was answered already.
func (l *ledger) withdraw(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.in == nil {
		return false
	}
	l.remove(c)
	return true
}

// remove ends a call; l.mu is held.
func (l *ledger) remove(c *call) {
	c.in.remove(c)
	delete(l.calls, c.request.ID)
}

// cancelled notes that the client has cancelled the request id: a stream is over with it (R2). A call stays,
// since its answer may be on the way.
func (l *ledger) cancelled(id jsonrpc.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[id]; c != nil && c.in == &l.streams {
		l.remove(c)
	}
}

// deliver takes what the peer of generation said: an answer settles its call, the rest goes to Read. It waits
// while the inbox is full, and reports false where the generation is not heard any more or ctx is done.
func (l *ledger) deliver(ctx context.Context, generation int, m jsonrpc.Message) bool {
	for {
		heard, taken := l.take(generation, m)
		if !heard {
			signal(l.room) // the token may have been meant for the peer that came after
		}
		if taken || !heard {
			return heard
		}
		select {
		case <-l.room:
		case <-ctx.Done():
			return false
		}
	}
}

func (l *ledger) take(generation int, m jsonrpc.Message) (heard, taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.heard || generation != l.generation {
		return false, false
	}
	if r, ok := m.(*jsonrpc.Response); ok {
		// An answer that no call awaits was given before, or answers nothing that was asked.
		if c := l.calls[r.ID]; c != nil && c.generation == generation {
			l.remove(c)
			l.push(r)
		}
		return true, true
	}
	switch {
	case l.holding && l.inbox.load < heldLimit:
		l.inbox.hold(m)
	case !l.holding && l.inbox.load < inboxLimit:
		l.push(m)
	default:
		// With the door shut for good nobody may read again, and the peer must be able to end.
		return true, !l.holding && !l.door
	}
	return true, true
}

// push passes m to Read; l.mu is held.
func (l *ledger) push(m jsonrpc.Message) {
	l.inbox.push(m)
	signal(l.wake)
}

// read returns the next message, waiting for it, or what ended the connection.
func (l *ledger) read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := l.pop()
		if m != nil || err != nil {
			return m, err
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *ledger) pop() (jsonrpc.Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.inbox.pop()
	if m == nil {
		if l.inbox.end != nil {
			signal(l.wake) // whoever else reads learns it too
		}
		return nil, l.inbox.end
	}
	if _, ok := m.(*jsonrpc.Request); ok {
		signal(l.room)
	}
	return m, nil
}

// hear begins generation: its peer is heard, with all but answers held back, and nothing else may be written
// to it yet. The requests that it must be sent are returned: the kept calls, then the streams, each in the
// order of their first sending.
func (l *ledger) hear(generation int) (replay []*call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inbox.end != nil {
		return nil
	}
	l.generation, l.heard, l.holding = generation, true, true
	for c := range l.flight.all() {
		replay = append(replay, c)
	}
	for c := range l.streams.all() {
		replay = append(replay, c)
	}
	return replay
}

// resend binds c to generation, right before it is written again. It reports false where that is not to be:
// the call was cancelled or its context is done, or the generation is over.
func (l *ledger) resend(generation int, c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.in == nil || !l.heard || generation != l.generation {
		return false
	}
	c.generation = generation
	return true
}

// open lets calls in to the generation that is heard, and passes what was held back.
func (l *ledger) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inbox.release()
	l.holding, l.door = false, true
	signal(l.wake)
}

// shut refuses further calls; the peer is still heard.
func (l *ledger) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door = false
	signal(l.room)
}

// seal ends the generation that is heard and divides its calls: one that keep wants is kept for the
// replacement, any other is answered with lost, oldest first. Streams are kept.
func (l *ledger) seal(keep func(*jsonrpc.Request) bool, lost error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence()
	for c := range l.flight.all() {
		if !keep(c.request) {
			l.fail(c, lost)
			continue
		}
		c.generation = -1
	}
	for c := range l.streams.all() {
		c.generation = -1
	}
}

// silence shuts the generation for all; l.mu is held.
func (l *ledger) silence() {
	l.heard, l.door, l.holding = false, false, false
	l.inbox.discard()
	signal(l.room)
}

// finish ends the ledger: the generation is sealed, each call is answered with lost and each stream with
// over, oldest first, and Read ends with end after that. The second time it does nothing.
func (l *ledger) finish(lost, over, end error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence()
	for c := range l.flight.all() {
		l.fail(c, lost)
	}
	for c := range l.streams.all() {
		l.fail(c, over)
	}
	if l.inbox.end == nil {
		l.inbox.end = end
	}
	signal(l.wake)
}

// fail answers c with err; l.mu is held.
func (l *ledger) fail(c *call, err error) {
	l.remove(c)
	l.push(&jsonrpc.Response{ID: c.request.ID, Error: err})
}

// counts returns how many calls are in flight, kept ones included, and how many streams are open.
func (l *ledger) counts() (flight, streams int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flight.len, l.streams.len
}

// signal leaves a token in c, unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// A list holds calls in the order in which they were pushed. A call is in one list at most. The zero value is
// empty.
type list struct {
	first, last *call
	len         int
}

func (l *list) push(c *call) {
	c.in, c.prev = l, l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.len++
}

func (l *list) remove(c *call) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.in, c.prev, c.next = nil, nil, nil
	l.len--
}

// all goes through the calls, oldest first. The one that it is at may be removed.
func (l *list) all() func(yield func(*call) bool) {
	return func(yield func(*call) bool) {
		for c := l.first; c != nil; {
			next := c.next
			if !yield(c) {
				return
			}
			c = next
		}
	}
}
