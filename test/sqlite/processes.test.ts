import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { Backend, SqliteBackend } from "effect-dgen"
import { spawn } from "node:child_process"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { vi } from "vitest"
import { SqliteFile } from "../../src/internal/sqlite/file.ts"
import { between, bytes, commit, get, outcome, point, put, range, within, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { increment, retried } from "./child.ts"

const folder = temporaryFolder()

const withBackend = <A, E>(filename: string, use: (backend: Backend.Backend["Service"]) => Effect.Effect<A, E>) =>
  Effect.scoped(
    Effect.flatMap(
      Layer.build(SqliteBackend.layer({ filename })),
      (context) => use(Context.get(context, Backend.Backend))
    )
  )

/** Runs another process on the file; succeeds when it ended well. */
const child = (filename: string, transfers: number, increments: number): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const script = path.join(import.meta.dirname, "child.ts")
    const running = spawn(process.execPath, [script, filename, String(transfers), String(increments)], {
      stdio: ["ignore", "ignore", "pipe"]
    })
    let said = ""
    running.stderr.on("data", (chunk) => said += chunk)
    running.on("close", (code) => resume(code === 0 ? Effect.void : Effect.die(new Error(`child ${code}: ${said}`))))
    return Effect.sync(() => running.kill())
  })

/** A commit of another process, by SQL. */
const foreign = (filename: string, ...rows: ReadonlyArray<readonly [string, string]>): void => {
  const db = new DatabaseSync(filename, { timeout: 1_000 })
  db.exec("BEGIN IMMEDIATE")
  for (const [key, value] of rows) db.prepare("REPLACE INTO kv VALUES (?, ?)").run(bytes(key), bytes(value))
  db.exec("UPDATE meta SET value = value + 1 WHERE name = 'version'")
  db.exec("COMMIT")
  db.close()
}

describe("SqliteBackend group commit", () => {
  it.live("concurrent commits share one flush, in the order in which they were accepted", () =>
    withBackend(path.join(folder, "group.db"), (backend) =>
      Effect.gen(function*() {
        yield* write(backend, put("a", "0"))
        const spy = vi.spyOn(SqliteFile.prototype, "execute")
        const stamps = yield* Effect.all(
          Array.from({ length: 200 }, (_, i) => write(backend, put(`k${i}`, "v"))),
          { concurrency: "unbounded" }
        )
        const flushes = spy.mock.calls.filter(([sql]) => sql === "COMMIT").length
        spy.mockRestore()
        assert.strictEqual(flushes, 1)
        const hex = stamps.map((stamp) => Buffer.from(stamp).toString("hex"))
        assert.deepStrictEqual(hex, [...new Set(hex)].sort())
      })))

  it.live("a body reads what was accepted before it, and the group is not lost when its fiber is", () =>
    withBackend(path.join(folder, "accepted.db"), (backend) =>
      Effect.gen(function*() {
        yield* Effect.all(Array.from({ length: 100 }, () => increment(backend, "n")), { concurrency: 10 })
        const fiber = yield* Effect.forkChild(increment(backend, "n"), { startImmediately: true })
        yield* Effect.yieldNow
        yield* Effect.yieldNow
        fiber.interruptUnsafe()
        yield* write(backend, put("barrier", ""))
        const value = Number(yield* within(backend, (driver) => get(driver, "n")))
        assert.include([100, 101], value)
        yield* increment(backend, "n")
        assert.strictEqual(Number(yield* within(backend, (driver) => get(driver, "n"))), value + 1)
      })))

  it.live("what is reported is in the file", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "file.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("a", "1"), put("empty", ""))
          const db = new DatabaseSync(filename, { readOnly: true })
          const rows = db.prepare("SELECT k, v FROM kv ORDER BY k").all()
          db.close()
          assert.deepStrictEqual(
            rows.map(({ k, v }) => [Buffer.from(k as Uint8Array).toString(), Buffer.from(v as Uint8Array).toString()]),
            [["a", "1"], ["empty", ""]]
          )
        }))
      // and under the next layer
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* within(backend, (driver) => get(driver, "empty")), "")
        }))
    }))
})

