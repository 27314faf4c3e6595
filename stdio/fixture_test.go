//go:build unix

package stdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/seed7990db67/supervised/stdio"
)

// role names the environment variable that makes the test binary play a server.
const role = "STDIO_TEST_ROLE"

// patience bounds every wait of a test. Nothing that works takes near as long.
const patience = 20 * time.Second

// slack is what a loaded machine may add to 250 ms.
const slack = 3 * time.Second

func TestMain(m *testing.M) {
	if name := os.Getenv(role); name != "" {
		roles[name]()
		return
	}
	goleak.VerifyTestMain(m)
}

var roles = map[string]func(){
	"echo": func() { echo(nil) },
	"env": func() {
		json.NewEncoder(os.Stderr).Encode(os.Environ())
	},
	"noisy": func() { // 256 KiB of stderr before each answer
		noise := strings.Repeat(strings.Repeat("n", 63)+"\n", 4<<10)
		echo(func() { io.WriteString(os.Stderr, noise) })
	},
}

// echo answers each request with its params.
func echo(before func()) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var request struct {
			ID     json.RawMessage `json:"id"`
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(line, &request); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if before != nil {
			before()
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", request.ID, request.Params)
	}
}

// self is the command that runs the test binary as a server. Without garbage collection: see docs/reliability.md for what
// one of Go 1.26 can wait for.
func self(name string) stdio.Command {
	return stdio.Command{
		Args: []string{os.Args[0]},
		Env:  []string{role + "=" + name, "GORACE=atexit_sleep_ms=0", "GOGC=off"},
	}
}

func shell(script string) stdio.Command {
	return stdio.Command{Args: []string{"/bin/sh", "-c", script}}
}

// A connection has what stdio offers beside mcp.Connection.
type connection interface {
	mcp.Connection
	Exited() <-chan struct{}
	ExitErr() error
	Kill() error
	OnReport(func(error))
}

// A server is a process under test.
type server struct {
	t *testing.T
	connection
	reports reports
	errs    stderr
}

// spawn starts a process that is killed at the test's end, if it still is there.
func spawn(t *testing.T, cmd stdio.Command) *server {
	t.Helper()
	s := &server{t: t}
	if cmd.Stderr == nil && cmd.Logger == nil {
		cmd.Stderr = &s.errs
	}
	transport, err := cmd.Mint(t.Context())
	if err != nil {
		t.Fatalf("mint: %v", err)
	}
	conn, err := transport.Connect(t.Context())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	s.connection = conn.(connection)
	s.OnReport(s.reports.add)
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Errorf("kill: %v", err)
		}
	})
	return s
}

func call(id int64, params string) *jsonrpc.Request {
	r := &jsonrpc.Request{Method: "test", Params: json.RawMessage(params)}
	r.ID, _ = jsonrpc.MakeID(float64(id))
	return r
}

func (s *server) write(id int64, params string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Write(ctx, call(id, params)); err != nil {
		s.t.Fatalf("write: %v", err)
	}
}

func (s *server) read() (jsonrpc.Message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.Read(ctx)
}

// want reads one message, which must be the answer to id, and returns its result.
func (s *server) want(id int64) string {
	s.t.Helper()
	m, err := s.read()
	if err != nil {
		s.t.Fatalf("answer %d: %v", id, err)
	}
	r, ok := m.(*jsonrpc.Response)
	if !ok || r.ID.Raw() != any(id) {
		s.t.Fatalf("answer %d: got %#v", id, m)
	}
	return string(r.Result)
}

// wantEnd reads the end, and fails on a message.
func (s *server) wantEnd() error {
	s.t.Helper()
	m, err := s.read()
	if err == nil {
		s.t.Fatalf("want the end, got %#v", m)
	}
	return err
}

func (s *server) wantExit(code int) *stdio.ExitError {
	s.t.Helper()
	within(s.t, "the process exits", s.Exited())
	var exit *stdio.ExitError
	if !errors.As(s.ExitErr(), &exit) {
		s.t.Fatalf("ExitErr: got %#v", s.ExitErr())
	}
	if exit.Code != code {
		s.t.Fatalf("exit code: want %d, got %d (%v)", code, exit.Code, exit)
	}
	return exit
}

func (s *server) wantClosed() {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Fatalf("close: %v", err)
	}
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("not in time: %s", what)
	}
}

// eventually waits for what cannot be waited for otherwise, such as the end of a process that is not our child.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// reports collects what OnReport is told.
type reports struct {
	mu   sync.Mutex
	errs []error
}

func (r *reports) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

func (r *reports) all() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.errs...)
}

// stderr collects what a server writes there.
type stderr struct {
	mu   sync.Mutex
	text []byte
}

func (e *stderr) Write(text []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = append(e.text, text...)
	return len(text), nil
}

func (e *stderr) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.text)
}

// pid waits for the process id that a script says with "echo $$ >&2", of itself or of a child.
func (s *server) pid() int {
	s.t.Helper()
	eventually(s.t, "the server says a process id", func() bool { return strings.Contains(s.errs.String(), "\n") })
	first, _, _ := strings.Cut(s.errs.String(), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// A handClock stands still until it is moved, and tells what waits for it.
type handClock struct {
	*clock.Mock
	armed chan time.Duration
}

func newHandClock() *handClock {
	return &handClock{Mock: clock.NewMock(), armed: make(chan time.Duration, 100)}
}

func (c *handClock) Timer(d time.Duration) *clock.Timer {
	timer := c.Mock.Timer(d)
	c.armed <- d
	return timer
}

// wantArmed waits until something waits for d.
func (c *handClock) wantArmed(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case got := <-c.armed:
		if got != d {
			t.Fatalf("armed: want %v, got %v", d, got)
		}
	case <-time.After(patience):
		t.Fatalf("not in time: a timer of %v", d)
	}
}

// runUntil moves the clock on until done.
func (c *handClock) runUntil(t *testing.T, done <-chan error) error {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); c.Add(time.Millisecond) {
		select {
		case err := <-done:
			return err
		default:
		}
	}
	t.Fatal("not in time")
	return nil
}
