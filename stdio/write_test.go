//go:build unix

package stdio_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised/stdio"
)

// large makes a message that no pipe holds.
var large = `{"text":"` + strings.Repeat("x", 1<<20) + `"}`

func TestW5_contextEndsAWriteThatIsNotRead(t *testing.T) {
	cmd := shell(`echo $$ >&2; kill -STOP $$`)
	cmd.StopGrace = 20 * time.Millisecond
	s := spawn(t, cmd)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	started := time.Now()
	if err := s.Write(ctx, call(1, large)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if err := s.Write(ctx, call(2, `{}`)); !errors.Is(err, context.DeadlineExceeded) { // in the queue behind it
		t.Fatalf("got %v", err)
	}
	s.wantClosed()
	if d := time.Since(started); d > slack {
		t.Errorf("took %v", d)
	}
}

func TestW5_lineWrittenInPartIsFinished(t *testing.T) {
	// The server reads nothing until it is continued.
	s := spawn(t, stdio.Command{
		Args: []string{"/bin/sh", "-c", `echo $$ >&2; kill -STOP $$; exec "$0"`, self("echo").Args[0]},
		Env:  self("echo").Env,
	})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Write(ctx, call(1, large)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	const writers = 20
	var wg sync.WaitGroup
	for i := range int64(writers) {
		wg.Go(func() { s.write(10+i, `{}`) })
	}
	s.cont()
	if got := s.want(1); got != large {
		t.Errorf("the line came with %d bytes", len(got))
	}
	for range writers {
		if _, err := s.read(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

// cont continues the process group, whose leader has stopped itself.
func (s *server) cont() {
	s.t.Helper()
	pid := s.pid()
	eventually(s.t, "the server stops", func() bool { return stateOf(pid) == 'T' })
	if err := syscall.Kill(-pid, syscall.SIGCONT); err != nil {
		s.t.Fatal(err)
	}
}

func TestW5_contextDoneBeforehandWritesNothing(t *testing.T) {
	s := spawn(t, self("echo"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Write(ctx, call(1, `{}`)); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	s.write(2, `{}`)
	s.want(2)
}

func TestW5_closeEndsABlockedWrite(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*server) error
	}{
		{"W5 Close", func(s *server) error { return s.Close() }},
		{"W5 Kill", func(s *server) error { return s.Kill() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := shell(`echo $$ >&2; kill -STOP $$`)
			cmd.StopGrace = 10 * time.Millisecond
			s := spawn(t, cmd)
			eventually(t, "the server stops", func() bool { return stateOf(s.pid()) == 'T' })
			written := make(chan error, 2)
			for i := range int64(2) {
				go func() { written <- s.Write(context.Background(), call(i, large)) }()
			}
			if err := tt.end(s); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := <-written; !errors.Is(err, mcp.ErrConnectionClosed) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

func TestWrite_unencodableIsForItsWriterAlone(t *testing.T) {
	s := spawn(t, self("echo"))
	err := s.Write(context.Background(), call(1, `{"broken`))
	var encode *stdio.EncodeError
	if !errors.As(err, &encode) || !errors.Is(err, &jsonrpc.Error{Code: -32005}) {
		t.Errorf("got %#v", err)
	}
	s.write(2, `{}`)
	s.want(2)
}

func TestWrite_lineBreaksInsideDoNotBreakTheLine(t *testing.T) {
	s := spawn(t, self("echo"))
	s.write(1, "{\n\"a\":\r\n1}")
	if got := s.want(1); got != `{"a":1}` {
		t.Errorf("got %s", got)
	}
}

func TestWrite_brokenPipe(t *testing.T) {
	s := spawn(t, shell(`exec <&-; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; exec sleep 1000`))
	s.want(1)
	for range 2 {
		err := s.Write(context.Background(), call(1, `{}`))
		if !errors.Is(err, syscall.EPIPE) || err.Error() != "stdio: write: broken pipe" {
			t.Errorf("got %v", err)
		}
	}
}

func TestWrite_afterTheExit(t *testing.T) {
	s := spawn(t, shell(`sleep 1000 <&0 & exit 0`))
	s.wantExit(0)
	if err := s.Write(context.Background(), call(1, `{}`)); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
}

func TestWrite_manyWriters(t *testing.T) {
	const writers, each = 16, 50
	s := spawn(t, self("echo"))
	var wg sync.WaitGroup
	for w := range int64(writers) {
		wg.Go(func() {
			for i := range int64(each) {
				id := w*each + i
				s.write(id, fmt.Sprintf(`{"id":%d,"text":%q}`, id, strings.Repeat("y", int(id))))
			}
		})
	}
	seen := map[any]bool{}
	for range writers * each {
		m, err := s.read()
		if err != nil {
			t.Fatal(err)
		}
		r := m.(*jsonrpc.Response)
		var echoed struct {
			ID   int64
			Text string
		}
		if err := json.Unmarshal(r.Result, &echoed); err != nil {
			t.Fatal(err)
		}
		if r.ID.Raw() != any(echoed.ID) || len(echoed.Text) != int(echoed.ID) || seen[echoed.ID] {
			t.Fatalf("got %v: %s", r.ID.Raw(), r.Result)
		}
		seen[echoed.ID] = true
	}
	wg.Wait()
}

func TestWrite_allocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	s := spawn(t, shell(`cat >/dev/null`))
	m := call(1, `{"name":"x"}`)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if n := testing.AllocsPerRun(1000, func() {
		if err := s.Write(ctx, m); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations a write", n)
	}
}
