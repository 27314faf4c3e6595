package budget_test

import (
	"errors"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/seed7990db67/supervised/budget"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	window = time.Minute
	delay  = 100 * time.Millisecond
)

// fixture is a budget under a clock that moves only when told to.
type fixture struct {
	*testing.T
	clock  *clock.Mock
	budget *budget.Tumbling
	max    int
}

// newFixture starts its clock away from the epoch and from any multiple of the
// window, so that a window that opened at some origin would show.
func newFixture(t *testing.T, max int) *fixture {
	t.Helper()
	b, err := budget.NewTumbling(max, window, delay)
	if err != nil {
		t.Fatal(err)
	}
	mock := clock.NewMock()
	mock.Add(12345*time.Hour + 17*time.Second)
	return &fixture{T: t, clock: mock, budget: b, max: max}
}

// later moves the clock. It returns the fixture for a sentence like
// f.later(time.Second).granted(2).
func (f *fixture) later(d time.Duration) *fixture {
	f.clock.Add(d)
	return f
}

// granted has a peer die now and expects its replacement to be granted as this
// restart of the window.
func (f *fixture) granted(attempt int) {
	f.Helper()
	f.want(verdict{f.grant(attempt), true}, f.clock.Now())
}

// refused has a peer die now and expects no replacement.
func (f *fixture) refused() {
	f.Helper()
	f.want(verdict{f.grant(f.max), false}, f.clock.Now())
}

type verdict struct {
	Grant   budget.Grant
	Granted bool
}

func (f *fixture) grant(attempt int) budget.Grant {
	return budget.Grant{Attempt: attempt, Max: f.max, Window: window, Delay: delay}
}

func (f *fixture) want(want verdict, at time.Time) {
	f.Helper()
	if diff := cmp.Diff(want, spend(f.budget, at)); diff != "" {
		f.Errorf("death at %v (-want +got):\n%s", at, diff)
	}
}

func spend(b budget.Budget, at time.Time) verdict {
	grant, granted := b.Spend(budget.Death{At: at, Cause: errors.New("died")})
	return verdict{grant, granted}
}

func TestB1_TheWindowOpensAtTheFirstDeathInIt(t *testing.T) {
	f := newFixture(t, 3)
	f.granted(1)
	f.later(29 * time.Second).granted(2)
	f.later(29 * time.Second).granted(3)
	// 58 s after the first: whatever the clock's origin, the window still lasts.
	f.refused()
}

func TestB2_ADeathPastTheWindowOpensAFreshOne(t *testing.T) {
	f := newFixture(t, 2)
	f.granted(1)
	f.later(window / 2).granted(2)
	f.refused()
	f.later(window/2 + 1).granted(1)
	f.granted(2)
	f.refused()
	// Nothing happened for a long while: the next window opens at the next death,
	// not where the last one ended.
	f.later(10*window + window/2).granted(1)
	f.later(window).granted(2)
	f.refused()
}

func TestB2_ARefusalNeitherOpensNorExtendsAWindow(t *testing.T) {
	f := newFixture(t, 1)
	f.granted(1)
	for range 6 {
		f.later(window / 6).refused()
	}
	f.later(1).granted(1)
}

func TestB3_TwiceMaxLessOneAcrossAnEdge(t *testing.T) {
	const max = 3
	f := newFixture(t, max)
	f.granted(1)

	opened := f.later(window).clock.Now() // the edge, still inside
	restarts := 0
	for attempt := 2; attempt <= max; attempt++ {
		f.granted(attempt)
		restarts++
	}
	f.refused()
	f.later(1)
	for attempt := 1; attempt <= max; attempt++ {
		f.granted(attempt)
		restarts++
	}
	f.refused()

	if took := f.clock.Now().Sub(opened); restarts != 2*max-1 || took > window {
		t.Errorf("%d restarts in %v, want %d inside one window's width", restarts, took, 2*max-1)
	}
}

func TestB5_UptimeAndCauseGiveNothingBack(t *testing.T) {
	f := newFixture(t, 1)
	f.granted(1)
	at := f.clock.Now()
	for _, death := range []budget.Death{
		{At: at, Uptime: 1000 * time.Hour, Cause: errors.New("died")},
		{At: at, Uptime: 1000 * time.Hour},
		{At: at},
	} {
		if _, granted := f.budget.Spend(death); granted {
			t.Errorf("%+v was granted, though the restart was spent", death)
		}
	}
}

func TestB6_ARefusalSaysWhatWasSpent(t *testing.T) {
	f := newFixture(t, 2)
	f.granted(1)
	f.granted(2)
	want := verdict{budget.Grant{Attempt: 2, Max: 2, Window: window, Delay: delay}, false}
	f.want(want, f.clock.Now())
	f.want(want, f.clock.Now()) // and goes on saying it
}

func TestB7_EdgesAreExact(t *testing.T) {
	for _, tt := range []struct {
		name    string
		after   time.Duration
		granted bool
	}{
		{"B7 a nanosecond before the edge", window - 1, false},
		{"B7 on the edge", window, false},
		{"B7 a nanosecond past the edge", window + 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, 1)
			f.granted(1)
			f.later(tt.after)
			if tt.granted {
				f.granted(1)
			} else {
				f.refused()
			}
		})
	}
}

func TestB7_AStepOfTheWallClockChangesNothing(t *testing.T) {
	start := time.Now()
	for _, step := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		b, err := budget.NewTumbling(1, window, delay)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			at      time.Time
			granted bool
		}{
			{start, true},
			{stepWall(t, start.Add(window), step), false},
			{stepWall(t, start.Add(window+1), step), true},
			{start.Add(2*window + 1), false}, // the step is taken back
			{start.Add(2*window + 2), true},
		} {
			if got := spend(b, tt.at).Granted; got != tt.granted {
				t.Errorf("wall clock stepped by %v, death %v after the first: granted %t, want %t",
					step, tt.at.Sub(start), got, tt.granted)
			}
		}
	}
}

