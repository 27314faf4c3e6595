//go:build unix

package supervised_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/stdio"
)

// plain is a formatter that protects nobody: it writes fields as they are.
type plain struct{}

func (plain) Format(e *logrus.Entry) ([]byte, error) {
	return fmt.Appendf(nil, "%v %s %v\n", e.Level, e.Message, map[string]any(e.Data)), nil
}

// colourful is a server of the older protocol that says something in each place where it can, with what steers a
// terminal in it: stray lines, stderr, its name, and the errors by which the second life refuses things.
const colourful = `
	esc='\033]0;owned\007\033[2J\r\b'
	while IFS= read -r line; do
		id=${line#*'"id":'}; id=${id%%[,\}]*}
		printf "$esc stray\n"
		printf "$esc \001\377 stderr\n$esc\r\n" >&2
		case $line in
		*'"initialize"'*)
			printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{}},"serverInfo":{"name":"\\u001b[31m","version":"\\u001b%s"}}}\n' "$id" $$;;
		*'"logging/setLevel"'*)
			case $id in
			'"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"\\u001b[31mno\\r\\n"}}\n' "$id";;
			*) printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id";;
			esac
			printf '{"jsonrpc":"2.0","method":"\\u001b[31m","params":{"level":"\\u001b[31m"}}\n';;
		*'"tools/call"'*)
			exit 3;;
		esac
	done`

// TestD5_NothingSteersATerminal: whatever a server says, and wherever, no log record has in it what a terminal would
// act on, even with a formatter that escapes nothing; nor has the text of an error that stdio makes.
func TestD5_NothingSteersATerminal(t *testing.T) {
	logger, records := logtest.NewNullLogger()
	log := func() string {
		var text strings.Builder
		for _, e := range records.AllEntries() {
			line, _ := plain{}.Format(e)
			text.Write(line)
		}
		return text.String()
	}
	logger.SetLevel(logrus.TraceLevel)
	command := stdio.Command{Args: []string{"/bin/sh", "-c", colourful}}
	tr, err := supervised.New(command.Mint, supervised.WithLogger(logger), supervised.WithRestartDelay(0))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var mu sync.Mutex
	var told []string
	tell := func(err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err.Error())
		}
	}
	serving := make(chan struct{}, 1)
	tr.OnError(tell)
	tr.OnClose(tell)
	tr.OnReconnect(func(context.Context) error { serving <- struct{}{}; return nil })
	ctx := context.Background()
	conn, err := tr.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, method := range []string{"initialize", "logging/setLevel", "tools/call"} {
		params := json.RawMessage(`{"protocolVersion":"2025-06-18","level":"info"}`)
		if err := conn.Write(ctx, &jsonrpc.Request{ID: number(int64(i)), Method: method, Params: params}); err != nil {
			t.Fatal(err)
		}
		for answered := false; !answered; {
			m, err := conn.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			r, ok := m.(*jsonrpc.Response)
			if answered = ok; ok && r.Error != nil {
				tell(r.Error)
			}
		}
	}
	next(t, "the replacement", serving)
	want(t, "ping", nil, conn.Write(ctx, &jsonrpc.Request{ID: number(9), Method: "tools/call"})) // behind the refusal
	next(t, "the third", serving)
	tr.Close()
	for _, record := range []string{"the server has changed", "the replacement refuses", "skipped a line", "wrote to its stderr", "restarting the peer"} {
		eventually(t, "a record that says "+record, func() bool { return strings.Contains(log(), record) }) // a slow logger is not waited for
	}
	mu.Lock()
	defer mu.Unlock()
	for what, text := range map[string]string{"log": log(), "error": strings.Join(told, "\n")} {
		for line := range strings.Lines(text) {
			if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) || r == '\ufffd' }); i >= 0 {
				t.Errorf("%s: what does not print is in %q", what, line)
			}
		}
	}
	if len(told) < 4 {
		t.Errorf("told: %q", told)
	}
}
