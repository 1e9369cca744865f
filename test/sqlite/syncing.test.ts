/** Commits are answered after the sync of the log, which runs on another thread, and never without it. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { Backend, SqliteBackend } from "effect-dgen"
import nodeFs, * as fs from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { crc32 } from "node:zlib"
import { vi } from "vitest"
import { Checkpointer } from "../../src/internal/sqlite/checkpointer.ts"
import { bytes, commit, get, outcome, put, within, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { withBackend } from "./support.ts"

type Service = Backend.Backend["Service"]

const folder = temporaryFolder()
const place = (name: string) => path.join(folder, `${name}.db`)

type Done = (failure: Error | null) => void

/** Syncs of the log that wait until they are let go, for the length of an effect. */
const withHeldSyncs = <A, E>(use: (syncs: Syncs) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const { fdatasync } = nodeFs
      const syncs = new Syncs((fd, done) => fdatasync(fd, done))
      const held = (fd: number, done: Done) => syncs.add(fd, done)
      vi.spyOn(nodeFs, "fdatasync").mockImplementation(held as typeof fdatasync)
      syncBuiltinESMExports()
      return syncs
    }),
    use,
    (syncs) =>
      Effect.sync(() => {
        vi.restoreAllMocks()
        syncBuiltinESMExports()
        syncs.goOn()
      })
  )

class Syncs {
  begun = 0
  readonly #sync: (fd: number, done: Done) => void
  readonly #held: Array<() => void> = []
  #onBegun: () => void = () => {}
  #isHeld = true

  constructor(sync: (fd: number, done: Done) => void) {
    this.#sync = sync
  }

  add(fd: number, done: Done): void {
    this.begun++
    const start = () => this.#sync(fd, done)
    if (this.#isHeld) this.#held.push(start)
    else start()
    this.#onBegun()
  }

  /** Ends when so many have begun in all. */
  reached(count: number): Effect.Effect<void> {
    return Effect.callback((resume) => {
      this.#onBegun = () => {
        if (this.begun >= count) resume(Effect.void)
      }
      this.#onBegun()
    })
  }

