package supervised

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised/internal/wire"
)

// A Stream is a subscriptions/listen request of the caller's own, beside those of the client. It outlives the
// peers: each replacement gets it under the same id. All methods may be called from any goroutine, also from
// the stream's handler.
type Stream struct {
	t       *Transport
	id      jsonrpc.ID
	handler func(*jsonrpc.Request)
	limit   int // of queue

	mu      sync.Mutex
	queue   []*jsonrpc.Request // deliveries that the handler has not got yet
	running bool               // a goroutine is emptying the queue
	ended   bool
	err     error         // why; nil: gracefully
	settled chan struct{} // closed when Await may return
	filter  *mcp.NotificationSubscriptions
}

// Listen opens a stream: it sends subscriptions/listen with p, and has f called with each notification that the
// server sends for it, one at a time and in order, away from the reading of messages. The notification is f's.
//
// It returns once the request is written; ctx bounds that alone, and the stream has no deadline. The members of
// p's _meta that the protocol wants and p has not are taken from the client's last server/discover and its
// answer.
//
// The error is ErrNotStarted before Connect, ErrReconnecting while a replacement is promised, ErrClosed or the
// *ExhaustedError at the end, and one that says what is missing where p cannot be sent: a filter, a handler, or
// members of _meta. In a session of a protocol before 2026-07-28 there are no streams, and the error says so.
func (t *Transport) Listen(ctx context.Context, p *mcp.SubscriptionsListenParams, f func(*jsonrpc.Request)) (*Stream, error) {
	switch {
	case p == nil || p.Notifications == nil:
		return nil, errors.New("supervised: Listen: params without notifications: nothing to listen to")
	case f == nil:
		return nil, errors.New("supervised: Listen: nil handler")
	}
	if ctx.Err() != nil {
		return nil, bothCauses(ctx)
	}
	l := t.life
	if err := l.board.unavailable(); err != nil {
		return nil, err
	}
	params, err := listenParams(p, l.ledger.view())
	if err != nil {
		return nil, err
	}
	if l.ledger.overlapping(p.Notifications) {
		l.logger.Warn("a stream overlaps an open one; servers may send to one of them only")
	}
	s := &Stream{t: t, id: l.ledger.newID(), handler: f, limit: l.streamBuffer, settled: make(chan struct{})}
	// Some transports read the stream under the context of the Write: that lives as long as the stream, and ends
	// with ctx only until the request is written.
	life := context.WithoutCancel(ctx)
	writing, cancel := context.WithCancelCause(life)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	err = (&connection{t}).call(writing, entry{
		request: &jsonrpc.Request{ID: s.id, Method: methodListen, Params: params},
		ctx:     life,
		end:     func() { cancel(nil) },
		stream:  s,
	})
	late := !stop()
	switch {
	case late && err == nil:
		s.Close()
		return nil, bothCauses(ctx)
	case late:
		return nil, bothCauses(ctx)
	case err != nil:
		cancel(nil)
		return nil, err
	}
	return s, nil
}

// ID returns the id of the stream's request, by which the server tags its notifications. It never changes.
func (s *Stream) ID() jsonrpc.ID { return s.id }

// Await waits for the end of the stream, through all respawns. It returns nil after the server has ended it
// gracefully and the handler has got all deliveries; the server's *jsonrpc.Error where it refused the stream;
// ErrStreamClosed at once after Close, or when the server cancelled it; ErrDeliveryDropped after an overrun; the
// *ExhaustedError or ErrClosed when the transport ended; and the context's error when that ends first. Called in
// the stream's own handler, it does not see a graceful end, which comes after that.
func (s *Stream) Await(ctx context.Context) error {
	select {
	case <-s.settled:
	case <-s.t.life.board.done: // before a handler that holds up a graceful end
	case <-ctx.Done():
	}
	// Which of them it was is a matter of order, not of chance.
	select {
	case <-s.settled:
		return s.err
	default:
	}
	select {
	case <-s.t.life.board.done:
		return s.t.life.board.refusal()
	default:
		return ctx.Err()
	}
}

// Acknowledged returns the filter that the server said last that it honours; nil: it has said none yet. The
// value is the caller's to read, not to change.
func (s *Stream) Acknowledged() *mcp.NotificationSubscriptions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filter
}

