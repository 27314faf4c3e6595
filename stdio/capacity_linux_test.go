package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/sys/unix"
)

// TestCapacity: a large message has its pipe hold more, short ones do not; what is raised counts until the pipe is
// closed, and all goes through where no more may be raised.
func TestCapacity(t *testing.T) {
	long := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	for _, test := range []struct {
		name    string
		params  json.RawMessage
		taken   int32 // of all that may be raised
		raised  bool
		counted int32 // while both pipes are open
	}{
		{name: "short", params: json.RawMessage(`"short"`)},
		{name: "long", params: long, raised: true, counted: 2},
		{name: "long, with none left", params: long, taken: raisedMax},
	} {
		t.Run(test.name, func(t *testing.T) {
			raisedPipes.Store(test.taken)
			defer raisedPipes.Store(0)
			theirIn, in := pipe(t)
			out, theirOut := pipe(t)
			usual := pipeSize(t, in)
			go func() {
				_, _ = io.Copy(theirOut, theirIn)
				theirOut.Close()
			}()
			w := newWriter(in, new(flow), func() {})
			r := newReader(out, 4<<20)

			wrote := make(chan error, 1)
			go func() { wrote <- w.write(context.Background(), &jsonrpc.Request{Method: "m", Params: test.params}) }()
			line := r.next()
			for line == nil {
				if err := r.wait(context.Background()); err != nil {
					t.Fatal(err)
				}
				line = r.next()
			}
			if err := <-wrote; err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(line), string(test.params)) {
				t.Errorf("read %d bytes that are not what was written", len(line))
			}
			for name, f := range map[string]*os.File{"stdin": in, "stdout": out} {
				if size := pipeSize(t, f); (size >= raisedCapacity) != test.raised || !test.raised && size != usual {
					t.Errorf("%s holds %d bytes, %d before; want it raised: %t", name, size, usual, test.raised)
				}
			}
			if n := raisedPipes.Load() - test.taken; n != test.counted {
				t.Errorf("%d pipes count as raised, want %d", n, test.counted)
			}
			w.end(errClosed)
			r.seal()
			if n := raisedPipes.Load() - test.taken; n != 0 {
				t.Errorf("%d pipes count as raised after their end", n)
			}
		})
	}
}

// TestCapacity_neverLowered: a server that had its pipe hold 1 MiB was left with a quarter of that.
func TestCapacity_neverLowered(t *testing.T) {
	defer raisedPipes.Store(0)
	r, w := pipe(t)
	if _, err := control(w, func(fd uintptr) (int, error) { return unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) }); err != nil {
		t.Skip(err)
	}
	var c capacity
	c.raise(r)
	if size := pipeSize(t, r); size != 1<<20 {
		t.Errorf("the pipe held 1 MiB and holds %d bytes", size)
	}
	if n := raisedPipes.Load(); n != 0 {
		t.Errorf("%d pipes count as raised", n)
	}
}

// TestCapacity_wakesWhoWaitsToWrite: where a writer that sleeps in front of a full pipe is woken before there is more
// room, as in Linux before 6.8, it slept on, and no later read woke it.
func TestCapacity_wakesWhoWaitsToWrite(t *testing.T) {
	defer raisedPipes.Store(0)
	for range 20 {
		r, w := pipe(t)
		text := make([]byte, 512<<10)
		wrote := make(chan error, 1)
		go func() {
			_, err := control(w, func(fd uintptr) (int, error) { // system calls that block, as a server makes them
				if err := unix.SetNonblock(int(fd), false); err != nil {
					return 0, err
				}
				for rest := text; len(rest) > 0; { // one that a signal interrupts has written a part
					n, err := unix.Write(int(fd), rest)
					if err != nil {
						return 0, err
					}
					rest = rest[n:]
				}
				return len(text), nil
			})
			wrote <- err
		}()
		for usual := pipeSize(t, r); inPipe(t, r) < usual; {
			runtime.Gosched()
		}
		var c capacity
		c.raise(r)
		if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, r, int64(len(text))); err != nil {
			t.Fatalf("the writer waits on: %v", err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
		c.closed()
	}
}

// inPipe returns how many bytes wait in the pipe.
func inPipe(t *testing.T, f *os.File) int {
	n, err := control(f, func(fd uintptr) (int, error) { return unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pipeSize returns how many bytes the pipe holds.
func pipeSize(t *testing.T, f *os.File) int {
	n, err := control(f, func(fd uintptr) (int, error) { return unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// control makes a system call on the descriptor of f, which stays as it is.
func control(f *os.File, call func(fd uintptr) (int, error)) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlled := raw.Control(func(fd uintptr) { n, err = call(fd) })
	return n, errors.Join(controlled, err)
}
