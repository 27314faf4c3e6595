package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised/internal/ambient"
	"github.com/seed7990db67/supervised/internal/records"
)

// What the zero values of a [Command] stand for.
const (
	DefaultMaxLine   = 16 << 20 // bytes
	DefaultStopGrace = 2 * time.Second
)

// Command describes a server process. It is a recipe: Mint may be called any number of times, from any number
// of goroutines, and every process gets the same arguments, directory and environment.
type Command struct {
	// Args is the argument vector. Args[0] is looked up in PATH, or names a file if it holds a path separator;
	// a relative one is then relative to Dir. No shell is involved.
	Args []string

	// Dir is the working directory; empty for the host's own.
	Dir string

	// Env is added to the base environment, "KEY=value" an entry. It wins over the base, and a later entry over
	// an earlier one.
	Env []string

	// InheritEnv makes the host's whole environment the base. Else the base is what the host has set of APPDATA,
	// HOME, HOMEDRIVE, HOMEPATH, LOCALAPPDATA, LOGNAME, PATH, PROCESSOR_ARCHITECTURE, SHELL, SYSTEMDRIVE,
	// SYSTEMROOT, TEMP, TERM, USER, USERNAME and USERPROFILE, without values that start with "()". The host's
	// environment is the one at the call of Mint.
	InheritEnv bool

	// Stderr receives what the server writes to its stderr, as it is, in place of the logger. One that returns
	// an error is not written to again; one that blocks holds up the server, but not its end. It is called from
	// one goroutine per process.
	Stderr io.Writer

	// Logger receives each line of stderr at level info, and a warning for what is reported. Nil: the
	// supervisor's, or none. No argument, environment value or message is ever in a record. One that blocks holds
	// up nothing: it is called from a goroutine of its own, and misses what more than a thousand records behind it
	// would have to wait.
	Logger logrus.FieldLogger

	// MaxLine is how long a line of the server may be, in bytes before its newline. A longer one ends the
	// connection. Zero: [DefaultMaxLine].
	MaxLine int

	// StopGrace is how long Close waits after the end of stdin, and again after SIGTERM. Zero:
	// [DefaultStopGrace].
	StopGrace time.Duration

	// Clock measures all waiting. Nil: the supervisor's, or the system's.
	Clock clock.Clock
}

// Mint returns a transport for one process. It checks the command and looks for the executable, but starts
// nothing: the transport's Connect does that, once. The context lends its logger and clock and is not kept.
//
// An error about a field names the field and, unless that is an environment entry, the value. One about the
// executable wraps an *exec.Error.
func (c Command) Mint(ctx context.Context) (mcp.Transport, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	path, err := c.executable()
	if err != nil {
		return nil, fmt.Errorf("stdio: %w", err)
	}
	c.Args = slices.Clone(c.Args)
	c.Env = environ(os.Environ(), c.InheritEnv, c.Env)
	if c.Logger != nil {
		c.Logger = records.Behind(c.Logger)
	}
	c.Logger = ambient.Logger(ctx, c.Logger)
	c.Clock = ambient.Clock(ctx, c.Clock)
	if c.MaxLine == 0 {
		c.MaxLine = DefaultMaxLine
	}
	if c.StopGrace == 0 {
		c.StopGrace = DefaultStopGrace
	}
	return &transport{command: c, path: path}, nil
}

func (c Command) validate() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return errors.New("stdio: Args is empty: want the name of an executable first")
	}
	for i, arg := range c.Args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("stdio: Args[%d] is %q: holds a NUL byte", i, arg)
		}
	}
	for i, entry := range c.Env {
		// The entry stays out of the error: it may be a secret, also where the "=" is missing.
		switch key, _, ok := strings.Cut(entry, "="); {
		case !ok || key == "":
			return fmt.Errorf(`stdio: Env[%d] is malformed: want "KEY=value"`, i)
		case strings.ContainsRune(entry, 0):
			return fmt.Errorf("stdio: Env[%d] is malformed: holds a NUL byte", i)
		}
	}
	if c.MaxLine < 0 {
		return fmt.Errorf("stdio: MaxLine is %d: want 0 or more", c.MaxLine)
	}
	if c.StopGrace < 0 {
		return fmt.Errorf("stdio: StopGrace is %v: want 0 or more", c.StopGrace)
	}
	return nil
}

// executable returns the path of Args[0]. A path that was given is made absolute first, because the process
// changes to Dir before it is resolved.
func (c Command) executable() (string, error) {
	name := c.Args[0]
	if filepath.Base(name) == name {
		return exec.LookPath(name)
	}
	if !filepath.IsAbs(name) {
		abs, err := filepath.Abs(filepath.Join(c.Dir, name))
		if err != nil {
			return "", err
		}
		name = abs
	}
	return exec.LookPath(name)
}
