package supervised

import "github.com/modelcontextprotocol/go-sdk/jsonrpc"

// An index finds calls by their ids. A jsonrpc.ID is an interface inside, and a map of those hashes and compares
// through its type; ids are numbers or texts, each of which has a way that does without. The zero value is empty.
type index struct {
	numbers ring
	texts   map[string]*call
}

// get returns the call of id; nil: there is none.
func (x *index) get(id jsonrpc.ID) *call {
	switch id := id.Raw().(type) {
	case int64:
		return x.numbers.get(id)
	case string:
		return x.texts[id]
	}
	return nil
}

// put takes in the call of id, which is not in it.
func (x *index) put(id jsonrpc.ID, c *call) {
	switch id := id.Raw().(type) {
	case int64:
		x.numbers.put(id, c)
	case string:
		if x.texts == nil {
			x.texts = make(map[string]*call)
		}
		x.texts[id] = c
	}
}

func (x *index) remove(id jsonrpc.ID) {
	switch id := id.Raw().(type) {
	case int64:
		x.numbers.remove(id)
	case string:
		delete(x.texts, id)
	}
}

// A ring finds calls by numbers. Clients count their requests, so that those in flight are mostly neighbours: each has
// the place that the last bits of its number name, next to the one before it, and whoever writes and whoever reads want
// few of each other's cache lines. A number whose place is taken is in a map. The zero value is empty.
type ring struct {
	places []place // a power of two of them, or none yet
	taken  int     // of the places
	others map[int64]*call
}

type place struct {
	number int64
	call   *call // nil: the place is free
}

// How many places a ring has.
const (
	ringMin = 8
	ringMax = 1024
)

func (r *ring) at(number int64) *place { return &r.places[number&int64(len(r.places)-1)] }

// find returns the place that number has; nil: it has none.
func (r *ring) find(number int64) *place {
	if len(r.places) > 0 {
		if p := r.at(number); p.number == number && p.call != nil {
			return p
		}
	}
	return nil
}

func (r *ring) get(number int64) *call {
	if p := r.find(number); p != nil {
		return p.call
	}
	return r.others[number]
}

// put takes in the call of number, which is not in the ring.
func (r *ring) put(number int64, c *call) {
	if r.places == nil || r.at(number).call != nil && r.taken >= len(r.places)/2 && len(r.places) < ringMax {
		r.grow()
	}
	if p := r.at(number); p.call == nil {
		*p = place{number, c}
		r.taken++
		return
	}
	if r.others == nil {
		r.others = make(map[int64]*call)
	}
	r.others[number] = c
}

// grow doubles the places. Those that have one want different ones again; those in the map stay there.
func (r *ring) grow() {
	old := r.places
	r.places = make([]place, max(ringMin, 2*len(old)))
	for _, p := range old {
		if p.call != nil {
			*r.at(p.number) = p
		}
	}
}

func (r *ring) remove(number int64) {
	if p := r.find(number); p != nil {
		*p = place{}
		r.taken--
		return
	}
	delete(r.others, number)
}
