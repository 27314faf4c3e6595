// Package live shows supervised transports on a web page while they run.
//
// A [Page] is an http.Handler. It shows for each transport that was added to it the lifecycle as a picture with the
// current state lit, the counters of Stats, how the last servers ended, with exit code, signal and the end of their
// stderr, and the last hundred transitions:
//
//	page := live.New()
//	page.Add("files", transport)
//	http.Handle("/supervised/", page)
//
// The page is one document without a second file. It updates itself by server-sent events, asks no other host for
// anything, and shows what was so when it was loaded where scripts are switched off. It works below any path, with
// http.StripPrefix and without, and looks at no part of the path but its query.
//
// # Who may see it
//
// Nothing on the page changes anything: it answers GET and HEAD alone. But it shows what servers write to their
// stderr, and their errors, to everybody who can reach it. Serve it where other internal pages are served, on a
// loopback address or behind whatever asks for a password; it has no door of its own.
//
// What a server wrote is shown as text, with what does not print escaped, and a Content-Security-Policy lets nothing
// run but the page's own script.
package live
