package supervised_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

// A world takes a walk: it does to a transport and its peers what the walk says, tells the model, and compares
// what both have to show for it.
type world struct {
	cfg   *config
	m     *model
	fleet peertest.Fleet
	tr    *supervised.Transport
	conn  mcp.Connection

	story  []string
	faults []string

	writes   int // of the client
	returned int // of those
	requests []*walked
	lives    map[*life]func(error)
	upcalls  map[string]jsonrpc.ID // by token, as the client got them
	closers  int
	tokens   int
	shown    map[int]int // how much of what a mint got was compared
	bytes    map[string]string
	streams  map[string]string // names of Streams by id
	ids      map[string]bool   // of all requests from peers

	mu       sync.Mutex
	journal  []string
	results  []string
	reads    []jsonrpc.Message
	readEnd  string
	closed   int
	oddities []string // what is wrong whatever the model says
	byMint   map[int]*hands
}

// walked is a request of the client: what the model has of it, and what the test has.
type walked struct {
	*request
	stream  *supervised.Stream
	handled []string
}

// hands hold what a peer is held up by.
type hands struct{ mint, start, write chan struct{} }

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *world) odd(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oddities = append(w.oddities, fmt.Sprintf(format, args...))
}

// tell is the walk as a story, up to where it went wrong.
func (w *world) tell() string {
	var b strings.Builder
	c := w.cfg
	fmt.Fprintf(&b, "A session of the %s era", map[bool]string{true: "older", false: "newer"}[c.old])
	fmt.Fprintf(&b, "; kept calls: %v; %d restarts in %v, delay %v; OnClose takes %v, OnDrain %v\n", c.keeps, c.max, c.window, c.delay, c.onClose, c.onDrain)
	for i := range w.m.peers {
		fmt.Fprintf(&b, "peer %d: %+v\n", i, *c.script(i))
	}
	for _, line := range w.story {
		b.WriteString(line + "\n")
	}
	for _, line := range w.faults {
		b.WriteString("WRONG: " + line + "\n")
	}
	return b.String()
}

type valueKey struct{}

// run takes the walk, inside a bubble.
func (w *world) run(walk []stimulus) {
	w.lives, w.upcalls = map[*life]func(error){}, map[string]jsonrpc.ID{}
	w.shown, w.bytes, w.streams, w.ids, w.byMint = map[int]int{}, map[string]string{}, map[string]string{}, map[string]bool{}, map[int]*hands{}
	w.begin()
	for _, s := range walk {
		if len(w.faults) > 0 {
			break
		}
		line := chances[s.does].act(w, s)
		if line == "" && s.does > 0 && w.m.state == supervised.StateRespawnPending {
			line = w.passes(s.b) // there is little else to do
		}
		if line != "" {
			w.after(line)
		}
	}
	w.end()
}

// begin connects, and has the session of the older era say hello.
func (w *world) begin() {
	opts := []supervised.Option{
		supervised.WithMaxRestarts(w.cfg.max), supervised.WithRestartWindow(w.cfg.window),
		supervised.WithRestartDelay(w.cfg.delay), supervised.WithConnectTimeout(connectTimeout),
	}
	if w.cfg.keeps {
		opts = append(opts, supervised.WithRetryLostRequests())
	}
	w.fleet.OnMint, w.fleet.OnStart = w.mint, w.start
	tr, err := supervised.New(w.fleet.Mint, opts...)
	if err != nil {
		w.fault("New: %v", err)
		return
	}
	w.tr = tr
	tr.OnClose(func(cause error) { w.note("close", cause); time.Sleep(w.cfg.onClose) })
	if w.cfg.onDrain >= 0 {
		tr.OnDrain(func(ctx context.Context) {
			w.note("drain", nil)
			select {
			case <-ctx.Done():
			case <-time.After(w.cfg.onDrain):
			}
		})
	}
	tr.OnReconnect(func(context.Context) error { w.note("reconnect", nil); return nil })
	tr.OnError(func(err error) {
		if errors.As(err, new(*supervised.ExhaustedError)) {
			w.note("error: exhausted", nil)
		} else {
			w.note("error", nil)
		}
	})
	w.m.connect()
	if w.conn, err = tr.Connect(context.Background()); err != nil {
		w.fault("Connect: %v", err)
		return
	}
	go w.read()
	w.after("Connect")
	if w.cfg.old {
		w.after(w.request(&request{method: "initialize", keep: true}, 15))
		if !w.cfg.silent {
			w.after(w.answer(0, 1))
			w.after(w.sayInitialized())
		}
	}
}