// stepWall returns at as a clock would tell it whose wall time was set by step
// since: another time of day, the same monotonic reading. No public function
// makes such a value, so it is made by hand and then looked at through the public
// ones.
func stepWall(t *testing.T, at time.Time, step time.Duration) time.Time {
	t.Helper()
	const secondsShift = 30 // of the wall word: 30 bits of nanoseconds, then seconds
	stepped := at
	*(*uint64)(unsafe.Pointer(&stepped)) += uint64(step/time.Second) << secondsShift
	if stepped.Sub(at) != 0 || stepped.Round(0).Sub(at.Round(0)) != step {
		t.Skip("time.Time is laid out otherwise in this version of Go")
	}
	return stepped
}

func TestB8_ADeathFromBeforeTheOpeningIsInside(t *testing.T) {
	f := newFixture(t, 2)
	f.granted(1)
	at := f.clock.Now()
	f.want(verdict{f.grant(2), true}, at.Add(-10*window))
	f.want(verdict{f.grant(2), false}, at.Add(-1))
	// The late news moved nothing: the window still ends where it did.
	f.later(window).refused()
	f.later(1).granted(1)
}

func TestB8_SafeForConcurrentUse(t *testing.T) {
	const max, peers = 5, 40
	f := newFixture(t, max)
	verdicts := make(chan verdict, peers)
	var deaths sync.WaitGroup
	for range peers {
		deaths.Go(func() { verdicts <- spend(f.budget, f.clock.Now()) })
	}
	deaths.Wait()
	close(verdicts)

	got := make(map[int]int) // how often each attempt was granted
	for v := range verdicts {
		if v.Granted {
			got[v.Grant.Attempt]++
		}
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1}, got); diff != "" {
		t.Errorf("grants by attempt (-want +got):\n%s", diff)
	}
}

// Whatever the deaths, Tumbling answers as a model does that keeps all of them
// and, at each, cuts their history into windows from the start. Independently of
// the model, no window's width ever sees more than 2·max − 1 restarts (B3).
func TestTumblingAgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		max := rapid.IntRange(1, 4).Draw(t, "max")
		window := time.Duration(rapid.IntRange(1, 20).Draw(t, "window"))
		b, err := budget.NewTumbling(max, window, delay)
		if err != nil {
			t.Fatal(err)
		}
		inOrder := rapid.Bool().Draw(t, "in order")
		var origin time.Time                 // the zero time means nothing special either
		var deaths, restarts []time.Duration // since the origin
		var at time.Duration
		for range rapid.IntRange(1, 60).Draw(t, "deaths") {
			if inOrder {
				at += time.Duration(rapid.IntRange(0, 12).Draw(t, "gap"))
			} else {
				at = time.Duration(rapid.IntRange(0, 60).Draw(t, "at"))
			}
			deaths = append(deaths, at)

			want := verdict{budget.Grant{Max: max, Window: window, Delay: delay}, true}
			if want.Grant.Attempt = len(lastWindow(deaths, window)); want.Grant.Attempt > max {
				want.Grant.Attempt, want.Granted = max, false
			}
			got := spend(b, origin.Add(at))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("after deaths at %d (-model +budget):\n%s", deaths, diff)
			}

			if got.Granted {
				restarts = append(restarts, at)
			}
			within := 0
			for _, r := range restarts {
				if at-window <= r && r <= at {
					within++
				}
			}
			if inOrder && within > 2*max-1 {
				t.Fatalf("%d restarts in the %d before %d: %d", within, window, at, restarts)
			}
		}
	})
}

// lastWindow returns the deaths, spent and refused, of the window that the last
// of them lies in.
func lastWindow(deaths []time.Duration, window time.Duration) []time.Duration {
	for i, death := range deaths {
		if death-deaths[0] > window {
			return lastWindow(deaths[i:], window)
		}
	}
	return deaths
}

func TestNewTumblingRefuses(t *testing.T) {
	for _, tt := range []struct {
		name          string
		max           int
		window, delay time.Duration
		want          string
	}{
		{"no restart", 0, window, delay, "budget: max restarts 0: want at least 1"},
		{"fewer than none", -1, window, delay, "budget: max restarts -1: want at least 1"},
		{"no window", 1, 0, delay, "budget: restart window 0s: want a positive duration"},
		{"a negative window", 1, -window, delay, "budget: restart window -1m0s: want a positive duration"},
		{"a negative delay", 1, window, -1, "budget: restart delay -1ns: want 0 or more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := budget.NewTumbling(tt.max, tt.window, tt.delay)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if b != nil {
				t.Errorf("a budget came with the error")
			}
		})
	}
}

func TestNewTumblingAcceptsTheSmallest(t *testing.T) {
	b, err := budget.NewTumbling(1, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := verdict{budget.Grant{Attempt: 1, Max: 1, Window: 1}, true}
	if diff := cmp.Diff(want, spend(b, time.Time{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTheZeroTumblingRefusesEveryRestart(t *testing.T) {
	var b budget.Tumbling
	for _, at := range []time.Time{{}, time.Unix(1e9, 0), time.Unix(2e9, 0)} {
		if diff := cmp.Diff(verdict{}, spend(&b, at)); diff != "" {
			t.Errorf("death at %v (-want +got):\n%s", at, diff)
		}
	}
}