  /** Lets the oldest one go. */
  readonly next = Effect.sync(() => this.#held.shift()!())

  /** From now on none is held. */
  goOn(): void {
    this.#isHeld = false
    for (const start of this.#held.splice(0)) start()
  }
}

/** What another process sees. */
const inFile = (filename: string, key: string): string | undefined => {
  const db = new DatabaseSync(filename, { readOnly: true })
  const row = db.prepare("SELECT v FROM kv WHERE k = ?").get(bytes(key))
  db.close()
  return row === undefined ? undefined : Buffer.from(row.v as Uint8Array).toString("latin1")
}

/** A commit of another process that is not on the disk, and nobody says that it is. */
const unsynced = (filename: string, key: string, value: string): number => {
  const db = new DatabaseSync(filename, { timeout: 1_000 })
  db.exec("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0; BEGIN IMMEDIATE")
  db.prepare("REPLACE INTO kv VALUES (?, ?)").run(bytes(key), bytes(value))
  db.exec("UPDATE meta SET value = value + 1 WHERE name = 'version'")
  db.exec("COMMIT")
  const version = Number(db.prepare("SELECT value FROM meta WHERE name = 'version'").get()!.value)
  db.close()
  return version
}

const read = (backend: Service, key: string) =>
  within(backend, (driver) => Effect.tap(get(driver, key), () => commit(driver, [])))

describe.skipIf(process.platform !== "linux")("SqliteBackend's syncs", () => {
  it.live("are waited for by those whose commits they cover, while others are written", () =>
    Effect.gen(function*() {
      const filename = place("covered")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("before", "1"))
          yield* withHeldSyncs((syncs) =>
            Effect.gen(function*() {
              const first = yield* Effect.forkChild(write(backend, put("a", "1")), { startImmediately: true })
              yield* syncs.reached(1)
              const second = yield* Effect.forkChild(write(backend, put("b", "1")), { startImmediately: true })
              yield* Effect.repeat(Effect.sleep(1), { until: () => inFile(filename, "b") === "1" })
              assert.strictEqual(inFile(filename, "a"), "1")
              assert.strictEqual(yield* within(backend, (driver) => get(driver, "b")), "1")
              assert.deepStrictEqual([first.pollUnsafe(), second.pollUnsafe(), syncs.begun], [undefined, undefined, 1])
              yield* syncs.next
              yield* Fiber.join(first)
              yield* syncs.reached(2)
              assert.strictEqual(second.pollUnsafe(), undefined)
              yield* syncs.next
              yield* Fiber.join(second)
            })
          )
        }))
    }))

  it.live("are waited for by whoever read what they cover, and by no other reader", () =>
    withBackend(place("readers"), (backend) =>
      Effect.gen(function*() {
        yield* write(backend, put("a", "1"))
        yield* withHeldSyncs((syncs) =>
          Effect.gen(function*() {
            const early = yield* backend.begin
            assert.strictEqual(yield* get(early, "a"), "1")
            const writer = yield* Effect.forkChild(write(backend, put("a", "2")), { startImmediately: true })
            yield* syncs.reached(1)
            const reader = yield* Effect.forkChild(read(backend, "a"), { startImmediately: true })
            yield* commit(early, [])
            early.close()
            assert.strictEqual(reader.pollUnsafe(), undefined)
            yield* syncs.next
            assert.strictEqual(yield* Fiber.join(reader), "2")
            yield* Fiber.join(writer)
            assert.strictEqual(syncs.begun, 1)
          })
        )
      })))

  it.live("are made for what another process wrote, before anybody is told of it, unless it says that it is on the disk", () =>
    Effect.gen(function*() {
      const filename = place("foreign")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("a", "1"))
          yield* withHeldSyncs((syncs) =>
            Effect.gen(function*() {
              unsynced(filename, "a", "2")
              const reader = yield* Effect.forkChild(read(backend, "a"), { startImmediately: true })
              yield* syncs.reached(1)
              assert.strictEqual(reader.pollUnsafe(), undefined)
              yield* syncs.next
              assert.strictEqual(yield* Fiber.join(reader), "2")
              assert.strictEqual(yield* read(backend, "a"), "2")
              assert.strictEqual(syncs.begun, 1)
            })
          )
          yield* withHeldSyncs((syncs) =>
            Effect.gen(function*() {
              const version = unsynced(filename, "a", "3")
              noteVersion(filename, version)
              assert.strictEqual(yield* read(backend, "a"), "3")
              assert.strictEqual(syncs.begun, 0)
            })
          )
        }))
    }))

  it.live("are waited for by a scope that closes", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.fork(yield* Effect.scope)
      const layer = SqliteBackend.layer({ filename: place("closing") })
      const backend = Context.get(yield* Scope.provide(Layer.build(layer), scope), Backend.Backend)
      yield* write(backend, put("before", "1"))
      yield* withHeldSyncs((syncs) =>
        Effect.gen(function*() {
          const writer = yield* Effect.forkChild(write(backend, put("a", "1")), { startImmediately: true })
          yield* syncs.reached(1)
          const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
          assert.deepStrictEqual([writer.pollUnsafe(), closing.pollUnsafe()], [undefined, undefined])
          yield* syncs.next
          yield* Fiber.join(writer)
          yield* Fiber.join(closing)
        })
      )
    }))

  it.live("that fail leave what waited unknown, and nothing is told any more until the file is opened again", () =>
    Effect.gen(function*() {
      const filename = place("failed")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("a", "1"))
          const spy = vi.spyOn(nodeFs, "fdatasync").mockImplementation(
            ((_: number, done: Done) =>
              setImmediate(() => done(Object.assign(new Error("EIO: i/o error, fdatasync"), { code: "EIO" })))) as never
          )
          syncBuiltinESMExports()
          const outcomes = yield* Effect.all([outcome(write(backend, put("a", "2"))), outcome(read(backend, "a"))], {
            concurrency: 2
          })
          spy.mockRestore()
          syncBuiltinESMExports()
          assert.deepStrictEqual(outcomes, ["CommitUnknown", "Corrupt"])
          const error = yield* Effect.flip(write(backend, put("a", "3")))
          assert.strictEqual(error.reason._tag, "Corrupt")
          assert.match(error.message, /syncing it failed .*EIO.*nobody knows.*start again/)
          assert.strictEqual(yield* outcome(read(backend, "a")), "Corrupt")
        }))
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* read(backend, "a"), "2")
          yield* write(backend, put("a", "4"))
        }))
    }))
})

/** What a process notes once a commit is on the disk: the same record, with another number. */
const noteVersion = (filename: string, version: number): void => {
  const record = fs.readFileSync(`${filename}-version`)
  record.writeBigUInt64LE(BigInt(version), 8)
  record.writeUInt32LE(crc32(record.subarray(0, 16)), 16)
  const fd = fs.openSync(`${filename}-version`, "r+")
  fs.writeSync(fd, record, 0, record.length, 0)
  fs.closeSync(fd)
}

describe("SqliteBackend whose log cannot be copied by another thread", () => {
  it.live("copies it in commits, and keeps it short", () =>
    Effect.gen(function*() {
      const filename = place("alone")
      const spy = vi.spyOn(Checkpointer.prototype, "run").mockImplementation((_, told) => told(undefined))
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          for (let i = 0; i < 200; i++) yield* write(backend, put("large", String(i % 10).repeat(90_000)))
          assert.isAtMost(fs.statSync(`${filename}-wal`).size, 8_388_608)
          assert.strictEqual(yield* read(backend, "large"), "9".repeat(90_000))
        }))
      spy.mockRestore()
    }))
})
