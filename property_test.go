package supervised_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// The times of a walk. No two that can run at once end at the same instant, so that what happens does not
// depend on who is first: hence the odd nanoseconds.
const (
	linger         = 250 * time.Millisecond // W3
	connectTimeout = 700*time.Millisecond + 13
	tellTimeout    = 5 * time.Second // how long Stream.Close may wait for a peer that does not read
)

// What a script does with a mint or a start.
const (
	goes    = iota
	fails   // with an error
	held    // until the walk lets go, or its context ends
	ignores // likewise, but it ignores its context; for a mint alone
)

// A script is what is special about the peer of a mint.
type script struct {
	process     bool
	mint, start int
	end         time.Duration // how long its Kill or its Close takes
	answers     bool          // calls, as it takes them
	shakes      bool          // it answers the handshake as it takes it
	shake       string        // how: "ok", "refused", "other version"

	// The Write, counted from 1, that fails with all that come after, that is rejected, and that is blocked
	// until the walk lets go. 0: none.
	breakAt, rejectAt, pauseAt int
}

// A config is what a walk is set in.
type config struct {
	old     bool // a session of a protocol before 2026-07-28
	silent  bool // whose initialize is in flight when the walk begins
	keeps   bool // WithRetryLostRequests
	max     int
	window  time.Duration
	delay   time.Duration
	onClose time.Duration // how long the hook takes
	onDrain time.Duration // likewise; negative: there is none
	scripts []script      // by mint
}

// script is that of a mint; without one a peer does nothing by itself.
func (c *config) script(mint int) *script {
	if mint < len(c.scripts) {
		return &c.scripts[mint]
	}
	return &script{shakes: true, shake: "ok"}
}

// reply is how p answers a: with its how-th answer, or with that of its script (0).
func (c *config) reply(p *modelPeer, a *asked, how int) *saying {
	if a.own != "" {
		result := "ok"
		if a.own == "initialize" {
			result = p.script.shake
			if how > 0 {
				result = [...]string{"ok", "ok", "ok", "refused", "other version"}[how%5]
			}
		}
		return &saying{kind: "own answer", own: a.own, result: result}
	}
	s := &saying{kind: "answer", r: a.r, token: answerToken(p.mint, a.r.name()), result: "result"}
	if how%4 == 3 && a.r.method != "initialize" {
		s.result = "error"
	}
	return s
}

func answerToken(mint int, name string) string { return fmt.Sprintf("%d/%s", mint, name) }

// params is what a request says.
func (r *request) params() json.RawMessage {
	switch {
	case r.stream:
		return json.RawMessage(fmt.Sprintf(`{"notifications": {"resourceSubscriptions":["walk://%d"]}}`, r.n))
	case r.method == "initialize":
		return json.RawMessage(`{"protocolVersion":"2025-11-25", "capabilities":{},"clientInfo":{"name":"walker","version":"1"}}`)
	case r.method == "logging/setLevel":
		return json.RawMessage(fmt.Sprintf(`{"level":"%s"}`, [...]string{"debug", "info", "error"}[r.n%3]))
	case r.method == "resources/subscribe", r.method == "resources/unsubscribe":
		return json.RawMessage(fmt.Sprintf(`{"uri":"file://%d"}`, r.n%3))
	case r.method == "prompts/get" && !r.keep:
		return json.RawMessage(fmt.Sprintf(`{ "n":%d,"requestState":"s"}`, r.n))
	}
	return json.RawMessage(fmt.Sprintf(`{ "n":%d}`, r.n))
}

// A stimulus is one thing that happens in a walk. What a and b mean is up to what it does; what they choose is
// chosen among what there is when its turn comes, so that each walk is one that can be taken.
type stimulus struct{ does, a, b int }

var stimuli = rapid.Custom(func(t *rapid.T) stimulus {
	return stimulus{
		does: rapid.IntRange(0, len(chances)-1).Draw(t, "does"),
		a:    rapid.IntRange(0, 255).Draw(t, "a"),
		b:    rapid.IntRange(0, 255).Draw(t, "b"),
	}
})

// drawScript draws a script: most are good, as most servers are.
func drawScript(t *rapid.T) script {
	return script{
		process:  rapid.Bool().Draw(t, "process"),
		mint:     rapid.SampledFrom([]int{goes, goes, goes, goes, goes, goes, held, fails, ignores}).Draw(t, "mint"),
		start:    rapid.SampledFrom([]int{goes, goes, goes, goes, goes, goes, held, fails}).Draw(t, "start"),
		end:      rapid.SampledFrom([]time.Duration{0, 0, 0, 50*time.Millisecond + 3, 2*time.Second + 17}).Draw(t, "end"),
		answers:  rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "answers"),
		shakes:   rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "shakes"),
		shake:    rapid.SampledFrom([]string{"ok", "ok", "ok", "ok", "refused", "other version"}).Draw(t, "shake"),
		breakAt:  rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 8, 12}).Draw(t, "breakAt"),
		rejectAt: rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 3, 4, 5, 6}).Draw(t, "rejectAt"),
		pauseAt:  rapid.SampledFrom([]int{0, 2, 1, 3, 0, 4, 5, 6}).Draw(t, "pauseAt"),
	}
}

