// Has Mermaid read the files that are named, and prints for each what it has read:
// its kind, and the texts on its arrows, states and notes.
import { readFileSync } from 'node:fs'
import { JSDOM } from 'jsdom'

const { window } = new JSDOM('')
Object.assign(globalThis, { window, document: window.document })
const { default: mermaid } = await import('mermaid')

// Mermaid keeps #NN; in a form of its own until it draws.
const plain = (text) => text.replace(/ﬂ°°(\d+)¶ß/g, (_, n) => String.fromCodePoint(n))

const states = (doc) => doc.flatMap((s) => [...(s.description ? [plain(s.description)] : []), ...(s.doc ? states(s.doc) : [])])

const read = {}
for (const file of process.argv.slice(2)) {
  const text = readFileSync(file, 'utf8')
  await mermaid.parse(text)
  const { type, db } = await mermaid.mermaidAPI.getDiagramFromText(text)
  read[file] = type === 'sequence'
    ? {
        Kind: type,
        States: [...db.getActors().values()].map((a) => plain(a.description)),
        Arrows: db.getMessages().flatMap((m) => (typeof m.message === 'string' ? [plain(m.message)] : [])),
      }
    : {
        Kind: type,
        States: states(db.getRootDocV2().doc.filter((s) => s.stmt === 'state')),
        Arrows: db.getRelations().map((r) => plain(r.relationTitle ?? '')),
      }
}
console.log(JSON.stringify(read))
