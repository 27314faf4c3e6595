package supervised

import "github.com/modelcontextprotocol/go-sdk/jsonrpc"

// An index finds calls by their ids. A jsonrpc.ID is an interface inside, and a map of those hashes and compares
// through its type; ids are numbers or texts, each of which has a map that does without. The zero value is empty.
type index struct {
	numbers map[int64]*call
	texts   map[string]*call
}

// get returns the call of id; nil: there is none.
func (x *index) get(id jsonrpc.ID) *call {
	switch id := id.Raw().(type) {
	case int64:
		return x.numbers[id]
	case string:
		return x.texts[id]
	}
	return nil
}

// put takes in the call of id, in place of any other.
func (x *index) put(id jsonrpc.ID, c *call) {
	switch id := id.Raw().(type) {
	case int64:
		if x.numbers == nil {
			x.numbers = make(map[int64]*call)
		}
		x.numbers[id] = c
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
		delete(x.numbers, id)
	case string:
		delete(x.texts, id)
	}
}
