package svg_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/seed7990db67/supervised/diagram/svg"
)

// The DOT comes from a diagram's method of that name.
func Example() {
	drawing, err := svg.Render(`digraph "A switch" {
		"state-on" [id="state-on" class="state" label="on"]
		"state-off" [id="state-off" class="state" label="off"]
		"state-on" -> "state-off" [id="edge-on-press-0" class="edge" label="press"]
	}`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Count(string(drawing), `class="state"`), "states,", strings.Count(string(drawing), `class="edge"`), "edge")
	// Output: 2 states, 1 edge
}
