// Package peertest has peers that do as a test says: transports without a process, for the lifecycle above them.
package peertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Fleet mints peers; its Mint is a factory. The functions are asked at each spawn, where they are set; set
// them before the first.
type Fleet struct {
	// Process is that of each peer: from the moment on that others can have it, where OnMint could be too late.
	Process bool
	// OnMint may fail a mint, hold it up, or shape the peer before it is handed out.
	OnMint func(ctx context.Context, p *Peer) error
	// OnStart may fail a start or hold it up.
	OnStart func(ctx context.Context, p *Peer) error

	mu    sync.Mutex
	peers []*Peer
	alive int
	most  int
}

// Mint is a factory.
func (f *Fleet) Mint(ctx context.Context) (mcp.Transport, error) {
	p := &Peer{fleet: f, Process: f.Process, Context: ctx, wake: make(chan struct{}, 1), closed: make(chan struct{}), exited: make(chan struct{})}
	f.mu.Lock()
	p.Number = len(f.peers)
	f.peers = append(f.peers, p)
	f.mu.Unlock()
	if f.OnMint != nil {
		if err := f.OnMint(ctx, p); err != nil {
			return nil, err
		}
	}
	return &transport{f, p}, nil
}

// Minted returns how many mints there were, failed ones included.
func (f *Fleet) Minted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.peers)
}

// Started returns how many of the minted transports were connected, or are being connected.
func (f *Fleet) Started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	started := 0
	for _, p := range f.peers {
		started += p.Started
	}
	return started
}

// Peer returns the peer of mint i.
func (f *Fleet) Peer(i int) *Peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peers[i]
}

// Last returns the peer that was minted last.
func (f *Fleet) Last() *Peer { return f.Peer(f.Minted() - 1) }

// Alive returns how many peers have started and are not closed, and how many those were at most.
func (f *Fleet) Alive() (now, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alive, f.most
}

type transport struct {
	fleet *Fleet
	peer  *Peer
}

func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	t.fleet.mu.Lock()
	t.peer.Started++
	t.fleet.mu.Unlock()
	if t.fleet.OnStart != nil {
		if err := t.fleet.OnStart(ctx, t.peer); err != nil {
			return nil, err
		}
	}
	t.fleet.mu.Lock()
	t.fleet.alive++
	t.fleet.most = max(t.fleet.most, t.fleet.alive)
	t.fleet.mu.Unlock()
	if t.peer.Process {
		return &process{conn{t.peer}}, nil
	}
	return &conn{t.peer}, nil
}

// A Peer is one connection, seen from the server's side.
type Peer struct {
	Number  int
	Context context.Context // of the mint
	Started int             // how often its transport was connected

	// To be set in OnMint:
	Process bool                                               // it has an exit, and can be killed
	OnWrite func(ctx context.Context, m jsonrpc.Message) error // in place of taking the message
	OnClose func() error                                       // what Close does and returns
	OnKill  func() error                                       // likewise
	KillErr error                                              // what Kill returns, having killed nothing; nil: it kills
	Answer  func(r *jsonrpc.Request) *jsonrpc.Response         // answers calls as they come

	fleet  *Fleet
	mu     sync.Mutex
	got    []jsonrpc.Message
	out    []jsonrpc.Message
	end    error
	wake   chan struct{}
	report func(error)

	closeOnce sync.Once
	closed    chan struct{}
	exitOnce  sync.Once
	exited    chan struct{}
	exitErr   error
}

// Got returns what was written to the peer.
func (p *Peer) Got() []jsonrpc.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

// Methods returns the methods of the requests and notifications that were written to the peer.
func (p *Peer) Methods() []string {
	var methods []string
	for _, m := range p.Got() {
		if r, ok := m.(*jsonrpc.Request); ok {
			methods = append(methods, r.Method)
		}
	}
	return methods
}

// Say has the peer write messages.
func (p *Peer) Say(ms ...jsonrpc.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = append(p.out, ms...)
	p.signal()
}

// Reply has the peer answer the request id with a result.
func (p *Peer) Reply(id jsonrpc.ID, result string) {
	p.Say(&jsonrpc.Response{ID: id, Result: []byte(result)})
}

// Die ends what the peer writes with err, behind all that it said; for a Process that is its exit as well.
func (p *Peer) Die(err error) {
	if p.Process {
		p.Exit(err)
		err = io.EOF
	}
	p.Hangup(err)
}

// Hangup ends what the peer writes and nothing else.
func (p *Peer) Hangup(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = err
	p.signal()
}

// Exit ends the process and nothing else: its output stays open, as if somebody held it.
func (p *Peer) Exit(err error) {
	p.exitOnce.Do(func() {
		p.exitErr = err
		close(p.exited)
	})
}

// Report tells of something that ended nothing.
func (p *Peer) Report(err error) { p.report(err) }

// Closed is closed when the connection was closed or killed.
func (p *Peer) Closed() <-chan struct{} { return p.closed }

func (p *Peer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Peer) shut() {
	p.closeOnce.Do(func() {
		p.Exit(errors.New("killed"))
		p.fleet.mu.Lock()
		p.fleet.alive--
		p.fleet.mu.Unlock()
		close(p.closed)
	})
}

type conn struct{ peer *Peer }

func (c *conn) SessionID() string { return "" }

func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		c.peer.mu.Lock()
		if len(c.peer.out) > 0 {
			m := c.peer.out[0]
			c.peer.out = c.peer.out[1:]
			c.peer.mu.Unlock()
			return m, nil
		}
		end := c.peer.end
		c.peer.mu.Unlock()
		if end != nil {
			return nil, end
		}
		select {
		case <-c.peer.wake:
		case <-c.peer.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *conn) Write(ctx context.Context, m jsonrpc.Message) error {
	if c.peer.OnWrite != nil {
		if err := c.peer.OnWrite(ctx, m); err != nil {
			return err
		}
	}
	select {
	case <-c.peer.closed:
		return io.ErrClosedPipe
	default:
	}
	c.peer.mu.Lock()
	c.peer.got = append(c.peer.got, m)
	c.peer.mu.Unlock()
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && c.peer.Answer != nil {
		if a := c.peer.Answer(r); a != nil {
			c.peer.Say(a)
		}
	}
	return nil
}

func (c *conn) Close() error {
	defer c.peer.shut()
	if c.peer.OnClose != nil {
		return c.peer.OnClose()
	}
	return nil
}

type process struct{ conn }

func (p *process) Exited() <-chan struct{} { return p.peer.exited }
func (p *process) ExitErr() error          { return p.peer.exitErr }

// ReadReady implements supervised.Resumer.
func (p *process) ReadReady() jsonrpc.Message {
	p.peer.mu.Lock()
	defer p.peer.mu.Unlock()
	if len(p.peer.out) == 0 {
		return nil
	}
	m := p.peer.out[0]
	p.peer.out = p.peer.out[1:]
	return m
}

func (p *process) OnReport(f func(error)) { p.peer.report = f }

func (p *process) Kill() error {
	if p.peer.KillErr != nil {
		return p.peer.KillErr
	}
	var err error
	if p.peer.OnKill != nil {
		err = p.peer.OnKill()
	}
	p.peer.shut()
	return err
}

// An Exit is how a process ended.
type Exit struct {
	Code   int
	Signal os.Signal // nil: none
}

func (e *Exit) Error() string {
	if e.Signal != nil {
		return fmt.Sprintf("signal: %v", e.Signal)
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

func (e *Exit) ExitCode() int         { return e.Code }
func (e *Exit) ExitSignal() os.Signal { return e.Signal }
