//go:build unix

package stdio_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/stdio"
)

// deaf is a server that neither the end of its stdin nor SIGTERM ends. It says when it is ready.
const deaf = `trap '' TERM; echo '{"jsonrpc":"2.0","id":0,"result":{}}'; exec sleep 1000`

func TestP4_stdinEndIsEnough(t *testing.T) {
	s := spawn(t, shell(`cat >/dev/null; exit 3`))
	s.wantClosed()
	s.wantExit(3) // no signal
}

func TestP4_closeTakesTwoGracesAndNoMore(t *testing.T) {
	hand := newHandClock()
	cmd := shell(deaf)
	cmd.Clock, cmd.StopGrace = hand, time.Hour
	s := spawn(t, cmd)
	s.want(0)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	hand.wantArmed(t, time.Hour) // the end of stdin is out
	hand.Add(time.Hour)
	hand.wantArmed(t, time.Hour) // SIGTERM is out
	hand.Add(time.Hour - 1)
	select {
	case err := <-closed:
		t.Fatalf("closed a nanosecond early: %v", err)
	default:
	}
	if s.ExitErr() != nil {
		t.Fatalf("gone early: %v", s.ExitErr())
	}
	hand.Add(1)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if exit := s.wantExit(-1); exit.Signal != syscall.SIGKILL {
		t.Errorf("got %v", exit)
	}
}

func TestP4_sigtermGoesToTheGroup(t *testing.T) {
	// The leader minds SIGTERM only in that its child may end by it.
	hand := newHandClock()
	cmd := shell(`trap : TERM; sh -c 'trap "exit 0" TERM; echo "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}"; while :; do sleep 0.01; done' &
		wait; wait; exit 6`)
	cmd.Clock, cmd.StopGrace = hand, time.Hour
	s := spawn(t, cmd)
	s.want(0)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	hand.wantArmed(t, time.Hour)
	hand.Add(time.Hour) // and not another one
	if err := hand.runUntil(t, closed); err != nil {
		t.Fatal(err)
	}
	s.wantExit(6)
}

func TestP4_stoppedServerIsClosed(t *testing.T) {
	cmd := shell(`echo $$ >&2; kill -STOP $$`)
	cmd.StopGrace = 50 * time.Millisecond
	s := spawn(t, cmd)
	eventually(t, "the server stops", func() bool { return stateOf(s.pid()) == 'T' })
	s.wantClosed()
	if exit := s.wantExit(-1); exit.Signal != syscall.SIGTERM {
		t.Errorf("SIGTERM had to wait for SIGKILL: %v", exit)
	}
}

func TestP4_readGoesOnWhileCloseWaits(t *testing.T) {
	// The answer is far more than a pipe holds, so someone has to read it.
	s := spawn(t, shell(`cat >/dev/null; printf '{"jsonrpc":"2.0","id":1,"result":"'
		head -c 1000000 /dev/zero | tr '\0' x; printf '"}\n{"jsonrpc":"2.0","id":2,"result":{}}\n'`))
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	s.want(1)
	if err := <-closed; err != nil { // what is left is in the pipe
		t.Fatal(err)
	}
	s.want(2)
	if err := s.wantEnd(); err != io.EOF {
		t.Errorf("got %v", err)
	}
	s.wantExit(0)
}

func TestP4_whatIsInThePipeStaysReadable(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*server) error
		want func(*server, error) bool
	}{
		{"P4 Close", (*server).Close, func(_ *server, err error) bool { return err == io.EOF }},
		{"P4 Kill", (*server).Kill, func(s *server, err error) bool { return err == s.ExitErr() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spawn(t, stdio.Command{Args: []string{"/bin/sh", "-c", `echo "$1"; echo "$2"; echo $$ >&2; cat`, "sh", answer(1), answer(2)}})
			s.pid() // so both are in the pipe
			if err := tt.end(s); err != nil {
				t.Fatal(err)
			}
			s.want(1)
			s.want(2)
			if err := s.wantEnd(); !tt.want(s, err) {
				t.Errorf("the end: got %v", err)
			}
		})
	}
}

func TestP4_closeNeedsNoReader(t *testing.T) {
	cmd := shell(`trap '' TERM; yes`)
	cmd.StopGrace = 20 * time.Millisecond
	s := spawn(t, cmd)
	s.wantClosed()
	s.wantExit(-1)
}

