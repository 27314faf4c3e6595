package supervised

import (
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/internal/wire"
)

// upcalls are the requests of a server that the client has not answered. Servers begin to count anew with each
// life, and the SDK never answers a request whose id is one that it is still handling: so each gets an id on
// its way up that is unique over all generations, and its own again on the way down (E2). It has no lock: it is
// its ledger's.
type upcalls struct {
	prefix string // of all ids that were given out, and of no others
	count  uint64
	open   map[jsonrpc.ID]jsonrpc.ID // from the id given out to the server's, of the generation that is heard
	ids    map[jsonrpc.ID]jsonrpc.ID // and back
	load   int64                     // the weight of the server's ids in open, which counts against the inbox's limit
}

func newUpcalls() upcalls {
	return upcalls{prefix: "supervised-up-" + rand.Text() + "-"}
}

// up is the request as the client gets it.
func (u *upcalls) up(r *jsonrpc.Request) *jsonrpc.Request {
	if u.open == nil {
		u.open, u.ids = make(map[jsonrpc.ID]jsonrpc.ID), make(map[jsonrpc.ID]jsonrpc.ID)
	}
	u.count++
	id, _ := jsonrpc.MakeID(u.prefix + strconv.FormatUint(u.count, 10)) // a string is always one
	u.open[id], u.ids[r.ID] = r.ID, id
	u.load += idWeight(r.ID)
	up := *r
	up.ID = id
	return &up
}

// given reports whether id is one that was given out.
func (u *upcalls) given(id jsonrpc.ID) bool {
	text, ok := id.Raw().(string)
	return ok && strings.HasPrefix(text, u.prefix)
}

// down is the client's answer as the server gets it; nil: it answers a server that is gone. An answer to
// something that was never asked goes down as it is.
func (u *upcalls) down(r *jsonrpc.Response) *jsonrpc.Response {
	if !u.given(r.ID) {
		return r
	}
	id, ok := u.open[r.ID]
	if !ok {
		return nil
	}
	delete(u.open, r.ID)
	u.load -= idWeight(id)
	if u.ids[id] == r.ID { // the server may have used it for another since
		delete(u.ids, id)
	}
	down := *r
	down.ID = id
	return &down
}

// cancelled is the server's notifications/cancelled of its request id, as the client gets it; nil: the client
// has no such request.
func (u *upcalls) cancelled(r *jsonrpc.Request, id jsonrpc.ID) *jsonrpc.Request {
	up, ok := u.ids[id]
	if !ok {
		return nil
	}
	delete(u.ids, id) // a second one is about something else; an answer still finds its way by open
	params := make(map[string]json.RawMessage)
	if json.Unmarshal(r.Params, &params) != nil {
		return nil
	}
	params["requestId"] = wire.AppendID(nil, up)
	raw, err := json.Marshal(params)
	if err != nil {
		return nil
	}
	n := *r
	n.Params = raw
	return &n
}

// abandon forgets the requests of a server that is gone. The notifications that it returns cancel the client's
// handlers.
func (u *upcalls) abandon() []*jsonrpc.Request {
	var cancelled []*jsonrpc.Request
	for id := range u.open {
		params := append([]byte(`{"requestId":`), wire.AppendID(nil, id)...)
		params = append(params, `,"reason":"the server is gone"}`...)
		cancelled = append(cancelled, &jsonrpc.Request{Method: notificationCancelled, Params: params})
	}
	clear(u.open)
	clear(u.ids)
	u.load = 0
	return cancelled
}
