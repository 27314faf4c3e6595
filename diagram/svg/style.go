package svg

// style is what the classes look like. Text has a contrast of at least 7:1 in both
// schemes. Custom properties would halve it, but not everything that shows an SVG
// knows them.
const style = `.lifecycle text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 12.5px; fill: #1b1f24; stroke: none }
.lifecycle .state text { font-size: 15px; font-weight: 600 }
.lifecycle .paper { fill: #ffffff; stroke: none }
.lifecycle .region rect { fill: #f5f7fa; stroke: #4b5563; stroke-width: 1.5; stroke-dasharray: 8 5 }
.lifecycle .state rect { fill: #ffffff; stroke: #1b1f24; stroke-width: 1.5 }
.lifecycle .state .inner { fill: none }
.lifecycle .start circle { fill: #1b1f24; stroke: none }
.lifecycle .choice path { fill: #ffffff; stroke: #1b1f24; stroke-width: 1.5 }
.lifecycle .edge path { fill: none; stroke: #1b1f24; stroke-width: 1.3 }
.lifecycle .edge path.head { fill: #1b1f24; stroke-dasharray: none; stroke-width: 1 }
.lifecycle .else path { stroke-dasharray: 6 4 }
.lifecycle .everywhere path { stroke-width: 1.8; stroke-dasharray: 1.5 4; stroke-linecap: round }
.lifecycle .emphasis path { stroke-width: 3 }
.lifecycle .emphasis text { font-weight: 700 }
.lifecycle .visited rect { stroke-width: 2.5; stroke: #0b3d91 }
.lifecycle .edge.taken path { stroke-width: 3.5; stroke: #0b3d91 }
.lifecycle .edge.taken path.head { fill: #0b3d91 }
.lifecycle .edge.taken text { font-weight: 700; fill: #0b3d91 }
.lifecycle .choice.taken path { stroke-width: 3; stroke: #0b3d91 }
.lifecycle .current rect { fill: #0b3d91; stroke: #0b3d91; stroke-width: 5 }
.lifecycle .current .inner { fill: none; stroke: #ffffff; stroke-width: 1.5 }
.lifecycle .current text { fill: #ffffff }
@media (prefers-color-scheme: dark) {
.lifecycle text { fill: #e6edf3 }
.lifecycle .paper { fill: #0d1117 }
.lifecycle .region rect { fill: #161b22; stroke: #9aa4b0 }
.lifecycle .state rect { fill: #0d1117; stroke: #e6edf3 }
.lifecycle .state .inner { fill: none }
.lifecycle .start circle { fill: #e6edf3 }
.lifecycle .choice path { fill: #0d1117; stroke: #e6edf3 }
.lifecycle .edge path { stroke: #e6edf3 }
.lifecycle .edge path.head { fill: #e6edf3 }
.lifecycle .visited rect { stroke: #9cc7ff }
.lifecycle .edge.taken path { stroke: #9cc7ff }
.lifecycle .edge.taken path.head { fill: #9cc7ff }
.lifecycle .edge.taken text { fill: #9cc7ff }
.lifecycle .choice.taken path { stroke: #9cc7ff }
.lifecycle .current rect { fill: #9cc7ff; stroke: #9cc7ff }
.lifecycle .current .inner { fill: none; stroke: #0d1117 }
.lifecycle .current text { fill: #0d1117 }
}
`
