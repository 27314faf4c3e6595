package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// A bare is the limit: the child's pipes as Go has them, one write for a line, a read for what is there. It looks at
// no byte of an answer but for newlines, and counts those.
type bare struct {
	cmd      *exec.Cmd
	in       *os.File // the child's stdin
	out      *os.File // its stdout
	line     []byte   // of a request
	ids      []byte   // the part of line that is the id
	chunk    []byte
	answer   int // the length of an answer
	next     int // the id of the next request, counted from 0, up to the ids that there are
	count    int
	messages *messages
}

func dialBare(echo string, m *messages) (*bare, error) {
	cmd, in, out, err := startPiped(echo)
	if err != nil {
		return nil, err
	}
	line := m.line()
	return &bare{
		cmd: cmd, in: in, out: out, line: line, ids: line[len(lineHead) : len(lineHead)+7],
		chunk: make([]byte, 64<<10), answer: m.answer(), count: len(m.requests), messages: m,
	}, nil
}

// startPiped starts a process with our ends of its stdin and stdout.
func startPiped(name string, args ...string) (cmd *exec.Cmd, in, out *os.File, err error) {
	cmd = exec.Command(name, args...)
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, nil, nil, err
	}
	defer theirOut.Close()
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	if err := cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return nil, nil, nil, err
	}
	return cmd, in, out, nil
}

func (b *bare) write() error {
	strconv.AppendInt(b.ids[:0], int64(firstID+b.next), 10)
	if b.next++; b.next == b.count {
		b.next = 0
	}
	_, err := b.in.Write(b.line)
	return err
}

func (b *bare) verify() error {
	for range 4 {
		id := firstID + b.next
		if err := b.write(); err != nil {
			return err
		}
		want := fmt.Appendf(nil, "%s%d%s%s}\n", lineHead, id, answerHead, b.messages.params)
		var got []byte
		for !bytes.HasSuffix(got, []byte("\n")) {
			n, err := b.out.Read(b.chunk)
			if err != nil {
				return err
			}
			got = append(got, b.chunk[:n]...)
		}
		if !bytes.Equal(want, got) {
			return fmt.Errorf("want %.80q, got %.80q", want, got)
		}
	}
	return nil
}

func (b *bare) pingPong(n int) error {
	for range n {
		if err := b.write(); err != nil {
			return err
		}
		for size := 0; size < b.answer; {
			k, err := b.out.Read(b.chunk)
			if err != nil {
				return err
			}
			if size += k; size >= b.answer && (size > b.answer || b.chunk[k-1] != '\n') {
				return errors.New("an answer has the wrong length")
			}
		}
	}
	return nil
}

func (b *bare) pipelined(n, size int) error {
	w := newWindow(size)
	written := make(chan error, 1)
	go func() {
		for range n {
			w.acquire()
			if err := b.write(); err != nil {
				written <- err
				_ = b.in.Close() // ends the child, and so the reader
				return
			}
		}
		written <- nil
	}()
	for got, total := 0, 0; got < n; {
		k, err := b.out.Read(b.chunk)
		if err != nil {
			return errors.Join(err, <-written)
		}
		lines := bytes.Count(b.chunk[:k], []byte("\n"))
		got += lines
		total += k
		if lines > 0 {
			w.release(lines)
		}
		if got == n && total != n*b.answer {
			return errors.New("an answer has the wrong length")
		}
	}
	return <-written
}

func (b *bare) close() error {
	_ = b.in.Close()
	err := b.cmd.Wait()
	_ = b.out.Close()
	return err
}
