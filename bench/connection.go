package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/stdio"
)

// transport returns the transport of a peer that has an mcp.Transport, to a process.
func transport(peer Peer, args ...string) (mcp.Transport, error) {
	switch peer {
	case Command:
		return &mcp.CommandTransport{Command: exec.Command(args[0], args[1:]...)}, nil
	case Unsupervised:
		return recipe(args...).Mint(context.Background())
	case Supervised:
		return supervised.New(recipe(args...).Mint)
	}
	return nil, fmt.Errorf("%s has no mcp.Transport", peer)
}

// recipe is a process of ours with the same environment as that of all others.
func recipe(args ...string) stdio.Command { return stdio.Command{Args: args, InheritEnv: true} }

// connect starts a process. Its close returns when that is gone.
func connect(peer Peer, args ...string) (conn mcp.Connection, closeConn func() error, err error) {
	t, err := transport(peer, args...)
	if err != nil {
		return nil, nil, err
	}
	conn, err = t.Connect(context.Background())
	if err != nil {
		return nil, nil, err
	}
	if s, ok := t.(*supervised.Transport); ok {
		return conn, s.Close, nil
	}
	return conn, conn.Close, nil
}

// A connection is a link over an mcp.Connection.
//
// The contexts are as a session of the SDK has them: Read gets one that does not end, Write that of a caller, which
// can.
type connection struct {
	conn      mcp.Connection
	closeConn func() error
	messages  *messages
	turn      int
}

func (c *connection) verify() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range 4 {
		want := c.messages.at(i)
		if err := c.conn.Write(ctx, want); err != nil {
			return err
		}
		got, err := c.conn.Read(context.Background())
		if err != nil {
			return err
		}
		if err := check(want, got); err != nil {
			return err
		}
		if result := got.(*jsonrpc.Response).Result; !bytes.Equal(want.Params, result) {
			return fmt.Errorf("want %.80q, got %.80q", want.Params, result)
		}
	}
	return nil
}

// check is what is checked of every answer: that it is the answer to this request and as long as it should be.
func check(request *jsonrpc.Request, m jsonrpc.Message) error {
	answer, ok := m.(*jsonrpc.Response)
	switch {
	case !ok:
		return fmt.Errorf("a %T is no answer", m)
	case answer.Error != nil:
		return answer.Error
	case answer.ID != request.ID:
		return fmt.Errorf("the answer to %v came, not that to %v", answer.ID.Raw(), request.ID.Raw())
	case len(answer.Result) != len(request.Params):
		return errors.New("an answer has the wrong length")
	}
	return nil
}

func (c *connection) pingPong(n int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range n {
		r := c.messages.at(c.turn)
		c.turn++
		if err := c.conn.Write(ctx, r); err != nil {
			return err
		}
		m, err := c.conn.Read(context.Background())
		if err != nil {
			return err
		}
		if err := check(r, m); err != nil {
			return err
		}
	}
	return nil
}

func (c *connection) pipelined(n, size int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := newWindow(size)
	written := make(chan error, 1)
	go func() {
		for i := range n {
			w.acquire()
			if err := c.conn.Write(ctx, c.messages.at(i)); err != nil {
				written <- err
				_ = c.conn.Close() // ends the reader
				return
			}
		}
		written <- nil
	}()
	for i := range n {
		m, err := c.conn.Read(context.Background())
		if err != nil {
			return errors.Join(err, <-written)
		}
		if err := check(c.messages.at(i), m); err != nil {
			return err
		}
		w.release(1)
	}
	return <-written
}

func (c *connection) close() error { return c.closeConn() }
