package supervised

import "github.com/modelcontextprotocol/go-sdk/jsonrpc"

// What a wrapped connection may offer beside mcp.Connection, as those of package stdio do: it is found by type in what
// Connect of a minted transport returns. The exit code in logs and Stats is that of the first error with ExitCode()
// int in the end of a peer, as os/exec has it; the signal that of the first with ExitSignal() os.Signal.

// An Exiter is a connection of a process that can be seen to end, whatever its pipes say.
type Exiter interface {
	// Exited is closed when the process is gone.
	Exited() <-chan struct{}
	// ExitErr says how it ended, once Exited is closed; nil is not an answer, exit status 0 included.
	ExitErr() error
}

// A Killer is a connection that can be ended at once, without the courtesy of its Close.
type Killer interface {
	// Kill returns when the peer is gone.
	Kill() error
}

// A Reporter is a connection that can tell what went wrong on it without ending it, such as a line on stdout
// that is no message.
type Reporter interface {
	// OnReport sets where to tell it. It is called once, before the first Read.
	OnReport(func(error))
}

// A Resumer is a connection of which a Read can be called off: when its context ends, Read returns, no message is lost,
// and the next Read goes on; one that has failed fails again. Where that is so, who calls Read of a supervised connection reads from the wrapped one
// himself, which saves handing each message from one goroutine to another. Without it, the context of every Read of
// the wrapped connection ends with the connection.
type Resumer interface {
	// ReadReady returns the next message if it is at hand, and waits for nothing: nil where it is not. It is called by
	// who calls Read.
	ReadReady() jsonrpc.Message
}
