/** What the documentation shows is so: its examples run, its programs compile, and what is refused is refused. */
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import * as path from "node:path"
import { promisify } from "node:util"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { temporaryFolder } from "../support/temporary.ts"
import {
  type Block,
  comparing,
  docstringBlocks,
  markdown,
  markdownBlocks,
  read,
  root,
  sources,
  suites
} from "./documents.ts"

/** In the project, so that the blocks find its packages and itself; ignored by git. */
const folder = path.join(root, ".data", `docs-${process.pid}`)

const isRun = (block: Block) => block.language === "ts" && block.info === "import.meta.vitest"
const examples = sources.flatMap(docstringBlocks)
const documents = markdown.flatMap(markdownBlocks)

const named = (language: string, info: string): ReadonlyArray<Block> =>
  documents.filter((block) => block.language === language && block.info === info)

/** A block that is one of a program's has its name; one that uses a program comes after all of it. */
const USES = "uses "
const isOfProgram = (block: Block) =>
  block.language === "ts" && !["", "refused", "import.meta.vitest"].includes(block.info) &&
  !block.info.startsWith(USES)

/** The names of the programs of the documents. */
const programs = [...new Set(documents.filter(isOfProgram).map((block) => block.info))]

const programOf = (name: string): string => named("ts", name).map((block) => block.code).join("\n")

const fileOf = (block: Block, kind: string): string =>
  path.join(folder, kind, `${block.where.replace(/[^\w]+/g, "-")}.ts`)

const write = (file: string, code: string): string => {
  fs.mkdirSync(path.dirname(file), { recursive: true })
  fs.writeFileSync(file, code)
  return file
}

const run = promisify(execFile)

beforeAll(() => fs.mkdirSync(folder, { recursive: true }))
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

describe("examples in docstrings", () => {
  for (const block of examples.filter(isRun)) {
    it(block.where, async () => {
      const { code, comparisons } = comparing(block)
      assert.isAbove(comparisons, 0, "the example promises nothing: add a line // => value")
      await import(/* @vite-ignore */ write(fileOf(block, "run"), code))
    })
  }
})

describe("a promise of an example", () => {
  const example = (code: string) => comparing({ language: "ts", info: "", code, where: "nowhere" })
  const runs = (name: string, code: string) =>
    import(/* @vite-ignore */ write(path.join(folder, "run", `${name}.ts`), example(code).code))

  it("is kept by the value of a statement over several lines, or of a constant", async () => {
    await runs(
      "kept",
      "const a = [1].map(\n  (x) => x + 1\n)\n// => [2]\na.concat(\n  3\n)\n// => [2, 3]\n1 + 1 // => 2\n"
    )
  })
  it("is broken by another value", async () => {
    for (
      const [index, code] of ["1 + 1\n// => 3\n", "1 + 1 // => 3", "const a = { b: 1 }\n// => { b: 2 }\n"].entries()
    ) {
      const error = await runs(`broken-${index}`, code).then(() => undefined, (cause: Error) => cause)
      assert.match(String(error), /nowhere: \/\/ => /)
    }
  })
  it("belongs to a statement", () => {
    assert.throws(() => example("// => 1\n"), /nothing to compare/)
    assert.throws(() => example("if (a) {\n}\n// => 1\n"), /nothing to compare/)
  })
})

describe("programs", () => {
  let output: string

  beforeAll(async () => {
    const config = {
      extends: path.join(root, "tsconfig.base.json"),
      include: ["*.ts"],
      compilerOptions: {
        noEmit: true,
        composite: false,
        incremental: false,
        declarationMap: false,
        sourceMap: false,
        noUnusedLocals: false,
        customConditions: ["effect-dgen-source"],
        typeRoots: [path.join(root, "node_modules", "@types")]
      }
    }
    write(path.join(folder, "types", "tsconfig.json"), JSON.stringify(config))
    for (const name of programs) write(path.join(folder, "types", `${name}.ts`), programOf(name))
    for (const block of [...examples, ...documents]) {
      if (block.language !== "ts" || isOfProgram(block)) continue
      const used = block.info.startsWith(USES) ? block.info.slice(USES.length) : undefined
      assert.isTrue(used === undefined || programs.includes(used), `${block.where}: there is no program ${used}`)
      const before = used === undefined ? "" : programOf(used)
      write(fileOf(block, "types"), `${before}\n${block.code}\nexport {}\n`)
    }
    const manifest = createRequire(import.meta.url).resolve("typescript/package.json")
    const { bin } = JSON.parse(fs.readFileSync(manifest, "utf8"))
    const tsc = path.join(path.dirname(manifest), bin.tsc)
    output = await run(process.execPath, [tsc, "--pretty", "false", "-p", path.join(folder, "types")], { cwd: root })
      .then(({ stdout }) => stdout, (failed: { readonly stdout: string }) => failed.stdout)
  })

  /** What the compiler says, an entry each error. */
  const errors = () => output.split(/^(?=\S)/m).filter((text) => text.trim() !== "")
  const refused = named("ts", "refused")
  const nameOf = (block: Block) => path.basename(fileOf(block, "types"))

  it("compile", () => {
    const unexpected = errors().filter((text) => !refused.some((block) => text.includes(nameOf(block))))
    assert.deepStrictEqual(unexpected, [])
  })

  it("that are refused are refused with the sentence that is shown", () => {
    const sentences = named("text", "refused")
    assert.isAbove(refused.length, 0)
    assert.strictEqual(sentences.length, refused.length)
    refused.forEach((block, index) => {
      const said = errors().filter((text) => text.includes(nameOf(block)))
      assert.strictEqual(said.length, 1, block.where)
      assert.include(said[0], sentences[index]!.code.trim())
    })
  })
})

