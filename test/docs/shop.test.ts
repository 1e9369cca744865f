/** The shop of examples/shop keeps its books, whatever becomes of its workers: each is a process of its own. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import * as path from "node:path"
import { afterAll } from "vitest"
import { onFoundationDb } from "../foundationdb/support.ts"
import { startServer } from "../postgres/throwawayServer.ts"

interface Said {
  readonly code: number | null
  readonly lines: ReadonlyArray<string>
}

/** A day in the shop; succeeds with what it said. */
const day = (store: string, kills: number): Effect.Effect<Said> =>
  Effect.callback((resume) => {
    const main = path.join(import.meta.dirname, "../../examples/shop/main.ts")
    const child = spawn(process.execPath, [main, String(kills)], {
      env: { ...process.env, SHOP_STORE: store },
      stdio: ["ignore", "pipe", "pipe"]
    })
    let said = ""
    child.stdout.on("data", (chunk) => said += chunk)
    child.stderr.on("data", (chunk) => said += chunk)
    child.on("close", (code) => resume(Effect.succeed({ code, lines: said.split("\n") })))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

const agrees = ({ code, lines }: Said) => {
  const said = lines.join("\n")
  assert.include(lines, "stock, payments, orders and mails agree", said)
  // 130 is how NodeRuntime.runMain ends when a signal asked for it: all three have closed their scopes
  assert.include(lines, "front and workers have ended: 130, 130, 130", said)
  const [, ...ends] = lines.map((line) => /^orders: (\d+) paid, (\d+) cancelled, (\d+) sold out$/.exec(line))
    .find((match) => match !== null) ?? []
  assert.strictEqual(ends.reduce((sum, count) => sum + Number(count), 0), 60, said)
  assert.isAbove(Number(ends[0]), 0, said)
  assert.isAbove(Number(ends[1]), 0, said)
  assert.strictEqual(code, 0, said)
}

const tests = (title: string, store: string) => {
  it.live(`${title}: on a quiet day`, () => Effect.map(day(store, 0), agrees), 120_000)
  it.live(`${title}: when workers are killed in the middle of it`, () =>
    Effect.map(day(store, 4), (said) => {
      agrees(said)
      assert.strictEqual(said.lines.filter((line) => / worker \d is killed, /.test(line)).length, 4)
    }), 240_000)
}

const server = await startServer()
afterAll(() => server.stop())

describe("the shop keeps its books", () => {
  tests("on a SQLite file", "sqlite")
  tests("on a PostgreSQL server", server.url)
  onFoundationDb(
    "on a FoundationDB cluster",
    (_, clusterFile) => tests("on a FoundationDB cluster", `foundationdb:${clusterFile}`)
  )
})
