//go:build unix

package supervised_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/stdio"
)

// A host is a client of the SDK over a supervised server process.
type host struct {
	testing.TB
	*supervised.Transport
	session *mcp.ClientSession
	changed chan struct{} // a token for each list_changed of the tools
	updated chan string   // the URI of each resource that was updated
	acked   chan struct{} // a token for each stream of the client that a server has acknowledged

	closed, reconnected chan error // what OnClose and OnReconnect were told
}

// server is the test binary as a server, or what argv makes of it: "$0" in a shell script. It does not pause at its exit
// under the race detector, and has no garbage collection. In Go 1.26 one that begins just as a goroutine goes to read stdin
// may wait for that read, for a minute, and all the server with it (docs/reliability.md).
func server(argv ...string) stdio.Command {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return stdio.Command{
		Args:      append(argv, self),
		Env:       []string{serverEnv + "=1", "GORACE=atexit_sleep_ms=0", "GOGC=off"},
		StopGrace: 200 * time.Millisecond,
	}
}

func supervise(t testing.TB, factory supervised.Factory, opts ...supervised.Option) *host {
	t.Helper()
	return superviseAlive(t, 0, factory, opts...)
}

// superviseAlive is supervise for a client that pings the server all the time.
func superviseAlive(t testing.TB, keepAlive time.Duration, factory supervised.Factory, opts ...supervised.Option) *host {
	t.Helper()
	opts = append([]supervised.Option{supervised.WithMaxRestarts(1000), supervised.WithRestartDelay(0)}, opts...)
	tr, err := supervised.New(factory, opts...)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{TB: t, Transport: tr, changed: make(chan struct{}, 100), updated: make(chan string, 100), acked: make(chan struct{}, 2000), closed: make(chan error, 2000), reconnected: make(chan error, 2000)}
	tr.OnClose(func(cause error) { h.closed <- cause })
	tr.OnReconnect(func(context.Context) error { h.reconnected <- nil; return nil })
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { h.changed <- struct{}{} },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { h.updated <- r.Params.URI },
		KeepAlive:              keepAlive,
	})
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "notifications/subscriptions/acknowledged" {
				h.acked <- struct{}{}
			}
			return next(ctx, method, r)
		}
	})
	h.session, err = client.Connect(context.Background(), tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tr.Close()
		h.session.Close() // the SDK keeps a goroutine for each subscription until then
	})
	return h
}

// tool calls a tool, and returns its text.
func (h *host) tool(name string, args map[string]any) (string, error) {
	if args == nil {
		args = map[string]any{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := h.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return "", err
	}
	return r.Content[0].(*mcp.TextContent).Text, nil
}

// pid asks the server for its process.
func (h *host) pid() int {
	h.Helper()
	text, err := h.tool("pid", nil)
	if err != nil {
		h.Fatal(err)
	}
	pid, _ := strconv.Atoi(text)
	return pid
}

// change has the list of tools change, once the server listens to who wants to be told, and waits to be told.
func (h *host) change() {
	h.Helper()
	next(h, "the acknowledgement", h.acked)
	if _, err := h.tool("change", nil); err != nil {
		h.Fatal(err)
	}
	next(h, "list_changed", h.changed)
}

// kill kills the server and waits until its replacement serves. It returns what OnClose was told.
func (h *host) kill() error {
	h.Helper()
	if err := syscall.Kill(h.pid(), syscall.SIGKILL); err != nil {
		h.Fatal(err)
	}
	return h.recovered()
}

// recovered waits for a death and the replacement.
func (h *host) recovered() error {
	h.Helper()
	cause := next(h, "OnClose", h.closed)
	next(h, "OnReconnect", h.reconnected)
	return cause
}

// wantExit checks that the exit of a process is found in err.
func wantExit(t testing.TB, err error, code int, signal os.Signal, stderr string) {
	t.Helper()
	var exit *stdio.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("no *stdio.ExitError in %v", err)
	}
	want(t, "exit code", code, exit.Code)
	want(t, "signal", signal, exit.Signal)
	want(t, "stderr", stderr, strings.TrimSpace(exit.Stderr))
}