describe("what a program prints is shown", () => {
  for (const name of programs) {
    it(name, async () => {
      const file = write(path.join(folder, "run", `${name}.ts`), programOf(name))
      const { stderr, stdout } = await run(process.execPath, [file], {
        cwd: temporaryFolder()
      })
      assert.strictEqual(stderr, "")
      assert.strictEqual(stdout, named("text", name)[0]?.code)
    })
  }
})

/** Where a document names tests: a file, and titles as they stand in it. */
const namedTests = (file: string): ReadonlyArray<{ readonly source: string; readonly title: string }> =>
  [...read(file).replaceAll(/\s+/g, " ").matchAll(/`(test\/[\w./]+\.ts)`(?: \([^)]*\))?: ((?:"[^"]+"(?:; )?)+)/g)]
    .flatMap((match) => [...match[2]!.matchAll(/"([^"]+)"/g)].map((title) => ({ source: match[1]!, title: title[1]! })))

const holds = ({ source, title }: { readonly source: string; readonly title: string }): boolean =>
  fs.existsSync(path.join(root, source)) && [`"${title}"`, `\`${title}\``].some((text) => read(source).includes(text))

describe("tests that are named", () => {
  for (const file of markdown) {
    it(`in ${file} exist`, () => {
      const missing = namedTests(file).filter((test) => !holds(test))
      assert.deepStrictEqual(missing, [])
    })
  }
  it("are found in the guarantees", () => {
    const guarantees = path.join("docs", "GUARANTEES.md")
    const quoted = read(guarantees).match(/"/g)!.length / 2
    assert.isAbove(quoted, 0)
    assert.strictEqual(namedTests(guarantees).length, quoted)
  })
})

describe("the listing of the suites", () => {
  const listing = path.join("test", "suites", "README.md")
  const named = new Set([...read(listing).matchAll(/`([\w/]+\.ts)`/g)].map((match) => match[1]!))

  it("has each suite, and what suites share", () => {
    const missing = suites.map((file) => path.relative(path.dirname(listing), file))
      .filter((file) => !named.has(file) && !named.has(path.basename(file)))
    assert.deepStrictEqual(missing, [])
  })
  it("has no suite that is gone", () => {
    const names = new Set(suites.flatMap((file) => [path.relative(path.dirname(listing), file), path.basename(file)]))
    assert.deepStrictEqual([...named].filter((name) => !names.has(name)), [])
  })
})

describe("rules that are named", () => {
  const rules = new Set(
    [...read(path.join("docs", "decisions", "0000-rules.md")).matchAll(/^- \*\*([A-Z]\d+)\*\*/gm)].map((match) =>
      match[1]!
    )
  )
  const NAMED = /\brules? ((?:[A-Z]\d+(?:, | and | to )?)+)/g
  const namedIn = (file: string): ReadonlyArray<string> =>
    [...read(file).matchAll(NAMED)].flatMap((match) => match[1]!.match(/[A-Z]\d+/g)!)

  it("are rules", () => {
    const unknown = [...sources, ...suites].flatMap((file) =>
      namedIn(file).filter((rule) => !rules.has(rule)).map((rule) => `${file}: ${rule}`)
    )
    assert.isAbove(sources.flatMap(namedIn).length, 0)
    assert.deepStrictEqual(unknown, [])
  })
  it("in the listing of the suites are rules", () => {
    const listed = read(path.join("test", "suites", "README.md")).match(/\b[A-Z]\d+\b/g)!
    assert.deepStrictEqual(listed.filter((rule) => !rules.has(rule)), [])
  })
})

describe("what the guide says can be observed", () => {
  const named = (row: RegExp) => [...read(path.join("docs", "GUIDE.md")).matchAll(row)].map((match) => match[1]!)
  const code = sources.map(read).join("\n")

  for (
    const [what, row] of [["spans", /^\| `(DgenServer\.\w+)` /gm], ["metrics", /^\| `(effect_dgen_\w+)` /gm]] as const
  ) {
    it(`are ${what} that exist`, () => {
      const names = named(row)
      assert.isAbove(names.length, 0)
      assert.deepStrictEqual(names.filter((name) => !code.includes(`"${name}"`)), [])
    })
  }
})

describe("links", () => {
  for (const file of markdown) {
    it(`of ${file} lead somewhere`, () => {
      const targets = [...read(file).matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)].map((match) => match[1]!)
      const missing = targets.filter((target) => !fs.existsSync(path.resolve(root, path.dirname(file), target)))
      assert.deepStrictEqual(missing, [])
    })
  }
})
