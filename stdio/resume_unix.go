//go:build unix

package stdio

import "github.com/modelcontextprotocol/go-sdk/jsonrpc"

// ReadReady returns the server's next message if it has been read from the pipe already, and nil otherwise. It is for the
// goroutine that calls Read. That it is there says that a Read can be called off, which it cannot where a pipe takes no
// deadline (Windows).
func (c *connection) ReadReady() jsonrpc.Message { return c.ready() }
