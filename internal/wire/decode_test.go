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

// sameID compares ids, whose fields are private, by what they hold.
var sameID = cmp.Transformer("raw", jsonrpc.ID.Raw)

func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

// id is a shorthand for the tests' tables.
func id(t *testing.T, v any) jsonrpc.ID {
	t.Helper()
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestDecode(t *testing.T) {
	one := id(t, 1.0)
	for _, test := range []struct {
		name string
		line string
		want jsonrpc.Message
	}{
		{"call", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a": 1}}`,
			&jsonrpc.Request{ID: one, Method: "m", Params: []byte(`{"a": 1}`)}},
		{"notification", `{"jsonrpc":"2.0","method":"m"}`,
			&jsonrpc.Request{Method: "m"}},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"m"}`,
			&jsonrpc.Request{Method: "m"}},
		{"null params", `{"jsonrpc":"2.0","method":"m","params": null }`,
			&jsonrpc.Request{Method: "m", Params: []byte("null")}},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`,
			&jsonrpc.Request{ID: one}},
		{"null method", `{"jsonrpc":"2.0","id":1,"method":null,"result":1}`,
			&jsonrpc.Request{ID: one}},
		{"escapes", `{"jsonrpc":"\u0032.0","i\u0064":1,"m\u0065thod":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`,
			&jsonrpc.Request{ID: one, Method: "\"\\/\b\f\n\r\té😀"}},
		{"unpaired surrogates", `{"jsonrpc":"2.0","method":"\ud83d.\ude00.\ud83d\u0041.\ud83d\ud83d\ude00.\ud83d"}`,
			&jsonrpc.Request{Method: "\ufffd.\ufffd.\ufffdA.\ufffd😀.\ufffd"}},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"method\":\"\xff\xc3\",\"params\":\"\xff\"}",
			&jsonrpc.Request{Method: "\ufffd\ufffd", Params: []byte("\"\xff\"")}},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{}}`,
			&jsonrpc.Response{ID: one, Result: []byte("{}")}},
		{"response of nothing", `{"jsonrpc":"2.0","id":1}`,
			&jsonrpc.Response{ID: one}},
		{"null result", `{"jsonrpc":"2.0","id":1,"result":null,"error":null}`,
			&jsonrpc.Response{ID: one, Result: []byte("null")}},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no \u0022m\u0022","data":{"a": 1},"x":[]}}`,
			&jsonrpc.Response{ID: one, Error: &jsonrpc.Error{Code: -32601, Message: `no "m"`, Data: []byte(`{"a": 1}`)}}},
		{"empty error", `{"jsonrpc":"2.0","id":1,"error":{}}`,
			&jsonrpc.Response{ID: one, Error: &jsonrpc.Error{}}},
		{"error of nulls", `{"jsonrpc":"2.0","id":1,"error":{"code":null,"message":null,"data":null}}`,
			&jsonrpc.Response{ID: one, Error: &jsonrpc.Error{Data: []byte("null")}}},
		{"keys are case-sensitive", `{"jsonrpc":"2.0","id":1,"Method":"m","RESULT":1,"error":{"Code":1}}`,
			&jsonrpc.Response{ID: one, Error: &jsonrpc.Error{}}},
		{"the last of several members", `{"jsonrpc":"1","jsonrpc":"2.0","id":true,"id":1,"method":2,"method":"m"}`,
			&jsonrpc.Request{ID: one, Method: "m"}},
		{"a null version keeps the earlier", `{"jsonrpc":"2.0","jsonrpc":null,"id":1}`,
			&jsonrpc.Response{ID: one}},
		{"a later error replaces what it has", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"data":2},"error":{"message":"m"}}`,
			&jsonrpc.Response{ID: one, Error: &jsonrpc.Error{Code: 1, Message: "m", Data: []byte("2")}}},
		{"a later null is no error", `{"jsonrpc":"2.0","id":1,"error":{"code":1},"error":null}`,
			&jsonrpc.Response{ID: one}},
		{"white space", " \t{ \"jsonrpc\" : \"2.0\" ,\n\"method\" : \"m\" , \"params\" : [ 1 , { } ] } \r\n",
			&jsonrpc.Request{Method: "m", Params: []byte("[ 1 , { } ]")}},
		{"as deep as may be", `{"jsonrpc":"2.0","method":"m","params":` + nested(999) + `}`,
			&jsonrpc.Request{Method: "m", Params: []byte(nested(999))}},
		{"brackets in a string nest nothing", `{"jsonrpc":"2.0","method":"m","params":"` + nested(1000) + `"}`,
			&jsonrpc.Request{Method: "m", Params: []byte(`"` + nested(1000) + `"`)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := wire.Decode([]byte(test.line))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, sameID); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeID(t *testing.T) {
	for raw, want := range map[string]any{
		`0`: int64(0), `-0`: int64(0), `7`: int64(7), `255`: int64(255), `256`: int64(256), `-1`: int64(-1),
		`1.9`: int64(1), `-1.9`: int64(-1), `1.5e1`: int64(15), `1e-400`: int64(0),
		`9007199254740991`:    int64(1<<53 - 1),
		`9007199254740993`:    int64(1 << 53), // no float64 of its own
		`999999999999999999`:  int64(1e18),    // the longest that skips the float parser
		`1000000000000000001`: int64(1e18),
		`""`:                  "", `"a"`: "a", `"7"`: "7", `"\u00e9"`: "é",
	} {
		m, err := wire.Decode([]byte(`{"jsonrpc":"2.0","id":` + raw + `}`))
		if err != nil {
			t.Errorf("id %s: %v", raw, err)
			continue
		}
		if diff := cmp.Diff(want, m.(*jsonrpc.Response).ID.Raw()); diff != "" {
			t.Errorf("id %s (-want +got):\n%s", raw, diff)
		}
	}
}

// TestDecodeLowIDs: the ids that are made in advance equal those that are not.
func TestDecodeLowIDs(t *testing.T) {
	for i := range 300 {
		m, err := wire.Decode(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d}`, i))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := m.(*jsonrpc.Response).ID, id(t, float64(i)); got != want {
			t.Errorf("id %d: got %v", i, got.Raw())
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const (
		broken  = jsonrpc.CodeParseError
		invalid = jsonrpc.CodeInvalidRequest
	)
	for _, test := range []struct {
		line   string
		code   int64
		offset int
		reason string
	}{
		{``, broken, 0, "value expected"},
		{`listening on port 80`, broken, 0, "value expected"},
		{`null`, invalid, 0, "object expected"},
		{`  [1]`, invalid, 2, "object expected"},
		{"\ufeff{}", broken, 0, "value expected"},
		{`{`, broken, 1, "unexpected end"},
		{`{"a`, broken, 3, "unexpected end"},
		{`{"a"`, broken, 4, "colon expected"},
		{`{"a":`, broken, 5, "value expected"},
		{`{"a":1`, broken, 6, "unexpected end"},
		{`{"a":1,`, broken, 7, "object key expected"},
		{`{"a":1,}`, broken, 7, "object key expected"},
		{`{,}`, broken, 1, "object key expected"},
		{`{a:1}`, broken, 1, "object key expected"},
		{`{"a" 1}`, broken, 5, "colon expected"},
		{`{"a":1 "b":2}`, broken, 7, "comma or closing bracket expected"},
		{`{"a":[1 2]}`, broken, 8, "comma or closing bracket expected"},
		{`{"a":1;"b":2}`, broken, 6, "comma or closing bracket expected"},
		{`{"a":[1}`, broken, 7, "comma or closing bracket expected"},
		{`{"a":[1,]}`, broken, 8, "value expected"},
		{`{"a":[,1]}`, broken, 6, "value expected"},
		{`{"a":01}`, broken, 6, "comma or closing bracket expected"},
		{`{"a":+1}`, broken, 5, "value expected"},
		{`{"a":-}`, broken, 6, "digit expected"},
		{`{"a":1.}`, broken, 7, "digit expected"},
		{`{"a":1e+}`, broken, 8, "digit expected"},
		{`{"a":NaN}`, broken, 5, "value expected"},
		{`{"a":nul}`, broken, 5, "value expected"},
		{`{"a":trueish}`, broken, 9, "comma or closing bracket expected"},
		{`{"a":"\x"}`, broken, 7, "unknown escape in a string"},
		{`{"a":"\u12g4"}`, broken, 10, "hexadecimal digit expected"},
		{`{"a":"\u123g"}`, broken, 11, "hexadecimal digit expected"},
		{`{"a":"\u123"}`, broken, 11, "hexadecimal digit expected"},
		{`{"a":"\`, broken, 7, "unknown escape in a string"},
		{"{\"a\":\"\t\"}", broken, 6, "control character in a string"},
		{"{\"a\":\"12345678\x00\"}", broken, 14, "control character in a string"},
		{"{\x00}", broken, 1, "object key expected"},
		{`{"jsonrpc":"2.0","method":"m"}}`, broken, 30, "bytes after the end of the value"},
		{`{"jsonrpc":"2.0","method":"m"} {}`, broken, 31, "bytes after the end of the value"},
		{`{"a":` + nested(1000) + `}`, broken, 5 + 999, "nested too deep"},
		{`{"jsonrpc":2.0}`, invalid, 11, "jsonrpc is no string"},
		{`{"jsonrpc":"1.0","id":1}`, invalid, 0, `jsonrpc is not "2.0"`},
		{`{"id":1}`, invalid, 0, `jsonrpc is not "2.0"`},
		{`{"jsonrpc":"2.0"}`, invalid, 0, "neither method nor id"},
		{`{"jsonrpc":"2.0","id":null,"result":1}`, invalid, 0, "neither method nor id"},
		{`{"jsonrpc":"2.0","id":true}`, invalid, 0, "id is neither string nor number"},
		{`{"jsonrpc":"2.0","id":[1],"method":"m"}`, invalid, 0, "id is neither string nor number"},
		{`{"jsonrpc":"2.0","id":1e400}`, invalid, 0, "id is neither string nor number"},
		{`{"jsonrpc":"2.0","id":1,"method":{}}`, invalid, 0, "method is no string"},
		{`{"jsonrpc":"2.0","method":"m","error":"x"}`, invalid, 38, "error is no object"},
		{`{"error":{"code":1.0}}`, invalid, 17, "error code is no integer of 64 bits"},
		{`{"error":{"code":"1"}}`, invalid, 17, "error code is no integer of 64 bits"},
		{`{"error":{"code":9223372036854775808}}`, invalid, 17, "error code is no integer of 64 bits"},
		{`{"error":[1,]}`, broken, 12, "value expected"},
		{`{"error":{"code":-}}`, broken, 18, "digit expected"},
		{`{"error":{"message":1}}`, invalid, 20, "error message is no string"},
		{`{"error":{"message":"`, broken, 21, "unexpected end"},
	} {
		t.Run(test.line[:min(len(test.line), 40)], func(t *testing.T) {
			m, err := wire.Decode([]byte(test.line))
			var refusal *wire.DecodeError
			if m != nil || !errors.As(err, &refusal) {
				t.Fatalf("got %v, %v; want a DecodeError", m, err)
			}
			if refusal.Offset != test.offset || refusal.Reason != test.reason {
				t.Errorf("got %q at %d, want %q at %d", refusal.Reason, refusal.Offset, test.reason, test.offset)
			}
			if !errors.Is(err, &jsonrpc.Error{Code: test.code}) {
				t.Errorf("%v does not match code %d", err, test.code)
			}
		})
	}
}

// TestDecodeDiffers shows what the package documents: where Decode and the SDK's decoder disagree. The day that
// the SDK changes its mind, this fails.
func TestDecodeDiffers(t *testing.T) {
	for _, test := range []struct {
		line string
		wire bool // Decode accepts it, the SDK does not; else the other way round
	}{
		{`{"jsonrpc":"2.0","method":"m"}{"jsonrpc":"2.0","method":"n"}`, false},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":25000000000000000000}}`, false},
		{`{"jsonrpc":"2.0","id":1e400,"id":1}`, true},
		{`{"jsonrpc":"2.0","id":[1e400],"id":1}`, true},
	} {
		_, err := wire.Decode([]byte(test.line))
		_, sdkErr := jsonrpc.DecodeMessage([]byte(test.line))
		if (err == nil) != test.wire || (sdkErr == nil) != !test.wire {
			t.Errorf("%s: error %v, the SDK's %v", test.line, err, sdkErr)
		}
	}
}

// TestDecodeTruncated: no prefix of a message is one, and none makes Decode stumble.
func TestDecodeTruncated(t *testing.T) {
	const line = `{"jsonrpc":"2.0","id":"\u00e9","result":[-1.5e+3,true,{"a":null}],"error":{"code":-1,"message":"\n","data":"x"}}`
	for n := range len(line) {
		if m, err := wire.Decode([]byte(line[:n])); err == nil {
			t.Errorf("Decode(%q) gave %v", line[:n], m)
		}
	}
}

// TestDecodeStringsOfAnyLength places what a scan of eight bytes a step may miss at each place of such a step.
func TestDecodeStringsOfAnyLength(t *testing.T) {
	for n := range 40 {
		pad := strings.Repeat("é", n/2) + strings.Repeat("x", n%2)
		for text, valid := range map[string]bool{
			`\"`: true, `\\`: true, `\u0000`: true, " ": true, "!": true, "#": true, "\x7f": true, "\xa2": true, "\xdc": true, "\x80": true,
			`"`: false, `\`: false, "\n": false, "\x00": false, "\x1f": false,
		} {
			line := `{"jsonrpc":"2.0","method":"m","params":"` + pad + text + pad + `"}`
			if _, err := wire.Decode([]byte(line)); (err == nil) != valid {
				t.Errorf("Decode(%q): error %v, want valid %v", line, err, valid)
			}
		}
	}
}

// TestDecodeAliases: what a message carries is the line's memory, without the room behind it.
func TestDecodeAliases(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`)
	m, err := wire.Decode(line)
	if err != nil {
		t.Fatal(err)
	}
	request := m.(*jsonrpc.Request)
	_ = append(request.Params, '!')
	if line[len(line)-1] != '}' {
		t.Errorf("appending to Params wrote into the line: %s", line)
	}
	copy(line, strings.ReplaceAll(string(line), "1", "2"))
	want := &jsonrpc.Request{ID: id(t, 1.0), Method: "m", Params: []byte("[2]")}
	if diff := cmp.Diff(want, request, sameID); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// elementsOf is all elements of the array that line holds.
func elementsOf(line []byte) (elements [][]byte, err error) {
	array, err := wire.OpenArray(line)
	for e := array.Next(); e != nil; e = array.Next() {
		elements = append(elements, e)
	}
	return elements, err
}

// TestElementsTakeNoMemory: a line of the shortest elements took seventy times its length, to hold where each begins.
func TestElementsTakeNoMemory(t *testing.T) {
	line := []byte("[" + strings.Repeat("1,", 10_000) + "1]")
	allocs := testing.AllocsPerRun(10, func() {
		array, err := wire.OpenArray(line)
		n := 0
		for ; array.More(); n++ {
			array.Next()
		}
		if err != nil || n != 10_001 {
			t.Errorf("%d elements, %v", n, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestElements(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string
	}{
		{`[1]`, []string{"1"}},
		{" [ {\"a\": [1,2]} , \"]\" ,\nnull ] \r\n", []string{`{"a": [1,2]}`, `"]"`, "null"}},
		{`[` + nested(1000) + `]`, []string{nested(1000)}},
		{`[]`, nil}, {`[ ]`, nil}, {``, nil}, {`{}`, nil}, {`1`, nil},
		{`[`, nil}, {`[1`, nil}, {`[1,`, nil}, {`[1,]`, nil}, {`[,1]`, nil}, {`[1 2]`, nil}, {`[1}`, nil},
		{`[1]]`, nil}, {`[1] 2`, nil}, {`[{"a":}]`, nil},
		{`[` + nested(1001) + `]`, nil},
	} {
		elements, err := elementsOf([]byte(test.line))
		if (err == nil) != (test.want != nil) {
			t.Errorf("OpenArray(%.40q): error %v", test.line, err)
			continue
		}
		if refusal := (*wire.DecodeError)(nil); err != nil && !errors.As(err, &refusal) {
			t.Errorf("OpenArray(%.40q): error %T, want a DecodeError", test.line, err)
		}
		var got []string
		for _, element := range elements {
			got = append(got, string(element))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("OpenArray(%.40q) (-want +got):\n%s", test.line, diff)
		}
	}
}

func TestIsArray(t *testing.T) {
	for line, want := range map[string]bool{
		`[`: true, " \t\r\n[1]": true, ``: false, `  `: false, `{"a":[]}`: false, `"["`: false, "\v[": false,
	} {
		if got := wire.IsArray([]byte(line)); got != want {
			t.Errorf("IsArray(%q) = %v", line, got)
		}
	}
}
