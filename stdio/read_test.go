//go:build unix

package stdio_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/stdio"
)

// says is a server that writes text to its stdout and then waits for the end of its stdin.
func says(t *testing.T, text string) stdio.Command {
	t.Helper()
	name := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return stdio.Command{Args: []string{"/bin/sh", "-c", `cat "$1"; cat >/dev/null`, "sh", name}}
}

func answer(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"n":%d}}`, id, id) }

func TestP2_strayLinesAreReportedAndSkipped(t *testing.T) {
	stray := []string{
		`Server listening on stdio`,
		`{"status":200}`,
		`{"jsonrpc":"2.0","id":1,"result":`,
		`[`,
		`[]`,
		`null`,
		"\x1b[2Jcleared",
	}
	s := spawn(t, says(t, "\ufeff"+answer(1)+"\n"+strings.Join(stray, "\n")+"\n\n"+answer(2)+"\r\n"))
	s.want(1)
	s.want(2)
	var got []string
	for _, err := range s.reports.all() {
		var line *stdio.StrayLineError
		if !errors.As(err, &line) || line.Err == nil {
			t.Fatalf("reported: %#v", err)
		}
		if want := fmt.Sprintf("stdio: skipped a line of %d bytes that is no JSON-RPC message", line.Len); err.Error() != want {
			t.Errorf("want %q, got %q", want, err)
		}
		got = append(got, line.Excerpt)
	}
	want := append(stray[:len(stray)-1:len(stray)-1], `\x1b[2Jcleared`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	if s.ExitErr() != nil {
		t.Errorf("the server is gone: %v", s.ExitErr())
	}
}

func TestP2_excerptIsBounded(t *testing.T) {
	s := spawn(t, says(t, strings.Repeat("\x01", 10_000)+"\n"+answer(1)+"\n"))
	s.want(1)
	var line *stdio.StrayLineError
	if !errors.As(s.reports.all()[0], &line) || line.Len != 10_000 || line.Excerpt != strings.Repeat(`\x01`, 64) {
		t.Errorf("got %#v", line)
	}
}

func TestP2_arrayIsReadElementByElement(t *testing.T) {
	s := spawn(t, says(t, fmt.Sprintf(`[%s, 7, [%s], {"jsonrpc":"2.0","method":"note"}, %s]`+"\n%s\n",
		answer(1), answer(9), answer(2), answer(3))))
	s.want(1)
	m, err := s.read()
	if r, ok := m.(*jsonrpc.Request); !ok || r.Method != "note" {
		t.Fatalf("got %#v, %v", m, err)
	}
	s.want(2)
	s.want(3)
	if n := len(s.reports.all()); n != 2 { // the number and the nested array
		t.Errorf("reported: %v", s.reports.all())
	}
}

func TestP2_lastMessageWithoutNewlineCounts(t *testing.T) {
	s := spawn(t, stdio.Command{Args: []string{"/bin/sh", "-c", `printf %s "$1"`, "sh", answer(1)}})
	s.want(1)
	s.wantEnd()
}

func TestP2_halfALineIsNoMessage(t *testing.T) {
	s := spawn(t, stdio.Command{Args: []string{"/bin/sh", "-c", `printf %s "$1"`, "sh", answer(1)[:20]}})
	s.wantEnd()
	if n := len(s.reports.all()); n != 1 {
		t.Errorf("reported: %v", s.reports.all())
	}
}

func TestP2_fiveMiBPass(t *testing.T) {
	params := `{"text":"` + strings.Repeat("five ", 1<<20) + `"}`
	s := spawn(t, stdio.Command{Args: []string{"cat"}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.write(1, params)
	}()
	m, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.(*jsonrpc.Request).Params); got != params {
		t.Errorf("got %d bytes, want %d", len(got), len(params))
	}
	within(t, "the write returns", done)
}

func TestP2_endlessLineEndsTheConnection(t *testing.T) {
	cmd := shell(`tr '\0' x </dev/zero`)
	cmd.MaxLine = 4 << 20
	s := spawn(t, cmd)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 2 { // and stays ended
		var long *stdio.LineTooLongError
		if err := s.wantEnd(); !errors.As(err, &long) || err.Error() != "stdio: line over 4194304 bytes" {
			t.Fatalf("got %v", err)
		}
	}
	runtime.ReadMemStats(&after)
	// The buffer doubles up to the limit: all of them together come to twice the last one.
	if got := after.TotalAlloc - before.TotalAlloc; got > 3*4<<20 {
		t.Errorf("allocated %d bytes", got)
	}
	s.wantClosed()
}

// A watchedContext tells when someone asks for its end.
type watchedContext struct {
	context.Context
	watched func()
}

func (c *watchedContext) Done() <-chan struct{} {
	c.watched()
	return c.Context.Done()
}

func TestRead_honoursItsContextAndLosesNothing(t *testing.T) {
	s := spawn(t, self("echo"))
	for i := range int64(20) {
		ctx, cancel := context.WithCancel(context.Background())
		watched := make(chan struct{})
		read := make(chan error, 1)
		go func() {
			_, err := s.Read(&watchedContext{ctx, sync.OnceFunc(func() { close(watched) })})
			read <- err
		}()
		if i%2 == 0 {
			within(t, "the read is about to wait", watched)
		}
		cancel()
		if err := <-read; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		s.write(i, `{}`)
		s.want(i)
	}
}

func TestRead_contextDoneWinsOverAMessage(t *testing.T) {
	s := spawn(t, says(t, answer(1)+"\n"+answer(2)+"\n"))
	s.want(1) // the second has most likely come with it
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if m, err := s.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", m, err)
	}
	s.want(2)
}

func TestRead_stdoutClosedAndTheServerLivesOn(t *testing.T) {
	s := spawn(t, shell(`exec >&-; cat >/dev/null`))
	err := s.wantEnd()
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		!strings.HasPrefix(err.Error(), "stdio: server closed its stdout") {
		t.Errorf("got %v", err)
	}
	s.wantClosed()
}

func TestRead_endsAfterClose(t *testing.T) {
	s := spawn(t, self("echo"))
	read := make(chan error, 1)
	go func() {
		_, err := s.Read(context.Background())
		read <- err
	}()
	s.wantClosed()
	if err := <-read; err != io.EOF {
		t.Errorf("the read under way: got %v", err)
	}
	if err := s.wantEnd(); err != io.EOF {
		t.Errorf("a later read: got %v", err)
	}
}

// TestD1_ClosedStdoutIsSeenByShortReads: the end of stdout waits 250 ms for the exit behind it, which every Read whose
// context ended before began anew.
func TestD1_ClosedStdoutIsSeenByShortReads(t *testing.T) {
	s := spawn(t, shell(`exec 1>&-; sleep 60`))
	deadline := time.Now().Add(5 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := s.Read(ctx)
		cancel()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("read: %v", err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the end of stdout is not seen by reads of 20 ms")
		}
	}
}
