package supervised

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised/internal/wire"
)

// A ledger knows what must be answered, kept, replayed or dropped: it holds the calls in flight and the open
// streams in the order of their first sending, and the messages that wait for Read. It has one lock, so that
// each question about a message and a death has one answer.
//
// A call is registered before it is written, and registering binds it to the current generation. The door to
// a generation is shut for registrations by closeDoor, and for all that its peer says by seal (W4, W6).
type ledger struct {
	mu sync.Mutex

	generation int                // the one that is heard
	heard      bool               // what that generation says is taken
	door       bool               // calls may be registered against it
	holding    bool               // it is being replayed to: only answers pass, the rest is held back
	preparing  context.Context    // ends when that generation serves or is over
	prepared   context.CancelFunc // of preparing

	calls     index          // calls and streams, by id
	flight    list           // calls
	streams   list           // subscriptions/listen requests that are open
	handles   int            // how many of those have a Stream
	topics    map[string]int // how many streams have asked for each thing that can be listened to
	cancelled list           // calls that the client has cancelled and that may still be answered
	spare     list           // calls that are over, for the next ones
	own       map[jsonrpc.ID]func(*jsonrpc.Response)
	ownIDs    string // the prefix of the ids in own
	ownCount  uint64

	probe      *call        // E3: the probe, until any peer has answered anything
	probeTimer *clock.Timer // nil: none
	asked      bool         // a request was registered

	session  session
	told     int                   // the generation that has got notifications/initialized; -1: none
	upcalls  upcalls               // requests of the server
	pong     func(jsonrpc.ID) bool // answers a ping of the server that is being replayed to; waits for nothing
	recalled []*jsonrpc.Request    // cancellations of what was replayed already, to be written by release
	inbox    inbox
	reading  atomic.Pointer[reading] // of the peer that was heard last; nil: there was none
	waiting  int                     // callers of Read that wait for wake
	wake     chan struct{}           // holds a token when Read has something to look at
	room     chan struct{}           // holds a token when deliver may have room again, or was superseded
}

// An entry is what a call is registered with.
type entry struct {
	request *jsonrpc.Request
	ctx     context.Context // of its Write: its values and its life
	stream  *Stream         // nil: it was opened by the client, or is no stream
	end     func()          // ends the context of its first Write, when the call is over; nil: that is not ours to end
}

// A call is a request of the client that awaits its answer.
type call struct {
	entry
	filter     *mcp.NotificationSubscriptions // of a stream; nil: it has none that can be read
	generation int                            // the one that it was last sent to; -1: none yet
	release    func()                         // ends the context of its last Write; nil: that is not ours to end
	prev, next *call
	in         *list // the list that it is in; nil: it was answered or withdrawn

	written atomic.Bool // its first Write is over and was well: the writer has let go of it
	moved   bool        // it has outlived a peer, and who replays it may hold it
}

// spareCalls is how many calls that are over wait for the next ones.
const spareCalls = 512

// newCall returns a call; l.mu is held.
func (l *ledger) newCall(e entry) *call {
	c := l.spare.first
	if c == nil {
		return &call{entry: e}
	}
	l.spare.remove(c)
	c.entry = e
	return c
}

// recycle keeps a call that was answered for the next one, if nobody else can have it; l.mu is held.
func (l *ledger) recycle(c *call) {
	if c.written.Load() && !c.moved && c.stream == nil && l.spare.len < spareCalls {
		*c = call{}
		l.spare.push(c)
	}
}

// cancelledLimit is how many calls that the client has cancelled wait for an answer that may never come. The
// oldest above that gets one from the ledger.
const cancelledLimit = 1024

func newLedger() *ledger {
	return &ledger{
		ownIDs:   "supervised-" + rand.Text() + "-",
		told:     -1,
		prepared: func() {},
		upcalls:  newUpcalls(),
		wake:     make(chan struct{}, 1),
		room:     make(chan struct{}, 1),
	}
}

