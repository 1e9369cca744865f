/** What happens to a file that its disk, or somebody at it, takes something from: typed errors, and no wrong value. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Schema } from "effect"
import { BackendError, DgenServer, SqliteBackend, Tenant } from "effect-dgen"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { afterAll } from "vitest"
import { get, outcome, put, range, within, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { nameOf, prefixOf, valueOf, withBackend } from "./support.ts"

const folder = temporaryFolder()

const place = (name: string): string => {
  const dir = path.join(folder, name)
  fs.mkdirSync(dir)
  return path.join(dir, "app.db")
}

// --- a full disk ---

const MEGABYTE = 1_048_576

/** A file system of two megabytes; `undefined` where none may be made. */
const smallDisk = (): string | undefined => {
  const dir = path.join(folder, "small")
  fs.mkdirSync(dir)
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "none", dir], { stdio: "ignore" })
  } catch {
    return undefined
  }
  afterAll(() => void execFileSync("umount", ["-l", dir], { stdio: "ignore" }))
  return dir
}

const disk = smallDisk()
const why = disk === undefined ? " (skipped: no file system of a given size can be mounted here)" : ""

/** Fills what is left of the small disk. The function it returns frees it again. */
const fill = (): () => void => {
  const file = path.join(disk!, "filler")
  const fd = fs.openSync(file, "w")
  try {
    for (;;) fs.writeSync(fd, new Uint8Array(4_096))
  } catch (cause) {
    assert.strictEqual((cause as NodeJS.ErrnoException).code, "ENOSPC")
  } finally {
    fs.closeSync(fd)
  }
  return () => fs.rmSync(file)
}

class Notes extends DgenServer.Service<Notes>()("Notes", {
  state: Schema.Array(Schema.Struct({ id: Schema.String, text: Schema.String })),
  messages: { Add: DgenServer.cast({ payload: Schema.String }), Count: DgenServer.call({ success: Schema.Int }) }
}) {}

const notes = Notes.behaviour({
  init: Effect.succeed([]),
  handlers: {
    Add: (id, list) => DgenServer.noReply([...list, { id, text: "x".repeat(10_000) }]),
    Count: (_, list) => DgenServer.reply(list.length, list)
  }
})

describe("SqliteBackend on a full disk", () => {
  it.live.skipIf(disk === undefined)(
    `refuses commits, keeps what it had, and goes on when there is room${why}`,
    () =>
      withBackend(path.join(disk!, "app.db"), (backend) =>
        Effect.gen(function*() {
          yield* write(backend, put("a", "0"))
          const free = fill()
          const outcomes: Array<string> = []
          let kept = "0"
          for (let i = 0; i < 20; i++) {
            const result = yield* outcome(write(backend, put("a", `${i} ${"x".repeat(90_000)}`)))
            outcomes.push(result)
            if (result === "success") kept = `${i} ${"x".repeat(90_000)}`
            assert.strictEqual(yield* within(backend, (driver) => get(driver, "a")), kept)
          }
          assert.includeMembers(["success", "DiskFull"], outcomes)
          assert.include(outcomes, "DiskFull")
          free()
          yield* write(backend, put("b", "1"))
          assert.strictEqual(yield* within(backend, (driver) => get(driver, "a")), kept)
        }))
  )

  it.live.skipIf(disk === undefined)(
    `a file cannot be made, and the error says why${why}`,
    () =>
      Effect.gen(function*() {
        const free = fill()
        const error = yield* Effect.flip(withBackend(path.join(disk!, "new.db"), () => Effect.void))
        assert.strictEqual(error.reason._tag, "DiskFull")
        free()
      })
  )

  it.live.skipIf(disk === undefined)(
    `a server applies what was acknowledged, once, and nothing else${why}`,
    () =>
      Effect.gen(function*() {
        const tenant = Tenant.layer(["notes"]).pipe(
          Layer.provide(SqliteBackend.layer({ filename: path.join(disk!, "notes.db") }))
        )
        const acknowledged: Array<string> = []
        const refused: Array<string> = []
        const ids = yield* Effect.gen(function*() {
          const server = yield* Notes.start(notes, { tuid: ["Notes"], consumeK: 5 })
          const filler = path.join(disk!, "reserve")
          fs.writeFileSync(filler, new Uint8Array(MEGABYTE))
          for (let i = 0; refused.length < 5 && i < 1_000; i++) {
            const result = yield* Effect.result(server.cast("Add", `${i}`))
            if (result._tag === "Success") acknowledged.push(`${i}`)
            else {
              assert.isTrue(BackendError.isBackendError(result.failure) && result.failure.reason._tag === "DiskFull")
              refused.push(`${i}`)
            }
          }
          fs.rmSync(filler)
          // the consumer comes back by itself
          yield* server.call("Count", undefined, { timeout: "20 seconds" })
          return (yield* server.state)!.map(({ id }) => id)
        }).pipe(Effect.scoped, Effect.provide(tenant), Effect.provide(Logger.layer([])))
        assert.strictEqual(refused.length, 5)
        assert.deepStrictEqual(ids, acknowledged)
      }),
    60_000
  )
})

