package supervised_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/internal/peertest"
)

// Faults of the system around a transport: of the disk behind its logger, of its clock, of a client that does not read.

// A logBlocks is the output of a logger that stands still until it is closed.
type logBlocks chan struct{}

func (b logBlocks) Write(p []byte) (int, error) { <-b; return len(p), nil }

// A logger that blocked stopped the lifecycle at the first restart, which is logged in the step that mints the
// replacement. Now nothing waits for it: a life with a logger that stands still is that with one that works.
func TestD5_LoggerThatBlocks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		still bool
		late  time.Duration // what the end may take longer
	}{
		{"D5 works", false, 0},
		{"D5 stands still", true, linger},
	} {
		t.Run(tt.name, func(t *testing.T) {
			logger, records := logtest.NewNullLogger()
			inBubble(t, func(r *rig) {
				out := make(logBlocks)
				goOn := sync.OnceFunc(func() { close(out) })
				defer goOn()
				if tt.still {
					logger.SetOutput(out)
				}
				r.Fleet.OnMint = func(_ context.Context, p *peertest.Peer) error { p.Answer = serve2025; return nil }
				r.connect()
				r.call("initialize")
				want(r, "answered", 1, len(r.read()))
				for range 3 {
					r.Last().Die(errCrash)
					pass(time.Second)
					r.wantState(supervised.StateServing)
					r.call("ping")
					want(r, "answered", 1, len(r.read()))
				}
				want(r, "hooks", lines("close: crash", "reconnect", "close: crash", "reconnect", "close: crash", "reconnect"), r.hooks())
				r.Last().Die(errCrash)
				began := time.Now()
				<-r.Done()
				if d := time.Since(began); d > tt.late {
					r.Errorf("the end took %v", d)
				}
				wantIs(r, "Err", r.Err(), errCrash)
				goOn()
				want(r, "restarts", 3, len(recorded(records, logrus.WarnLevel)))
				want(r, "ends of the budget", 1, len(recorded(records, logrus.ErrorLevel)))
			}, supervised.WithLogger(logger))
		})
	}
}

// Who waits for Done may end the program: the last record has reached the logger by then, if that is not too slow.
func TestD5_TheLastRecordPrecedesDone(t *testing.T) {
	logger := logrus.New()
	logger.SetOutput(slowDisk{})
	records := logtest.NewLocal(logger)
	inBubble(t, func(r *rig) {
		r.connect()
		r.Last().Die(errCrash)
		pass(time.Second) // who logs has a little patience
		r.wantState(supervised.StateServing)
		r.Last().Die(errCrash)
		<-r.Done()
		ends := 0
		for _, e := range records.AllEntries() {
			if e.Message == "restart budget spent" {
				ends++
			}
		}
		want(r, "records of the end", 1, ends)
	}, supervised.WithLogger(logger), supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0))
}

// A slowDisk takes a while for each record.
type slowDisk struct{}

func (slowDisk) Write(p []byte) (int, error) { time.Sleep(50 * time.Millisecond); return len(p), nil }

// The clock jumps eight hours, as that of a machine that was asleep may: whatever was waited for is over, once, and
// nothing else has happened.
func TestB7_ClockJumpsEightHours(t *testing.T) {
	for _, tt := range []struct {
		name  string
		until func(r *rig)
		state supervised.State
		mints int
		hooks []string
	}{
		{"B7 while it serves", func(r *rig) {}, supervised.StateServing, 1, nil},
		{"B7 while a call is in flight", func(r *rig) { r.call("tools/call") }, supervised.StateServing, 1, nil},
		{"B7 during the delay", func(r *rig) { r.Last().Die(errCrash) }, supervised.StateServing, 2,
			lines("close: crash", "reconnect")},
		{"B7 while a peer is read to its end", func(r *rig) {
			r.Last().Exit(errCrash) // and its output stays open
		}, supervised.StateServing, 2, lines("close: crash", "reconnect")},
		{"B7 while the replacement starts", func(r *rig) {
			r.onStart(1, func(ctx context.Context, _ *peertest.Peer) error { <-ctx.Done(); return ctx.Err() })
			r.Restart(errCrash)
		}, supervised.StateServing, 3, lines("close: crash (killed)",
			"error: supervised: connect timeout: context deadline exceeded: context canceled", "reconnect")},
		{"B7 in the drain", func(r *rig) {
			r.OnDrain(func(ctx context.Context) { <-ctx.Done() })
			go r.Transport.Close()
		}, supervised.StateClosed, 1, lines("drain", "close")},
		{"B7 while the probe is open", func(r *rig) { r.call("server/discover") }, supervised.StateServing, 2, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := clock.NewMock()
			inBubble(t, func(r *rig) {
				r.Fleet.Process = true
				r.connect()
				tt.until(r)
				synctest.Wait()
				now.Add(8 * time.Hour)
				r.wantState(tt.state)
				want(r, "mints", tt.mints, r.Minted())
				want(r, "hooks", tt.hooks, r.hooks())
				if tt.state == supervised.StateServing { // the window is over as well
					for range 3 {
						r.Last().Die(errCrash)
						synctest.Wait()
						now.Add(time.Second)
						r.wantState(supervised.StateServing)
					}
				}
			}, supervised.WithClock(now))
		})
	}
}

// A server that floods a client which does not read is left waiting, with a bounded part of the flood taken. Its death
// is seen all the same, answers that came in front of it are delivered, and the one after it is heard.
func TestW2_FloodOfAServerThatNobodyReads(t *testing.T) {
	for _, process := range []bool{true, false} {
		t.Run(map[bool]string{true: "W2 a process", false: "W2 a connection"}[process], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, supervised.WithRestartDelay(0))
				defer r.Transport.Close()
				r.Fleet.Process = process
				conn, err := r.Transport.Connect(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				r.conn = conn
				id, _ := r.call("tools/call")
				lost, _ := r.call("tools/call")
				r.Last().Reply(id, `"before the flood"`)
				const flood, size = 200, 64 << 10
				for range flood {
					r.Last().Say(&jsonrpc.Request{Method: "notifications/message", Params: json.RawMessage(`"` + string(make([]byte, size)) + `"`)})
				}
				r.Last().Die(errCrash)
				first := r.Last()
				pass(time.Minute)
				if process { // its exit is a sign of its own; a connection that nobody reads to its end shows none
					want(r, "minted", 2, r.Minted())
				}
				var answers []string
				taken := 0
				for len(answers) < 2 {
					m, err := conn.Read(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					if _, ok := m.(*jsonrpc.Response); ok {
						answers = append(answers, line(m))
					} else {
						taken++
					}
				}
				want(r, "answers", lines(line(&jsonrpc.Response{ID: id, Result: json.RawMessage(`"before the flood"`)}),
					line(&jsonrpc.Response{ID: lost, Error: supervised.ErrPeerLost})), answers)
				if process && taken*size > 5<<20 {
					t.Errorf("%d bytes of the flood were taken", taken*size)
				}
				if !process && taken < flood {
					t.Errorf("%d of %d notifications were delivered of a peer that was read to its end", taken, flood)
				}
				<-first.Closed()
				r.wantState(supervised.StateServing)
				r.Last().Say(&jsonrpc.Request{Method: "notifications/after"})
				m, err := conn.Read(context.Background())
				if err != nil || line(m) != "notifications/after" {
					t.Errorf("the one after it says %v, %v", m, err)
				}
			})
		})
	}
}
