package supervised_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// An oldServer speaks a protocol before 2026-07-28 on stdin and stdout, by hand: it answers nothing before the
// handshake, and keeps a record of each line that it reads, behind its process id, in the file SUPERVISED_TEST_RECORD.
//
// Of its modes "exits" ends on server/discover and "silent" never answers it; both know the client again only
// after initialize.
func serveOld(mode string, in io.Reader, out io.Writer) {
	record, err := os.OpenFile(os.Getenv("SUPERVISED_TEST_RECORD"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	var initialized bool
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Fprintf(record, "%d %s", os.Getpid(), text)
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			panic(err)
		}
		reply := func(format string, args ...any) {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, fmt.Sprintf(format, args...))
		}
		switch {
		case m.Method == "server/discover" && mode == "exits":
			return
		case m.Method == "server/discover" && mode == "silent":
		case m.Method == "initialize":
			reply(`"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"old","version":"1"}}`)
		case m.Method == "notifications/initialized":
			initialized = true
			fmt.Fprintln(out, `{"jsonrpc":"2.0","id":0,"method":"roots/list"}`)
		case m.Method == "tools/call" && initialized:
			reply(`"result":{"content":[{"type":"text","text":"%d"}]}`, os.Getpid())
		case initialized && m.Method != "" && m.ID != nil && !strings.HasPrefix(m.Method, "server/"):
			reply(`"result":{}`)
		case m.Method != "" && m.ID != nil:
			reply(`"error":{"code":-32601,"message":"not initialized"}`)
		}
	}
}
