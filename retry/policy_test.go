package retry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"go.uber.org/goleak"

	"github.com/seed7990db67/supervised/retry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// The methods of rule Q2, written out a second time.
var kept = []string{
	"server/discover",
	"tools/list",
	"prompts/list",
	"prompts/get",
	"resources/list",
	"resources/templates/list",
	"resources/read",
	"completion/complete",
}

func request(method, params string) *jsonrpc.Request {
	return &jsonrpc.Request{Method: method, Params: json.RawMessage(params)}
}

func TestQ2_TheEightReadingMethodsAreKept(t *testing.T) {
	for _, method := range kept {
		if !retry.ReadOnly.Retain(request(method, `{"uri":"file:///a"}`)) {
			t.Errorf("%s is not kept", method)
		}
	}
}

func TestQ3_NoOtherMethodIsKept(t *testing.T) {
	for _, method := range []string{
		"",
		"tools/call",
		"initialize",
		"ping",
		"logging/setLevel",
		"resources/subscribe",
		"resources/unsubscribe",
		"subscriptions/listen",
		"sampling/createMessage",
		"roots/list",
		"elicitation/create",
		"vendor/status",
		"tools/list/", // near misses
		"Tools/List",
		" tools/list",
		"resources/templates",
	} {
		if retry.ReadOnly.Retain(request(method, `{}`)) {
			t.Errorf("%q is kept", method)
		}
	}
}