func drawConfig(t *rapid.T) *config {
	c := &config{
		old:     rapid.Bool().Draw(t, "old"),
		keeps:   rapid.SampledFrom([]bool{true, true, false}).Draw(t, "keeps"),
		max:     rapid.SampledFrom([]int{6, 4, 3, 2, 1}).Draw(t, "max"),
		window:  rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Second, time.Minute}).Draw(t, "window"),
		delay:   rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond}).Draw(t, "delay"),
		onClose: rapid.SampledFrom([]time.Duration{0, 0, 30*time.Millisecond + 11, 150*time.Millisecond + 29}).Draw(t, "onClose"),
		onDrain: rapid.SampledFrom([]time.Duration{-1, 0, 70*time.Millisecond + 5}).Draw(t, "onDrain"),
		scripts: rapid.SliceOfN(rapid.Custom(drawScript), 1, 6).Draw(t, "scripts"),
	}
	c.silent = c.old && rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "silent")
	first := &c.scripts[0]
	first.mint, first.start, first.shakes = goes, goes, true
	first.breakAt, first.rejectAt, first.pauseAt = above(first.breakAt, 2), above(first.rejectAt, 2), above(first.pauseAt, 2)
	return c
}

// above spares the first Writes.
func above(at, spared int) int {
	if at == 0 {
		return 0
	}
	return at + spared
}

// Random walks through all that can happen to a transport, each step of them held to a model of the contract.
//
// A failing walk is printed as a story, the shortest that was found. Rapid prints the seed with which the walk
// can be repeated: -run TestW7_WalksAgainstAModel -rapid.seed N; -rapid.checks N sets the number of walks.
func TestW7_WalksAgainstAModel(t *testing.T) {
	checks(t, 10_000, 500)
	met, walks := map[string]int{}, 0
	var first string // story that went wrong: shrinking may end in another, and a rare schedule in none
	defer func() {
		if first != "" {
			t.Logf("the first walk that went wrong:\n%s", first)
		}
	}()
	rapid.Check(t, func(rt *rapid.T) {
		cfg := drawConfig(rt)
		n := rapid.SampledFrom([]int{50, 75, 100}).Draw(rt, "steps")
		walk := rapid.SliceOfN(stimuli, n, n).Draw(rt, "walk") // rapid shortens it by putting in nothing
		w := &world{cfg: cfg, m: newModel(cfg)}
		w.takes(t, walk)
		walks++
		for what, n := range w.m.met {
			met[what] += n
		}
		if len(w.faults) > 0 {
			story := w.tell()
			if first == "" {
				first = story
			}
			rt.Fatalf("%s", story)
		}
	})
	for _, what := range slices.Sorted(maps.Keys(met)) {
		t.Logf("%7d %s", met[what], what)
	}
	if walks < 10_000 {
		return
	}
	for _, what := range []string{"requests sent again", "answers in a replay", "kept calls whose context ended",
		"messages held back and delivered", "requests cancelled behind their replay", "budgets spent", "deaths in a drain",
		"attempts that fail while the peer is held up in its replay", "Close while a replacement is held up in its replay"} {
		if met[what] == 0 {
			t.Errorf("no walk met this: %s", what)
		}
	}
}

// checks sets how many walks rapid takes, unless that is given on the command line. It writes no files.
func checks(t *testing.T, normal, short int) {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	set := func(name, value string) {
		f := flag.Lookup(name)
		if given[name] {
			return
		}
		before := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(before) })
	}
	n := normal
	if testing.Short() {
		n = 5 * short // rapid takes a fifth
	}
	set("rapid.checks", fmt.Sprint(n))
	set("rapid.nofailfile", "true")
}

// takes takes a walk in a bubble of its own. What is wrong with it is found in w.faults afterwards: neither rapid
// nor the bubble can stand a test that fails inside.
func (w *world) takes(t *testing.T, walk []stimulus) {
	defer func() {
		if p := recover(); p != nil {
			w.fault("panic: %v\n%s", p, bubbled())
		}
	}()
	synctest.Test(t, func(*testing.T) { w.run(walk) })
}

// bubbled is the stacks of the goroutines that are in a bubble.
func bubbled() string {
	buf := make([]byte, 1<<20)
	var stacks []string
	for _, s := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(s, "synctest bubble") {
			stacks = append(stacks, s)
		}
	}
	return strings.Join(stacks, "\n\n")
}
