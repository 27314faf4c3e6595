//go:build unix

package stdio_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Lines that are written together stay in the order of their writers, whichever of them go by themselves: those that
// are short and those that are not, those that wait and those that do not.
func TestW5_gatheredLinesKeepTheirOrder(t *testing.T) {
	s := spawn(t, self("echo"))
	const writers, each = 4, 500
	text := `{"text":"` + strings.Repeat("x", 6<<10) + `"}`
	var wg sync.WaitGroup
	for w := range int64(writers) {
		wg.Go(func() {
			for i := range int64(each) {
				params := `{}`
				if i%17 == 0 {
					params = text
				}
				s.write(w*each+i, params)
			}
		})
	}
	next := make([]int64, writers)
	for range writers * each {
		m, err := s.read()
		if err != nil {
			t.Fatal(err)
		}
		id := m.(*jsonrpc.Response).ID.Raw().(int64)
		if w := id / each; id%each != next[w] {
			t.Fatalf("writer %d: want %d, got %d", w, next[w], id%each)
		}
		next[id/each]++
	}
	wg.Wait()
}

// A line whose writer has left cannot fail him; that the server has closed its stdin ends Read instead.
func TestD1_gatheredLinesThatCannotBeWrittenEndRead(t *testing.T) {
	s := spawn(t, shell(`read line; exec 0<&-; echo closed >&2; sleep 60`))
	s.write(1, `{}`)
	eventually(t, "the server closes its stdin", func() bool { return strings.Contains(s.errs.String(), "closed") })
	// Nothing has come since the first.
	if err := s.Write(context.Background(), call(2, `{}`)); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write: %v", err)
	}
	if err := s.wantEnd(); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("want %v, got %v", syscall.EPIPE, err)
	}
	if err := s.Write(context.Background(), call(3, `{}`)); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write after it: want %v, got %v", syscall.EPIPE, err)
	}
}

// A server that has closed its stdin may still answer and exit as it likes, also when it is a gathered line that was not
// taken.
func TestW3_gatheredLinesThatCannotBeWrittenCutNoAnswerOff(t *testing.T) {
	s := spawn(t, shell(`read line; exec 0<&-; echo closed >&2; sleep 0.1; echo '{"jsonrpc":"2.0","id":1,"result":{}}'`))
	s.write(1, `{}`)
	eventually(t, "the server closes its stdin", func() bool { return strings.Contains(s.errs.String(), "closed") })
	if err := s.Write(context.Background(), call(2, `{}`)); err != nil {
		t.Errorf("write: %v", err)
	}
	s.want(1)
	s.wantExit(0)
}

// What was written before Close reaches the server before the end of its stdin.
func TestP4_closeWritesWhatIsGathered(t *testing.T) {
	for range 20 {
		s := spawn(t, shell(`wc -l >&2`))
		const lines = 100
		for i := range int64(lines) {
			s.write(i, `{}`)
		}
		s.wantClosed()
		if got := strings.TrimSpace(s.errs.String()); got != fmt.Sprint(lines) {
			t.Fatalf("the server got %s lines, want %d", got, lines)
		}
	}
}

// A server that does not read still holds up its writers, once what a pipe and a batch hold is full.
func TestW5_gatheringIsBounded(t *testing.T) {
	cmd := shell(`echo $$ >&2; kill -STOP $$`)
	cmd.StopGrace = 1
	s := spawn(t, cmd)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	written := 0
	for {
		if err := s.Write(ctx, call(1, `{"text":"`+strings.Repeat("x", 1000)+`"}`)); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("write: %v", err)
			}
			break
		}
		written++
	}
	if written > 1000 {
		t.Errorf("%d lines of 1 KiB were taken for a server that reads nothing", written)
	}
}
