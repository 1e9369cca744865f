import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import * as path from "node:path"
import { onFoundationDb } from "../foundationdb/support.ts"
import { temporaryFolder } from "../support/temporary.ts"

const folder = temporaryFolder()

/** Runs the example on a store; succeeds with what it said. */
const run = (store: string): Effect.Effect<{ readonly code: number | null; readonly said: string }> =>
  Effect.callback((resume) => {
    const main = path.join(import.meta.dirname, "../../examples/cluster/main.ts")
    const child = spawn(process.execPath, [main, store], {
      stdio: ["ignore", "pipe", "pipe"]
    })
    let said = ""
    child.stdout.on("data", (chunk) => said += chunk)
    child.stderr.on("data", (chunk) => said += chunk)
    child.on("close", (code) => resume(Effect.succeed({ code, said })))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

const test = (title: string, store: string) =>
  it.live(title, () =>
    Effect.gen(function*() {
      const { code, said } = yield* run(store)
      assert.include(said, "nothing lost, nothing doubled, order kept")
      assert.match(said, /"anna":300,"bert":300|"bert":300,"anna":300/)
      assert.strictEqual(said.match(/is killed/g)?.length, 6)
      assert.strictEqual(code, 0, said)
    }), 120_000)

describe("the cluster example keeps its promise while its processes are killed", () => {
  test("on a SQLite file", `sqlite:${path.join(folder, "cluster.db")}`)
  onFoundationDb(
    "on a FoundationDB cluster",
    (_, clusterFile) => test("on a FoundationDB cluster", `foundationdb:${clusterFile}`)
  )
})
