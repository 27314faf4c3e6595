package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/internal/wire"
)

// sameID compares ids, whose fields are private, by what they hold.
var sameID = cmp.Transformer("raw", jsonrpc.ID.Raw)

func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

// seeds are texts of every kind that a decoder may trip over, valid and not.
var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\"b\\c\/d\n\u00e9"}]}}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":0.5e-3,"total":-1E+2}}`,
	` { "jsonrpc" : "2.0" , "id" : "a" , "result" : [ 1 , true , false , null ] } ` + "\r\n",
	// Ids.
	`{"jsonrpc":"2.0","id":0,"result":{}}`, `{"jsonrpc":"2.0","id":-0,"result":{}}`,
	`{"jsonrpc":"2.0","id":-7,"result":{}}`, `{"jsonrpc":"2.0","id":255,"result":{}}`,
	`{"jsonrpc":"2.0","id":256,"result":{}}`, `{"jsonrpc":"2.0","id":1.9,"result":{}}`,
	`{"jsonrpc":"2.0","id":-1.9,"result":{}}`, `{"jsonrpc":"2.0","id":1e3,"result":{}}`,
	`{"jsonrpc":"2.0","id":999999999999999,"result":{}}`, `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`,
	`{"jsonrpc":"2.0","id":9223372036854775807,"result":{}}`, `{"jsonrpc":"2.0","id":1e30,"result":{}}`,
	`{"jsonrpc":"2.0","id":1e400,"result":{}}`, `{"jsonrpc":"2.0","id":1e-400,"result":{}}`,
	`{"jsonrpc":"2.0","id":null,"result":{}}`, `{"jsonrpc":"2.0","id":null,"method":"m"}`,
	`{"jsonrpc":"2.0","id":"","result":{}}`, `{"jsonrpc":"2.0","id":"\ud83d\ude00\ud83d","result":{}}`,
	`{"jsonrpc":"2.0","id":true,"result":{}}`, `{"jsonrpc":"2.0","id":[],"result":{}}`,
	`{"jsonrpc":"2.0","id":{},"method":"m"}`,
	// Methods.
	`{"jsonrpc":"2.0","method":""}`, `{"jsonrpc":"2.0","method":null}`, `{"jsonrpc":"2.0","method":1}`,
	`{"jsonrpc":"2.0","m\u0065thod":"\u0061\t\b\f\r\/"}`, `{"jsonrpc":"2.0","Method":"m"}`,
	// Versions.
	`{"id":1,"result":{}}`, `{"jsonrpc":"2.\u0030","id":1,"result":{}}`, `{"jsonrpc":2.0,"id":1,"result":{}}`,
	`{"jsonrpc":"1.0","id":1,"result":{}}`, `{"jsonrpc":null,"id":1,"result":{}}`,
	// Errors.
	`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no \"such\"","data":{"a":[1]}}}`,
	`{"jsonrpc":"2.0","id":1,"error":{}}`, `{"jsonrpc":"2.0","id":1,"error":null}`,
	`{"jsonrpc":"2.0","id":1,"error":[]}`, `{"jsonrpc":"2.0","id":1,"error":{"code":null,"message":null,"data":null}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":1.0}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":"1"}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":9223372036854775808}}`, `{"jsonrpc":"2.0","id":1,"error":{"message":1}}`,
	`{"jsonrpc":"2.0","method":"m","error":{"code":[]}}`, `{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":-0}}`,
	// Members twice.
	`{"jsonrpc":"2.0","jsonrpc":null,"id":1,"result":1,"result":2}`, `{"jsonrpc":"2.0","jsonrpc":"1.0","id":1}`,
	`{"jsonrpc":"2.0","id":true,"id":1,"method":1,"method":"m","params":1,"params":2}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":1,"data":1},"error":{"message":"m"}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":1,"data":1},"error":null}`,
	// No messages.
	``, ` `, `null`, `1`, `[]`, `{}`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","result":1}`,
	"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", "\x00",
	`{"jsonrpc":"2.0","method":"m"}}`, `{"jsonrpc":"2.0","method":"m"} x`, "{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\x00",
	// Broken JSON.
	`{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":1 "b":2}`, `{1:1}`, `{null:1}`,
	`{"jsonrpc":"2.0","method":"m","params":[1,]}`, `{"jsonrpc":"2.0","method":"m","params":[,1]}`,
	`{"jsonrpc":"2.0","method":"m","params":[1 2]}`, `{"jsonrpc":"2.0","method":"m","params":[}}`,
	`{"jsonrpc":"2.0","method":"m","params":01}`, `{"jsonrpc":"2.0","method":"m","params":-}`,
	`{"jsonrpc":"2.0","method":"m","params":1.}`, `{"jsonrpc":"2.0","method":"m","params":.1}`,
	`{"jsonrpc":"2.0","method":"m","params":1e}`, `{"jsonrpc":"2.0","method":"m","params":1e+}`,
	`{"jsonrpc":"2.0","method":"m","params":+1}`, `{"jsonrpc":"2.0","method":"m","params":nul}`,
	`{"jsonrpc":"2.0","method":"m","params":truE}`, `{"jsonrpc":"2.0","method":"m","params":nulls}`,
	`{"jsonrpc":"2.0","method":"m","params":"\x"}`, `{"jsonrpc":"2.0","method":"m","params":"\u12g4"}`,
	`{"jsonrpc":"2.0","method":"m","params":"\u12"}`, `{"jsonrpc":"2.0","method":"m","params":"\`,
	"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":\"12345678\t\"}", "{\"jsonrpc\":\"2.0\",\"method\":\"\x00\"}",
	"{\"jsonrpc\":\"2.0\",\"method\":\"m\xff\",\"id\":\"\xc3\",\"params\":\"\xff\x7f\u2028\"}",
	// Depth.
	`{"jsonrpc":"2.0","method":"m","params":` + nested(999) + `}`,
	`{"jsonrpc":"2.0","method":"m","params":` + nested(1000) + `}`,
	`{"jsonrpc":"2.0","method":"m","params":"` + nested(1000) + `"}`,
}

// TestDecodeAgreesWithSDK holds Decode against the SDK's decoder on each seed.
func TestDecodeAgreesWithSDK(t *testing.T) {
	for _, seed := range seeds {
		agree(t, []byte(seed))
	}
}

// agree fails unless Decode and the SDK read line alike, or refuse it alike.
func agree(t *testing.T, line []byte) {
	t.Helper()
	want, wantErr := jsonrpc.DecodeMessage(line)
	if wantErr == nil && deliberate(line) {
		return
	}
	got, err := wire.Decode(line)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("Decode(%q): error %v, the SDK's %v", line, err, wantErr)
	}
	if diff := cmp.Diff(want, got, sameID); diff != "" {
		t.Errorf("Decode(%q) (-SDK +wire):\n%s", line, diff)
	}
}

// deliberate reports whether line is one that the package documents to refuse while the SDK accepts it.
func deliberate(line []byte) bool {
	first := json.NewDecoder(bytes.NewReader(line))
	var message json.RawMessage
	if first.Decode(&message) != nil {
		return false
	}
	if rest := line[first.InputOffset():]; len(bytes.Trim(rest, " \t\r\n")) > 0 {
		return true
	}
	_, err := wire.Decode(line)
	var refusal *wire.DecodeError
	return errors.As(err, &refusal) && refusal.Reason == "error code is no integer"
}