func TestProcessKilledWhileIdle(t *testing.T) {
	h := supervise(t, server().Mint)
	for range 3 {
		wantExit(t, h.kill(), -1, syscall.SIGKILL, "")
		text, err := h.tool("echo", map[string]any{"text": "hello"})
		want(t, "answer", "hello", text)
		want(t, "error", "ok", kind(err))
	}
	want(t, "generation", 3, h.Stats().Generation)
	want(t, "restarts", 3, h.Stats().Restarts)
}

func TestProcessKilledWithCallsInFlight(t *testing.T) {
	h := supervise(t, server().Mint)
	pid := h.pid()
	failed := make(chan error)
	for range 50 {
		go func() {
			_, err := h.tool("hang", nil)
			failed <- err
		}()
	}
	eventually(t, "all are in flight", func() bool { return h.Stats().InFlight == 50 })
	syscall.Kill(pid, syscall.SIGKILL)
	for range 50 {
		err := next(t, "a call in flight", failed)
		wantIs(t, "a call in flight", err, supervised.ErrPeerLost, mcp.ErrConnectionClosed)
		wantExit(t, err, -1, syscall.SIGKILL, "")
	}
	h.recovered()
	h.pid()
}

func TestProcessExits(t *testing.T) {
	h := supervise(t, server().Mint)
	for _, code := range []int{0, 23} {
		_, err := h.tool("exit", map[string]any{"code": code})
		wantIs(t, "the call", err, supervised.ErrPeerLost)
		wantExit(t, err, code, nil, "why")
		wantExit(t, h.recovered(), code, nil, "why")
		wantExit(t, h.Stats().LastExit, code, nil, "why")
		want(t, "code in the stats", code, h.Stats().LastExitCode)
	}
}

func TestP3_GrandchildHoldsTheOutput(t *testing.T) {
	h := supervise(t, server("sh", "-c", `sleep 1000 & exec "$0"`).Mint)
	for range 3 {
		pid := h.pid()
		killed := time.Now()
		syscall.Kill(pid, syscall.SIGKILL)
		h.recovered()
		if gap := time.Since(killed); gap > time.Second {
			t.Errorf("noticed and replaced after %v", gap)
		}
		h.pid()
	}
}

// TestP4_DeathsLeaveNothingBehind dies 200 times in a row and counts what there is before and after.
func TestP4_DeathsLeaveNothingBehind(t *testing.T) {
	deaths := 200
	if testing.Short() {
		deaths = 20
	}
	h := supervise(t, server().Mint)
	h.kill()
	h.pid()
	before := census(t)
	for range deaths {
		h.kill()
	}
	h.pid()
	eventually(t, "no goroutine, descriptor or child more than before", func() bool {
		now := census(t)
		return now.Goroutines <= before.Goroutines && now.Descriptors <= before.Descriptors && now.Children <= before.Children
	})
}

// possessions is what a process can leave behind.
type possessions struct{ Goroutines, Descriptors, Children int }

func census(t testing.TB) possessions {
	t.Helper()
	if runtime.GOOS != "linux" {
		return possessions{Goroutines: runtime.NumGoroutine()}
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	children := 0
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		children += len(strings.Fields(string(text)))
	}
	return possessions{runtime.NumGoroutine(), len(fds), children}
}

func TestR1_SubscriptionsGoOn(t *testing.T) {
	h := supervise(t, server().Mint)
	for range 4 {
		h.change()
		h.kill()
	}
}

