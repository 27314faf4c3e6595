package supervised

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// readGrace is for how long nobody reads a peer before its pump does: as long as a client takes that comes back for
// the next message.
const readGrace = 5 * time.Millisecond

// A reading says whose turn it is to read a peer. That is its pump, a goroutine of its own, so that what the peer says
// is heard whether or not anybody is in Read: its end, answers to what is replayed, what is for a Stream.
//
// But to pass each message from one goroutine to another costs more than to read it. So while the peer serves, and
// where a read of it can be called off (Resumer), whoever is in Read takes the turn and reads for himself. When he
// has left, the turn is free until he is back, or until readGrace is over and the pump takes it again.
//
// All of it is its ledger's, under that lock, except where noted. The timer is the clock's only where that is the
// system's: on a clock that stands still nothing would be heard, so there the turn is the pump's for good.
type reading struct {
	peer   *peer
	ledger *ledger
	conn   Resumer // nil: a read cannot be called off
	shared bool    // the turn may be taken from the pump

	owner  atomic.Int32 // who has the turn; a caller takes it without the lock
	used   atomic.Bool  // it was taken since the timer was set
	wanted bool         // a caller was waiting when the last message came
	armed  bool         // the timer runs
	timer  *clock.Timer // nil: it never ran

	// What a caller reads under: it ends with the peer's context, with that of the caller, and when there is
	// something for him that is not the peer's. Only who has the turn changes it, and only under the lock.
	ctx    context.Context // nil: there is none now
	cancel context.CancelFunc
	stop   func() bool     // nil: the caller's context has no end
	done   <-chan struct{} // of the caller's context

	batch []jsonrpc.Message // what a caller has read and is about to pass on; who has the turn has it
}

// batchMax is how many messages a caller passes on at once: as few turns of the ledger's lock as that, while others
// write.
const batchMax = 32

// Who has the turn.
const (
	ownerPump int32 = iota
	ownerNobody
	ownerCaller  // and reads
	ownerPassing // a caller, who passes on what was read
	ownerOver    // reading has ended
)

var systemClock = reflect.TypeOf(clock.New())

func newReading(p *peer, l *ledger) *reading {
	conn, ok := p.conn.(Resumer)
	return &reading{peer: p, ledger: l, conn: conn, shared: ok && reflect.TypeOf(p.clock) == systemClock}
}

// open reports whether a caller may have the turn; the ledger's lock is held.
func (r *reading) open() bool {
	l := r.ledger
	return r.shared && l.door && !l.holding && l.generation == r.peer.generation
}

// yield leaves the turn to a caller, if one was waiting when the pump's last message came.
func (r *reading) yield() bool {
	l := r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if !r.wanted || !r.open() {
		return false
	}
	r.leave()
	return true
}

// takeAgain gives the turn to a caller who comes back for the next message, without the lock. It reports false where
// there is more to it than that.
func (r *reading) takeAgain(ctx context.Context) bool {
	if r == nil || !r.owner.CompareAndSwap(ownerNobody, ownerCaller) {
		return false
	}
	// Rouse looks for a caller after it has noted that there is something for one, so one of the two sees the other.
	if r.ctx != nil && r.done == ctx.Done() && r.ctx.Err() == nil && !r.ledger.inbox.pending.Load() {
		if !r.used.Load() {
			r.used.Store(true)
		}
		return true
	}
	r.ledger.mu.Lock()
	r.leave()
	r.ledger.mu.Unlock()
	return false
}

// take gives the turn to a caller whose context is ctx, or reports false.
func (r *reading) take(ctx context.Context) bool {
	if r == nil {
		return false
	}
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	if !r.open() || r.ledger.inbox.pending.Load() || !r.owner.CompareAndSwap(ownerNobody, ownerCaller) {
		return false
	}
	if r.ctx != nil && (r.done != ctx.Done() || r.ctx.Err() != nil) {
		r.drop()
	}
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancel(r.peer.ctx)
		r.done = ctx.Done()
		if r.done != nil {
			r.stop = context.AfterFunc(ctx, r.cancel)
		}
	}
	r.used.Store(true)
	return true
}

// drop lets go of what callers have read under; the ledger's lock is held.
func (r *reading) drop() {
	if r.ctx == nil {
		return
	}
	if r.stop != nil {
		r.stop()
	}
	r.cancel()
	r.ctx, r.cancel, r.stop, r.done = nil, nil, nil, nil
}

// leave frees the turn, until the next caller or readGrace; the ledger's lock is held.
func (r *reading) leave() {
	r.owner.Store(ownerNobody)
	if !r.open() {
		r.reclaim()
		return
	}
	if r.ledger.waiting > 0 {
		signal(r.ledger.wake)
	}
	if !r.armed {
		r.arm()
	}
}

