package supervised

import "github.com/modelcontextprotocol/go-sdk/jsonrpc"

// How much of requests and notifications waits for Read, as weight has it, before the peer is left waiting:
// a server that floods a client that does not read costs bounded memory. What a replacement says while it is
// replayed to cannot be read yet, so it has a bound of its own. Answers are bounded by the calls in flight.
const (
	inboxLimit = 4 << 20
	heldLimit  = 64 << 20
)

// An inbox holds the messages that Read has not returned yet, in order. It has no lock: it is its ledger's.
type inbox struct {
	messages []jsonrpc.Message
	head     int // messages[:head] was read
	held     []jsonrpc.Message
	load     int   // the weight of messages and held
	end      error // what Read returns behind the messages; nil while more may come
}

// weight is what a message counts for against the limits, in bytes; an answer counts nothing.
func weight(m jsonrpc.Message) int {
	const overhead = 256 // of the structures around the bytes, roughly
	if r, ok := m.(*jsonrpc.Request); ok {
		return overhead + len(r.Method) + len(r.Params)
	}
	return 0
}

// push appends m to what Read returns; behind the end it is dropped.
func (b *inbox) push(m jsonrpc.Message) {
	if b.end != nil {
		return
	}
	if len(b.messages) == cap(b.messages) && b.head > len(b.messages)/2 {
		n := copy(b.messages, b.messages[b.head:])
		clear(b.messages[n:])
		b.messages, b.head = b.messages[:n], 0
	}
	b.messages = append(b.messages, m)
	b.load += weight(m)
}

// hold keeps m back until release.
func (b *inbox) hold(m jsonrpc.Message) {
	b.held = append(b.held, m)
	b.load += weight(m)
}

// release returns what was held back.
func (b *inbox) release() []jsonrpc.Message {
	held := b.held
	b.held = nil
	for _, m := range held {
		b.load -= weight(m)
	}
	return held
}

// pop returns the oldest message; nil: there is none.
func (b *inbox) pop() jsonrpc.Message {
	if b.head == len(b.messages) {
		return nil
	}
	m := b.messages[b.head]
	b.messages[b.head] = nil
	b.head++
	if b.head == len(b.messages) {
		b.messages, b.head = b.messages[:0], 0
	}
	b.load -= weight(m)
	return m
}
