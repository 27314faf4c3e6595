package bench

import "fmt"

// A Peer is one way to talk to a server process.
type Peer string

const (
	Bare         Peer = "bare pipe"            // lines swapped as bytes, a system call for each that is written
	Command      Peer = "mcp.CommandTransport" // of the SDK
	MCPGo        Peer = "mcp-go"               // the stdio transport and client of github.com/mark3labs/mcp-go
	Unsupervised Peer = "unsupervised"         // stdio alone
	Supervised   Peer = "supervised"           // stdio, supervised
)

// A Load is what is done over and over.
type Load struct {
	Kind    Kind
	Size    int // of the request's line in bytes; of a tool call, of its text
	Window  int // Pipelined: how many requests may be unanswered
	Callers int // ToolCall: how many call at the same time
}

// A Kind of load.
type Kind string

const (
	PingPong  Kind = "ping-pong" // at the connection: a request, its answer, the next request
	Pipelined Kind = "pipelined" // at the connection: one writes, one reads, both as fast as they can
	ToolCall  Kind = "tool call" // through a client
)

func (l Load) String() string {
	return fmt.Sprintf("%s, %s", l.Kind, l.of())
}

// of is what sets the loads of a kind apart.
func (l Load) of() string {
	switch {
	case l.Kind == ToolCall && l.Callers == 1:
		return "1 caller"
	case l.Kind == ToolCall:
		return fmt.Sprintf("%d callers", l.Callers)
	case l.Size >= 1<<20:
		return fmt.Sprintf("%d MiB", l.Size>>20)
	case l.Size >= 1<<10:
		return fmt.Sprintf("%d KiB", l.Size>>10)
	}
	return fmt.Sprintf("%d B", l.Size)
}

// Peers are those who can carry the load. A bare pipe makes no tool calls.
func (l Load) Peers() []Peer {
	if l.Kind == ToolCall {
		return []Peer{Command, MCPGo, Unsupervised, Supervised}
	}
	return []Peer{Bare, Command, MCPGo, Unsupervised, Supervised}
}

// Loads are all that are measured for every peer. The windows hold a few times what the two pipes do, so that it is
// the pipes that hold up who is too fast.
func Loads() []Load {
	return []Load{
		{Kind: PingPong, Size: small},
		{Kind: PingPong, Size: medium},
		{Kind: PingPong, Size: large},
		{Kind: Pipelined, Size: small, Window: 1024},
		{Kind: Pipelined, Size: medium, Window: 32},
		{Kind: Pipelined, Size: large, Window: 4},
		{Kind: ToolCall, Size: small, Callers: 1},
		{Kind: ToolCall, Size: small, Callers: 64},
	}
}

// A Session is a started child under a load.
type Session struct {
	Run   func(n int) error // does it n times
	Close func() error
}

// Open starts a child for the peer and makes sure that what it answers is right. Run checks of each answer what
// costs nothing: that it is an answer, whose, and how long.
func Open(children *Children, peer Peer, l Load) (*Session, error) {
	s, err := open(children, peer, l)
	if err != nil {
		return nil, fmt.Errorf("bench: %s, %v: %w", peer, l, err)
	}
	return s, nil
}

func open(children *Children, peer Peer, l Load) (*Session, error) {
	if l.Kind == ToolCall {
		return openCaller(children.Tools, peer, l)
	}
	m := newMessages(l.Size, max(2*l.Window, 16))
	link, err := dial(children.Echo, peer, m)
	if err != nil {
		return nil, err
	}
	if err := link.verify(); err != nil {
		_ = link.close()
		return nil, err
	}
	s := &Session{Close: link.close, Run: link.pingPong}
	if l.Kind == Pipelined {
		s.Run = func(n int) error { return link.pipelined(n, l.Window) }
	}
	return s, nil
}

// A link is a connection to an echo child, and messages to send over it.
type link interface {
	verify() error // that a few answers are right to the byte
	pingPong(n int) error
	pipelined(n, window int) error
	close() error
}

// dial starts an echo child.
func dial(echo string, peer Peer, m *messages) (link, error) {
	switch peer {
	case Bare:
		return dialBare(echo, m)
	case MCPGo:
		return dialMCPGo(echo, m)
	}
	conn, closeConn, err := connect(peer, echo)
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn, messages: m, closeConn: closeConn}, nil
}

// A Sample is what one turn of a contender cost, each number for one operation; of what is idle, for each of it.
type Sample struct {
	Nanos      float64
	Allocs     float64
	Bytes      float64 // allocated; of what is idle, in use
	Goroutines float64
}