// errSealed: the generation is not open for calls.
var errSealed = errors.New("supervised: generation sealed")

// newID is an id for a request of the supervisor's own. No client and no other supervisor uses it.
func (l *ledger) newID() jsonrpc.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nextID()
}

func (l *ledger) nextID() jsonrpc.ID {
	l.ownCount++
	id, _ := jsonrpc.MakeID(l.ownIDs + strconv.FormatUint(l.ownCount, 10)) // a string is always one
	return id
}

// register takes a call in for generation, before it is written. It fails with errSealed, or with an error
// that names the id where that is in use.
func (l *ledger) register(generation int, e entry) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.door || generation != l.generation {
		return nil, errSealed
	}
	id := e.request.ID
	if l.calls.get(id) != nil {
		return nil, idInUse(id.Raw())
	}
	c := l.newCall(e)
	c.generation = generation
	l.calls.put(id, c)
	first := !l.asked
	l.asked = true
	if c.request.Method == methodListen {
		l.listen(c)
		return c, nil
	}
	if c.request.Method == methodDiscover && first {
		l.probe = c
	}
	l.flight.push(c)
	return c, nil
}

// listen takes in a stream; l.mu is held.
func (l *ledger) listen(c *call) {
	l.streams.push(c)
	if c.stream != nil {
		l.handles++
	}
	c.filter = filterOf(c.request.Params)
	if l.topics == nil {
		l.topics = make(map[string]int)
	}
	for _, topic := range topics(c.filter) {
		l.topics[topic]++
	}
}

// withdraw takes a call out whose Write to the peer of generation failed. It reports false where the call was
// answered already. Tell is not nil where a replacement has got it meanwhile, and is what that is to be told.
func (l *ledger) withdraw(c *call, generation int) (withdrawn bool, tell *jsonrpc.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.in == nil {
		return false, nil
	}
	l.remove(c)
	if c.generation == generation || c.generation != l.generation || !l.heard {
		return true, nil
	}
	n := cancellation(c.request.ID)
	if !l.door {
		l.recalled = append(l.recalled, n)
		return true, nil
	}
	return true, n
}

// cancellation tells a server that a request is over.
func cancellation(id jsonrpc.ID) *jsonrpc.Request {
	params := append([]byte(`{"requestId":`), wire.AppendID(nil, id)...)
	return &jsonrpc.Request{Method: notificationCancelled, Params: append(params, '}')}
}

// free ends the context of the call's last Write, if that is ours to end.
func (c *call) free() {
	if c.release != nil {
		c.release()
		c.release = nil
	}
}

// remove ends a call; l.mu is held.
func (l *ledger) remove(c *call) {
	c.in.remove(c)
	l.calls.remove(c.request.ID)
	if c.stream != nil {
		l.handles--
	}
	for _, topic := range topics(c.filter) {
		if l.topics[topic]--; l.topics[topic] == 0 {
			delete(l.topics, topic)
		}
	}
	c.free()
	if c == l.probe {
		l.settleProbe()
	}
}

// cancel notes that the client has cancelled a request: a stream is over with it (R2), and a call is not kept
// any more. It reports whether the peer of generation (-1: there is none) is to be told; in the gap nobody is
// (Q4). Stale is that there is another peer by now, and nothing was done.
func (l *ledger) cancel(generation int, n *jsonrpc.Request) (tell, stale bool) {
	id, ok := cancelledID(n)
	if !ok {
		return true, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.door && generation != l.generation {
		return false, true
	}
	c := l.calls.get(id)
	if c == nil {
		return true, false
	}
	sent := l.heard && c.generation == l.generation
	switch {
	case c.in == &l.streams:
		l.remove(c)
		if c.stream != nil {
			c.stream.end(ErrStreamClosed)
		}
	case l.door && sent:
		c.in.remove(c)
		l.cancelled.push(c)
		if l.cancelled.len > cancelledLimit {
			l.fail(l.cancelled.first, context.Canceled)
		}
	default:
		l.fail(c, context.Canceled)
	}
	if sent && !l.door {
		l.recalled = append(l.recalled, n)
	}
	return l.door, false
}

// closeDoor refuses further calls; the peer is still heard.
func (l *ledger) closeDoor() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door = false
	l.reading.Load().reclaim()
	signal(l.room)
}

