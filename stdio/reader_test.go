//go:build unix

package stdio

import (
	"context"
	"io"
	"os"
	"testing"
)

// pipe returns a pipe, whose ends are closed after the test if they are not before.
func pipe(t *testing.T) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// TestW3_SealedBehindALookThatFoundNothing: what was in the pipe when it was sealed was taken in after next had found
// nothing, and before wait looked at how it had ended: it was never returned.
func TestW3_SealedBehindALookThatFoundNothing(t *testing.T) {
	out, in := pipe(t)
	r := newReader(out, 1<<20)
	if line := r.next(); line != nil {
		t.Fatalf("nothing was written, got %q", line)
	}
	if _, err := io.WriteString(in, "one\ntwo"); err != nil {
		t.Fatal(err)
	}
	r.seal()
	for _, want := range []string{"one", "two"} {
		if err := r.wait(context.Background()); err != nil {
			t.Fatalf("before %q: %v", want, err)
		}
		if got := r.next(); string(got) != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	if err := r.wait(context.Background()); err != io.EOF {
		t.Errorf("want the end, got %v", err)
	}
}