// end lets all go that is held, closes, and sees that nothing is owed any more.
func (w *world) end() {
	if w.tr == nil {
		return
	}
	good := len(w.faults) == 0
	for w.release() != "" {
		if good {
			w.after("at the end, let go")
		}
	}
	if w.m.state != supervised.StateClosed {
		w.close(0)
	}
	if good {
		w.after("at the end, Close")
	}
	for good && w.release() != "" {
		w.after("at the end, let go")
	}
	w.pass(time.Hour)
	if good {
		w.after("an hour passes")
	}
	for _, h := range w.byMint {
		for _, c := range []chan struct{}{h.mint, h.start, h.write} {
			select {
			case <-c:
			default:
				close(c)
			}
		}
	}
	for _, cancel := range w.lives {
		cancel(context.Canceled)
	}
	synctest.Wait()
	if !good || len(w.faults) > 0 {
		return
	}
	for _, r := range w.requests {
		if r.state == "open" || r.state == "cancelled" {
			w.fault("W7: %s %s was never answered", r.name(), r.method)
		}
	}
	if w.readEnd != w.m.readEnd {
		w.fault("Read ended with %q, want %q", w.readEnd, w.m.readEnd)
	}
	if w.returned != w.writes {
		w.fault("W: %d of %d writes have returned", w.returned, w.writes)
	}
	if w.closed != w.closers {
		w.fault("C5: %d calls of Close, %d have returned", w.closers, w.closed)
	}
}

// after ends a step: nothing moves any more, and what is to be seen is compared.
func (w *world) after(line string) {
	synctest.Wait()
	w.story = append(w.story, fmt.Sprintf("%12v %-15v %s", w.m.now, w.m.state, line))
	w.compare()
	w.m.clear()
}

// What the peers do.

func (w *world) hand(mint int) *hands {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.byMint[mint]
	if h == nil {
		h = &hands{make(chan struct{}), make(chan struct{}), make(chan struct{})}
		w.byMint[mint] = h
	}
	return h
}

var (
	errScripted = errors.New("scripted")
	errPipe     = errors.New("broken pipe")
)

func (w *world) mint(ctx context.Context, p *peertest.Peer) error {
	s, h := w.cfg.script(p.Number), w.hand(p.Number)
	p.Process = s.process
	writes := 0
	var mu sync.Mutex
	p.OnWrite = func(ctx context.Context, m jsonrpc.Message) error {
		mu.Lock()
		writes++
		n := writes
		mu.Unlock()
		w.check(ctx, m)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.breakAt > 0 && n >= s.breakAt:
			return errPipe
		case n == s.rejectAt:
			return &jsonrpc.Error{Code: -32005, Message: "rejected"}
		case n == s.pauseAt:
			select {
			case <-h.write:
			case <-ctx.Done():
				return ctx.Err()
			case <-p.Closed():
				return errPipe
			}
		}
		return nil
	}
	ends := func() error {
		select {
		case <-p.Closed():
		default:
			time.Sleep(s.end)
		}
		return nil
	}
	p.OnKill, p.OnClose = ends, ends
	p.Answer = func(r *jsonrpc.Request) *jsonrpc.Response {
		name, own := w.nameOf(r)
		if !s.answers && !(own == "initialize" && s.shakes) {
			return nil
		}
		if own != "" {
			return ownAnswer(r, own, s.shake)
		}
		return answered(r.ID, r.Method, answerToken(p.Number, name), "result")
	}
	return obey(ctx, s.mint, h.mint)
}

func (w *world) start(ctx context.Context, p *peertest.Peer) error {
	return obey(ctx, w.cfg.script(p.Number).start, w.hand(p.Number).start)
}

// obey does what a script says.
func obey(ctx context.Context, what int, let <-chan struct{}) error {
	switch what {
	case fails:
		return errScripted
	case held:
		select {
		case <-let:
		case <-ctx.Done():
			return ctx.Err()
		}
	case ignores:
		<-let
	}
	return nil
}

const handshakeResult = `{"protocolVersion":%q,"capabilities":{},"serverInfo":{"name":"server","version":"1"},"token":%q}`

func answered(id jsonrpc.ID, method, token, result string) *jsonrpc.Response {
	a := &jsonrpc.Response{ID: id}
	switch {
	case result == "error":
		a.Error = &jsonrpc.Error{Code: 1, Message: token}
	case method == "initialize":
		a.Result = fmt.Appendf(nil, handshakeResult, "2025-11-25", token)
	default:
		a.Result = fmt.Appendf(nil, `{"token":%q}`, token)
	}
	return a
}