// seal ends the generation that is heard and divides its calls, oldest first: one that keep wants is kept for
// the replacement, a ping is answered (Q7), any other fails with lost. An initialize is kept in any case (E1),
// and so is the probe, until the one after serves (E3). Streams are kept. Keep is called without the lock.
func (l *ledger) seal(keep func(*jsonrpc.Request) bool, lost error) {
	for _, c := range l.sealed(lost) {
		kept := c.request.Method == methodInitialize || c.request.Method != methodPing && keep(c.request)
		l.divide(c, kept, lost)
	}
}

// sealed seals the generation, and returns the calls that are to be divided. Those that the client has cancelled
// are not among them; they fail.
func (l *ledger) sealed(lost error) (calls []*call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence()
	for c := range l.cancelled.all() {
		l.session.unanswered(c.request)
		l.fail(c, lost)
	}
	for c := range l.streams.all() {
		c.generation, c.moved = -1, true
	}
	for c := range l.flight.all() {
		l.session.unanswered(c.request)
		c.generation, c.moved = -1, true
		calls = append(calls, c)
	}
	return calls
}

// divide keeps a call of a generation that is sealed, or ends it. It may have been cancelled meanwhile.
func (l *ledger) divide(c *call, kept bool, lost error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.in == nil, kept, c == l.probe:
	case c.request.Method == methodPing:
		l.remove(c)
		l.push(emptyResult(c.request.ID))
	default:
		l.fail(c, lost)
	}
}

// emptyResult answers a ping.
func emptyResult(id jsonrpc.ID) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Result: json.RawMessage("{}")}
}

// silence ends what the peer says; l.mu is held. The handlers of its requests are cancelled (E2). Of what was held
// back nothing counts but the end of a stream (R2).
func (l *ledger) silence() {
	l.endStreams(l.inbox.release())
	l.heard, l.door, l.holding = false, false, false
	l.prepared()
	l.reading.Load().reclaim()
	l.recalled = nil
	clear(l.own)
	for _, n := range l.upcalls.abandon() {
		l.push(n)
	}
	signal(l.room)
}

// finish ends the ledger: the generation is sealed, each call is answered with lost and each stream with over,
// oldest first, and Read ends with end after that. The second time it does nothing.
func (l *ledger) finish(lost, over, end error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inbox.ended() {
		return
	}
	l.silence()
	for c := range l.cancelled.all() {
		l.fail(c, lost)
	}
	for c := range l.flight.all() {
		l.fail(c, lost)
	}
	for c := range l.streams.all() {
		l.fail(c, over)
	}
	l.inbox.finish(end)
	l.rouse()
}

// fail answers c with err; l.mu is held.
func (l *ledger) fail(c *call, err error) {
	l.remove(c)
	if c.stream != nil {
		c.stream.end(err)
		return
	}
	l.push(&jsonrpc.Response{ID: c.request.ID, Error: err})
}

// answerPing answers a ping of the client that no peer can answer now (Q7). It reports false where the end has come
// meanwhile.
func (l *ledger) answerPing(id jsonrpc.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.push(emptyResult(id))
	return !l.inbox.ended()
}

// view returns what the client and its servers have agreed on.
func (l *ledger) view() session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// overlapping reports whether a stream is open whose filter has something in common with this one.
func (l *ledger) overlapping(filter *mcp.NotificationSubscriptions) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, topic := range topics(filter) {
		if l.topics[topic] > 0 {
			return true
		}
	}
	return false
}

// counts returns how many calls are in flight, kept ones included, and how many streams are open.
func (l *ledger) counts() (flight, streams int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flight.len, l.streams.len
}
