/** The examples print what they say, and the README shows what they print. */
import { execFile } from "node:child_process"
import * as path from "node:path"
import { promisify } from "node:util"
import { assert, describe, it } from "vitest"
import { temporaryFolder } from "../support/temporary.ts"
import { markdownBlocks, root } from "./documents.ts"

/** Runs an example to its end, with the Node that runs the tests. */
const example = async (name: string, ...args: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const file = path.join("examples", name)
  const { stderr, stdout } = await promisify(execFile)(
    process.execPath,
    [file, ...args],
    { cwd: root }
  )
  assert.strictEqual(stderr, "")
  return stdout.trimEnd().split("\n")
}

const shown = (info: string): ReadonlyArray<string> =>
  markdownBlocks("README.md").find((block) => block.info === info)!.code.trimEnd().split("\n")

/** What one run of the counter prints that finds a count in its file. */
const counterRun = (count: number, filename: string): ReadonlyArray<string> => [
  `started: the count is ${count}`,
  "a call for 1000001 more is refused: Overflow",
  "a cast adds 40, then a call adds 2",
  `  after the commit: the total is ${count + 42}`,
  `stopped: the call was answered ${count + 42}, and the file is closed`,
  `started again: the count is ${count + 42}`,
  `stopped: the next run goes on from ${filename}`
]

describe("examples/counter.ts", () => {
  it("counts on where its last run ended, as the README shows", async () => {
    const filename = path.join(temporaryFolder(), "data", "counter.db")
    assert.deepStrictEqual(await example("counter.ts", filename), counterRun(0, filename))
    assert.deepStrictEqual(await example("counter.ts", filename), counterRun(42, filename))
    const own = path.join(".data", "counter.db")
    assert.deepStrictEqual(shown("start"), counterRun(0, own))
    assert.deepStrictEqual(shown("again"), counterRun(42, own))
  })
})

describe("examples/two-processes.ts", () => {
  it("handles each message once, whichever process takes it", async () => {
    assert.deepStrictEqual(await example("two-processes.ts"), [
      "200 calls from this process, the count is 200",
      "messages that still wait: 0",
      "handled by the two consumers together: 200"
    ])
  })
})

describe("examples/mails/main.ts", () => {
  it("sends each mail, in order, although a process is killed between the commit and the first one", async () => {
    assert.deepStrictEqual(await example(path.join("mails", "main.ts")), [
      "ada orders a pen: order 1",
      "ada orders ink: order 2",
      "ada orders paper: order 3",
      "a process is about to send \"order 1: a pen\", and is killed",
      "  to ada: order 1: a pen, with the id that it had before",
      "  to ada: order 2: ink",
      "  to ada: order 3: paper"
    ])
  })
})

/** What the examples print that begin from nothing. */
const printed: Readonly<Record<string, ReadonlyArray<string>>> = {
  semaphore: [
    "one has the permit",
    "two and three wait, and the server stops",
    "the server runs again, and one gives the permit back",
    "two has the permit",
    "three has the permit"
  ],
  chat: [
    "  everybody is told: ada: soup?",
    "  everybody is told: bob: pizza!",
    "ada edits what bob said: NotYours",
    "m2 bob: pizza!",
    "m1 ada: soup or salad?"
  ],
  payment: [
    "before: open, 1750 cents",
    "paid: receipt 1 over 1750 cents",
    "after: paid, 1750 cents",
    "the large order is declined: over the card's limit"
  ],
  transfer: [
    "before: ada 100, bob 0",
    "ada sends 30: ada 70, bob 30",
    "ada sends 1000: Insufficient, ada 70, bob 30",
    "a gift of 1 to each: ada 71, bob 31"
  ]
}

for (const [name, lines] of Object.entries(printed)) {
  describe(`examples/${name}.ts`, () => {
    it("prints what it says", async () => {
      assert.deepStrictEqual(await example(`${name}.ts`), lines)
    })
  })
}
