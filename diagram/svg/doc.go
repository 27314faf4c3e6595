// Package svg draws the DOT that package diagram writes, without a Graphviz on the
// system.
//
//	d, err := diagram.New(table, spec, diagram.Options{Title: "A door"})
//	...
//	picture, err := svg.Render(d.DOT())
//
// Graphviz decides where everything goes; it runs inside the process, compiled to
// WebAssembly, and needs no C compiler. What is drawn there is this package's:
//
//   - A label sits in its edge and has room of its own, so that no edge and no
//     other label runs through it. It is set in a fixed-width font, whose room is
//     known whatever fonts the reader has.
//   - Every state is a group of class "state", every edge one of class "edge", with
//     the ids that package diagram gives them. More classes say more: start and
//     end, choice, stem and branch, else, emphasis, everywhere, region; current,
//     visited and taken. A page that has the SVG inline can add and remove the
//     last three, and the style in the SVG follows.
//   - The colours are those of the reader's scheme, light or dark, on a ground of
//     the picture's own. What they say is said by line and weight as well.
//   - Title and description of the diagram are there for screen readers.
//   - The attribute data-dot-sha256 has the hash of the DOT, and data-sha256 that of
//     the SVG itself with this one attribute empty, so that a stale or edited
//     picture is found without drawing it.
//
// The same DOT gives the same bytes.
//
// This package is a module of its own: who draws tables as DOT, Mermaid or Markdown
// has no Graphviz in the module graph.
package svg
