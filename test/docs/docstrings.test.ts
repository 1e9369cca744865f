/** Everything that a module exports says what it is, and since when. */
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { read, sources } from "./documents.ts"

/** The modules of the package. */
const modules = sources.filter((file) => /^src.[A-Z]\w*\.ts$/.test(file)).map((file) => path.basename(file, ".ts"))

/** What is exported, and the docstring in front of it. */
interface Exported {
  readonly name: string
  readonly isType: boolean
  readonly docstring: string
}

const DOCSTRING = String.raw`(?:(?<docstring>/\*\*(?:(?!\*/)[\s\S])*\*/)\s*?\n?[ \t]*)?`

const declarations = (file: string): ReadonlyArray<Exported> =>
  [
    ...read(file).matchAll(
      new RegExp(
        String
          .raw`^${DOCSTRING}^export (?:declare |abstract )*(?<kind>const|let|function|class|interface|type|enum|namespace) (?<name>\w+)`,
        "gm"
      )
    )
  ].map(({ groups }) => ({
    name: groups!.name!,
    isType: groups!.kind === "interface" || groups!.kind === "type",
    docstring: groups!.docstring ?? ""
  }))

/** What stands in the braces of an export, from a module or of a name of this one. */
const lists = (file: string): ReadonlyArray<Exported> =>
  [...read(file).matchAll(/^export (type )?\{([\s\S]*?)\n?\}(?: from "(.*)")?/gm)].flatMap((list) => {
    const [, type, names, from] = list
    const known = from === undefined ? [] : declarations(path.join(path.dirname(file), from))
    const specifier = new RegExp(`${DOCSTRING}(?<type>type )?(?<source>\\w+)(?: as (?<name>\\w+))?\\s*(?:,|$)`, "g")
    return [...names!.trim().matchAll(specifier)].map(({ groups }) => ({
      name: groups!.name ?? groups!.source!,
      isType: type !== undefined || groups!.type !== undefined,
      docstring: groups!.docstring ?? known.find((other) => other.name === groups!.source)?.docstring ?? ""
    }))
  })

const exportsOf = (name: string) => [...declarations(`src/${name}.ts`), ...lists(`src/${name}.ts`)]

const isDocumented = ({ docstring }: Exported): boolean =>
  /^\s*(?:\/\*)?\* [^@\s]/m.test(docstring) && / @since \d+\.\d+\.\d+\n/.test(docstring)

describe("docstrings", () => {
  for (const name of modules) {
    it(`of ${name}`, async () => {
      const found = exportsOf(name)
      assert.deepStrictEqual(found.filter((entry) => !isDocumented(entry)).map((entry) => entry.name), [])
      // nothing was overlooked
      const values = found.filter((entry) => !entry.isType).map((entry) => entry.name)
      const module: object = await import(`../../src/${name}.ts`)
      assert.deepStrictEqual([...new Set(values)].sort(), Object.keys(module).sort())
      assert.match(read(`src/${name}.ts`), /^\/\*\*\n \* [\s\S]*?@since \d+\.\d+\.\d+\n \*\//)
    })
  }
})
