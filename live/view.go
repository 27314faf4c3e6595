package live

import (
	"embed"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/seed7990db67/supervised"
)

//go:embed page.html page.css page.js
var files embed.FS

var (
	templates = template.Must(template.ParseFS(files, "page.html"))
	style     = file("page.css")
	script    = file("page.js")
)

func file(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// A view is what the templates get. Its zero value is that of a page without a transport.
type view struct {
	Name  string // of the transport that is shown; "": there is none
	Asked string // the name that the viewer asked for; "": none
	Now   now
	All   []entry
	Counters
	Exits       []exit
	Transitions []transition
	Taken       []string // ids in the picture of the last step
	AsOf        time.Time

	version int // of the record
}

// An entry is a transport in the list of all.
type entry struct {
	Name  string
	Shown bool
	Now   now
}

// Counters are what Stats says, in words.
type Counters []counter

type counter struct {
	Name, Value string
	Wide        bool
}

// now is a state, as it is shown. A state has a mark of its own shape, and is always named as well.
type now struct{ supervised.State }

var marks = map[supervised.State]string{
	supervised.StateIdle:           "○",
	supervised.StateConnecting:     "◐",
	supervised.StateServing:        "●",
	supervised.StateRespawnPending: "↻",
	supervised.StateExhausted:      "✕",
	supervised.StateClosed:         "■",
}

// Mark is a sign for the state.
func (n now) Mark() string { return marks[n.State] }

var meanings = map[supervised.State]string{
	supervised.StateIdle:           "Nothing was started, or the first start has failed.",
	supervised.StateConnecting:     "A server is being started.",
	supervised.StateServing:        "A server is up.",
	supervised.StateRespawnPending: "The last server has ended, and a new one is promised.",
	supervised.StateExhausted:      "The restart budget is spent.",
	supervised.StateClosed:         "It is over, and nothing will be started.",
}

// Meaning says in a sentence what the state is.
func (n now) Meaning() string { return meanings[n.State] }

// Title is that of the document.
func (v view) Title() string {
	if v.Name == "" {
		return "supervised"
	}
	return v.Now.String() + " · " + v.Name + " · supervised"
}

// Current is the id in the picture of the state of now; "": there is none.
func (v view) Current() string {
	if v.Name == "" {
		return ""
	}
	return stateID(v.Now.State)
}

// Picture is the lifecycle with the state of now, and the last step.
func (v view) Picture() template.HTML { return picture(v.Current(), v.Taken) }

// Style and Script are in the document, and nowhere else.
func (view) Style() template.CSS { return template.CSS(style) }
func (view) Script() template.JS { return template.JS(script) }

// look returns what a viewer sees now who asked for the name; false: there is no such transport (any more).
func (p *Page) look(asked string) (view, bool) {
	all, one, ok := p.choose(asked)
	v := view{Asked: asked, AsOf: p.clock.Now()}
	for _, r := range all {
		v.All = append(v.All, entry{Name: r.name, Shown: r == one, Now: now{r.transport.State()}})
	}
	if one == nil {
		return v, ok
	}
	v.Name = one.name
	v.version, v.Transitions, v.Exits = one.read()
	if len(v.Transitions) > 0 {
		v.Taken = edgeIDs(v.Transitions[0])
	}
	stats := one.transport.Stats()
	v.Now = now{stats.State}
	v.Counters = counters(stats, one.transport.Err())
	return v, true
}

// counters puts a snapshot in words.
func counters(s supervised.Stats, end error) Counters {
	number := func(name string, n int) counter { return counter{Name: name, Value: strconv.Itoa(n)} }
	c := Counters{
		number("Connection", s.Generation),
		number("Restarts", s.Restarts),
		number("Restarts in the window", s.RestartsInWindow),
		number("Calls in flight", s.InFlight),
		number("Streams", s.Streams),
		number("Last exit code", s.LastExitCode),
	}
	if s.Generation < 0 {
		c[0].Value = "none yet"
	}
	if s.LastExitCode < 0 {
		c[5].Value = "none"
	}
	if s.ServerChanged {
		c = append(c, counter{Name: "Server", Value: "changed"})
	}
	wide := func(name string, err error) {
		if err != nil {
			c = append(c, counter{Name: name, Value: visible(head(err.Error(), maxText)), Wide: true})
		}
	}
	wide("Last exit", s.LastExit)
	wide("Closed for good", end)
	return c
}

// render returns what a template makes of a view.
func render(name string, v view) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, v); err != nil {
		panic(err) // the templates are tested with every field
	}
	return b.String()
}
