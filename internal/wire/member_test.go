package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed7990db67/supervised/internal/wire"
)

func TestMember(t *testing.T) {
	for _, test := range []struct {
		object string
		key    string
		want   string // empty: none
	}{
		{`{"a":1,"b": {"c": 2} }`, "b", `{"c": 2}`},
		{` { "a" : null } `, "a", `null`},
		{`{"a":1,"a":2}`, "a", `2`},
		{`{"\u0061":1}`, "a", `1`},
		{`{"é":1}`, "é", `1`},
		{`{"":1}`, "", `1`},
		{`{"a":{"b":1}}`, "b", ``},
		{`{"A":1}`, "a", ``},
		{`{}`, "a", ``},
		{`["a",1]`, "a", ``},
		{`"a"`, "a", ``},
		{`null`, "a", ``},
		{``, "", ``},
		{`{`, "", ``},
		{`{"a":1`, "a", ``},
		{`{"a":1}}`, "a", ``},
		{`{"a":1,"b":nope}`, "a", ``},
		{`{"a":` + nested(999) + `}`, "a", nested(999)},
		{`{"a":` + nested(1000) + `}`, "a", ``},
	} {
		got, ok := wire.Member(json.RawMessage(test.object), test.key)
		if string(got) != test.want || ok != (test.want != "") {
			t.Errorf("Member(%.40q, %q) = %.40q, %v; want %.40q", test.object, test.key, got, ok, test.want)
		}
	}
}

func TestPath(t *testing.T) {
	params := json.RawMessage(`{"_meta":{"progressToken":7},"name":"echo"}`)
	for _, test := range []struct {
		keys []string
		want string // empty: none
	}{
		{nil, string(params)},
		{[]string{"_meta"}, `{"progressToken":7}`},
		{[]string{"_meta", "progressToken"}, `7`},
		{[]string{"_meta", "other"}, ``},
		{[]string{"name", "progressToken"}, ``},
		{[]string{"arguments", "progressToken"}, ``},
	} {
		got, ok := wire.Path(params, test.keys...)
		if string(got) != test.want || ok != (test.want != "") {
			t.Errorf("Path(%q) = %q, %v; want %q", test.keys, got, ok, test.want)
		}
	}
}

func TestID(t *testing.T) {
	for raw, want := range map[string]any{
		`1`: int64(1), ` -5 `: int64(-5), `1.5`: int64(1), `""`: "", `"a\n"`: "a\n", `4711`: int64(4711),
		`null`: nil, `true`: nil, `{}`: nil, `[1]`: nil, ``: nil, ` `: nil, `1 2`: nil, `"`: nil, `-`: nil, `1e400`: nil,
	} {
		got, ok := wire.ID(json.RawMessage(raw))
		if ok != (want != nil) || got.Raw() != want {
			t.Errorf("ID(%q) = %v, %v; want %v", raw, got.Raw(), ok, want)
		}
	}
	if got, ok := wire.ID(json.RawMessage(`true`)); ok || got != (jsonrpc.ID{}) {
		t.Errorf("a refused id is %v", got.Raw())
	}
}

func TestText(t *testing.T) {
	for _, test := range []struct {
		raw, want string
		ok        bool
	}{
		{`"a"`, "a", true},
		{` "" `, "", true},
		{`"\ud83d\ude00\/"`, "😀/", true},
		{`1`, "", false},
		{`null`, "", false},
		{`"a`, "", false},
		{`"`, "", false},
		{`"a" "b"`, "", false},
		{``, "", false},
	} {
		if got, ok := wire.Text(json.RawMessage(test.raw)); got != test.want || ok != test.ok {
			t.Errorf("Text(%q) = %q, %v; want %q, %v", test.raw, got, ok, test.want, test.ok)
		}
	}
}