// TestW7_NothingLostUnderDeaths kills the server 30 times while 8 callers are at it.
func TestW7_NothingLostUnderDeaths(t *testing.T) {
	deaths := 30
	if testing.Short() {
		deaths = 5
	}
	h := supervise(t, server().Mint)
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for caller := range 8 {
		callers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprint(caller, " ", i)
				got, err := h.tool("echo", map[string]any{"text": text})
				if err == nil && got != text {
					t.Errorf("asked %q, got %q", text, got)
				}
				mu.Lock()
				outcomes[kind(err)]++
				mu.Unlock()
				if errors.Is(err, supervised.ErrReconnecting) {
					h.WaitServing(context.Background())
				}
			}
		})
	}
	for range deaths {
		var pid int
		for pid == 0 { // a call of ours may be in the way of nothing but the last death
			if text, err := h.tool("pid", nil); err == nil {
				pid, _ = strconv.Atoi(text)
			}
		}
		syscall.Kill(pid, syscall.SIGKILL)
		next(t, "OnClose", h.closed)
		next(t, "OnReconnect", h.reconnected)
	}
	close(stop)
	callers.Wait()
	t.Log(outcomes)
	for k := range outcomes {
		switch k {
		case "ok", "peer lost", "reconnecting":
		default:
			t.Errorf("a caller saw %q", k)
		}
	}
	want(t, "in flight", 0, h.Stats().InFlight)
}

func TestP4_CloseOfAStubbornServerTakesTwoGraces(t *testing.T) {
	const grace = 300 * time.Millisecond
	c := server()
	c.Env[0] = serverEnv + "=stubborn"
	c.StopGrace = grace
	h := supervise(t, c.Mint)
	pid := h.pid()
	asked := time.Now()
	want(t, "Close", nil, h.Close())
	if took := time.Since(asked); took < 2*grace || took > 2*grace+2*time.Second {
		t.Errorf("Close took %v, two graces are %v", took, 2*grace)
	}
	want(t, "the process", error(syscall.ESRCH), syscall.Kill(pid, 0))
}