describe("SqliteBackend with other processes", () => {
  it.live("never shows two states of the file to one transaction", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "torn.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("left", "10"), put("right", "10"))
          for (const own of [false, true]) {
            foreign(filename, ["left", "10"], ["right", "10"])
            const reader = yield* backend.begin
            assert.strictEqual(yield* get(reader, "left"), "10")
            if (own) yield* write(backend, put("other", "1"))
            foreign(filename, ["left", "0"], ["right", "20"])
            if (own) yield* write(backend, put("other", "2"))
            assert.strictEqual(yield* outcome(get(reader, "right")), "TransactionTooOld")
            assert.strictEqual(yield* outcome(range(reader, "l", "z")), "TransactionTooOld")
            reader.close()
          }
        }))
    }))

  it.live("refuses what read something that another process changed, and only that", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "validate.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("a", "1"), put("b", "1"))
          const accept = (key: string, reads: ReadonlyArray<Backend.KeyRange>, accepted?: () => void) =>
            within(backend, (driver) =>
              Effect.gen(function*() {
                yield* range(driver, "a", "b\0")
                return yield* commit(
                  driver,
                  [put(key, "mine"), { op: "add", key: bytes("n"), operand: Uint8Array.of(1) }],
                  { reads, ...(accepted === undefined ? {} : { accepted }) }
                )
              }))
          const late = () => foreign(filename, ["a", "theirs"], ["n", "\x05"])
          const seen = yield* Effect.all([
            outcome(accept("x", [point("a")])),
            outcome(accept("y", [point("b")])),
            outcome(accept("z", [between("a", "c")])),
            // not everything of it was read
            outcome(accept("u", [between("b", "d")])),
            outcome(accept("w", [], late))
          ], { concurrency: "unbounded" })
          assert.deepStrictEqual(seen, ["Conflict", "success", "Conflict", "Conflict", "success"])
          const rows = yield* within(backend, (driver) => range(driver, "a", "zz"))
          assert.deepStrictEqual(rows, [["a", "theirs"], ["b", "1"], ["n", "\x07"], ["w", "mine"], ["y", "mine"]])
        }))
    }))

  it.live("gives greater versionstamps than every commit of another process before", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "stamps.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("a", "1"))
          const db = new DatabaseSync(filename)
          db.exec("UPDATE meta SET value = 1000 WHERE name = 'version'")
          db.close()
          const stamp = yield* write(backend, {
            op: "versionstampedValue",
            key: bytes("s"),
            value: new Uint8Array(10),
            position: 0
          })
          assert.strictEqual(Buffer.from(stamp).readBigUInt64BE(), 1001n)
          const stored = yield* within(backend, (driver) => driver.get(bytes("s")))
          assert.deepStrictEqual(stored, stamp)
        }))
    }))

  it.live("fires a watch for a commit of another process", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "watch.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("a", "1"))
          yield* Effect.callback<void>((resume) => {
            const watch = { key: bytes("a"), fire: () => resume(Effect.void), fail: () => {}, onCancel: undefined }
            Effect.runFork(Effect.andThen(
              within(backend, (driver) => commit(driver, [], { watches: [watch] })),
              Effect.sync(() => foreign(filename, ["a", "2"]))
            ))
          })
        }))
    }))

  it.live("two processes and many fibers lose no update and see no half transfer", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "contended.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("left", "100"), put("right", "100"))
          let ended = false
          const readers = Effect.whileLoop({
            while: () => !ended,
            step: () => {},
            body: () =>
              retried(within(backend, (driver) =>
                Effect.gen(function*() {
                  const left = Number(yield* get(driver, "left"))
                  yield* Effect.sleep(1)
                  const right = Number(yield* get(driver, "right"))
                  assert.strictEqual(left + right, 200)
                  yield* commit(driver, [])
                })))
          })
          const children = Effect.ensuring(
            Effect.all([child(filename, 200, 100), child(filename, 200, 100)], { concurrency: "unbounded" }),
            Effect.sync(() => (ended = true))
          )
          const own = Effect.all(Array.from({ length: 100 }, () => increment(backend, "sum")), { concurrency: 5 })
          yield* Effect.all([children, own, readers], { concurrency: "unbounded" })
          assert.strictEqual(yield* within(backend, (driver) => get(driver, "sum")), "300")
        }))
    }), 60_000)
})
