package live

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised"
)

// TestPictureHasEachStateAndRow: whatever happens, there is something in the picture to mark.
func TestPictureHasEachStateAndRow(t *testing.T) {
	for _, state := range supervised.Lifecycle().States() {
		id := stateID(state)
		if !drawn(id) {
			t.Errorf("the picture has no %s", id)
		}
		if got := string(picture(id, nil)); strings.Count(got, `class="current `) != 1 || !strings.Contains(got, `id="`+id+`" class="current `) {
			t.Errorf("%s is not the one that is marked", id)
		}
		if marks[state] == "" || meanings[state] == "" {
			t.Errorf("%v has no mark or no meaning", state)
		}
	}
	lastIDs := make(map[string]bool)
	for _, row := range supervised.Lifecycle().Rows() {
		step := supervised.Transition{From: row.From, Event: row.Event, Guard: row.Guard, To: row.To}
		if got := branch(step); got != row.Branch {
			t.Errorf("%v, %v, [%s]: want branch %d, got %d", row.From, row.Event, row.Guard, row.Branch, got)
		}
		ids := edgeIDs(transition{Transition: step, Branch: row.Branch})
		if len(ids) == 0 {
			t.Errorf("the picture has nothing for %v, %v, [%s]", row.From, row.Event, row.Guard)
			continue
		}
		last := ids[len(ids)-1]
		if lastIDs[last] && !strings.HasPrefix(last, "edge-everywhere-") {
			t.Errorf("%s stands for two rows", last)
		}
		lastIDs[last] = true
		if n := strings.Count(string(picture("", ids)), `class="taken `); n != len(ids) {
			t.Errorf("%v: %d are marked", ids, n)
		}
	}
	if got := string(picture("", nil)); got != lifecycleSVG {
		t.Error("nothing to be marked changes the picture")
	}
	if slices.Contains(pictureStyles(), "") || len(pictureStyles()) == 0 {
		t.Error("the picture has no style of its own")
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"two\r\nlines\n":               "two\nlines\n",
		"a\tb":                         "a\tb",
		"\x1b[31mred\x1b[0m":           `\x1b[31mred\x1b[0m`,
		"over\rwritten":                `over\rwritten`,
		"\x00\x7f":                     `\x00\x7f`,
		"\u202egnp.exe":                `\u202egnp.exe`,
		"bad \xff\xfe end":             `bad \xff\xfe end`,
		"\ufffd":                       "\ufffd",
		"Grüße, 世界 <b>&amp;\"quoted\"": "Grüße, 世界 <b>&amp;\"quoted\"",
	} {
		if got := visible(text); got != want {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
}

// TestCut: a cut leaves whole letters.
func TestCut(t *testing.T) {
	const text = "aé世b"
	type cuts struct{ Head, Tail string }
	for limit, want := range []cuts{
		{"…", "…"}, {"a…", "…b"}, {"a…", "…b"}, {"aé…", "…b"}, {"aé…", "…世b"}, {"aé…", "…世b"}, {"aé世…", "…é世b"}, {text, text}, {text, text},
	} {
		got := cuts{head(text, limit), tail(text, limit)}
		if d := cmp.Diff(want, got); d != "" || !utf8.ValidString(got.Head+got.Tail) {
			t.Errorf("%d (-want +got):\n%s", limit, d)
		}
	}
}
