package diagram_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/diagram"
)

// FuzzEscaping draws a table with any names in all the places that a name can have. Whatever they are, they stay inside
// the strings and cells that they stand in: the picture is that of plain names, with other words in it.
func FuzzEscaping(f *testing.F) {
	f.Add("a", "b", "c", "d", "e")
	for name, events := range odd() {
		for event, choice := range events {
			b := choice[0]
			f.Add(name, event, b.Guard, strings.Join(b.Hooks, ", "), `a "title" \`)
		}
	}
	f.Add("\\", "\"", "\r\n", "|", "\x00\u2028\u0085\v\f")
	f.Add("a:::b", "a --> b", "%% c", "<script>", "</text>")
	f.Add("x\xff", "direction", "---", "```", "#1;")
	f.Fuzz(func(t *testing.T, state, event, guard, hook, title string) {
		if guard == "" {
			return // that is none
		}
		made := func(state, event, guard, hook, title string) (*drawn, error) {
			d, err := diagram.New(table{state: {event: {{Guard: guard, To: "the end", Hooks: []string{hook}}, {To: state}}}},
				spec{Start: state, Ends: []string{"the end"}}, diagram.Options{Title: title})
			if err != nil {
				return nil, err
			}
			return d.Taken(step{From: state, Event: event, Guard: guard, Note: title})
		}
		d, err := made(state, event, guard, hook, title)
		if err != nil {
			return
		}
		plainTitle := "title"
		if title == "" {
			plainTitle = ""
		}
		plainHook := "hook"
		if hook == "" {
			plainHook = ""
		}
		plain, err := made("state", "event", "guard", plainHook, plainTitle)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(skeleton(plain.DOT()), skeleton(d.DOT())); diff != "" {
			t.Errorf("DOT outside of its strings (-plain +got):\n%s", diff)
		}
		for format, texts := range map[string][2]string{
			"Mermaid":  {plain.Mermaid(), d.Mermaid()},
			"sequence": {plain.Sequence(), d.Sequence()},
			"Markdown": {plain.Markdown(), d.Markdown()},
		} {
			if want, got := lineCount(texts[0]), lineCount(texts[1]); want != got {
				t.Errorf("%s: want %d lines, got %d:\n%s", format, want, got, texts[1])
			}
		}
		for line := range strings.Lines(d.Markdown()) {
			if n := strings.Count(escapedPipe.ReplaceAllString(line, ""), "|"); n != 0 && n != strings.Count(strings.SplitN(plain.Markdown(), "\n", 2)[0], "|") {
				t.Errorf("Markdown: %d cells in %q", n-1, line)
			}
		}
	})
}

var (
	dotString   = regexp.MustCompile(`"(?s:[^"\\]|\\.)*"`)
	escapedPipe = regexp.MustCompile(`\\.`)
)

// skeleton is what of DOT stands outside of its strings, in any order.
func skeleton(dot string) []string {
	return slices.Sorted(strings.Lines(dotString.ReplaceAllString(dot, `""`)))
}

func lineCount(text string) int { return strings.Count(text, "\n") + strings.Count(text, "\r") }
