package supervised

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised/internal/wire"
)

// The methods that mean more here than any other request.
const (
	methodDiscover    = "server/discover"
	methodInitialize  = "initialize"
	methodListen      = "subscriptions/listen"
	methodPing        = "ping"
	methodSetLevel    = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"

	notificationAcknowledged = "notifications/subscriptions/acknowledged"
	notificationCancelled    = "notifications/cancelled"
	notificationInitialized  = "notifications/initialized"
	notificationProgress     = "notifications/progress"
)

// streamsSince is the first protocol version that has subscriptions/listen, and that has no handshake.
const streamsSince = "2026-07-28"

// A session is what the client and its servers have agreed on, which a fresh process cannot know: the handshake
// of a protocol before 2026-07-28 with what was set after it (E1), or the last discovery. It is its ledger's.
type session struct {
	handshake     *agreement        // by initialize; nil: there was none
	discovery     *agreement        // by server/discover; nil: there was none
	initialized   *jsonrpc.Request  // the client's notifications/initialized; nil: none yet
	logLevel      json.RawMessage   // params of the logging/setLevel that was accepted last
	subscriptions []json.RawMessage // params of the resources/subscribe that are open, in order
	changed       bool              // the server of now has other capabilities or another name than the first
}

// An agreement is a request and its result.
type agreement struct{ params, result json.RawMessage }

// answered learns from the answer to a request of the client.
func (s *session) answered(r *jsonrpc.Request, a *jsonrpc.Response) {
	if a.Error != nil {
		return
	}
	switch r.Method {
	case methodInitialize:
		s.handshake = &agreement{r.Params, a.Result}
	case methodDiscover:
		s.discovery = &agreement{r.Params, a.Result}
	case methodSetLevel:
		s.logLevel = r.Params
	case methodSubscribe:
		s.unsubscribe(r.Params)
		s.subscriptions = append(s.subscriptions, r.Params)
	case methodUnsubscribe:
		s.unsubscribe(r.Params)
	}
}

// unanswered learns from a request that was in flight at a death: the client wanted a subscription to end, and a
// fresh server has none.
func (s *session) unanswered(r *jsonrpc.Request) {
	if r.Method == methodUnsubscribe {
		s.unsubscribe(r.Params)
	}
}

// unsubscribe forgets the subscription to the resource of params.
func (s *session) unsubscribe(params json.RawMessage) {
	uri := text(params, "uri")
	s.subscriptions = slices.DeleteFunc(slices.Clone(s.subscriptions), func(p json.RawMessage) bool { return text(p, "uri") == uri })
}

// capability reports whether the server has one, as far as it has told.
func (s *session) capability(name string) bool {
	for _, a := range []*agreement{s.handshake, s.discovery} {
		if a != nil {
			_, ok := wire.Path(a.result, "capabilities", name)
			return ok
		}
	}
	return false
}

// protocol is the version that the session speaks, "" where none was agreed on.
func (s *session) protocol() string {
	if s.handshake != nil {
		return text(s.handshake.result, "protocolVersion")
	}
	if s.discovery == nil {
		return ""
	}
	// The client asked in one version; the server tells which it supports. The SDK goes on in its own if that
	// is among them, else in the newest that both know.
	raw, _ := wire.Path(s.discovery.params, "_meta", mcp.MetaKeyProtocolVersion)
	asked, _ := wire.Text(raw)
	var supported []string
	if raw, ok := wire.Member(s.discovery.result, "supportedVersions"); !ok || json.Unmarshal(raw, &supported) != nil || slices.Contains(supported, asked) {
		return asked
	}
	newest := ""
	for _, v := range supported {
		if v >= streamsSince && v <= asked {
			newest = max(newest, v)
		}
	}
	return newest
}

// meta is the member of _meta that the client gave in its last discovery.
func (s *session) meta(key string) (json.RawMessage, bool) {
	if s.discovery == nil {
		return nil, false
	}
	if key == mcp.MetaKeyProtocolVersion {
		v := s.protocol()
		return append(append([]byte{'"'}, v...), '"'), v != ""
	}
	return wire.Path(s.discovery.params, "_meta", key)
}

// differs reports whether two servers that answered initialize are not the same for a client: in their
// capabilities, their name or their version (X1).
func differs(a, b json.RawMessage) bool {
	for _, path := range [][]string{{"capabilities"}, {"serverInfo", "name"}, {"serverInfo", "version"}} {
		if !reflect.DeepEqual(decoded(a, path), decoded(b, path)) {
			return true
		}
	}
	return false
}

func decoded(raw json.RawMessage, path []string) (v any) {
	raw, _ = wire.Path(raw, path...)
	_ = json.Unmarshal(raw, &v) // what cannot be read is nil on both sides
	return v
}

// text is the string member of an object, "" where it has none.
func text(object json.RawMessage, key string) string {
	raw, _ := wire.Member(object, key)
	s, _ := wire.Text(raw)
	return s
}

// cancelledID is the id of the request that a notifications/cancelled is about.
func cancelledID(r *jsonrpc.Request) (jsonrpc.ID, bool) {
	raw, ok := wire.Member(r.Params, "requestId")
	if !ok {
		return jsonrpc.ID{}, false
	}
	return wire.ID(raw)
}

// refreshed are the notifications that have the client drop what it has cached of the lists that the server has
// (X2).
func (s *session) refreshed() []*jsonrpc.Request {
	var notices []*jsonrpc.Request
	for _, list := range []string{"tools", "prompts", "resources"} {
		if s.capability(list) {
			notices = append(notices, &jsonrpc.Request{Method: "notifications/" + list + "/list_changed"})
		}
	}
	return notices
}
