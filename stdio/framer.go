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

// A framer cuts a stream of bytes, fed to it in pieces, into lines. It does no I/O.
//
// A line ends with "\n" or "\r\n" or the stream. White space around it and a byte-order mark before it are
// dropped, and so is a line of nothing else.
type framer struct {
	max   int    // bytes in a line
	in    []byte // fed, not yet looked at; belongs to the feeder
	line  []byte // what came so far of a line that is in pieces
	ended bool   // nothing more will be fed
}

// next returns the next line, in memory of its own that the framer never touches again. It returns nil when it
// must be fed first, or when the stream has ended and was used up. A line over the limit is an error, and the
// stream is of no use after it.
func (f *framer) next() ([]byte, error) {
	for {
		piece, rest, whole := bytes.Cut(f.in, newline)
		f.in = rest
		if len(f.line)+len(piece) > f.max {
			f.in, f.line = nil, nil
			return nil, &LineTooLongError{Max: f.max}
		}
		if !whole && !f.ended {
			f.hold(piece)
			return nil, nil
		}
		if line := f.complete(piece); len(line) > 0 || !whole {
			return line, nil
		}
	}
}

// hold keeps a piece of a line until the rest of it comes. Memory grows by a quarter, so that the buffer of a
// line fits it roughly, and never beyond the limit.
func (f *framer) hold(piece []byte) {
	if need := len(f.line) + len(piece); need > cap(f.line) {
		grown := make([]byte, len(f.line), min(need+need/4, f.max))
		copy(grown, f.line)
		f.line = grown
	}
	f.line = append(f.line, piece...)
}

// complete returns the line of which piece is the last one; nil if it is blank.
func (f *framer) complete(piece []byte) []byte {
	if len(f.line) > 0 {
		f.hold(piece)
		line := trim(f.line)
		f.line = nil
		return line
	}
	if piece = trim(piece); len(piece) == 0 {
		return nil
	}
	line := make([]byte, len(piece))
	copy(line, piece)
	return line
}

func trim(line []byte) []byte {
	return bytes.Trim(bytes.TrimPrefix(line, byteOrderMark), " \t\r")
}
