//go:build unix

package stdio_test

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed7990db67/supervised/stdio"
)

func TestP3_exitCodeAndTextAreInTheError(t *testing.T) {
	s := spawn(t, shell(`echo first >&2; echo why >&2; exit 23`))
	err := s.wantEnd()
	exit := s.wantExit(23)
	if err != error(exit) {
		t.Errorf("Read: want the ExitErr, got %v", err)
	}
	if got, want := exit.Error(), "stdio: exit status 23: why"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if got, want := exit.Stderr, "first\nwhy\n"; got != want {
		t.Errorf("Stderr: want %q, got %q", want, got)
	}
	if exit.ExitCode() != 23 {
		t.Errorf("ExitCode: got %d", exit.ExitCode())
	}
}

func TestP3_exitStatusZeroIsAnErrorToo(t *testing.T) {
	s := spawn(t, shell(`exit 0`))
	err := s.wantEnd()
	if got, want := err.Error(), "stdio: exit status 0"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if errors.Is(err, io.EOF) {
		t.Error("a death matches io.EOF")
	}
	s.wantExit(0)
}

func TestP3_signalIsInTheError(t *testing.T) {
	s := spawn(t, shell(`kill -KILL $$`))
	exit := s.wantExit(-1)
	if exit.Signal != syscall.SIGKILL || exit.Error() != "stdio: signal: killed" {
		t.Errorf("got %#v, %q", exit.Signal, exit)
	}
}

func TestExitError_text(t *testing.T) {
	for _, tt := range []struct {
		exit stdio.ExitError
		want string
	}{
		{stdio.ExitError{}, "stdio: exit status 0"},
		{stdio.ExitError{Code: 3, Stderr: "\n \n"}, "stdio: exit status 3"},
		{stdio.ExitError{Code: 3, Stderr: "one\ntwo\r\n\n"}, "stdio: exit status 3: two"},
		{stdio.ExitError{Code: -1, Signal: syscall.SIGTERM, Stderr: "bye"}, "stdio: signal: terminated: bye"},
		{stdio.ExitError{Code: -1}, "stdio: exit status unknown"},
	} {
		if got := tt.exit.Error(); got != tt.want {
			t.Errorf("%#v: want %q, got %q", tt.exit, tt.want, got)
		}
	}
}

func TestP3_grandchildThatHoldsStdoutHidesNoDeath(t *testing.T) {
	s := spawn(t, shell(`sleep 1000 & read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; exit 4`))
	s.write(1, `{}`)
	s.want(1)
	died := time.Now()
	err := s.wantEnd()
	if d := time.Since(died); d > slack {
		t.Errorf("noticed after %v", d)
	}
	var exit *stdio.ExitError
	if !errors.As(err, &exit) || exit.Code != 4 {
		t.Errorf("want exit status 4, got %v", err)
	}
}

// A daemon that the server left behind had its stderr. The exit waits for the last words on it, and the end of stdout
// did not wait as long: Read said that the server had closed its stdout.
func TestP3_daemonThatHoldsStderrHidesNoExit(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	for range 3 {
		now := newHandClock()
		cmd := shell(`setsid sh -c 'echo $$ >&2; exec sleep 1000 >&- <&-' & read -r line; exit 4`)
		cmd.Clock = now
		s := spawn(t, cmd)
		daemon := s.pid()
		kill := sync.OnceFunc(func() { syscall.Kill(daemon, syscall.SIGKILL) })
		defer kill()
		s.write(1, `{}`)
		read := make(chan error, 1)
		go func() {
			_, err := s.Read(context.Background())
			read <- err
		}()
		now.wantArmed(t, 250*time.Millisecond) // for the end of stdout and for that of stderr, in either order
		now.wantArmed(t, 250*time.Millisecond)
		now.Add(250 * time.Millisecond)
		err := now.runUntil(t, read)
		if exit, ok := errors.AsType[*stdio.ExitError](err); !ok || exit.Code != 4 {
			t.Errorf("want exit status 4, got %v", err)
		}
		if state := stateOf(daemon); state == 0 || state == 'Z' {
			t.Error("the daemon is gone, which proves nothing")
		}
		kill()
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		if err := now.runUntil(t, closed); err != nil {
			t.Error(err)
		}
	}
}

func TestW3_answerBeforeTheExitArrives(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 20
	}
	cmd := shell(`read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; exit 7`)
	for range rounds {
		s := spawn(t, cmd)
		s.write(1, `{}`)
		s.want(1)
		s.wantEnd()
		s.wantExit(7)
		s.wantClosed()
	}
}
