import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import { Backend, type BackendError, SqliteBackend } from "effect-dgen"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { vi } from "vitest"
import { SqliteFile } from "../../src/internal/sqlite/file.ts"
import { commit, get, outcome, point, put, within, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"

const folder = temporaryFolder()

const withBackend = <A, E>(filename: string, use: (backend: Backend.Backend["Service"]) => Effect.Effect<A, E>) =>
  Effect.scoped(
    Effect.flatMap(
      Layer.build(SqliteBackend.layer({ filename })),
      (context) => use(Context.get(context, Backend.Backend))
    )
  )

const refusal = (filename: any): Effect.Effect<BackendError.BackendError> =>
  Effect.flip(Effect.scoped(Layer.build(SqliteBackend.layer({ filename })))) as never

/** Everything in a folder, byte for byte. */
const snapshot = (dir: string) =>
  Object.fromEntries(fs.readdirSync(dir).map((name) => [name, fs.readFileSync(path.join(dir, name)).toString("hex")]))

/** A folder of its own, and a path in it. */
const place = (name: string) => {
  const dir = path.join(folder, name)
  fs.mkdirSync(dir)
  return { dir, filename: path.join(dir, "app.db") }
}

/** What is refused is not changed. */
const refuses = (filename: string, tag: string, says: RegExp) =>
  Effect.gen(function*() {
    const before = snapshot(path.dirname(filename))
    const { reason } = yield* refusal(filename)
    assert.strictEqual(reason._tag, tag)
    assert.match(reason.message, says)
    assert.deepStrictEqual(snapshot(path.dirname(filename)), before)
  })

describe("SqliteBackend errors", () => {
  const cycle: any = []
  cycle.push(cycle)
  const filenames = { empty: "", memory: ":memory:", null: "a\0b", none: undefined, number: 5, bigint: 5n, cycle }
  for (const [name, filename] of Object.entries(filenames)) {
    it.effect(`refuses a filename that is none: ${name}`, () =>
      Effect.gen(function*() {
        const { reason } = yield* refusal(filename)
        assert.strictEqual(reason._tag, "InvalidArgument")
        assert.match(reason.message, /MemoryBackend/)
      }))
  }

  it.effect("refuses options that are none", () =>
    Effect.forEach([undefined, null, "app.db"], (options: any) =>
      Effect.map(
        Effect.flip(Effect.scoped(Layer.build(SqliteBackend.layer(options)))),
        ({ reason }) => assert.strictEqual(reason._tag, "InvalidArgument")
      )))

  it.effect("refuses names that no file can have", () =>
    Effect.gen(function*() {
      const { dir } = place("names")
      const loop = path.join(dir, "loop.db")
      fs.symlinkSync(loop, loop)
      for (const filename of [path.join(dir, "x".repeat(300)), loop]) {
        assert.strictEqual((yield* refusal(filename)).reason._tag, "InvalidArgument")
      }
    }))

  it.effect("refuses a device, and a pipe, without waiting for who writes to it", () =>
    Effect.gen(function*() {
      const { dir } = place("pipe")
      const pipe = path.join(dir, "pipe.db")
      execFileSync("mkfifo", [pipe])
      for (const filename of [pipe, "/dev/null"]) {
        const { reason } = yield* refusal(filename)
        assert.strictEqual(reason._tag, "InvalidArgument")
        assert.match(reason.message, /device or a pipe/)
      }
    }))

  it.effect("says that the folder does not exist", () =>
    Effect.gen(function*() {
      const { reason } = yield* refusal(path.join(folder, "nowhere", "app.db"))
      assert.strictEqual(reason._tag, "InvalidArgument")
      assert.match(reason.message, /nowhere does not exist/)
    }))

  it.effect("refuses a folder", () =>
    Effect.gen(function*() {
      const { dir } = place("folder")
      assert.strictEqual((yield* refusal(dir)).reason._tag, "InvalidArgument")
    }))

  it.effect("refuses the database of another program", () =>
    Effect.gen(function*() {
      const { filename } = place("foreign")
      const db = new DatabaseSync(filename)
      db.exec("CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB)")
      db.close()
      yield* refuses(filename, "ForeignDatabase", /another program/)
    }))

  it.effect("refuses a file that is no database", () =>
    Effect.gen(function*() {
      const { filename } = place("text")
      fs.writeFileSync(filename, "dear diary, ".repeat(100))
      yield* refuses(filename, "ForeignDatabase", /no SQLite database/)
      fs.writeFileSync(filename, "x")
      yield* refuses(filename, "ForeignDatabase", /no SQLite database/)
    }))

  it.effect("refuses a newer format", () =>
    Effect.gen(function*() {
      const { filename } = place("newer")
      yield* withBackend(filename, (backend) => write(backend, put("a", "1")))
      const db = new DatabaseSync(filename)
      db.exec("PRAGMA user_version = 2")
      // left in the log, where the file's first bytes do not show it
      assert.strictEqual((yield* refusal(filename)).reason._tag, "NewerFormat")
      db.close()
      yield* refuses(filename, "NewerFormat", /update effect-dgen/)
    }))

  for (
    const sql of [
      "DROP TABLE kv",
      "DROP TABLE meta",
      "DELETE FROM meta",
      "UPDATE meta SET value = 'x'",
      "UPDATE meta SET value = -1",
      "UPDATE meta SET value = 9223372036854775807"
    ]
  ) {
    it.effect(`refuses a file of its own that somebody changed: ${sql}`, () =>
      Effect.gen(function*() {
        const { filename } = place(sql)
        yield* withBackend(filename, (backend) => write(backend, put("a", "1")))
        const db = new DatabaseSync(filename)
        db.exec(sql)
        db.close()
        yield* refuses(filename, "Corrupt", /backup/)
      }))
  }

  for (const value of ["'text'", "5"]) {
    it.live(`reports a value that is not bytes where it reads it: ${value}`, () =>
      Effect.gen(function*() {
        const { filename } = place(`value ${value}`)
        yield* withBackend(filename, (backend) => write(backend, put("a", "1"), put("b", "1")))
        const db = new DatabaseSync(filename)
        db.exec(`UPDATE kv SET v = ${value} WHERE k = CAST('a' AS BLOB)`)
        db.close()
        yield* withBackend(filename, (backend) =>
          Effect.gen(function*() {
            assert.strictEqual(yield* outcome(within(backend, (driver) => get(driver, "a"))), "Corrupt")
            const range = within(
              backend,
              (driver) => driver.getRange(Buffer.from("a"), Buffer.from("c"), { limit: Infinity, reverse: false })
            )
            assert.strictEqual(yield* outcome(range), "Corrupt")
            assert.strictEqual(yield* within(backend, (driver) => get(driver, "b")), "1")
          }))
      }))
  }

  it.effect("refuses a file that was cut off", () =>
    Effect.gen(function*() {
      const { dir, filename } = place("cut")
      yield* withBackend(filename, (backend) => write(backend, put("a", "1".repeat(50_000))))
      const file = fs.readFileSync(filename)
      for (
        const [bytes, tag] of [[50, "ForeignDatabase"], [100, "Corrupt"], [4096, "Corrupt"], [
          20_000,
          "Corrupt"
        ]] as const
      ) {
        fs.writeFileSync(path.join(dir, "app.db"), file.subarray(0, bytes))
        yield* refuses(filename, tag, /backup|no SQLite database/)
      }
    }))

  it.effect("refuses a file that it may not write", () =>
    Effect.gen(function*() {
      const { dir, filename } = place("readonly")
      yield* withBackend(filename, (backend) => write(backend, put("a", "1")))
      fs.chmodSync(folder, 0o755)
      fs.chmodSync(filename, 0o444)
      fs.chmodSync(dir, 0o555)
      const before = snapshot(dir)
      const user = process.getuid!()
      // permissions do not bind the superuser
      if (user === 0) process.seteuid!(65_534)
      const { reason } = yield* Effect.ensuring(
        refusal(filename),
        Effect.sync(() => user === 0 && process.seteuid!(0))
      )
      assert.strictEqual(reason._tag, "ReadOnly")
      assert.match(reason.message, /write access/)
      assert.deepStrictEqual(snapshot(dir), before)
      fs.chmodSync(dir, 0o755)
    }))

  it.effect("refuses to make a file in a folder that it may not write", () =>
    Effect.gen(function*() {
      const { dir, filename } = place("readonly folder")
      fs.chmodSync(folder, 0o755)
      fs.chmodSync(dir, 0o555)
      const user = process.getuid!()
      // permissions do not bind the superuser
      if (user === 0) process.seteuid!(65_534)
      const { reason } = yield* Effect.ensuring(
        refusal(filename),
        Effect.sync(() => user === 0 && process.seteuid!(0))
      )
      assert.strictEqual(reason._tag, "ReadOnly")
      assert.deepStrictEqual(snapshot(dir), {})
      fs.chmodSync(dir, 0o755)
    }))

  it.live("reports damage where it reads it, and does not make it worse", () =>
    Effect.gen(function*() {
      const { filename } = place("damaged")
      yield* withBackend(filename, (backend) =>
        write(
          backend,
          ...Array.from({ length: 500 }, (_, i) => put(`k${String(i).padStart(4, "0")}`, "v".repeat(200)))
        ))
      const file = fs.readFileSync(filename)
      // all pages but the first, which holds the header and the schema
      file.fill(0xa5, 4096)
      fs.writeFileSync(filename, file)
      const seen = yield* outcome(
        withBackend(filename, (backend) => within(backend, (driver) => get(driver, "k0100"))) as never
      )
      assert.strictEqual(seen, "Corrupt")
    }))

  it.live("a flush that finds the disk full applies nothing of its group, and the next one works", () =>
    withBackend(place("full").filename, (backend) =>
      Effect.gen(function*() {
        yield* write(backend, put("a", "0"))
        const full = Object.assign(new Error("database or disk is full"), { code: "ERR_SQLITE_ERROR", errcode: 13 })
        const spy = vi.spyOn(SqliteFile.prototype, "setVersion").mockImplementationOnce(() => {
          throw full
        })
        let fired = 0
        const watch = { key: Buffer.from("w"), fire: () => void fired++, fail: () => {}, onCancel: undefined }
        // the reader of what was accepted fails with it
        const reader = yield* backend.begin
        const outcomes = yield* Effect.all([
          outcome(within(backend, (driver) => commit(driver, [put("a", "1")], { watches: [watch] }))),
          outcome(write(backend, put("b", "1"))),
          outcome(Effect.andThen(get(reader, "a"), commit(reader, [])))
        ], { concurrency: "unbounded" })
        assert.deepStrictEqual(outcomes, ["DiskFull", "DiskFull", "DiskFull"])
        reader.close()
        assert.strictEqual(spy.mock.calls.length, 1)
        spy.mockRestore()
        yield* within(backend, (driver) =>
          Effect.gen(function*() {
            assert.strictEqual(yield* get(driver, "a"), "0")
            assert.strictEqual(yield* get(driver, "b"), undefined)
          }))
        yield* write(backend, put("a", "2"), put("w", "1"))
        assert.strictEqual(fired, 0)
        yield* within(backend, (driver) =>
          Effect.gen(function*() {
            assert.strictEqual(yield* get(driver, "a"), "2")
          }))
      })))

  it.live("a transaction that read what was dropped cannot commit", () =>
    withBackend(place("dropped").filename, (backend) =>
      Effect.gen(function*() {
        vi.spyOn(SqliteFile.prototype, "setVersion").mockImplementationOnce(() => {
          throw Object.assign(new Error("full"), { code: "ERR_SQLITE_ERROR", errcode: 13 })
        })
        const reader = yield* backend.begin
        let seen: string | undefined
        assert.strictEqual(
          yield* outcome(within(backend, (driver) =>
            commit(driver, [put("a", "1")], {
              accepted: () => {
                seen = Effect.runSync(get(reader, "a"))
              }
            }))),
          "DiskFull"
        )
        vi.restoreAllMocks()
        assert.strictEqual(seen, "1")
        assert.strictEqual(
          yield* outcome(commit(reader, [put("b", "1")], { reads: [point("a")] })),
          "TransactionTooOld"
        )
        reader.close()
      })))

  it.live("waits for a lock that another process holds without blocking", () =>
    Effect.gen(function*() {
      const { filename } = place("locked")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          const other = new DatabaseSync(filename)
          other.exec("BEGIN IMMEDIATE")
          const waiting = yield* Effect.forkChild(write(backend, put("a", "1")))
          // reading goes on meanwhile, and sees what was accepted
          for (let i = 0; i < 20; i++) {
            yield* within(backend, (driver) => get(driver, "b"))
            yield* Effect.sleep(5)
          }
          assert.strictEqual(waiting.pollUnsafe(), undefined)
          other.exec("COMMIT")
          yield* Fiber.join(waiting)
          assert.strictEqual(yield* within(backend, (driver) => get(driver, "a")), "1")
          other.close()
        }))
    }))
})