func TestW5_StoppedServer(t *testing.T) {
	h := supervise(t, server().Mint)
	pid := h.pid()
	syscall.Kill(pid, syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := h.session.CallTool(ctx, &mcp.CallToolParams{Name: "size", Arguments: map[string]any{"text": strings.Repeat("x", 1<<20)}})
	wantIs(t, "the call", err, context.DeadlineExceeded)
	syscall.Kill(pid, syscall.SIGCONT)
	if text, err := h.tool("echo", map[string]any{"text": "again"}); text != "again" {
		t.Errorf("the same process after the line was finished: %q, %v", text, err)
	}
	want(t, "the process", pid, h.pid())

	syscall.Kill(pid, syscall.SIGSTOP)
	go h.tool("size", map[string]any{"text": strings.Repeat("x", 1<<20)})
	closed := make(chan error)
	go func() { closed <- h.Close() }()
	want(t, "Close", nil, next(t, "Close", closed))
}

func TestRestartOfAServerThatHangs(t *testing.T) {
	h := supervise(t, server().Mint)
	pid := h.pid()
	syscall.Kill(pid, syscall.SIGSTOP)
	hung := errors.New("hung")
	want(t, "Restart", nil, h.Restart(hung))
	wantIs(t, "cause", h.recovered(), hung)
	if h.pid() == pid {
		t.Error("the process that hung still serves")
	}
}

func TestW3_AnswersInTheSameBreath(t *testing.T) {
	lives := 1000
	if testing.Short() {
		lives = 50
	}
	// A server that answers one call and is gone.
	c := stdio.Command{Args: []string{"sh", "-c", `IFS= read -r line; id=${line#*'"id":'}; printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "${id%%[,\}]*}"; exit 3`}}
	tr, err := supervised.New(c.Mint, supervised.WithMaxRestarts(lives+1), supervised.WithRestartDelay(0))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	serving := make(chan struct{}, 1)
	tr.OnReconnect(func(context.Context) error { serving <- struct{}{}; return nil })
	conn, err := tr.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := range lives {
		id, _ := jsonrpc.MakeID(float64(i))
		if err := conn.Write(context.Background(), &jsonrpc.Request{ID: id, Method: "ping"}); err != nil {
			t.Fatal(err)
		}
		m, err := conn.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got := line(m); got != fmt.Sprintf("%d {}", i) {
			t.Fatalf("life %d: %s", i, got)
		}
		next(t, "the next life", serving)
	}
	want(t, "code", 3, tr.Stats().LastExitCode)
}

func TestStrayOutputEndsNothing(t *testing.T) {
	script := `printf 'starting\n\357\273\277\n{"status":200}\n\n'; exec "$0"`
	var mu sync.Mutex
	var reports []error
	tr, err := supervised.New(server("sh", "-c", script).Mint)
	if err != nil {
		t.Fatal(err)
	}
	tr.OnError(func(err error) { mu.Lock(); defer mu.Unlock(); reports = append(reports, err) })
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host"}, nil).Connect(context.Background(), tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { tr.Close(); session.Close() }()
	if err := session.Ping(context.Background(), nil); err != nil {
		t.Error(err)
	}
	want(t, "generation", 0, tr.Stats().Generation)
	eventually(t, "two lines are reported", func() bool { mu.Lock(); defer mu.Unlock(); return len(reports) == 2 })
	mu.Lock()
	defer mu.Unlock()
	want(t, "lines reported", 2, len(reports))
	for _, err := range reports {
		if _, ok := errors.AsType[*stdio.StrayLineError](err); !ok {
			t.Errorf("reported %v", err)
		}
	}
}

func TestBigAnswersAndStderr(t *testing.T) {
	h := supervise(t, server("sh", "-c", `head -c 262144 /dev/zero | tr '\0' 'e' >&2; exec "$0"`).Mint)
	text, err := h.tool("big", map[string]any{"bytes": 5 << 20})
	want(t, "error", "ok", kind(err))
	want(t, "bytes", 5<<20, len(text))
}

func TestLineWithoutEndIsADeath(t *testing.T) {
	c := server("sh", "-c", `exec "$0"`)
	c.MaxLine = 1 << 20
	h := supervise(t, c.Mint)
	_, err := h.tool("big", map[string]any{"bytes": 2 << 20})
	wantIs(t, "the call", err, supervised.ErrPeerLost)
	cause := h.recovered()
	if _, ok := errors.AsType[*stdio.LineTooLongError](cause); !ok {
		t.Errorf("OnClose was told %v", cause)
	}
	h.pid()
}

// TestEverythingServer supervises a server that this project did not write.
func TestEverythingServer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	dir := t.TempDir()
	bin, pidFile := filepath.Join(dir, "everything-server"), filepath.Join(dir, "pid")
	build := exec.Command("go", "build", "-o", bin, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	h := supervise(t, stdio.Command{Args: []string{"sh", "-c", `echo $$ >"$1"; exec "$0"`, bin, pidFile}}.Mint)
	for life := range 4 {
		tools, err := h.session.ListTools(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := h.tool("test_simple_text", nil)
		if err != nil || text == "" || len(tools.Tools) == 0 {
			t.Fatalf("life %d: %d tools, %q, %v", life, len(tools.Tools), text, err)
		}
		next(t, "the acknowledgement", h.acked)
		if _, err := h.tool("test_trigger_tool_change", nil); err != nil {
			t.Fatal(err)
		}
		next(t, "list_changed", h.changed)
		pid, _ := os.ReadFile(pidFile)
		n, _ := strconv.Atoi(strings.TrimSpace(string(pid)))
		if life < 3 {
			syscall.Kill(n, syscall.SIGKILL)
			wantExit(t, h.recovered(), -1, syscall.SIGKILL, "")
		}
	}
}

func TestLastExitAfterRestartAndClose(t *testing.T) {
	h := supervise(t, server().Mint)
	hung := errors.New("hung")
	want(t, "Restart", nil, h.Restart(hung))
	h.recovered()
	wantIs(t, "last exit", h.Stats().LastExit, hung)
	wantExit(t, h.Stats().LastExit, -1, syscall.SIGKILL, "")
	h.pid()
	want(t, "Close", nil, h.Close())
	wantExit(t, h.Stats().LastExit, 0, nil, "")
}
