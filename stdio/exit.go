package stdio

import (
	"fmt"
	"os"
	"strings"
)

// ExitError says how a process ended. It is an error for every way of ending, exit status 0 included: a server
// is not meant to end before it is closed.
type ExitError struct {
	Code   int       // exit status; -1 where a signal ended the process, or the status was lost to another wait
	Signal os.Signal // the signal that ended the process; nil where none did
	Stderr string    // the end of what it wrote to its stderr, up to 8 KiB, as it is
}

// ExitCode returns Code, as os/exec has it.
func (e *ExitError) ExitCode() int { return e.Code }

// ExitSignal returns Signal. A supervisor asks for it by type.
func (e *ExitError) ExitSignal() os.Signal { return e.Signal }

// Error gives the status or the signal, and the last line of Stderr.
func (e *ExitError) Error() string {
	text := fmt.Sprintf("stdio: exit status %d", e.Code)
	switch {
	case e.Signal != nil:
		text = "stdio: signal: " + e.Signal.String()
	case e.Code < 0:
		text = "stdio: exit status unknown"
	}
	lines := strings.TrimSpace(e.Stderr)
	if last := lines[strings.LastIndexByte(lines, '\n')+1:]; last != "" {
		text += ": " + printable([]byte(last), excerptMax)
	}
	return text
}