func (r *reading) arm() {
	r.armed = true
	r.used.Store(false)
	if r.timer == nil {
		r.timer = r.peer.clock.AfterFunc(readGrace, r.expire)
		return
	}
	r.timer.Reset(readGrace)
}

// expire gives the turn to the pump if nobody has come for it.
func (r *reading) expire() {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	r.armed = false
	switch {
	case r.owner.Load() != ownerNobody:
	case r.used.Load():
		r.arm()
	default:
		r.reclaim()
	}
}

// reclaim gives the turn to the pump, if it is free; the ledger's lock is held.
func (r *reading) reclaim() {
	if r != nil && r.owner.CompareAndSwap(ownerNobody, ownerPump) {
		go r.peer.pump()
	}
}

// hurry has the pump read what a peer that has shown a sign of its end had written, if nobody else does.
func (r *reading) hurry() {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	r.shared = false
	r.reclaim()
}

// end is that there is nothing more to read.
func (r *reading) end() {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	r.owner.Store(ownerOver)
	r.drop()
	if r.timer != nil {
		r.timer.Stop()
	}
}

// read has the caller, who has the turn and no lock, read what is there, wait for it where that is nothing, and pass it
// to the ledger.
func (r *reading) read() {
	p, l, ctx := r.peer, r.ledger, r.ctx
	m, err := p.next(ctx)
	if err != nil && (ctx.Err() == nil || p.ctx.Err() != nil) {
		p.readOver(err)
		return
	}
	batch := r.batch[:0]
	for err == nil && !nothing(m) {
		batch = append(batch, m)
		if len(batch) == batchMax {
			break
		}
		m = r.conn.ReadReady()
	}
	l.mu.Lock()
	r.owner.Store(ownerPassing) // who is not to be called off for what he passes on
	heard, taken := true, true
	var rest []jsonrpc.Message
	for i, m := range batch {
		if heard, taken = l.take(p.generation, m); !heard || !taken {
			rest = slices.Clone(batch[i:])
			break
		}
	}
	clear(batch)
	r.batch = batch
	switch {
	case !heard:
	case !taken:
		r.owner.Store(ownerPump)
		go p.pump(rest...)
	default:
		r.leave()
	}
	l.mu.Unlock()
	if !heard {
		p.readOver(nil)
	}
}

// next is the peer's next message, or what ended its Read.
func (p *peer) next(ctx context.Context) (jsonrpc.Message, error) {
	m, err := p.conn.Read(ctx)
	if err == nil && nothing(m) {
		err = fmt.Errorf("supervised: Read of %T returned nothing", p.conn)
	}
	return m, err
}

// pump passes what the peer says to the ledger, until one of them ends or a caller takes the turn; what was read
// before comes first.
func (p *peer) pump(before ...jsonrpc.Message) {
	for {
		var m jsonrpc.Message
		if len(before) > 0 {
			m, before = before[0], before[1:]
		} else {
			var err error
			if m, err = p.next(p.ctx); err != nil {
				p.readOver(err)
				return
			}
		}
		if !p.reading.ledger.deliver(p.ctx, p.generation, m) {
			p.readOver(nil)
			return
		}
		if len(before) == 0 && p.reading.yield() {
			return
		}
	}
}

// readOver is that Read has ended with err; nil: what it returns counts no more.
func (p *peer) readOver(err error) {
	p.reading.end()
	if err != nil {
		p.sign(func() { p.readErr = err })
	}
	close(p.drained)
}

// read returns the next message, waiting for it, or what ended the connection.
func (l *ledger) read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := l.inbox.pop()
		switch {
		case m != nil:
			if _, ok := m.(*jsonrpc.Request); ok {
				signal(l.room)
			}
			return m, nil
		case err != nil:
			signal(l.wake) // whoever else reads learns it too
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		switch r := l.reading.Load(); {
		case r.takeAgain(ctx), r.take(ctx):
			r.read()
		default:
			l.await(ctx)
		}
	}
}

// await waits until there may be something for Read.
func (l *ledger) await(ctx context.Context) {
	l.mu.Lock()
	if l.inbox.pending.Load() {
		l.mu.Unlock()
		return
	}
	l.waiting++
	l.mu.Unlock()
	select {
	case <-l.wake:
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.waiting--
	l.mu.Unlock()
}

// rouse has whoever is in Read look for what is there for him; l.mu is held.
func (l *ledger) rouse() {
	signal(l.wake)
	if r := l.reading.Load(); r != nil && r.owner.Load() == ownerCaller && r.cancel != nil { // nil: takeAgain gives it back
		r.cancel()
	}
}
