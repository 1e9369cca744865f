/**
 * The recipes of docs/CHANGING.md: the old and the new program in two processes beside each other, on one file, and back
 * again. Each process hosts the servers, so that either may handle what the other sends.
 */
import { type ChildProcess, fork } from "node:child_process"
import * as path from "node:path"
import { afterEach, assert, describe, it } from "vitest"
import { temporaryFolder } from "../support/temporary.ts"

interface Program {
  readonly child: ChildProcess
  readonly acted: Array<any>
  readonly ask: (does: "call" | "cast" | "castLater", tag: string, ...args: ReadonlyArray<unknown>) => Promise<any>
}

const programs = new Set<ChildProcess>()

afterEach(() => {
  for (const child of programs) child.kill("SIGKILL")
  programs.clear()
})

const start = (filename: string, recipe: string, version: "old" | "new"): Promise<Program> => {
  const child = fork(path.join(import.meta.dirname, "child.ts"), [filename, recipe, version], {
    execArgv: ["--conditions=effect-dgen-source", "--disable-warning=ExperimentalWarning"]
  })
  programs.add(child)
  const acted: Array<any> = []
  const waiting = new Map<number, { readonly done: (value: any) => void; readonly failed: (error: Error) => void }>()
  let numbers = 0
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`${version} ended with ${code}`)))
    child.on("message", (message: any) => {
      if (message.ready) {
        resolve({
          child,
          acted,
          ask: (does, tag, ...args) =>
            new Promise((done, failed) => {
              const number = ++numbers
              waiting.set(number, { done, failed })
              child.send({ number, does, tag, args })
            })
        })
      }
      if (message.acted) acted.push(message.acted)
      const waits = waiting.get(message.number)
      if ("failed" in message) waits?.failed(new Error(message.failed))
      else waits?.done(message.value)
    })
  })
}

const stop = ({ child }: Program): Promise<void> =>
  new Promise((resolve) => {
    child.once("exit", () => resolve())
    child.kill("SIGKILL")
  })

/** A program that steps back lets the other one take the server up. */
const patient = { timeout: "1 minute" }

const read = ({ ask }: Program): Promise<any> => ask("call", "Read", patient)
const write = ({ ask }: Program, text: string): Promise<any> => ask("cast", "Add", { text })

const recipe = (name: string, test: (filename: string) => Promise<void>) =>
  it(name, () => test(path.join(temporaryFolder(), "recipes.db")), 120_000)

/** What each state is after the old program has written a line, the new one another, and the old one a third. */
const states: { readonly [name: string]: unknown } = {
  "an optional field of the state": { name: "Ada Lovelace", lines: ["1", "2", "3"] },
  "a field that is added": { name: "Ada Lovelace", lines: ["1", "2", "3"], currency: "EUR" },
  "a field that is removed": { lines: ["1", "2", "3"] },
  "a field that is renamed": { name: "Ada Lovelace", items: ["1", "2", "3"] },
  "a field that is split": { first: "Ada", last: "Lovelace", lines: ["1", "2", "3"] },
  "a field of another type": { name: "Ada Lovelace", lines: { 1: 1, 2: 1, 3: 1 } }
}

describe("a recipe for states:", () => {
  for (const [name, expected] of Object.entries(states)) {
    recipe(name, async (filename) => {
      const old = await start(filename, name, "old")
      await write(old, "1")
      assert.deepStrictEqual(await read(old), { name: "Ada Lovelace", lines: ["1"] })
      // the new one beside it: the old one steps back from what it cannot read
      const young = await start(filename, name, "new")
      await write(young, "2")
      await write(old, "3")
      const both = await read(young)
      if (name.startsWith("an optional")) assert.deepInclude(both, expected as object)
      else assert.deepStrictEqual(both, expected)
      // back again: what the old one can read goes on, everything else waits for the new one, and nothing is lost
      await stop(young)
      await write(old, "4")
      if (name.startsWith("an optional")) assert.deepInclude(await read(old), { lines: ["1", "2", "3", "4"] })
      const again = await start(filename, name, "new")
      const last = await read(again)
      assert.include(JSON.stringify(last), "4")
      await Promise.all([stop(old), stop(again)])
    })
  }
})

