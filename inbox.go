package supervised

import (
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// How much of requests and notifications waits for Read, as weight has it, before the peer is left waiting:
// a server that floods a client that does not read costs bounded memory. What a replacement says while it is
// replayed to cannot be read yet, so it has a bound of its own. Answers are bounded by the calls in flight.
const (
	inboxLimit = 4 << 20
	heldLimit  = 64 << 20
)

// An inbox holds the messages that Read has not returned yet, in order. Messages are put in under its ledger's lock,
// and all that is not marked belongs to that. Read takes them out under the inbox's own, so that it does not stand in
// the way of a Write.
type inbox struct {
	held []jsonrpc.Message
	load atomic.Int64 // the weight of messages and held

	mu       sync.Mutex
	messages []jsonrpc.Message
	head     int         // messages[:head] was read
	end      error       // what Read returns behind the messages; nil while more may come
	pending  atomic.Bool // Read need not wait; written under mu
}

// weight is what a message counts for against the limits, in bytes; an answer counts nothing.
func weight(m jsonrpc.Message) int64 {
	const overhead = 256 // of the structures around the bytes, roughly
	r, ok := m.(*jsonrpc.Request)
	if !ok {
		return 0
	}
	return int64(overhead+len(r.Method)+len(r.Params)) + idWeight(r.ID)
}

// idWeight is what an id counts for, in bytes: a server may make one as long as a line.
func idWeight(id jsonrpc.ID) int64 {
	text, _ := id.Raw().(string)
	return int64(len(text))
}

// push appends m to what Read returns; behind the end it is dropped.
func (b *inbox) push(m jsonrpc.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != nil {
		return
	}
	if len(b.messages) == cap(b.messages) && b.head > len(b.messages)/2 {
		n := copy(b.messages, b.messages[b.head:])
		clear(b.messages[n:])
		b.messages, b.head = b.messages[:n], 0
	}
	b.messages = append(b.messages, m)
	if w := weight(m); w > 0 {
		b.load.Add(w)
	}
	if !b.pending.Load() {
		b.pending.Store(true)
	}
}

// finish has Read return end behind the messages.
func (b *inbox) finish(end error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end = end
	b.pending.Store(true)
}

// ended reports whether finish was called.
func (b *inbox) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end != nil
}

// pop returns the oldest message; nil: there is none, and none will come where the end is not nil.
func (b *inbox) pop() (m jsonrpc.Message, end error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.head == len(b.messages) {
		return nil, b.end
	}
	m = b.messages[b.head]
	b.messages[b.head] = nil
	b.head++
	if b.head == len(b.messages) {
		b.messages, b.head = b.messages[:0], 0
		b.pending.Store(b.end != nil)
	}
	if w := weight(m); w > 0 {
		b.load.Add(-w)
	}
	return m, nil
}

// hold keeps m back until release.
func (b *inbox) hold(m jsonrpc.Message) {
	b.held = append(b.held, m)
	b.load.Add(weight(m))
}

// release returns what was held back.
func (b *inbox) release() []jsonrpc.Message {
	held := b.held
	b.held = nil
	for _, m := range held {
		b.load.Add(-weight(m))
	}
	return held
}