// Every row is tried with each of the methods of Q2.
func TestQ3_NoContinuationIsKept(t *testing.T) {
	for _, tt := range []struct {
		name   string
		params string
		kept   bool
	}{
		{"Q3 inputResponses", `{"inputResponses":{"a":{}}}`, false},
		{"Q3 requestState", `{"requestState":"opaque"}`, false},
		{"Q3 both", `{"inputResponses":{},"requestState":""}`, false},
		{"Q3 among others, last", `{"uri":"file:///a","_meta":{"n":[1,2]},"requestState":"s"}`, false},
		{"Q3 among others, first", "\n{\t\"requestState\" : \"s\" ,\r\n\"uri\" : \"file:///a\" } ", false},
		{"Q3 null is carried too", `{"requestState":null}`, false},
		{"Q3 the second of two", `{"a":1,"a":2,"requestState":"s","requestState":"s"}`, false},
		{"Q3 a letter escaped", `{"requ\u0065stState":"s"}`, false},
		{"Q3 every letter escaped", `{"` + escaped("inputResponses") + `":{}}`, false},
		{"Q3 hexadecimal in capitals", `{"re\u0071uestState":1, "\u006AnputResponses":1, "input\u0052esponses":1}`, false},

		{"no params", ``, true},
		{"null params", ` null `, true},
		{"empty params", `{}`, true},
		{"other members only", `{"uri":"file:///a","cursor":null,"n":-1.5e+3,"t":true,"f":false}`, true},
		{"as a value", `{"a":"requestState","b":["inputResponses",{"c":"requestState"}]}`, true},
		{"as a value that looks like a member", `{"a":"\"requestState\":1","b":"{\"inputResponses\":{}}"}`, true},
		{"in an object inside", `{"_meta":{"requestState":"s","inputResponses":{}}}`, true},
		{"in an array inside", `{"a":[{"requestState":"s"}]}`, true},
		{"in another case", `{"RequestState":1,"inputresponses":2}`, true},
		{"a longer name", `{"requestStates":1,"inputResponses2":1,"_requestState":1}`, true},
		{"a shorter name", `{"requestStat":1,"":1,"i":1}`, true},
		{"another escape than the letter's", `{"\requestState":1,"i\nputResponses":1,"\n0069nputResponses":1,"requestState\u0000":1,"request\\State":1}`, true},
		{"half a surrogate pair", `{"\ud83drequestState":1}`, true},
		{"nested as deep as encoding/json goes", nested(10_000), true},

		{"malformed: cut short", `{"uri":"file:///a"`, false},
		{"malformed: cut before a value", `{"uri":`, false},
		{"malformed: cut inside a string", `{"uri":"file`, false},
		{"malformed: no value", `{"uri":}`, false},
		{"malformed: a comma too many", `{"uri":1,}`, false},
		{"malformed: a comma too few", `{"a":1 "b":2}`, false},
		{"malformed: deep inside", `{"a":{"b":[tru]}}`, false},
		{"malformed: something after", `{}{}`, false},
		{"malformed: brackets crossed", `{"a":[}]`, false},
		{"malformed: a name without quotes", `{a:1}`, false},
		{"malformed: an escape that is none", `{"\x41":1}`, false},
		{"malformed: an escape cut short", `{"\u00`, false},
		{"malformed: a backslash at the end", `{"\`, false},
		{"malformed: a bare line feed in a string", "{\"a\":\"\n\"}", false},
		{"malformed: a leading zero", `{"a":01}`, false},
		{"malformed: white space only", ` `, false},
		{"malformed: not quite null", `nul`, false},
		{"malformed: nested deeper than encoding/json goes", nested(10_001), false},
		{"malformed: objects nested deeper than encoding/json goes", strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001), false},
		{"malformed: nested beyond reason", nested(1_000_000), false},
		{"no object: an array", `["uri"]`, false},
		{"no object: a string", `"uri"`, false},
		{"no object: a number", `1`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := oracle([]byte(tt.params)); got != tt.kept {
				t.Errorf("encoding/json says %t: the row is wrong", got)
			}
			for _, method := range kept {
				if got := retry.ReadOnly.Retain(request(method, tt.params)); got != tt.kept {
					t.Errorf("%s: kept is %t, want %t", method, got, tt.kept)
				}
			}
		})
	}
}

// nested returns an object that has arrays inside, so many levels in all.
func nested(levels int) string {
	return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
}

func escaped(s string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteString(`\u00` + string(hex[c>>4]) + string(hex[c&0xf]))
	}
	return b.String()
}

// oracle says whether params let a request of a method of Q2 be kept, by
// decoding all of them.
func oracle(params []byte) bool {
	if len(params) == 0 {
		return true
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(params, &members); err != nil {
		return false
	}
	_, responses := members["inputResponses"]
	_, state := members["requestState"]
	return !responses && !state
}

func FuzzReadOnly(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `null`, ` null `, `{}`, `[]`, `"a"`, `nullx`, `{}x`,
		`{"inputResponses":{}}`,
		`{"requ\u0065stState":"s"}`,
		`{"a":{"requestState":1},"b":[{"inputResponses":1}]}`,
		`{"a":"\"requestState\":","\ud83d\ude00":-0.5E-10,"c":[true,false,null,1e5,[],{}]}`,
		`{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`, `{"a":"` + "\x1f" + `"}`, `{"` + "\xff" + `":1}`,
		`{"a":1,}`, `{,}`, `{"a"}`, `[1,]`, `{"\u12g4":1}`, `{"a":"\`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		before := string(params)
		r := &jsonrpc.Request{Method: "resources/read", Params: params}
		if got, want := retry.ReadOnly.Retain(r), oracle(params); got != want {
			t.Errorf("kept is %t, want %t, for params %q", got, want, params)
		}
		if string(params) != before {
			t.Errorf("the params were changed from %q to %q", before, params)
		}
	})
}

func TestNeverKeepsNothing(t *testing.T) {
	for _, method := range append(kept, "tools/call") {
		if retry.Never.Retain(request(method, "")) {
			t.Errorf("%s is kept", method)
		}
	}
}

func TestPolicyFunc(t *testing.T) {
	asked := request("vendor/status", "")
	for _, want := range []bool{true, false} {
		policy := retry.PolicyFunc(func(r *jsonrpc.Request) bool {
			if r != asked {
				t.Errorf("asked about another request: %v", r)
			}
			return want
		})
		if got := policy.Retain(asked); got != want {
			t.Errorf("got %t, want %t", got, want)
		}
	}
}

func large() *jsonrpc.Request {
	text := strings.Repeat("All work and no play. ", 1<<16/22)
	return request("prompts/get", `{"name":"a","arguments":{"text":"`+text+`"}}`)
}

func TestReadOnlyAllocatesNothing(t *testing.T) {
	r := large()
	if n := testing.AllocsPerRun(100, func() { retry.ReadOnly.Retain(r) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkReadOnly(b *testing.B) {
	r := large()
	b.SetBytes(int64(len(r.Params)))
	b.ReportAllocs()
	for b.Loop() {
		if !retry.ReadOnly.Retain(r) {
			b.Fatal("not kept")
		}
	}
}
