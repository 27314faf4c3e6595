//go:build unix

package chaostest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"
)

// A leakCheck knows what there was before.
type leakCheck struct {
	goroutines, files int
	anchors           *anchors
}

func watchLeaks() *leakCheck {
	warm()
	return &leakCheck{runtime.NumGoroutine(), descriptors(), new(anchors)}
}

// anchors are objects that a transport holds, one of its own and one for each connection. As long as a timer, a
// goroutine or a forgotten list holds the connection, the collector cannot free its anchor: that is how a timer is
// seen that nobody stopped.
type anchors struct {
	transports  atomic.Int64
	connections atomic.Int64
}

// An anchor is a logger, since a connection holds its logger as long as it does anything.
type anchor struct{ logrus.FieldLogger }

// factory makes a factory of mint, which gives what it mints a logger that is an anchor.
func (a *anchors) factory(mint func(context.Context, logrus.FieldLogger) (mcp.Transport, error)) func(context.Context) (mcp.Transport, error) {
	own := new([64]byte) // held by the function that is returned
	a.transports.Add(1)
	runtime.AddCleanup(own, func(struct{}) { a.transports.Add(-1) }, struct{}{})
	return func(ctx context.Context) (mcp.Transport, error) {
		log := logrus.New()
		log.SetOutput(nowhere{own})
		a.connections.Add(1)
		held := &anchor{log}
		runtime.AddCleanup(held, func(struct{}) { a.connections.Add(-1) }, struct{}{})
		return mint(ctx, held)
	}
}

// nowhere is a writer that discards, and holds what it is of.
type nowhere struct{ of *[64]byte }

func (nowhere) Write(text []byte) (int, error) { return len(text), nil }

func (a *anchors) count() int { return int(a.connections.Load()) }

// settled waits until nothing is left of transports, connections, and what they had open.
func (l *leakCheck) settled() error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		runtime.GC()
		transports, connections := l.anchors.transports.Load(), l.anchors.connections.Load()
		goroutines, files := runtime.NumGoroutine()-l.goroutines, descriptors()-l.files
		if transports == 0 && connections == 0 && goroutines <= 0 && files <= 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("left behind: %d transports and %d connections that something holds, %d goroutines more, %d descriptors more\n%s",
				transports, connections, goroutines, files, stacks())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// warm has the runtime open what it keeps open for good, so that it is not taken for a leak.
func warm() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	_ = r.SetDeadline(time.Now()) // now it is polled
	_, _ = r.Close(), w.Close()
}

// descriptors counts those that this process has open.
func descriptors() int {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

func stacks() []byte {
	text := make([]byte, 1<<20)
	return text[:runtime.Stack(text, true)]
}
