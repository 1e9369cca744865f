/** Files that somebody takes away while a process has them open: what is answered after that is nowhere, so nothing is. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Schema } from "effect"
import { BackendError, DgenServer, SqliteBackend, Tenant } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { bytes, commit, get, outcome, put, within, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { prefixOf, withBackend, writeKeys } from "./support.ts"
import type { Told } from "./takenChild.ts"

const folder = temporaryFolder()

const place = (name: string): string => {
  const dir = path.join(folder, name)
  fs.mkdirSync(dir)
  return path.join(dir, "app.db")
}

const said = <A>(child: ChildProcess) =>
  Effect.callback<A>((resume) => {
    child.once("message", (message) => resume(Effect.succeed(message as A)))
    child.once("close", () => resume(Effect.die(new Error("the process ended too early"))))
  })

const killed = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    child.once("close", () => resume(Effect.void))
    child.kill("SIGKILL")
  })

interface Taking {
  readonly take: (filename: string) => void
  readonly says: RegExp
  /** Whether what was answered before is at the path all the same. */
  readonly keeps: boolean
}

const remove = (...suffixes: ReadonlyArray<string>) => (filename: string) => {
  for (const suffix of suffixes) fs.rmSync(filename + suffix)
}

const takings: Record<string, Taking> = {
  "the database is removed": { take: remove(""), says: /app\.db was removed/, keeps: false },
  "all is removed": { take: remove("", "-wal", "-shm", "-version"), says: /app\.db was removed/, keeps: false },
  "its folder is moved": {
    take: (filename) => fs.renameSync(path.dirname(filename), `${path.dirname(filename)} moved`),
    says: /app\.db was removed/,
    keeps: false
  },
  "the database is replaced by a copy": {
    take: (filename) => {
      fs.copyFileSync(filename, `${filename}.copy`)
      fs.renameSync(`${filename}.copy`, filename)
    },
    says: /app\.db was replaced/,
    keeps: false
  },
  "an empty file is put in its place": {
    take: (filename) => {
      fs.rmSync(filename)
      fs.writeFileSync(filename, "")
    },
    says: /app\.db was replaced/,
    keeps: false
  },
  "the database is emptied": {
    take: (filename) => fs.truncateSync(filename, 0),
    says: /app\.db was cut off/,
    keeps: false
  },
  "the database is cut": {
    take: (filename) => fs.truncateSync(filename, fs.statSync(filename).size - 1),
    says: /app\.db was cut off/,
    keeps: false
  },
  "the log is removed": { take: remove("-wal"), says: /app\.db-wal was removed/, keeps: true },
  "log and -shm are removed": { take: remove("-wal", "-shm"), says: /app\.db-wal was removed/, keeps: true },
  "-shm is removed": { take: remove("-shm"), says: /app\.db-shm was removed/, keeps: true },
  "an empty log is put in its place": {
    take: (filename) => {
      fs.rmSync(`${filename}-wal`)
      fs.writeFileSync(`${filename}-wal`, "")
    },
    says: /app\.db-wal was replaced/,
    keeps: true
  },
  "the log is emptied": {
    take: (filename) => fs.truncateSync(`${filename}-wal`, 0),
    says: /app\.db-wal was cut off/,
    keeps: false
  },
  "the log is cut": {
    take: (filename) => fs.truncateSync(`${filename}-wal`, fs.statSync(`${filename}-wal`).size / 2),
    says: /app\.db-wal was cut off/,
    keeps: false
  }
}

class Tally extends DgenServer.Service<Tally>()("Tally", {
  state: Schema.Int,
  messages: { Add: DgenServer.call({ success: Schema.Int }) }
}) {}

const tally = Tally.behaviour({
  init: Effect.succeed(0),
  handlers: { Add: (_, count) => DgenServer.reply(count + 1, count + 1) }
})

