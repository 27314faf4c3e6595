package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/internal/wire"
)

func TestAppend(t *testing.T) {
	one := id(t, 1.0)
	parse := &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "parse error"}
	for _, test := range []struct {
		name string
		m    jsonrpc.Message
		want string
	}{
		{"call", &jsonrpc.Request{ID: one, Method: "m", Params: []byte(`{"a":1}`)},
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`},
		{"notification", &jsonrpc.Request{Method: "m"},
			`{"jsonrpc":"2.0","method":"m"}`},
		{"empty method", &jsonrpc.Request{ID: one},
			`{"jsonrpc":"2.0","id":1,"method":""}`},
		{"empty string id", &jsonrpc.Request{ID: id(t, ""), Method: "m"},
			`{"jsonrpc":"2.0","id":"","method":"m"}`},
		{"zero id", &jsonrpc.Response{ID: id(t, 0.0)},
			`{"jsonrpc":"2.0","id":0}`},
		{"null params", &jsonrpc.Request{Method: "m", Params: []byte("null")},
			`{"jsonrpc":"2.0","method":"m","params":null}`},
		{"escapes", &jsonrpc.Request{ID: id(t, "<\u2028>"), Method: "\"\\/\b\f\n\r\t\x00\x7f\xffé&\u2029"},
			`{"jsonrpc":"2.0","id":"<\u2028>","method":"\"\\/\b\f\n\r\t\u0000` + "\x7f" + `\ufffdé&\u2029"}`},
		{"spaces stay", &jsonrpc.Response{ID: one, Result: []byte(` {"a": [1, 2]} `)},
			`{"jsonrpc":"2.0","id":1,"result": {"a": [1, 2]} }`},
		{"line breaks go", &jsonrpc.Response{ID: one, Result: []byte("{\r\n  \"a b\": [1, 2]\n}")},
			`{"jsonrpc":"2.0","id":1,"result":{"a b":[1,2]}}`},
		{"carriage returns too", &jsonrpc.Response{ID: one, Result: []byte("[1, \r2]")},
			`{"jsonrpc":"2.0","id":1,"result":[1,2]}`},
		{"error", &jsonrpc.Response{ID: one, Error: &jsonrpc.Error{Code: -1, Message: "<m>", Data: []byte("[\n]")}},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"<m>","data":[]}}`},
		{"empty error", &jsonrpc.Response{ID: one, Result: []byte("1"), Error: &jsonrpc.Error{}},
			`{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":0,"message":""}}`},
		{"wrapping error", &jsonrpc.Response{ID: one, Error: fmt.Errorf("outer: %w", parse)},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"outer: parse error"}}`},
		{"other error", &jsonrpc.Response{ID: one, Error: errors.New("other")},
			`{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"other"}}`},
		{"nil *Error", &jsonrpc.Response{ID: one, Error: (*jsonrpc.Error)(nil)},
			`{"jsonrpc":"2.0","id":1}`},
		{"wrapped nil *Error", &jsonrpc.Response{ID: one, Error: errors.Join(nilError{})},
			`{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"outer"}}`},
		{"deeper than Decode takes", &jsonrpc.Response{ID: one, Result: []byte(nested(10000))},
			`{"jsonrpc":"2.0","id":1,"result":` + nested(10000) + `}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := wire.Append([]byte(">"), test.m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(">"+test.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// nilError is an error that wraps a nil *jsonrpc.Error.
type nilError struct{}

func (nilError) Error() string { return "outer" }

func (nilError) Unwrap() error { return (*jsonrpc.Error)(nil) }

func TestAppendRefuses(t *testing.T) {
	one := id(t, 1.0)
	for _, test := range []struct {
		name   string
		m      jsonrpc.Message
		member string
	}{
		{"nil", nil, ""},
		{"nil request", (*jsonrpc.Request)(nil), ""},
		{"nil response", (*jsonrpc.Response)(nil), ""},
		{"params", &jsonrpc.Request{Method: "m", Params: []byte(`{"a":}`)}, "params"},
		{"blank params", &jsonrpc.Request{Method: "m", Params: []byte(" ")}, "params"},
		{"two results", &jsonrpc.Response{ID: one, Result: []byte("1 2")}, "result"},
		{"line break in a string", &jsonrpc.Response{ID: one, Result: []byte("\"\n\"")}, "result"},
		{"data", &jsonrpc.Response{ID: one, Error: &jsonrpc.Error{Data: []byte("{")}}, "data"},
		{"too deep", &jsonrpc.Response{ID: one, Result: []byte(nested(10001))}, "result"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := wire.Append([]byte(">"), test.m)
			var refusal *wire.EncodeError
			if !errors.As(err, &refusal) {
				t.Fatalf("error %v, want an EncodeError", err)
			}
			if refusal.Member != test.member {
				t.Errorf("member %q, want %q", refusal.Member, test.member)
			}
			if cause := (*wire.DecodeError)(nil); test.member != "" && !errors.As(err, &cause) {
				t.Errorf("%v does not say what is broken", err)
			}
			if !strings.HasPrefix(err.Error(), "wire: cannot encode") {
				t.Errorf("text %q", err)
			}
			if string(got) != ">" {
				t.Errorf("appended %q", got)
			}
		})
	}
}

func TestAppendID(t *testing.T) {
	for _, test := range []struct {
		id   jsonrpc.ID
		want string
	}{
		{jsonrpc.ID{}, `null`},
		{id(t, 0.0), `0`},
		{id(t, -7.0), `-7`},
		{id(t, 1e15), `1000000000000000`},
		{id(t, ""), `""`},
		{id(t, "a\n"), `"a\n"`},
	} {
		if got := string(wire.AppendID([]byte(">"), test.id)); got != ">"+test.want {
			t.Errorf("got %s, want >%s", got, test.want)
		}
	}
}
