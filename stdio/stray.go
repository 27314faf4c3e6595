package stdio

import "fmt"

// excerptMax is how much of a server's text an error holds, in bytes.
const excerptMax = 256

// StrayLineError reports a line on the server's stdout, or an element of an array there, that is no JSON-RPC
// message. It was skipped.
//
// Its text says nothing of the line, so that it can go to a log: the line may be a message with a fault in it,
// and so may hold what a user sent.
type StrayLineError struct {
	Len     int    // bytes
	Excerpt string // the start of the line, non-printable bytes escaped; at most 256 bytes
	Err     error  // why it is no message
}

func newStrayLineError(line []byte, err error) *StrayLineError {
	return &StrayLineError{Len: len(line), Excerpt: printable(line, excerptMax), Err: err}
}

func (e *StrayLineError) Error() string {
	return fmt.Sprintf("stdio: skipped a line of %d bytes that is no JSON-RPC message", e.Len)
}

func (e *StrayLineError) Unwrap() error { return e.Err }
