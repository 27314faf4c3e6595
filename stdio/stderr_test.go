//go:build unix

package stdio_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised/internal/ambient"
	"github.com/seed7990db67/supervised/stdio"
)

func logger() (logrus.FieldLogger, *logtest.Hook) {
	l, hook := logtest.NewNullLogger()
	l.SetLevel(logrus.TraceLevel)
	return l, hook
}

func TestP5_stderrIsAlwaysDrained(t *testing.T) {
	rounds := int64(20)
	if testing.Short() {
		rounds = 4
	}
	s := spawn(t, self("noisy"))
	for i := range rounds {
		s.write(i, `{}`)
		s.want(i)
	}
	s.wantClosed()
	if got, want := len(s.errs.String()), int(rounds)*256<<10; got != want {
		t.Errorf("want %d bytes, got %d", want, got)
	}
}

func TestP5_eachLineIsLogged(t *testing.T) {
	log, hook := logger()
	cmd := shell(`printf 'plain\ncrlf\r\n\n\033[31mred\n\377\n' >&2
		head -c 5000 /dev/zero | tr '\0' y >&2; printf '\nlast' >&2`)
	cmd.Logger = log
	spawn(t, cmd).wantExit(0)
	want := []string{"plain", "crlf", "", `\x1b[31mred`, `\xff`, strings.Repeat("y", 1024), "last"}
	var got []string
	for _, e := range hook.AllEntries() {
		if e.Level != logrus.InfoLevel || e.Message != "server wrote to its stderr" || len(e.Data) != 1 {
			t.Errorf("got %v %q %v", e.Level, e.Message, e.Data)
		}
		got = append(got, fmt.Sprint(e.Data["line"]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestP5_loggerComesWithTheContext(t *testing.T) {
	log, hook := logger()
	ctx := ambient.With(t.Context(), log, newHandClock())
	transport, err := shell(`echo hello >&2`).Mint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := transport.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	within(t, "the process exits", conn.(connection).Exited())
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if e := hook.LastEntry(); e == nil || e.Data["line"] != "hello" {
		t.Errorf("got %v", e)
	}
}

func TestP5_lastEightKiBStandInTheError(t *testing.T) {
	s := spawn(t, shell(`i=0; while [ $i -lt 4000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1`))
	exit := s.wantExit(1)
	all := s.errs.String()
	if want := all[len(all)-8<<10:]; exit.Stderr != want {
		t.Errorf("got %d bytes, %q ... %q", len(exit.Stderr), exit.Stderr[:20], exit.Stderr[len(exit.Stderr)-20:])
	}
	if exit.Error() != "stdio: exit status 1: line 3999" {
		t.Errorf("got %q", exit)
	}
}

func TestP5_errorTextIsPrintableAndBounded(t *testing.T) {
	exit := &stdio.ExitError{Code: 1, Stderr: "x\n\x1b" + strings.Repeat("z", 1000) + "\n \n"}
	if got, want := exit.Error(), `stdio: exit status 1: \x1b`+strings.Repeat("z", 252); got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

// failing is a writer that returns an error from its second call on.
type failing struct{ calls int }

var errFull = errors.New("disk full")

func (f *failing) Write(text []byte) (int, error) {
	f.calls++
	if f.calls > 1 {
		return 0, errFull
	}
	return len(text), nil
}

func TestP5_writerThatFailsIsDroppedAndReported(t *testing.T) {
	to := new(failing)
	cmd := self("noisy")
	cmd.Stderr = to
	s := spawn(t, cmd)
	for i := range int64(3) {
		s.write(i, `{}`)
		s.want(i)
	}
	s.wantClosed()
	if to.calls != 2 {
		t.Errorf("called %d times", to.calls)
	}
	if got := s.reports.all(); len(got) != 1 || !errors.Is(got[0], errFull) {
		t.Errorf("reported: %v", got)
	}
}

// blocking is a writer that does not return until it is released.
type blocking chan struct{}

func (b blocking) Write(text []byte) (int, error) {
	<-b
	return len(text), nil
}

func TestP5_writerThatBlocksHidesNoExit(t *testing.T) {
	to := make(blocking)
	defer close(to)
	cmd := shell(`echo why >&2; exit 9`)
	cmd.Stderr = to
	started := time.Now()
	s := spawn(t, cmd)
	if exit := s.wantExit(9); exit.Stderr != "why\n" {
		t.Errorf("Stderr: got %q", exit.Stderr)
	}
	s.wantClosed()
	if d := time.Since(started); d > slack {
		t.Errorf("took %v", d)
	}
}

func TestD5_noSecretReachesTheLog(t *testing.T) {
	log, hook := logger()
	cmd := says(t, `{"jsonrpc":"2.0","s3cret":1}`+"\nprint(s3cret)\n"+answer(1)+"\n")
	cmd.Args = append(cmd.Args, "--token=s3cret")
	cmd.Env = []string{"TOKEN=s3cret"}
	cmd.Logger = log
	s := spawn(t, cmd)
	s.write(1, `{"password":"s3cret"}`)
	s.want(1)
	s.wantClosed()
	if n := len(hook.AllEntries()); n != 2 {
		t.Errorf("want a warning for each of two stray lines, got %d records", n)
	}
	for _, e := range hook.AllEntries() {
		text, err := e.String()
		if err != nil {
			t.Fatal(err)
		}
		if e.Level != logrus.WarnLevel || strings.Contains(text, "s3cret") {
			t.Errorf("got %s", text)
		}
	}
	for _, err := range s.reports.all() {
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error's text says %q", err)
		}
	}
}
