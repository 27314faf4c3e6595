package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"pgregory.net/rapid"

	"github.com/seed7990db67/supervised/internal/wire"
)

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
	`{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`,
	`{"jsonrpc":"2.0","id":9223372036854775807,"result":{}}`, `{"jsonrpc":"2.0","id":1e30,"result":{}}`,
	`{"jsonrpc":"2.0","id":999999999999999999,"result":{}}`, `{"jsonrpc":"2.0","id":9999999999999999999,"result":{}}`,
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
	`{"jsonrpc":"`, `{"jsonrpc":"2.0","id":1,"error":{"message":"\`, `{"jsonrpc":"2.0","id":1,"error":{"code":1`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":1.0}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":"1"}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":9223372036854775808}}`, `{"jsonrpc":"2.0","id":1,"error":{"message":1}}`,
	`{"jsonrpc":"2.0","method":"m","error":{"code":[]}}`, `{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":-0}}`,
	// Members twice.
	`{"jsonrpc":"2.0","jsonrpc":null,"id":1,"result":1,"result":2}`, `{"jsonrpc":"2.0","jsonrpc":"1.0","id":1}`,
	`{"jsonrpc":"2.0","id":true,"id":1,"method":1,"method":"m","params":1,"params":2}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":1,"data":1},"error":{"message":"m"}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":1,"data":1},"error":null}`,
	// Where the SDK differs.
	`{"jsonrpc":"2.0","id":1e400,"id":1,"result":{}}`, `{"jsonrpc":"2.0","id":[1e400],"id":1,"result":{}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":25000000000000000000}}`,
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

// FuzzDecode holds Decode against the SDK's decoder: the same message, or both refuse, save the documented
// differences.
func FuzzDecode(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) { agree(t, line) })
}

// TestDecodeAgrees does the same with messages put together from parts that matter, which a fuzzer seldom
// finds: members that come twice, escaped keys, values of the wrong type, one byte gone or doubled.
func TestDecodeAgrees(t *testing.T) {
	keys := rapid.SampledFrom([]string{
		`"jsonrpc"`, `"id"`, `"method"`, `"params"`, `"result"`, `"error"`, `"error"`, `"error"`,
		`"Method"`, `"\u0069d"`, `"m\u0065thod"`, `"error\u0000"`, `""`, `"\ud83d"`, `id`,
	})
	errorKeys := rapid.SampledFrom([]string{`"code"`, `"message"`, `"data"`, `"Code"`, `"d\u0061ta"`, `1`})
	scalars := rapid.SampledFrom([]string{
		`"2.0"`, `"2.\u0030"`, `""`, `"m"`, `"\\\"\/\u00e9"`, `"\ud83d\ude00\ud83d"`, "\"\xff\"", "\"\n\"", `"\q"`, `"`,
		`0`, `-0`, `1`, `255`, `256`, `-1`, `1.9`, `1e3`, `1E-3`, `1e400`, `01`, `1.`, `-`, `9007199254740993`,
		`9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `-9223372036854775809`,
		`99999999999999999999`, `25000000000000000000`,
		`null`, `true`, `false`, `nul`, `{}`, `[]`, `[1,"]",{"a":null}]`, ``,
	})
	spaces := rapid.SampledFrom([]string{"", "", "", "", "", "", "", "", " ", "\t", "\r\n", "\v"})
	members := func(key, value *rapid.Generator[string]) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			members := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
				return key.Draw(t, "key") + spaces.Draw(t, "space") + ":" + value.Draw(t, "value")
			}), 0, 4).Draw(t, "members")
			return strings.Join(members, spaces.Draw(t, "space")+",")
		})
	}
	failures := rapid.Map(members(errorKeys, scalars), func(members string) string { return "{" + members + "}" })
	bodies := members(keys, rapid.OneOf(scalars, failures))
	heads := rapid.SampledFrom([]string{
		`{"jsonrpc":"2.0",`, `{"jsonrpc":"2.0","id":1,`, `{"jsonrpc":"2.0","method":"m",`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":[]},`,
	})
	rapid.Check(t, func(t *rapid.T) {
		line := []byte(heads.Draw(t, "head") + bodies.Draw(t, "body") + "}")
		at := rapid.IntRange(0, len(line)-1).Draw(t, "at")
		switch rapid.SampledFrom([]string{"intact", "intact", "intact", "doubled", "gone"}).Draw(t, "damage") {
		case "doubled":
			line = slices.Insert(line, at, line[at])
		case "gone":
			line = slices.Delete(line, at, at+1)
		}
		agree(t, line)
	})
}

// agree fails unless Decode and the SDK read line alike or refuse it alike.
func agree(t rapid.TB, line []byte) {
	t.Helper()
	original := bytes.Clone(line)
	want, wantErr := jsonrpc.DecodeMessage(line)
	got, err := wire.Decode(line)
	switch {
	case !bytes.Equal(line, original):
		t.Fatalf("Decode changed %q to %q", original, line)
	case err == nil && wantErr == nil:
		if diff := cmp.Diff(want, got, sameID); diff != "" {
			t.Errorf("%q (-SDK +wire):\n%s", line, diff)
		}
	case err == nil && !unreadID(wantErr):
		t.Errorf("%q: accepted as %v, the SDK refuses: %v", line, got, wantErr)
	case wantErr == nil && !trailing(line) && !wrappedCode(line, err):
		t.Errorf("%q: refused with %v, the SDK accepts as %v", line, err, want)
	}
}

// unreadID reports whether err, the SDK's, says that a number in an id is beyond float64. If Decode accepts
// the message, a later id replaces that one.
func unreadID(err error) bool {
	return strings.Contains(err.Error(), ".id") && strings.HasSuffix(err.Error(), "of type float64")
}

// trailing reports whether more than white space follows the first JSON text in line.
func trailing(line []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(line))
	var first json.RawMessage
	if decoder.Decode(&first) != nil {
		return false
	}
	return len(bytes.Trim(line[decoder.InputOffset():], " \t\r\n")) > 0
}

var digits20 = regexp.MustCompile(`\d{20}`)

// wrappedCode reports whether err, from Decode, may be about an error code that the SDK lets wrap around.
func wrappedCode(line []byte, err error) bool {
	var refusal *wire.DecodeError
	return errors.As(err, &refusal) && strings.HasPrefix(refusal.Reason, "error code") && digits20.Match(line)
}

// FuzzElements holds OpenArray against encoding/json.
func FuzzElements(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte("[" + seed + "]"))
		f.Add([]byte(" [ " + seed + " , " + seed + " ] "))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var raws []json.RawMessage
		ok := json.Unmarshal(line, &raws) == nil && len(raws) > 0 && depth(line) <= 1001
		elements, err := elementsOf(line)
		if (err == nil) != ok {
			t.Fatalf("error %v, valid %v", err, ok)
		}
		if err == nil {
			for i, raw := range raws {
				if !bytes.Equal(raw, elements[i]) {
					t.Errorf("element %d: got %q, want %q", i, elements[i], raw)
				}
			}
		}
	})
}