// Close ends the stream and tells the server, as the client's cancellation of a request does. No delivery begins
// after it; it waits for no handler, and for the server no longer than tellTimeout. It is idempotent. Its error
// is always nil: what the server is told may be lost with the server.
func (s *Stream) Close() error {
	if !s.end(ErrStreamClosed) {
		return nil
	}
	(&connection{s.t}).tell(cancellation(s.id))
	return nil
}

// offer queues a delivery. It reports false where the stream lags by its limit already.
func (s *Stream) offer(m *jsonrpc.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return true
	}
	if len(s.queue) >= s.limit {
		return false
	}
	s.queue = append(s.queue, m)
	if !s.running {
		s.running = true
		go s.run()
	}
	return true
}

// run hands the deliveries to the handler, until there are none.
func (s *Stream) run() {
	var running bool
	defer func() {
		if running { // the handler ended this goroutine (runtime.Goexit): the deliveries behind it still come
			go s.run()
		}
	}()
	for {
		m := s.next()
		running = m != nil
		if !running {
			return
		}
		if err := protect("stream handler", func() { s.handler(m) }); err != nil {
			s.t.life.hooks.emitReport(err)
		}
	}
}

func (s *Stream) next() *jsonrpc.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.running = false
		if s.ended && s.err == nil {
			close(s.settled)
		}
		return nil
	}
	m := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	return m
}

// end ends the stream with err, the first time that it is called, and reports whether this was it. Deliveries
// that are queued are dropped, except at a graceful end; that settles when the handler has got them, and another
// end until then takes its place.
func (s *Stream) end(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.ended
	if !first && (s.err != nil || !s.running) {
		return false
	}
	s.ended, s.err = true, err
	if err != nil {
		s.queue = nil
	}
	if err != nil || !s.running {
		close(s.settled)
	}
	return first
}

// overrun ends a stream that is too far behind, and tells the server. It waits for nothing.
func (s *Stream) overrun() {
	if s.end(ErrDeliveryDropped) {
		go (&connection{s.t}).tell(cancellation(s.id))
		go s.t.life.logger.WithField("id", s.id.Raw()).Error("a stream lags too far behind and is closed")
	}
}

// acknowledge notes the filter that the server honours.
func (s *Stream) acknowledge(m *jsonrpc.Request) {
	filter := filterOf(m.Params)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter = filter
}

// filterOf is the member notifications of params; nil: there is none that can be read.
func filterOf(params json.RawMessage) *mcp.NotificationSubscriptions {
	raw, ok := wire.Member(params, "notifications")
	if !ok {
		return nil
	}
	filter := new(mcp.NotificationSubscriptions)
	if json.Unmarshal(raw, filter) != nil {
		return nil
	}
	return filter
}

// topics are the things that a filter asks for, each by a name of its own.
func topics(filter *mcp.NotificationSubscriptions) []string {
	if filter == nil {
		return nil
	}
	var names []string
	for name, asked := range map[string]bool{
		"tools":     filter.ToolsListChanged,
		"prompts":   filter.PromptsListChanged,
		"resources": filter.ResourcesListChanged,
	} {
		if asked {
			names = append(names, name)
		}
	}
	for _, uri := range filter.ResourceSubscriptions {
		names = append(names, "resource "+uri)
	}
	return names
}

// listenParams is p with what of _meta it lacks.
func listenParams(p *mcp.SubscriptionsListenParams, s session) (json.RawMessage, error) {
	if v := s.protocol(); s.handshake != nil && v < streamsSince {
		return nil, fmt.Errorf("supervised: Listen: the session speaks protocol %s, streams need %s", v, streamsSince)
	}
	meta := make(map[string]any)
	for k, v := range p.Meta {
		meta[k] = v
	}
	var missing []string
	for _, key := range []string{mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities} {
		if meta[key] != nil {
			continue
		}
		raw, ok := s.meta(key)
		if !ok {
			missing = append(missing, key)
			continue
		}
		meta[key] = raw
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("supervised: Listen: _meta lacks %s, and no server/discover has told", strings.Join(missing, ", "))
	}
	raw, err := json.Marshal(&mcp.SubscriptionsListenParams{Meta: meta, Notifications: p.Notifications})
	if err != nil {
		return nil, fmt.Errorf("supervised: Listen: params: %w", err)
	}
	return raw, nil
}
