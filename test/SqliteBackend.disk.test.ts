/** What happens to a file that its disk, or somebody at it, takes something from: typed errors, and no wrong value. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger, Schema } from "effect"
import { Backend, BackendError, DgenServer, SqliteBackend, Tenant } from "effect-dgen"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { afterAll } from "vitest"
import { SqliteFile } from "../src/internal/sqliteFile.ts"
import { get, outcome, put, range, within, write } from "./driverSupport.ts"
import { temporaryFolder } from "./temporary.ts"

const folder = temporaryFolder()

const withBackend = <A, E>(filename: string, use: (backend: Backend.Backend["Service"]) => Effect.Effect<A, E>) =>
  Effect.scoped(
    Effect.flatMap(
      Layer.build(SqliteBackend.layer({ filename })),
      (context) => use(Context.get(context, Backend.Backend))
    )
  )

const place = (name: string): string => {
  const dir = path.join(folder, name)
  fs.mkdirSync(dir)
  return path.join(dir, "app.db")
}

const nameOf = (i: number): string => `k${String(i).padStart(4, "0")}`
const valueOf = (i: number): string => `${i} `.repeat(60)

/** Copies the files as they are now: what a crash would leave. */
const crashed = (filename: string, to: string): void => {
  for (const suffix of ["", "-wal"]) fs.copyFileSync(filename + suffix, to + suffix)
}

/** How many of the first keys are there, in one look; no key may be there behind one that is missing. */
const prefixOf = (backend: Backend.Backend["Service"], keys: number) =>
  Effect.map(within(backend, (driver) => range(driver, "k", "l")), (rows) => {
    assert.isAtMost(rows.length, keys)
    const other = rows.findIndex(([name, value], i) => name !== nameOf(i) || value !== valueOf(i))
    if (other !== -1) assert.deepStrictEqual(rows[other], [nameOf(other), valueOf(other)])
    return rows.length
  })

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
      const script = `ulimit -f 1000 && exec "$0" --conditions=effect-dgen-source "$1" "$2"`
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

describe("SqliteBackend with a log that was taken away", () => {
  const COMMITS = 50
  const written = (backend: Backend.Backend["Service"], from: number) =>
    Effect.forEach(
      Array.from({ length: COMMITS }, (_, i) => from + i),
      (i) => write(backend, put(nameOf(i), valueOf(i))),
      { discard: true }
    )

  it.live("after a crash: the file has the commits up to some point, in their order, and takes new ones", () =>
    Effect.gen(function*() {
      const filename = place("log")
      const copies = ["whole", "removed", "cut", "garbage"].map((what) => place(`log ${what}`))
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* written(backend, 0)
          for (const copy of copies) crashed(filename, copy)
        }))
      const [whole, removed, cut, garbage] = copies as [string, string, string, string]
      const size = fs.statSync(`${cut}-wal`).size
      fs.rmSync(`${removed}-wal`)
      fs.truncateSync(`${cut}-wal`, size / 2)
      fs.writeFileSync(`${garbage}-wal`, new Uint8Array(size).fill(0xa5))
      const counts = yield* Effect.forEach(
        [whole, cut, removed, garbage],
        (copy) =>
          withBackend(copy, (backend) =>
            Effect.gen(function*() {
              const count = yield* prefixOf(backend, COMMITS)
              yield* write(backend, put(nameOf(count), valueOf(count)))
              assert.strictEqual(yield* prefixOf(backend, COMMITS + 1), count + 1)
              return count
            }))
      )
      assert.strictEqual(counts[0], COMMITS)
      assert.isBelow(counts[1]!, COMMITS)
      assert.isAbove(counts[1]!, 0)
      assert.deepStrictEqual(counts.slice(2), [0, 0])
    }))

  it.live("while a process has it open: others are refused, it goes on, and all is in the file when it closes", () =>
    Effect.gen(function*() {
      const filename = place("open")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* written(backend, 0)
          fs.rmSync(`${filename}-wal`)
          const other = yield* outcome(
            Effect.try({ try: () => SqliteFile.open(filename).version(), catch: (cause) => cause as never })
          )
          assert.include(["Unavailable", "Corrupt"], other)
          yield* written(backend, COMMITS)
          assert.strictEqual(yield* prefixOf(backend, 2 * COMMITS), 2 * COMMITS)
        }))
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* prefixOf(backend, 2 * COMMITS), 2 * COMMITS)
        }))
    }))
})
