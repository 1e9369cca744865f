/** The code in the documentation: the fenced blocks of docstrings and of Markdown files, and what they promise. */
import * as fs from "node:fs"
import * as path from "node:path"

export const root = path.dirname(path.dirname(import.meta.dirname))

/** A fenced block: `info` is what follows the language, `where` its file and line. */
export interface Block {
  readonly language: string
  readonly info: string
  readonly code: string
  readonly where: string
}

const filesUnder = (folder: string, extension: string): ReadonlyArray<string> =>
  fs.readdirSync(path.join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(extension))
    .map((name) => path.join(folder, name))
    .sort()

export const sources = filesUnder("src", ".ts")
export const suites = filesUnder(path.join("test", "suites"), ".ts")
export const markdown = [
  "README.md",
  "CHANGELOG.md",
  ...["docs", "src", "test"].flatMap((folder) => filesUnder(folder, ".md"))
]

export const read = (file: string): string => fs.readFileSync(path.join(root, file), "utf8")

/** The blocks of a text whose first line has the number `line` in its file. */
const blocksOf = (file: string, text: string, line = 1): ReadonlyArray<Block> =>
  [...text.matchAll(/^```(\w+)[ \t]*(.*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    language: match[1]!,
    info: match[2]!.trim(),
    code: match[3]!,
    where: `${file}:${line + text.slice(0, match.index).split("\n").length - 1}`
  }))

export const markdownBlocks = (file: string): ReadonlyArray<Block> => blocksOf(file, read(file))

/** The blocks of the docstrings of a source file. */
export const docstringBlocks = (file: string): ReadonlyArray<Block> => {
  const text = read(file)
  return [...text.matchAll(/^[ \t]*\/\*\*\n[\s\S]*?\*\//gm)].flatMap((comment) =>
    blocksOf(
      file,
      comment[0].split("\n").map((line) => line.replace(/^\s*\* ?/, "")).join("\n"),
      text.slice(0, comment.index).split("\n").length
    )
  )
}

/**
 * The program of a block that compares: after each statement with `// => value`, at its end or on the next line, what
 * it gave must equal the value. A statement begins at the start of a line.
 */
export const comparing = (block: Block): { readonly code: string; readonly comparisons: number } => {
  const out: Array<string> = []
  let comparisons = 0
  for (const line of block.code.split("\n")) {
    const promise = /^(.*?)\s*\/\/ => (.*)$/.exec(line)
    if (promise === null) {
      out.push(line)
      continue
    }
    const [, rest, expected] = promise as unknown as [string, string, string]
    if (rest !== "") out.push(rest)
    let begin = out.length - 1
    while (begin > 0 && /^(?:$|[\s)\]}.])/.test(out[begin]!)) begin--
    const statement = out.splice(begin).join("\n").trim()
    const name = /^const (\w+)/.exec(statement)?.[1]
    if (statement === "" || (name === undefined && /^(?:export|import|if|for|let|class|\/\/)\b/.test(statement))) {
      throw new Error(`${block.where}: nothing to compare with ${expected}`)
    }
    if (name !== undefined) out.push(statement)
    const actual = name ?? statement
    out.push(
      `$assert.deepStrictEqual(${actual}, (${expected}), ${JSON.stringify(`${block.where}: // => ${expected}`)})`
    )
    comparisons++
  }
  return { code: `import { assert as $assert } from "vitest"\n${out.join("\n")}`, comparisons }
}
