package stdio

import (
	"bytes"
	"fmt"
)

// LineTooLongError ends a connection whose server wrote a line longer than [Command].MaxLine.
type LineTooLongError struct {
	Max int // bytes
}

func (e *LineTooLongError) Error() string { return fmt.Sprintf("stdio: line over %d bytes", e.Max) }

var (
	newline       = []byte("\n")
	byteOrderMark = []byte("\ufeff")
)

// spareMax is how large a buffer for broken lines may be to be used again, in bytes.
const spareMax = 1 << 20

// A framer cuts a stream of bytes, fed to it in pieces, into lines. It does no I/O.
//
// A line ends with "\n" or "\r\n" or the stream. White space around it and a byte-order mark before it are
// dropped, and so is a line of nothing else.
type framer struct {
	max   int    // bytes in a line
	in    []byte // fed, not yet looked at; belongs to the feeder
	held  []byte // what came so far of a line that is in pieces
	ended bool   // nothing more will be fed
}

// next returns the next line, in memory of its own and of its size. It returns nil when it must be fed first, or
// when the stream has ended and was used up. A line over the limit is an error, and the stream is of no use
// after it.
func (f *framer) next() ([]byte, error) {
	for {
		piece, rest, whole := bytes.Cut(f.in, newline)
		f.in = rest
		if len(f.held)+len(piece) > f.max {
			f.in, f.held = nil, nil
			return nil, &LineTooLongError{Max: f.max}
		}
		if !whole && !f.ended {
			f.hold(piece)
			return nil, nil
		}
		if line := f.complete(piece); line != nil || !whole {
			return line, nil
		}
	}
}

// hold keeps a piece of a line until the rest of it comes. The buffer never grows beyond the limit.
func (f *framer) hold(piece []byte) {
	if need := len(f.held) + len(piece); need > cap(f.held) {
		grown := make([]byte, len(f.held), min(max(need, 2*cap(f.held)), f.max))
		copy(grown, f.held)
		f.held = grown
	}
	f.held = append(f.held, piece...)
}

// complete returns the line of which piece is the last one; nil if it is blank.
func (f *framer) complete(piece []byte) []byte {
	if len(f.held) > 0 {
		f.hold(piece)
		piece = f.held
		f.held = f.held[:0]
		if cap(f.held) > spareMax {
			f.held = nil
		}
	}
	piece = bytes.Trim(bytes.TrimPrefix(piece, byteOrderMark), " \t\r")
	if len(piece) == 0 {
		return nil
	}
	line := make([]byte, len(piece))
	copy(line, piece)
	return line
}
