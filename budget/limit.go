package budget

import (
	"sync"
	"sync/atomic"
)

// A limit is a budget that can say what it would answer before it spends, which
// is what an [All] needs of its members. Every budget of this package is one.
//
// A refusal changes nothing in any of them. So what a limit answers follows from
// the deaths that it has granted, and look may be asked any number of times.
type limit interface {
	Budget
	// guard returns the lock that look and take are called under, and nothing
	// else is done under it.
	guard() *guard
	// look returns what Spend would answer, but for what is left to chance.
	look(Death) (Grant, bool)
	// take spends what look has just granted, and returns the grant.
	take(Death) Grant
}

// spend is Spend of one limit by itself.
func spend(l limit, d Death) (Grant, bool) {
	g := l.guard()
	g.Lock()
	defer g.Unlock()

	if refusal, granted := l.look(d); !granted {
		return refusal, false
	}
	return l.take(d), true
}

// A guard is the lock of one limit, with a place in the order in which the locks
// of several are taken. The zero value is unlocked.
type guard struct {
	sync.Mutex
	ticket atomic.Uint64 // 0: none was drawn yet
}

// tickets is the last one that was drawn.
var tickets atomic.Uint64

// place returns the guard's place in the order: the same for ever, and no other
// guard's.
func (g *guard) place() uint64 {
	if place := g.ticket.Load(); place != 0 {
		return place
	}
	g.ticket.CompareAndSwap(0, tickets.Add(1))
	return g.ticket.Load()
}
