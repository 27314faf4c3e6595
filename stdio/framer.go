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
	last  int    // the size of the last line that was longer than a chunk
	ended bool   // nothing more will be fed
}

// next returns the next line, in memory of its own and of no more than twice its size. It returns nil when it must be fed first, or
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

// left reports whether there is something that next has not looked at, or waits for more of.
func (f *framer) left() bool { return len(f.in) > 0 || len(f.held) > 0 }

// hold keeps a piece of a line until the rest of it comes. The buffer never grows beyond the limit. Once the line is
// longer than short ones are, it gets the room that the last such line needed: large messages seldom come alone.
func (f *framer) hold(piece []byte) {
	if need := len(f.held) + len(piece); need > cap(f.held) {
		size := max(need, 2*cap(f.held))
		if need > chunkSize {
			size = max(size, f.last)
		}
		grown := make([]byte, len(f.held), min(size, f.max))
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
		if len(piece) > chunkSize {
			f.last = len(piece)
			if len(piece) > cap(piece)/2 {
				f.held = nil
				return nonblank(trim(piece)) // it is the buffer's owner now
			}
		}
		if cap(f.held) > spareMax {
			f.held = nil
		}
	}
	return bytes.Clone(nonblank(trim(piece)))
}

// nonblank is line, nil for an empty one.
func nonblank(line []byte) []byte {
	if len(line) == 0 {
		return nil
	}
	return line[:len(line):len(line)]
}

// trim drops what may stand around a message.
func trim(line []byte) []byte {
	if n := len(line); n > 0 && line[0] == '{' && line[n-1] == '}' {
		return line
	}
	return bytes.Trim(bytes.TrimPrefix(line, byteOrderMark), " \t\r")
}