// depth returns how deep valid JSON nests.
func depth(text []byte) (deepest int) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	depth := 0
	for {
		token, err := decoder.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// FuzzAppend holds Append against EncodeMessage: the same value, which decodes to the message that was given.
func FuzzAppend(f *testing.F) {
	f.Add(uint8(0), int64(1), "", "tools/call", []byte(`{"a":[1,"\u00e9"]}`))
	f.Add(uint8(1), int64(-1), "id\u2028", "", []byte(`{"a" :`+"\n"+`1}`))
	f.Add(uint8(2), int64(math.MaxInt64), "<&>", "no \"such\"\x00\x7f\xff\u2029", []byte(nil))
	f.Add(uint8(3), int64(0), "\xed\xa0\xbd", "\b\f\n\r\t\\/", []byte("\r\n[ ]\t"))
	f.Add(uint8(4), int64(0), "é", "m", []byte(`{"a":}`))
	f.Add(uint8(5), int64(math.MinInt64), "", "m", []byte(`"`+"\n"+`"`))
	f.Add(uint8(6), int64(7), "", "m", []byte(nested(999)))
	f.Add(uint8(7), int64(7), "", "m", []byte("\"\xff\u2028\""))
	f.Fuzz(func(t *testing.T, kind uint8, number int64, name, text string, raw []byte) {
		var id any = name
		if kind&1 != 0 {
			id = float64(number)
		}
		m := message(t, kind, id, number, text, raw)
		want, wantErr := jsonrpc.EncodeMessage(m)
		const prefix = "prefix"
		line, err := wire.Append([]byte(prefix), m)
		line, found := bytes.CutPrefix(line, []byte(prefix))
		if !found {
			t.Fatal("Append changed what was in the buffer")
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, the SDK's %v", err, wantErr)
		}
		if err != nil {
			if refusal := (*wire.EncodeError)(nil); !errors.As(err, &refusal) || len(line) > 0 {
				t.Errorf("error %T, appended %q; want an EncodeError and nothing appended", err, line)
			}
			return
		}
		if bytes.ContainsAny(line, "\r\n") {
			t.Errorf("line break in %q", line)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, line); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if request, ok := m.(*jsonrpc.Request); ok && request.Method == "" {
			// The SDK omits an empty method.
			cut := strings.Replace(compact.String(), `,"method":""`, "", 1)
			compact.Reset()
			compact.WriteString(cut)
		}
		if diff := cmp.Diff(string(want), compact.String()); diff != "" {
			t.Errorf("(-SDK +wire):\n%s", diff)
		}
		if again, err := wire.Decode(line); depth(line) <= 1000 {
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if want, err := jsonrpc.DecodeMessage(line); err != nil || !cmp.Equal(want, again, sameID) {
				t.Errorf("decodes as %v, by the SDK as %v, %v", again, want, err)
			}
		}
	})
}

// message makes a message whose form the bits of kind choose.
func message(t *testing.T, kind uint8, rawID any, code int64, text string, raw []byte) jsonrpc.Message {
	id := id(t, rawID)
	switch kind >> 1 % 4 {
	case 0:
		return &jsonrpc.Request{ID: id, Method: text, Params: raw}
	case 1:
		return &jsonrpc.Request{Method: text, Params: raw}
	case 2:
		return &jsonrpc.Response{ID: id, Result: raw}
	default:
		return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: code, Message: text, Data: raw}}
	}
}