describe.skipIf(process.platform === "win32")("SqliteBackend at a limit for the size of files", () => {
  it.live("refuses commits, and the next process finds those that were not refused", () =>
    Effect.gen(function*() {
      const filename = place("limited")
      // in blocks of 512 bytes or 1 kB, as the shell has it
      const script = `ulimit -f 1000 && exec "$0" "$1" "$2"`
      const child = path.join(import.meta.dirname, "fullChild.ts")
      const printed = execFileSync("sh", ["-c", script, process.execPath, child, filename], { encoding: "utf8" })
      const outcomes: ReadonlyArray<string> = JSON.parse(printed)
      for (const result of outcomes) assert.include(["success", "DiskFull", "Unavailable"], result)
      assert.strictEqual(outcomes[0], "success")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          const rows = yield* within(backend, (driver) => range(driver, "k", "l"))
          assert.deepStrictEqual(
            rows.map(([key]) => key),
            outcomes.flatMap((result, i) => result === "success" ? [nameOf(i)] : [])
          )
          for (const [, value] of rows) assert.strictEqual(value, "x".repeat(20_000))
          yield* write(backend, put("after", "1"))
        }))
    }), 60_000)
})

// --- files that were changed while nobody had them open ---

const KEYS = 200

/** A closed file. */
const closedFile = (name: string) =>
  Effect.gen(function*() {
    const filename = place(name)
    yield* withBackend(filename, (backend) =>
      write(backend, ...Array.from({ length: KEYS }, (_, i) => put(nameOf(i), valueOf(i)))))
    return filename
  })

describe("SqliteBackend with a damaged file", () => {
  it.live(
    "a file that was cut gives what it has, or a typed error, and never another value",
    () =>
      Effect.gen(function*() {
        const filename = yield* closedFile("cut")
        const whole = fs.readFileSync(filename)
        const pages = Array.from({ length: whole.length / 4_096 }, (_, i) => i * 4_096)
        assert.isAbove(pages.length, 5)
        const cuts = [1, 16, 50, 99, 100, 101, 512, ...pages.slice(1).flatMap((at) => [at - 1, at, at + 1, at + 2_048])]
        for (const cut of [...cuts, whole.length - 1, whole.length - 100].filter((at) => at < whole.length)) {
          fs.writeFileSync(filename, whole.subarray(0, cut))
          for (const suffix of ["-wal", "-shm"]) fs.rmSync(filename + suffix, { force: true })
          const seen = yield* outcome(
            withBackend(filename, (backend) =>
              Effect.gen(function*() {
                assert.strictEqual(yield* prefixOf(backend, KEYS), KEYS, `cut at ${cut}`)
              })) as never
          )
          assert.include(["Corrupt", "ForeignDatabase"], seen, `cut at ${cut}`)
        }
      }),
    60_000
  )

  it.live("bytes changed anywhere give what was written, or a typed error", () =>
    Effect.gen(function*() {
      const filename = yield* closedFile("flipped")
      const whole = fs.readFileSync(filename)
      // structure, not content: the file has no checksums, so a value's own bytes are the disk's to keep
      for (let page = 0; page < whole.length; page += 4_096) {
        const damaged = Buffer.from(whole)
        damaged.fill(0xa5, page, page + 100)
        fs.writeFileSync(filename, damaged)
        const seen = yield* outcome(
          withBackend(filename, (backend) => Effect.asVoid(prefixOf(backend, KEYS))) as never
        )
        assert.include(["Corrupt", "ForeignDatabase", "NewerFormat", "success"], seen, `page at ${page}`)
      }
    }), 60_000)
})
