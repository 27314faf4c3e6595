package records_test

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised/internal/ambient"
	"github.com/seed7990db67/supervised/internal/records"
)

// blocking is the output of a logger that blocks until it is closed.
type blocking chan struct{}

func (b blocking) Write(p []byte) (int, error) { <-b; return len(p), nil }

func blocked() (*logrus.Logger, *logtest.Hook, blocking) {
	out := make(blocking)
	l := logrus.New()
	l.SetOutput(out)
	return l, logtest.NewLocal(l), out
}

func texts(h *logtest.Hook) (lines []string) {
	for _, e := range h.AllEntries() {
		lines = append(lines, fmt.Sprint(e.Level, " ", e.Message, " ", e.Data))
	}
	return lines
}

func TestRecordsComeThroughAsTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, hook := logtest.NewNullLogger()
		l := records.Behind(to.WithField("of", "the user"))
		failed := errors.New("why")
		l.WithError(failed).WithField("n", 1).Error("first")
		l.Warn("second")
		l.Debug("not wanted")
		l.Info("third")
		made := time.Now()
		<-records.Idle(l)
		want := []string{"error first map[error:why n:1 of:the user]", "warning second map[of:the user]", "info third map[of:the user]"}
		if d := cmp.Diff(want, texts(hook)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if at := hook.LastEntry().Time; !at.Equal(made) {
			t.Errorf("made at %v, passed on as of %v", made, at)
		}
	})
}

// What waits for a logger that blocks is bounded, and a flood at info leaves room for what is worse.
func TestNobodyWaitsForALoggerThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, hook, out := blocked()
		l := records.Behind(to)
		for range 10_000 {
			l.Info("flood")
		}
		for i := range 3 {
			l.WithField("n", i).Error("it matters")
		}
		select {
		case <-records.Idle(l):
			t.Error("idle with the logger blocked")
		default:
		}
		close(out)
		<-records.Idle(l)
		count := map[string]int{}
		dropped := 0
		for _, e := range hook.AllEntries() {
			count[e.Message]++
			if n, ok := e.Data["records"].(int); ok {
				dropped += n
			}
		}
		if count["it matters"] != 3 || count["flood"] < 1000 || count["flood"]+dropped != 10_000 {
			t.Errorf("passed on: %v, dropped: %d", count, dropped)
		}
	})
}

// A slow logger gets everything, in order, of many who log.
func TestOrderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, hook := logtest.NewNullLogger()
		to.SetOutput(slow{})
		l := records.Behind(to)
		var all sync.WaitGroup
		for who := range 4 {
			all.Go(func() {
				for i := range 100 {
					l.WithFields(logrus.Fields{"who": who, "i": i}).Warn("record")
				}
			})
		}
		all.Wait()
		<-records.Idle(l)
		next := map[int]int{}
		for _, e := range hook.AllEntries() {
			who, i := e.Data["who"].(int), e.Data["i"].(int)
			if next[who] != i {
				t.Fatalf("of %d: want record %d, got %d", who, next[who], i)
			}
			next[who]++
		}
		if d := cmp.Diff(map[int]int{0: 100, 1: 100, 2: 100, 3: 100}, next); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

type slow struct{}

func (slow) Write(p []byte) (int, error) { time.Sleep(time.Second); return io.Discard.Write(p) }

func TestBehindALoggerThatIsBehindOne(t *testing.T) {
	l := records.Behind(ambient.Discard())
	if again := records.Behind(l); again != l {
		t.Errorf("got %v", again)
	}
	<-records.Idle(ambient.Discard())
}

// Where the logger is quick, a warning has reached it when its call returns; where it is slow, the second one does
// not wait again, until the logger has caught up.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, hook, out := blocked()
		l := records.Behind(to)
		began := time.Now()
		l.Warn("first")
		l.Error("second")
		if d := time.Since(began); d != 20*time.Millisecond {
			t.Errorf("want one patience of 20 ms, waited %v", d)
		}
		close(out)
		<-records.Idle(l)
		hook.Reset()
		l.Warn("third")
		if d := cmp.Diff([]string{"warning third map[]"}, texts(hook)); d != "" {
			t.Errorf("when it returns (-want +got):\n%s", d)
		}
	})
}
