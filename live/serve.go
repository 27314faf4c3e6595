package live

import (
	"io"
	"net/http"
	"strings"
)

// contentPolicy allows the page its own style, its own script and its own events, and nothing else.
var contentPolicy = func() string {
	styles := []string{sourceHash(style)}
	for _, s := range pictureStyles() {
		styles = append(styles, sourceHash(s))
	}
	return "default-src 'none'; style-src " + strings.Join(styles, " ") + "; script-src " + sourceHash(script) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// ServeHTTP serves the page, or with the parameter events its events; the parameter transport says of which transport,
// the first by default. It answers GET and HEAD alone, 404 for a name that nothing has, and 503 where too many
// viewers want events.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "nothing can be changed here", http.StatusMethodNotAllowed)
		return
	}
	query := r.URL.Query()
	v, ok := p.look(query.Get("transport"))
	switch {
	case !ok:
		http.Error(w, "there is no transport of that name", http.StatusNotFound)
	case query.Has("events"):
		p.serveEvents(w, r, v.Asked)
	default:
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, render("page", v)) // the client may have gone
	}
}