describe("a recipe for messages:", () => {
  recipe("a new kind of message", async (filename) => {
    const name = "a new kind of message"
    const old = await start(filename, name, "old")
    await write(old, "1")
    const young = await start(filename, name, "new")
    await young.ask("cast", "Clear")
    await write(old, "2")
    assert.deepInclude(await read(old), { lines: ["2"] })
    // one that only the new program knows waits for it, with what is behind it
    await young.ask("cast", "Clear")
    await stop(young)
    await write(old, "3")
    const again = await start(filename, name, "new")
    assert.deepInclude(await read(again), { lines: ["3"] })
  })
  recipe("a kind of message that goes", async (filename) => {
    const name = "a kind of message that goes"
    const old = await start(filename, name, "old")
    await write(old, "1")
    await old.ask("cast", "Clear")
    // nobody sends it any more, and none waits
    assert.deepInclude(await read(old), { lines: [] })
    const young = await start(filename, name, "new")
    await write(young, "2")
    await write(old, "3")
    assert.deepInclude(await read(young), { lines: ["2", "3"] })
    // back again, where it is still known
    await stop(young)
    await old.ask("cast", "Clear")
    await write(old, "4")
    assert.deepInclude(await read(old), { lines: ["4"] })
  })
  for (
    const [name, payload, lines] of [
      ["a new field of a payload", { text: "2", times: 2 }, ["1", "2"]],
      ["a renamed field of a payload", { text: "2", line: "2" }, ["1", "2"]]
    ] as const
  ) {
    recipe(name, async (filename) => {
      const old = await start(filename, name, "old")
      await write(old, "1")
      // a timer of the old program is sent while the new one runs, too
      await old.ask("castLater", "Add", { text: "later" }, { after: "1 second" })
      const young = await start(filename, name, "new")
      await young.ask("cast", "Add", payload)
      const both = (await read(young)).lines
      assert.deepStrictEqual([...new Set(both.filter((line: string) => line !== "later"))], [...lines])
      await stop(young)
      await write(old, "3")
      assert.include((await read(old)).lines, "3")
      while (!(await read(old)).lines.includes("later")) await new Promise((resolve) => setImmediate(resolve))
    })
  }
  recipe("more in an answer", async (filename) => {
    const name = "more in an answer"
    const old = await start(filename, name, "old")
    await write(old, "1")
    const young = await start(filename, name, "new")
    await write(young, "2")
    for (const program of [old, young]) {
      assert.strictEqual((await program.ask("call", "Count", patient)).lines, 2)
    }
    await stop(young)
    assert.deepStrictEqual(await old.ask("call", "Count", patient), { lines: 2 })
  })
})

describe("a recipe for durable actions:", () => {
  recipe("a new durable action", async (filename) => {
    const name = "a new durable action"
    const old = await start(filename, name, "old")
    await write(old, "1")
    const young = await start(filename, name, "new")
    // whichever program handles it: the old one asks for nothing
    while (young.acted.length === 0) await write(young, "2")
    assert.deepStrictEqual(young.acted[0], { tag: "Tell", payload: { text: "2" } })
    await stop(young)
    await write(old, "3")
    assert.include((await read(old)).lines, "3")
    assert.deepStrictEqual(old.acted, [])
  })
  recipe("a durable action that goes", async (filename) => {
    const name = "a durable action that goes"
    const old = await start(filename, name, "old")
    await write(old, "1")
    // none waits
    while (old.acted.length === 0) await read(old)
    const young = await start(filename, name, "new")
    await write(young, "2")
    await write(old, "3")
    // whichever program handled them: what was asked for is run by the one that knows it
    assert.deepInclude(await read(young), { lines: ["1", "2", "3"] })
    await stop(young)
    await write(old, "4")
    while (!old.acted.some(({ payload }) => payload.text === "4")) await read(old)
    assert.deepInclude(await read(old), { lines: ["1", "2", "3", "4"] })
  })
})