describe.skipIf(process.platform === "win32")("SqliteBackend while a process has its file open", () => {
  for (const [name, { keeps, says, take }] of Object.entries(takings)) {
    it.live(`${name}: no commit after it is answered, and no read for long`, () =>
      Effect.gen(function*() {
        const filename = place(name)
        const child = fork(path.join(import.meta.dirname, "takenChild.ts"), [filename])
        yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
        yield* said(child)
        take(filename)
        const told = yield* Effect.forkChild(said<Told>(child), { startImmediately: true })
        child.send("go")
        const { answered, refusals } = yield* Fiber.join(told)
        for (const { message, tag } of refusals) {
          assert.strictEqual(tag, "Corrupt")
          assert.match(message, says)
          assert.match(message, /start again/)
        }
        assert.strictEqual(answered, 20)
        assert.lengthOf(refusals, 6)
        yield* killed(child)
        if (!keeps) return
        yield* withBackend(filename, (backend) =>
          Effect.gen(function*() {
            assert.strictEqual(yield* prefixOf(backend, answered), answered)
          }))
      }).pipe(Effect.scoped))
  }

  it.live("an older state is written over it: no commit after it is answered", () =>
    Effect.gen(function*() {
      const filename = place("overwritten")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* writeKeys(backend, 0, 3)
          const older = fs.readFileSync(filename)
          const tool = new DatabaseSync(filename)
          tool.exec("PRAGMA wal_checkpoint(TRUNCATE)")
          tool.close()
          yield* writeKeys(backend, 3, 3)
          const file = fs.openSync(filename, "r+")
          fs.writeSync(file, older)
          fs.closeSync(file)
          assert.strictEqual(yield* outcome(writeKeys(backend, 6, 1)), "Corrupt")
          assert.strictEqual(yield* outcome(within(backend, (driver) => get(driver, "k0000"))), "Corrupt")
        }))
    }))

  it.live("what is wanted of it ends: a watch is told", () =>
    Effect.gen(function*() {
      const filename = place("watched")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("a", "1"))
          yield* Effect.callback<void>((resume) => {
            const watch = { key: bytes("a"), fire: () => resume(Effect.void), fail: () => {}, onCancel: undefined }
            Effect.runFork(Effect.andThen(
              within(backend, (driver) => commit(driver, [], { watches: [watch] })),
              Effect.sync(() => fs.rmSync(filename))
            ))
          })
          assert.strictEqual(yield* outcome(within(backend, (driver) => get(driver, "a"))), "Corrupt")
        }))
    }))

  for (const how of ["inline", "through the queue"]) {
    it.live(`calls ${how} are refused at once, and the scope of their server closes`, () =>
      Effect.gen(function*() {
        const filename = place(how)
        const store = Tenant.layer(["tally"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))
        yield* Effect.gen(function*() {
          const server = yield* Tally.start(tally, { tuid: ["tally"] })
          const client = how === "inline" ? server : yield* Tally.client({ tuid: ["tally"] })
          assert.strictEqual(yield* client.call("Add"), 1)
          fs.rmSync(filename)
          for (let i = 0; i < 5; i++) {
            const error = yield* Effect.flip(client.call("Add"))
            assert.isTrue(BackendError.isBackendError(error) && error.reason._tag === "Corrupt", String(error))
          }
        }).pipe(Effect.scoped, Effect.provide(store), Effect.provide(Logger.layer([])))
      }))
  }

  it.live("whoever gave up the right to look goes on", () =>
    Effect.gen(function*() {
      const filename = place("rights")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* writeKeys(backend, 0, 1)
          const user = process.getuid!()
          fs.chmodSync(path.dirname(filename), 0o000)
          // permissions do not bind the superuser
          if (user === 0) process.seteuid!(65_534)
          yield* Effect.ensuring(
            writeKeys(backend, 1, 1),
            Effect.sync(() => {
              if (user === 0) process.seteuid!(0)
              fs.chmodSync(path.dirname(filename), 0o755)
            })
          )
          assert.strictEqual(yield* prefixOf(backend, 2), 2)
        }))
    }))

  it.live("opened again, after the files are right again, it goes on", () =>
    Effect.gen(function*() {
      const filename = place("again")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* writeKeys(backend, 0, 3)
          fs.renameSync(filename, `${filename}.away`)
          assert.strictEqual(yield* outcome(writeKeys(backend, 3, 1)), "Corrupt")
          fs.renameSync(`${filename}.away`, filename)
          assert.strictEqual(yield* outcome(writeKeys(backend, 3, 1)), "Corrupt")
        }))
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          // a commit that failed because its files were away may be in them
          assert.isAtLeast(yield* prefixOf(backend, 4), 3)
          yield* writeKeys(backend, 3, 3)
        }))
    }))

  it.live("nothing is wrong while processes and tools come, copy the log, cut it, give pages back, and go", () =>
    Effect.gen(function*() {
      const filename = place("tools")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          for (let i = 0; i < 10; i++) {
            yield* writeKeys(backend, 10 * i, 10)
            yield* write(backend, put("large", "x".repeat(90_000)))
            const db = new DatabaseSync(filename, { timeout: 1_000 })
            db.exec("PRAGMA wal_checkpoint(TRUNCATE)")
            yield* write(backend, { op: "clear", key: bytes("large") })
            db.exec(i % 2 === 0 ? "PRAGMA incremental_vacuum" : "VACUUM")
            db.exec("PRAGMA wal_checkpoint(TRUNCATE)")
            db.close()
          }
          assert.strictEqual(yield* prefixOf(backend, 100), 100)
        }))
    }))
})
