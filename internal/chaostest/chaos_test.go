//go:build unix

package chaostest

import (
	"flag"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "what the faults of TestChaos are drawn from")

func TestMain(m *testing.M) {
	if Play() {
		return
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// TestChaos is the short form of what cmd/chaos does at length.
func TestChaos(t *testing.T) {
	c := Campaign{Seed: *seed, Deaths: 100, Calls: 10_000, Rounds: 4, Parallel: 4, ConnectTimeout: 300 * time.Millisecond}
	if testing.Short() {
		c.Deaths, c.Calls, c.Rounds, c.Parallel = 6, 300, 2, 2
	}
	f, err := c.Run()
	var figures strings.Builder
	f.Print(&figures)
	t.Logf("seed %d\n%s", c.Seed, &figures)
	if err != nil {
		t.Fatal(err)
	}
	if f.Deaths < c.Deaths || f.Calls < c.Calls {
		t.Errorf("%d deaths and %d calls, want at least %d and %d", f.Deaths, f.Calls, c.Deaths, c.Calls)
	}
}
