package live

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/seed7990db67/supervised"
)

// lifecycleSVG is the lifecycle as go generate draws it.
//
//go:embed lifecycle.svg
var lifecycleSVG string

// hookClose is how the lifecycle table names the hooks of OnClose.
const hookClose = "onClose"

// stateID is the id that a state has in the picture.
func stateID(s supervised.State) string { return "state-" + s.String() }

// branch returns the place of the row that was taken in its choice.
func branch(t supervised.Transition) int {
	choice := supervised.Lifecycle()[t.From][t.Event]
	for i, b := range choice {
		if b.Guard == t.Guard {
			return i
		}
	}
	return 0
}

// edgeIDs are the ids of what the picture has of a step: the way to the choice, that, and the branch; or the one edge
// that stands for that event in all states.
func edgeIDs(t transition) []string {
	pair := fmt.Sprintf("%v-%v", t.From, t.Event)
	own := []string{"edge-" + pair, "choice-" + pair, fmt.Sprintf("edge-%s-%d", pair, t.Branch)}
	own = slices.DeleteFunc(own, func(id string) bool { return !drawn(id) })
	if shared := fmt.Sprintf("edge-everywhere-%v", t.Event); len(own) == 0 && drawn(shared) {
		own = []string{shared}
	}
	return own
}

// drawn reports whether the picture has something with that id.
func drawn(id string) bool { return strings.Contains(lifecycleSVG, idClass(id)) }

// idClass is how an element of the picture begins that has an id and a class.
func idClass(id string) string { return `id="` + id + `" class="` }

// picture returns the lifecycle with a state and a step marked, those that are in it.
func picture(current string, taken []string) template.HTML {
	mark := []string{idClass(current), idClass(current) + "current "}
	for _, id := range taken {
		mark = append(mark, idClass(id), idClass(id)+"taken ")
	}
	return template.HTML(strings.NewReplacer(mark...).Replace(lifecycleSVG)) // generated, nothing of a server is in it
}

// pictureStyles are the contents of the style elements of the picture.
func pictureStyles() (styles []string) {
	for _, m := range regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(lifecycleSVG, -1) {
		styles = append(styles, m[1])
	}
	return styles
}

// sourceHash is what allows an inline element with this content in a Content-Security-Policy.
func sourceHash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
