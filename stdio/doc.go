// Package stdio runs an MCP server as a child process and speaks to it over its standard input and output.
//
// A [Command] is the recipe for a process. Its Mint makes an mcp.Transport, whose Connect starts one process
// and returns the connection to it:
//
//	transport, err := stdio.Command{Args: []string{"my-server", "--flag"}}.Mint(ctx)
//
// # The connection
//
// It is an mcp.Connection with four methods more, each of which a supervisor finds by its type:
//
//	Exited() <-chan struct{}  // closed when the process is gone, whether or not Read was called
//	ExitErr() error           // from then on an *ExitError, for exit status 0 too; nil before
//	Kill() error              // SIGKILL, without Close's courtesies
//	OnReport(func(error))     // what went wrong and ended nothing, such as a *StrayLineError
//
// Messages are lines. Read takes them from the pipe on its caller's goroutine; only one Read may run at a time.
// All other methods are safe for concurrent use, with Read too.
//
// # How a process ends
//
// The process is watched, not its pipes: a descendant that holds them open hides no exit. When the process has
// exited, the rest of its process group is killed before anything else is done. What it had written to its
// stdout can still be read; after that Read returns the *[ExitError], or io.EOF if Close had been called.
//
// Close ends the process in steps: the end of its stdin, then SIGTERM, then SIGKILL, with
// [Command].StopGrace between them. The signals go to the whole group. A descendant that has left the group is
// out of reach.
//
// # Platforms
//
// On Unix a server gets a process group of its own. On Linux and the BSDs (macOS is one) its exit is observed
// without reaping it, so that its group's id cannot pass to a stranger before the group has been killed.
//
// On Windows a server gets a job object, to which it is assigned right after it was created; what it starts
// before that moment is not in the job. In place of SIGTERM it gets a CTRL_BREAK_EVENT. A Read that waits
// there does not notice the end of its context.
package stdio
