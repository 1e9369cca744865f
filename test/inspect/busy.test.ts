/** Looks come to their end beside a process that writes to the same file without a pause. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { Inspect, SqliteBackend, Tenant } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as path from "node:path"
import { run } from "../../src/internal/cli/command.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { Clerk } from "./clerk.ts"

const SERVERS = 1_000
const filename = path.join(temporaryFolder(), "busy.db")

const busy = Effect.acquireRelease(
  Effect.callback<ChildProcess>((resume) => {
    const child = fork(path.join(import.meta.dirname, "busyChild.ts"), [filename, "busy"])
    child.once("message", () => resume(Effect.succeed(child)))
    child.once("close", () => resume(Effect.die(new Error("the process ended too early"))))
  }),
  (child) => Effect.sync(() => child.kill("SIGKILL"))
)

describe("beside a process that writes without a pause", () => {
  it.live(
    "servers, those that are stuck, a check and the command line come to their end",
    () =>
      Effect.gen(function*() {
        yield* Tenant.transact(
          Effect.forEach(
            Array.from({ length: SERVERS }, (_, n) => n),
            (n) => Clerk.castTx("Write", { text: "" }, { tuid: ["clerk", n] }),
            { discard: true }
          )
        )
        yield* busy
        for (const stuck of [false, true]) {
          const rows = yield* Stream.runCollect(Inspect.allServers({ stuck, olderThan: 0 }))
          assert.strictEqual(new Set(Array.from(rows, ({ tuid }) => tuid.text)).size, SERVERS)
        }
        const found = Array.from(yield* Stream.runCollect(Inspect.check()))
        assert.deepStrictEqual(found.filter(({ kind }) => kind !== "skipped"), [])
        const args = ["servers", "--stuck", "--older-than", "0 millis", "--all", "--json"]
        const text = yield* run([...args, "--store", `sqlite:${filename}`, "--tenant", "busy"], { write: () => true })
        const lines = text.trim().split("\n").map((line) => JSON.parse(line))
        assert.strictEqual(lines.length, SERVERS + 1)
        assert.deepStrictEqual(lines.at(-1), { looked: SERVERS, next: null })
      }).pipe(
        Effect.scoped,
        Effect.provide(Tenant.layer(["busy"]).pipe(Layer.provide(SqliteBackend.layer({ filename }))))
      ),
    60_000
  )
})