// FuzzMember holds Member against encoding/json.
func FuzzMember(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed), "method")
	}
	f.Add([]byte(`{"_meta":{"progressToken":1},"\u005fmeta": "last"}`), "_meta")
	f.Add([]byte(`{"":1,"\ud800":2,"`+"\xff"+`":3}`), "\ufffd")
	f.Fuzz(func(t *testing.T, object []byte, key string) {
		var members map[string]json.RawMessage
		var want json.RawMessage
		found := false
		if json.Unmarshal(object, &members) == nil && depth(object) <= 1000 {
			want, found = members[key]
		}
		if got, ok := wire.Member(object, key); ok != found || !bytes.Equal(got, want) {
			t.Errorf("got %q, %v; want %q, %v", got, ok, want, found)
		}
	})
}

// FuzzText holds Text, and the way back, against encoding/json.
func FuzzText(f *testing.F) {
	for _, seed := range []string{
		`""`, ` "a" `, `null`, `1`, `"`, `"\`, `"\"\\\/\b\f\n\r\t\u00E9\ud83d\ude00"`, `"\ud83d\ud83d\ude00\ude00\u0041"`,
		"\"\xff\xe2\x80\"", "\"\u2028\"", `"\u00"`, `"a""b"`, "\"\x1f\"", "\"\x7f\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want *string
		valid := json.Unmarshal(raw, &want) == nil && want != nil
		got, ok := wire.Text(raw)
		if ok != valid || ok && got != *want {
			t.Fatalf("got %q, %v; want %v", got, ok, want)
		}
		if !ok {
			return
		}
		if again, ok := wire.Text(wire.AppendID(nil, id(t, got))); !ok || again != got {
			t.Errorf("%q went out and came back as %q, %v", got, again, ok)
		}
	})
}

func FuzzAny(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, `{"b":{"a":1}}`, `{"\u0061":[]}`, `{"a":1`, `null`, `[]`, ` {"b":2,"b":3} x`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		var members map[string]json.RawMessage
		wantOK := json.Unmarshal(object, &members) == nil && members != nil
		_, a := members["a"]
		_, b := members["b"]
		found, ok := wire.Any(object, "a", "b")
		if ok != wantOK || found != (wantOK && (a || b)) {
			t.Errorf("Any(%q) = %t, %t; encoding/json finds %v, well-formed %t", object, found, ok, members, wantOK)
		}
	})
}

// FuzzID holds ID against the SDK, which finds the id in a message, and what AppendID writes against both.
func FuzzID(f *testing.F) {
	for _, seed := range []string{
		`1`, ` -0 `, `1.9`, `1e3`, `-9223372036854775808`, `9007199254740993`, `1e19`, `1e400`, `01`, `-`, `""`, ` "a" `,
		`"\ud83d\ude00\ud83d"`, "\"\xff\"", `"\u0000"`, `null`, `true`, `{}`, `[1]`, ``, `1,"id":2`, `1 2`, `"a`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want jsonrpc.ID
		if json.Valid(raw) && depth(raw) < 1000 { // else it might be more than an id there
			m, err := jsonrpc.DecodeMessage(slices.Concat([]byte(`{"jsonrpc":"2.0","method":"m","id":`), raw, []byte(`}`)))
			if err == nil {
				want = m.(*jsonrpc.Request).ID
			}
		}
		got, ok := wire.ID(raw)
		if ok != want.IsValid() || got != want {
			t.Fatalf("ID(%q) = %v, %t; the SDK has %v", raw, got.Raw(), ok, want.Raw())
		}
		if !ok {
			return
		}
		written := wire.AppendID(nil, got)
		if again, ok := wire.ID(written); !ok || again != got {
			t.Errorf("%v went out as %s and came back as %v, %t", got.Raw(), written, again.Raw(), ok)
		}
	})
}
