package supervised_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
)

// A flood is a server that says the same thing for ever, and counts how often it could.
type flood struct {
	message func() jsonrpc.Message
	said    atomic.Int64
	begin   chan struct{} // it says nothing before
	closed  chan struct{}
}

func (f *flood) Connect(context.Context) (mcp.Connection, error) { return f, nil }

func (f *flood) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-f.begin:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-f.closed:
		return nil, io.EOF
	default:
		f.said.Add(1)
		return f.message(), ctx.Err()
	}
}

func (f *flood) Write(context.Context, jsonrpc.Message) error { return nil }
func (f *flood) SessionID() string                            { return "" }
func (f *flood) Close() error                                 { close(f.closed); return nil }

// TestW2_FloodIsLeftWaiting: whatever a server says to a client that does not read, no more than 4 MiB of it are taken,
// and one message.
func TestW2_FloodIsLeftWaiting(t *testing.T) {
	const limit = 4 << 20
	long := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		name    string
		message jsonrpc.Request
		costs   int // at least
	}{
		{"long params", jsonrpc.Request{Method: "m", Params: []byte(`"` + long + `"`)}, 1 << 20},
		{"a long method", jsonrpc.Request{Method: long}, 1 << 20},
		// Ids counted nothing: 16,000 of 16 MiB each were let in.
		{"a long id", jsonrpc.Request{Method: "m", ID: idOf(long)}, 1 << 20},
		{"next to nothing", jsonrpc.Request{Method: "m"}, 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flood{begin: make(chan struct{}), closed: make(chan struct{}), message: func() jsonrpc.Message { m := tt.message; return &m }}
				tr, err := supervised.New(func(context.Context) (mcp.Transport, error) { return f, nil })
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				conn, err := tr.Connect(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // before it serves more may be held back
				close(f.begin)
				synctest.Wait()
				said := f.said.Load()
				if said < 2 || int(said)*tt.costs > limit+2*tt.costs {
					t.Errorf("%d messages were taken", said)
				}
				for range said { // one that reads and answers gets the next
					m, err := conn.Read(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					if r := m.(*jsonrpc.Request); r.IsCall() {
						conn.Write(context.Background(), &jsonrpc.Response{ID: r.ID, Result: []byte(`{}`)})
					}
				}
				synctest.Wait()
				if then := f.said.Load(); then <= said {
					t.Errorf("%d messages were taken, and none after they were read", said)
				}
			})
		})
	}
}

// TestH5_FloodOfReports: of what a server causes to be reported, no more than 1,000 wait for a hook that does not
// return.
func TestH5_FloodOfReports(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.Fleet.Process = true
		r.connect()
		synctest.Wait() // the turn of its transition counts among those that wait
		hold := make(chan struct{})
		var told atomic.Int64
		r.OnError(func(error) { told.Add(1); <-hold })
		r.Last().Report(errors.New("the one that the hook has"))
		synctest.Wait()
		for range 5000 {
			r.Last().Report(errors.New("stray line"))
		}
		synctest.Wait()
		close(hold)
		synctest.Wait()
		want(t, "reports, the first of them included", int64(1000), told.Load())
		r.Last().Report(errors.New("and later"))
		synctest.Wait()
		want(t, "reports, one later included", int64(1001), told.Load())
	})
}

// TestW7_AnswersNobodyAskedFor: what answers nothing that was asked reaches nobody, and is not kept.
func TestW7_AnswersNobodyAskedFor(t *testing.T) {
	const answers = 200
	var freed atomic.Int64
	wait := make(chan struct{})
	f := &flood{begin: make(chan struct{}), closed: make(chan struct{})}
	close(f.begin)
	f.message = func() jsonrpc.Message {
		n := f.said.Load()
		if n > answers {
			<-wait
			return &jsonrpc.Request{Method: "behind them"}
		}
		r := &jsonrpc.Response{Result: make([]byte, 64<<10)}
		r.ID = []jsonrpc.ID{idOf(float64(n)), idOf("supervised-1"), idOf(""), idOf(float64(-n)), idOf(strings.Repeat("x", 1000))}[n%5]
		runtime.AddCleanup(r, func(struct{}) { freed.Add(1) }, struct{}{})
		return r
	}
	tr, err := supervised.New(func(context.Context) (mcp.Transport, error) { return f, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	conn, err := tr.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "they are freed", func() bool { runtime.GC(); return freed.Load() >= answers-5 })
	close(wait)
	m, err := conn.Read(context.Background())
	if r, ok := m.(*jsonrpc.Request); !ok || r.Method != "behind them" {
		t.Errorf("Read returned %v, %v", m, err)
	}
}

// TestW7_CancelledAndNeverAnswered: a server that never answers what was cancelled costs what 1,024 calls do.
func TestW7_CancelledAndNeverAnswered(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		for range 3000 {
			id, err := r.call("tools/call")
			want(t, "call", nil, err)
			r.writes(cancelled(id))
		}
		errs := r.failures()
		want(t, "answers", 3000-1024, len(errs))
		for _, err := range errs {
			wantIs(t, "answer", err, context.Canceled)
		}
		r.Last().Die(errCrash)
		want(t, "answers at the death", 1024, len(r.failures()))
	})
}

// TestSecurityNamesTests: each claim of SECURITY.md names tests, and those that it names exist.
func TestSecurityNamesTests(t *testing.T) {
	known := testNames(t)
	name := regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Za-z0-9_]*)`")
	claims := 0
	for text := range strings.Lines(document(t, "SECURITY.md")) {
		named := name.FindAllStringSubmatch(text, -1)
		for _, match := range named {
			if !known[match[1]] {
				t.Errorf("SECURITY.md names %s, which does not exist", match[1])
			}
		}
		if !strings.HasPrefix(text, "| ") || strings.HasPrefix(text, "| ---") || strings.HasPrefix(text, "| what") {
			continue
		}
		claims++
		if len(named) == 0 {
			t.Errorf("a claim of SECURITY.md names no test: %s", text)
		}
	}
	if claims < 20 {
		t.Errorf("%d claims were found", claims)
	}
}

// testNames are the names of all tests of the module, for any system.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