func TestP4_killCutsCloseShort(t *testing.T) {
	hand := newHandClock() // stands still: no grace ever ends
	cmd := shell(deaf)
	cmd.Clock = hand
	s := spawn(t, cmd)
	s.want(0)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	hand.wantArmed(t, stdio.DefaultStopGrace)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

func TestP4_killIsAtOnceAndMayComeLate(t *testing.T) {
	s := spawn(t, shell(deaf))
	s.want(0)
	for range 2 {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if exit := s.wantExit(-1); exit.Signal != syscall.SIGKILL {
			t.Errorf("got %v", exit)
		}
	}
	s.wantClosed()
}

func TestP4_restOfTheGroupDiesWithItsLeader(t *testing.T) {
	s := spawn(t, shell(`trap '' TERM; sleep 1000 & echo $! >&2; exit 0`))
	grandchild := s.pid()
	s.wantExit(0)
	s.wantClosed()
	if state := stateOf(grandchild); state != 0 && state != 'Z' {
		t.Errorf("the grandchild is in state %c after Close", state)
	}
}

func TestP4_descendantOutsideTheGroupHoldsNothingUp(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	s := spawn(t, shell(`setsid sh -c 'echo $$ >&2; exec sleep 1000' &
		read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'`))
	orphan := s.pid()
	defer syscall.Kill(orphan, syscall.SIGKILL)
	s.write(1, `{}`)
	exited := time.Now()
	exit := s.wantExit(0)
	s.want(1)
	if err := s.wantEnd(); err != error(exit) {
		t.Errorf("got %v", err)
	}
	s.wantClosed()
	if d := time.Since(exited); d > slack {
		t.Errorf("took %v", d)
	}
	if state := stateOf(orphan); state == 0 || state == 'Z' {
		t.Error("the descendant is gone, which proves nothing")
	}
}

func TestP4_nothingIsLeftOver(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 8
	}
	round := func(i int) {
		s := spawn(t, shell(`sleep 1000 & while read -r line; do echo '{"jsonrpc":"2.0","id":1,"result":{}}'; done`))
		s.write(1, `{}`)
		s.want(1)
		if i%2 == 0 {
			s.wantClosed()
		} else if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	round(0) // the runtime's own descriptors
	goroutines, open := runtime.NumGoroutine(), descriptors(t)
	for i := range rounds {
		round(i)
	}
	if diff := cmp.Diff(open, descriptors(t)); diff != "" {
		t.Errorf("descriptors (-before +after):\n%s", diff)
	}
	if got := children(t); len(got) > 0 {
		t.Errorf("children, zombies included: %v", got)
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
}

func TestP4_nothingIsLeftOverAfterADeathWithoutClose(t *testing.T) {
	transport, err := shell(`exit 0`).Mint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	goroutines, open := runtime.NumGoroutine(), descriptors(t)
	conn, err := transport.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m, err := conn.Read(context.Background()); err == nil {
		t.Fatalf("got %v", m)
	}
	within(t, "the process exits", conn.(connection).Exited())
	if diff := cmp.Diff(open, descriptors(t)); diff != "" {
		t.Errorf("descriptors (-before +after):\n%s", diff)
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
}

func TestC1_closeAndKillAndReadAndWriteAtOnce(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		s := spawn(t, self("echo"))
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				if _, err := s.Read(context.Background()); err != nil {
					return
				}
			}
		})
		for i := range int64(4) {
			wg.Go(func() {
				for s.Write(context.Background(), call(i, `{}`)) == nil {
				}
			})
		}
		s.write(9, `{}`)
		for range 2 {
			wg.Go(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			wg.Go(func() {
				if err := s.Kill(); err != nil {
					t.Errorf("kill: %v", err)
				}
			})
			wg.Go(func() { <-s.Exited(); s.ExitErr() })
		}
		wg.Wait()
	}
}

// children returns the ids of our children, zombies included.
func children(t *testing.T) []int {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Skip("no list of children here")
	}
	var pids []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for _, field := range bytes.Fields(text) {
			pid, err := strconv.Atoi(string(field))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// stateOf returns the state letter of a process: T for stopped, Z for a zombie; 0 if there is none.
func stateOf(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return stat[bytes.LastIndexByte(stat, ')')+2]
}
