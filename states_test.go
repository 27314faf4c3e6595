package supervised_test

import (
	"fmt"
	"testing"

	"github.com/seed7990db67/supervised"
)

// A value that is none of the constants shows its number, and ends nobody's log record with a panic.
func TestNamesOfStatesAndEvents(t *testing.T) {
	for _, tt := range []struct {
		want string
		got  fmt.Stringer
	}{
		{"idle", supervised.StateIdle},
		{"closed", supervised.StateClosed},
		{"state(6)", supervised.StateClosed + 1},
		{"state(-1)", supervised.StateIdle - 1},
		{"start", supervised.EventStart},
		{"close", supervised.EventClose},
		{"event(8)", supervised.EventClose + 1},
		{"event(-1)", supervised.EventStart - 1},
	} {
		want(t, "name", tt.want, tt.got.String())
	}
}
