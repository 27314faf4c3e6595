//go:build unix

package chaostest

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"go.uber.org/goleak"

	"github.com/seed7990db67/supervised/retry"
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
	c := Campaign{Seed: *seed, Deaths: 100, Calls: 10_000, Rounds: 4, Parallel: 4, ConnectTimeout: time.Second}
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

type keepAll struct{}

func (keepAll) Retain(*jsonrpc.Request) bool { return true }

// TestChaosSeesFaults: the same with a transport that is made to do wrong, so that what finds nothing is known to look.
func TestChaosSeesFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("TestJudge does it without servers")
	}
	for _, tt := range []struct {
		name, wrong string
		policy      retry.Policy
	}{
		{"tools are sent again", "tool call", keepAll{}},
		{"reads are not", "was lost", retry.Never},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "chaos") // the path of a socket must be short
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			check := watchLeaks()
			_, err = Round{Dir: dir, Seed: *seed, Deaths: 10, Calls: 1000, ConnectTimeout: 300 * time.Millisecond, policy: tt.policy}.run(check.anchors, nil)
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("found %v, want %q", err, tt.wrong)
			}
			if err := check.settled(); err != nil {
				t.Error(err)
			}
		})
	}
}
