//go:build unix

package chaostest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A book is what the client's side writes down: a line for each thing that it did or was told. Its methods may be
// called from any goroutine.
//
//	w ID OK             a call was written, 1, or refused, 0
//	l ID                a listen request of the SDK's was written
//	a ID                an answer came
//	c N KIND END LIFE SEQ  a call ended for its caller; LIFE and SEQ are of the answer, -1 and 0 where there is none
//	d URI               a notification was delivered
type book struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	err  error
}

func openBook(name string) (*book, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &book{file: f, out: bufio.NewWriterSize(f, 64<<10)}, nil
}

func (b *book) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := fmt.Fprintf(b.out, format+"\n", args...); err != nil && b.err == nil {
		b.err = err
	}
}

// close returns the first error that there was.
func (b *book) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, err := range []error{b.out.Flush(), b.file.Close()} {
		if b.err == nil {
			b.err = err
		}
	}
	return b.err
}

// A tap is a transport that writes down each call and each answer that passes it.
type tap struct {
	mcp.Transport
	*book
}

func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tapped{c, t.book}, nil
}

type tapped struct {
	mcp.Connection
	*book
}

func (t *tapped) Write(ctx context.Context, m jsonrpc.Message) error {
	err := t.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		switch {
		case r.Method == "subscriptions/listen":
			t.note("l %v", r.ID.Raw())
		case err == nil:
			t.note("w %v 1", r.ID.Raw())
		default:
			t.note("w %v 0", r.ID.Raw())
		}
	}
	return err
}

func (t *tapped) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := t.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Response); ok && err == nil {
		t.note("a %v", r.ID.Raw())
	}
	return m, err
}
