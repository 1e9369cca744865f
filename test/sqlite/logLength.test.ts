/** The log of a file does not stay as long as somebody's snapshot once made it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Backend } from "effect-dgen"
import { fork } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { bytes, put, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { withBackend } from "./support.ts"

type Service = Backend.Backend["Service"]

const folder = temporaryFolder()

const MEGABYTE = 1_048_576

/** What docs/OPERATING.md promises of a log that nobody holds, and of one that readers hold in turns. */
const SHORT_BYTES = 8 * MEGABYTE
const HELD_BYTES = 64 * MEGABYTE

let round = 0

/** A commit of about eight megabytes, of the same keys each time. */
const large = (backend: Service) => {
  round++
  return write(
    backend,
    ...Array.from({ length: 90 }, (_, i) => put(`large${i}`, String((round + i) % 10).repeat(90_000)))
  )
}

const logBytes = (filename: string) => fs.statSync(`${filename}-wal`).size

/** A tool that holds a snapshot. */
const reader = (filename: string) => {
  const db = new DatabaseSync(filename, { readOnly: true })
  db.exec("BEGIN")
  db.prepare("SELECT count(*) FROM kv").get()
  return db
}

/** A file whose log has grown over a snapshot that is held no more. */
const grown = (filename: string, backend: Service) =>
  Effect.gen(function*() {
    yield* write(backend, put("a", "1"))
    const held = reader(filename)
    for (let i = 0; i < 4; i++) yield* large(backend)
    assert.isAbove(logBytes(filename), 3 * SHORT_BYTES)
    held.close()
  })

const until = (condition: () => boolean) => Effect.repeat(Effect.sleep(20), { until: condition })

describe("SqliteBackend's log, once a snapshot is held no more", () => {
  it.live("is cut by the next commits", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "commits.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* grown(filename, backend)
          yield* Effect.repeat(write(backend, put("a", "2")), { until: () => logBytes(filename) <= SHORT_BYTES })
        }))
    }))

  it.live("is cut though no commit comes", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "quiet.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* grown(filename, backend)
          yield* until(() => logBytes(filename) <= SHORT_BYTES)
        }))
    }))

  it.live("is cut by whoever opens it after a crash", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "opened.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* grown(filename, backend)
          const copy = path.join(folder, "crashed.db")
          for (const suffix of ["", "-wal", "-version"]) fs.copyFileSync(filename + suffix, copy + suffix)
          yield* withBackend(copy, () => until(() => logBytes(copy) <= SHORT_BYTES))
        }))
    }))

  it.live("stays bounded while readers of another process take turns", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "turns.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("a", "1"))
          yield* Effect.acquireRelease(
            Effect.callback<ReturnType<typeof fork>>((resume) => {
              const child = fork(path.join(import.meta.dirname, "readersChild.ts"), [filename])
              child.once("message", () => resume(Effect.succeed(child)))
            }),
            (child) => Effect.sync(() => child.kill("SIGKILL"))
          )
          for (let i = 0; i < 25; i++) {
            yield* large(backend)
            assert.isBelow(logBytes(filename), HELD_BYTES + 3 * SHORT_BYTES)
          }
        }).pipe(Effect.scoped))
    }))
})

/** What docs/OPERATING.md tells operators to run, by the same SQLite. */
const vacuum = (filename: string, sql: string) => {
  const db = new DatabaseSync(filename, { timeout: 1_000 })
  db.exec(sql)
  db.close()
}

const clearAll = (backend: Service) => write(backend, { op: "clearRange", begin: bytes("large"), end: bytes("largf") })

describe("SqliteBackend's file, after most of it was deleted", () => {
  const STEP = "PRAGMA incremental_vacuum(1000); PRAGMA wal_checkpoint(PASSIVE)"

  it.live("gives room back in steps while a process has it open", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "vacuum.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* large(backend)
          yield* clearAll(backend)
          vacuum(filename, "PRAGMA wal_checkpoint(PASSIVE)")
          assert.isAbove(fs.statSync(filename).size, 7 * MEGABYTE)
          for (let i = 0; i < 3; i++) {
            vacuum(filename, STEP)
            yield* write(backend, put("a", String(i)))
          }
          assert.isBelow(fs.statSync(filename).size, MEGABYTE)
        }))
    }))

  it.live("learns to, when it was made without", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "older.db")
      yield* withBackend(filename, large)
      vacuum(filename, "PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = 0; VACUUM")
      yield* withBackend(filename, clearAll)
      vacuum(filename, "PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = 2; VACUUM")
      assert.isBelow(fs.statSync(filename).size, MEGABYTE)
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* large(backend)
          yield* clearAll(backend)
          for (let i = 0; i < 3; i++) vacuum(filename, STEP)
        }))
      assert.isBelow(fs.statSync(filename).size, MEGABYTE)
    }))
})