func ownAnswer(r *jsonrpc.Request, own, how string) *jsonrpc.Response {
	a := &jsonrpc.Response{ID: r.ID}
	switch {
	case own == "initialize" && how == "refused":
		a.Error = &jsonrpc.Error{Code: 2, Message: how}
	case own == "initialize" && how == "other version":
		a.Result = fmt.Appendf(nil, handshakeResult, "2024-11-05", "")
	case own == "initialize":
		a.Result = fmt.Appendf(nil, handshakeResult, "2025-11-25", "")
	default:
		a.Result = json.RawMessage(`{}`)
	}
	return a
}

// nameOf is the name of a request as a peer gets it: that of one of the client's, or the method of one of the
// supervisor's own.
func (w *world) nameOf(r *jsonrpc.Request) (name, own string) {
	if n, ok := r.ID.Raw().(int64); ok {
		return fmt.Sprintf("#%d", n), ""
	}
	if r.Method != "subscriptions/listen" {
		return "", r.Method
	}
	var p struct {
		Notifications mcp.NotificationSubscriptions `json:"notifications"`
	}
	_ = json.Unmarshal(r.Params, &p)
	if len(p.Notifications.ResourceSubscriptions) != 1 {
		return "?", ""
	}
	name = "stream-" + strings.TrimPrefix(p.Notifications.ResourceSubscriptions[0], "walk://")
	id := fmt.Sprint(r.ID.Raw())
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.streams[id]; known != "" && known != name {
		w.oddities = append(w.oddities, fmt.Sprintf("S1: id %s is that of %s and of %s", id, known, name))
	}
	w.streams[id] = name
	return name, ""
}

// check holds a message that a peer is to get to what must be the same each time that it is sent (Q2, R1).
func (w *world) check(ctx context.Context, m jsonrpc.Message) {
	r, ok := m.(*jsonrpc.Request)
	if !ok || !r.IsCall() {
		return
	}
	name, own := w.nameOf(r)
	if own != "" {
		return
	}
	now := fmt.Sprintf("id %v, method %s, params %s, extra %v", r.ID.Raw(), r.Method, r.Params, r.Extra)
	if !strings.HasPrefix(name, "stream-") && fmt.Sprintf("#%v", ctx.Value(valueKey{})) != name {
		w.odd("Q2: the context of %s has the value %v", name, ctx.Value(valueKey{}))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if before, ok := w.bytes[name]; ok && before != now {
		w.oddities = append(w.oddities, fmt.Sprintf("Q2: %s was sent as %s, then as %s", name, before, now))
	}
	w.bytes[name] = now
}

// What the client sees.

func (w *world) note(what string, err error) {
	if err != nil {
		what += ": error"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.journal = append(w.journal, what)
}

func (w *world) read() {
	for {
		m, err := w.conn.Read(context.Background())
		w.mu.Lock()
		if err != nil {
			w.readEnd = kind(err)
			if err.Error() == "EOF" {
				w.readEnd = "closed"
			}
			w.mu.Unlock()
			return
		}
		w.reads = append(w.reads, m)
		w.mu.Unlock()
	}
}

// seen is a message as the model has it, and who it is of: "peer 3", or "" for the supervisor. Loose is a message
// whose place among others says nothing.
func (w *world) seen(m jsonrpc.Message) (line, from string, loose bool) {
	switch m := m.(type) {
	case *jsonrpc.Response:
		name := fmt.Sprintf("#%v", m.ID.Raw())
		if m.Error != nil {
			if e, ok := m.Error.(*jsonrpc.Error); ok {
				if e.Code == -32005 {
					return name + " rejected", "", false
				}
				return name + " error " + e.Message, "peer " + e.Message[:strings.IndexByte(e.Message, '/')], false
			}
			return name + " " + kind(m.Error), "", false
		}
		token := tokenIn(m.Result)
		if token == "" {
			return name + " empty", "", true
		}
		return name + " result " + token, "peer " + token[:strings.IndexByte(token, '/')], false
	case *jsonrpc.Request:
		if m.Method == "notifications/cancelled" {
			return w.seenCancelled(m), "", true
		}
		token := tokenIn(m.Params)
		from = "peer " + token[:max(0, strings.IndexByte(token, '/'))]
		if !m.IsCall() {
			return "notice " + token, from, false
		}
		id := fmt.Sprint(m.ID.Raw())
		if w.ids[id] {
			w.fault("E2: the id %s was given to two requests", id)
		}
		w.ids[id] = true
		w.upcalls[token] = m.ID
		return "request " + token, from, false
	}
	return fmt.Sprintf("%T", m), "", false
}

func (w *world) seenCancelled(m *jsonrpc.Request) string {
	var p struct {
		RequestID any `json:"requestId"`
	}
	_ = json.Unmarshal(m.Params, &p)
	switch id := p.RequestID.(type) {
	case float64:
		if id >= firstID {
			return fmt.Sprintf("cancelled #%d", int(id))
		}
		return fmt.Sprintf("cancelled %d", int(id))
	case string:
		for token, up := range w.upcalls {
			if up.Raw() == id {
				return "cancelled request " + token
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return "cancelled " + w.streams[id]
	}
	return "cancelled ?"
}

func tokenIn(raw json.RawMessage) string {
	var v struct {
		Token string `json:"token"`
	}
	_ = json.Unmarshal(raw, &v)
	return v.Token
}

// got is what a peer took, as the model has it.
func (w *world) got(m jsonrpc.Message) string {
	switch m := m.(type) {
	case *jsonrpc.Response:
		token := tokenIn(m.Result)
		if token == "" {
			token = "empty"
		}
		return fmt.Sprintf("answer %v %s", m.ID.Raw(), token)
	case *jsonrpc.Request:
		switch {
		case m.IsCall():
			name, own := w.nameOf(m)
			if own != "" {
				return fmt.Sprintf("own %s %s", own, m.Params)
			}
			return name + " " + m.Method
		case m.Method == "notifications/cancelled":
			return w.seenCancelled(m)
		case m.Method == "notifications/client":
			return "notice " + tokenIn(m.Params)
		}
		return m.Method
	}
	return "?"
}

// compare holds what has happened to what the model says must have.
func (w *world) compare() {
	m := w.m
	w.mu.Lock()
	reads, journal, results := w.reads, w.journal, w.results
	w.reads, w.journal, w.results = nil, nil, nil
	for _, odd := range w.oddities {
		w.fault("%s", odd)
	}
	w.oddities = nil
	closed := w.closed
	w.mu.Unlock()
	w.returned += len(results)

	w.compareReads(reads)
	w.differ("H: hooks", m.journal, journal)
	results = slices.DeleteFunc(results, func(line string) bool {
		write, how, _ := strings.Cut(line, " ")
		r, loose := m.loose[write]
		if r == nil {
			return loose
		}
		if how != "ok" && r.state == "over" {
			w.fault("W7: %s was answered, and its Write says %q", r.name(), how)
		}
		if how != "ok" {
			r.state = "over"
		}
		return true
	})
	slices.Sort(m.results)
	slices.Sort(results)
	w.differ("W: writes returned", m.results, results)
	if n := w.fleet.Minted(); n != len(m.peers) {
		w.fault("B, D2, C1: %d mints, want %d", n, len(m.peers))
		return
	}
	for i, p := range m.peers {
		all := w.fleet.Peer(i).Got()
		var got []string
		for _, msg := range all[w.shown[i]:] {
			got = append(got, w.got(msg))
		}
		w.shown[i] = len(all)
		w.differ(fmt.Sprintf("peer %d got", i), m.got[i], got)
		if started := w.fleet.Peer(i).Started; started > 1 || (started == 1) != p.begun {
			w.fault("C1: peer %d was started %d times; at all: want %v", i, started, p.begun)
		}
	}
	alive := 0
	for _, p := range m.peers {
		if p.alive {
			alive++
		}
	}
	if now, most := w.fleet.Alive(); now != alive || most > 1 {
		w.fault("D4: %d peers alive, want %d; at most %d at once", now, alive, most)
	}
	w.compareStats()
	for _, r := range w.requests {
		w.compareStream(r)
	}
	want := 0
	if m.done {
		want = w.closers
	}
	if closed != want {
		w.fault("C5: %d of %d calls of Close have returned, want %d", closed, w.closers, want)
	}
	select {
	case <-w.tr.Done():
		if !m.done {
			w.fault("Done is closed too early")
		}
	default:
		if m.done {
			w.fault("Done is open though all is over")
		}
	}
}

func (w *world) differ(what string, want, got []string) {
	if !slices.Equal(want, got) {
		w.fault("%s\n  want %q\n  got  %q", what, want, got)
	}
}

// compareReads compares what Read returned. The order counts among what the supervisor says, and among what one
// peer says. A call that the client has cancelled may be answered by the supervisor at any time, once.
func (w *world) compareReads(reads []jsonrpc.Message) {
	want, got := map[string][]string{}, map[string][]string{}
	var all []string
	for _, msg := range reads {
		line, from, loose := w.seen(msg)
		all = append(all, line)
		if r := w.cancelled(line); r != nil {
			r.state = "over"
			continue
		}
		if w.m.opens && from != "" && w.direct(line) {
			from += " answers"
		}
		if loose {
			from = "loose"
		}
		got[from] = append(got[from], line)
	}
	for _, line := range w.m.reads {
		from := ""
		switch f := strings.Fields(line); {
		case f[0] == "cancelled" || strings.HasSuffix(line, " empty"):
			from = "loose"
		case f[0] == "request", f[0] == "notice":
			from = "peer " + f[1][:strings.IndexByte(f[1], '/')]
		case f[1] == "result", f[1] == "error":
			from = "peer " + f[2][:strings.IndexByte(f[2], '/')]
			if w.m.opens && w.direct(line) {
				from += " answers"
			}
		}
		want[from] = append(want[from], line)
	}
	slices.Sort(want["loose"])
	slices.Sort(got["loose"])
	same := len(want) == len(got)
	for from := range want {
		same = same && slices.Equal(want[from], got[from])
	}
	if !same {
		w.fault("W7: Read returned\n  want %q\n  got  %q", w.m.reads, all)
	}
	if len(all) > 0 {
		w.story = append(w.story, fmt.Sprintf("%32s client reads %s", "", strings.Join(all, ", ")))
	}
}

// direct reports whether line is an answer that a replacement's being replayed to does not hold back.
func (w *world) direct(line string) bool {
	name, _, _ := strings.Cut(line, " ")
	return slices.ContainsFunc(w.m.requests, func(r *request) bool { return r.name() == name && !r.stream })
}

// cancelled is the call that the client has cancelled and that line answers in the supervisor's name.
func (w *world) cancelled(line string) *request {
	name, how, _ := strings.Cut(line, " ")
	for _, r := range w.m.requests {
		if r.state == "cancelled" && r.name() == name {
			switch how {
			case "context canceled", "peer lost", "closed", "exhausted, peer lost":
				return r
			}
		}
	}
	return nil
}

func (w *world) compareStats() {
	m, s := w.m, w.tr.Stats()
	flight, loose, streams := 0, 0, 0
	for _, r := range m.requests {
		switch {
		case r.state == "open" && r.stream:
			streams++
		case r.state == "open":
			flight++
		case r.state == "cancelled":
			loose++
		}
	}
	if s.State != m.state || w.tr.Reconnecting() != m.promised {
		w.fault("L7: state %v, reconnecting %v; want %v, %v", s.State, w.tr.Reconnecting(), m.state, m.promised)
	}
	if s.InFlight < flight || s.InFlight > flight+loose || s.Streams != streams {
		w.fault("Stats: %d calls in flight, %d streams; want %d (up to %d cancelled), %d", s.InFlight, s.Streams, flight, loose, streams)
	}
	if s.Generation != m.generation || s.Restarts != m.restarts {
		w.fault("Stats: generation %d, %d restarts; want %d, %d", s.Generation, s.Restarts, m.generation, m.restarts)
	}
	if err := w.tr.Err(); m.done && (err != nil) != m.failed {
		w.fault("B6: Err is %v", err)
	}
}

func (w *world) compareStream(r *walked) {
	w.mu.Lock()
	stream, handled := r.stream, slices.Clone(r.handled)
	w.mu.Unlock()
	if stream == nil {
		return
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	got := "pending"
	switch err := stream.Await(done); {
	case err == nil:
		got = "result"
	case errors.As(err, new(*jsonrpc.Error)) && !errors.Is(err, supervised.ErrClosed):
		got = "error"
	case errors.Is(err, supervised.ErrStreamClosed):
		got = "stream closed"
	case err != context.Canceled:
		got = kind(err)
	}
	want, _, _ := strings.Cut(r.await, " ")
	if r.await == "stream closed" {
		want = r.await
	}
	if got != want {
		w.fault("S2: %s: Await says %q, want %q", r.name(), got, r.await)
	}
	graceful := want == "pending" || want == "result"
	if graceful && !slices.Equal(handled, r.request.handled) || len(handled) > len(r.request.handled) || !slices.Equal(handled, r.request.handled[:len(handled)]) {
		w.fault("S3, R4: %s handled %q, want %q", r.name(), handled, r.request.handled)
	}
}
