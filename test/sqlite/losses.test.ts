/** A SQLite file that lost its newest commits is refused, and one that lost nothing never is. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { BackendError } from "effect-dgen"
import { type ChildProcess, execFileSync, fork } from "node:child_process"
import nodeFs, * as fs from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { crc32 } from "node:zlib"
import { vi } from "vitest"
import { SqliteFile } from "../../src/internal/sqlite/file.ts"
import { outcome } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { prefixOf, withBackend, writeKeys } from "./support.ts"

const folder = temporaryFolder()

/** Enough for a log of several hundred pages, and few enough that SQLite does not empty it. */
const COMMITS = 50

const place = (name: string): string => {
  const dir = path.join(folder, name)
  fs.mkdirSync(dir)
  return path.join(dir, "app.db")
}

const ended = (child: ChildProcess, kill = false) =>
  Effect.callback<void>((resume) => {
    child.once("close", () => resume(Effect.void))
    if (kill) child.kill("SIGKILL")
  })

/** A process that has written keys, and has the file open. */
const writer = (filename: string, from: number, count: number) =>
  Effect.callback<ChildProcess>((resume) => {
    const child = fork(path.join(import.meta.dirname, "commitsChild.ts"), [filename, `${from}`, `${count}`])
    child.once("message", () => resume(Effect.succeed(child)))
    child.once("close", () => resume(Effect.die(new Error("the process ended before it had written"))))
  })

/** A file whose process was killed after its commits, with a log. */
const killed = (name: string) =>
  Effect.gen(function*() {
    const filename = place(name)
    yield* ended(yield* writer(filename, 0, COMMITS), true)
    assert.isAbove(fs.statSync(`${filename}-wal`).size, 0)
    return filename
  })

const sizeIs = (filename: string, keys: number) =>
  withBackend(filename, (backend) =>
    Effect.gen(function*() {
      assert.strictEqual(yield* prefixOf(backend, keys), keys)
    }))

const refusal = (filename: string): Effect.Effect<BackendError.BackendError> =>
  Effect.flip(withBackend(filename, () => Effect.void)) as never

/** The files that hold data, byte for byte; SQLite's `-shm` holds none. */
const snapshot = (filename: string) =>
  ["", "-wal", "-version"].map((suffix) =>
    fs.existsSync(filename + suffix) ? fs.readFileSync(filename + suffix).toString("hex") : undefined
  )

/** Refused as often as it is opened, and each time left as it was. */
const refuses = (filename: string, says: RegExp) =>
  Effect.gen(function*() {
    const before = snapshot(filename)
    for (let i = 0; i < 3; i++) {
      const { reason } = yield* refusal(filename)
      assert.strictEqual(reason._tag, "Corrupt")
      assert.match(reason.message, says)
      assert.include(reason.message, `delete ${filename}-version`)
      assert.deepStrictEqual(snapshot(filename), before)
    }
  })

const LOST = new RegExp(`about ${COMMITS} of them: it ends with version 1, and version ${COMMITS + 1} was in it`)

const damages: Record<string, { readonly damage: (wal: string, size: number) => void; readonly says: RegExp }> = {
  removed: { damage: (wal) => fs.rmSync(wal), says: LOST },
  emptied: { damage: (wal) => fs.truncateSync(wal), says: LOST },
  cut: { damage: (wal, size) => fs.truncateSync(wal, size / 2), says: /about \d+ of them: it ends with version \d\d,/ },
  "filled with garbage": { damage: (wal, size) => fs.writeFileSync(wal, new Uint8Array(size).fill(0xa5)), says: LOST }
}

describe("SqliteBackend after a crash, its log taken away", () => {
  for (const [name, { damage, says }] of Object.entries(damages)) {
    it.live(`${name}: refused and not changed; with its log put back, everything is there`, () =>
      Effect.gen(function*() {
        const filename = yield* killed(name)
        const wal = fs.readFileSync(`${filename}-wal`)
        damage(`${filename}-wal`, wal.length)
        yield* refuses(filename, says)
        fs.writeFileSync(`${filename}-wal`, wal)
        yield* sizeIs(filename, COMMITS)
      }))
  }

  it.live("somebody who means it deletes the version, and goes on from the older state", () =>
    Effect.gen(function*() {
      const filename = yield* killed("meant")
      fs.truncateSync(`${filename}-wal`, fs.statSync(`${filename}-wal`).size / 2)
      assert.strictEqual((yield* refusal(filename)).reason._tag, "Corrupt")
      fs.rmSync(`${filename}-version`)
      const count = yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          const count = yield* prefixOf(backend, COMMITS)
          yield* writeKeys(backend, count, 1)
          return count
        }))
      assert.isAbove(count, 0)
      assert.isBelow(count, COMMITS)
      yield* sizeIs(filename, count + 1)
    }))

  it.live("while a process has it open: others are refused, it notices, and what it answered is in the file", () =>
    Effect.gen(function*() {
      const filename = place("open")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* writeKeys(backend, 0, COMMITS)
          fs.rmSync(`${filename}-wal`)
          const other = yield* outcome(
            Effect.try({ try: () => SqliteFile.open(filename).version(), catch: (cause) => cause as never })
          )
          assert.include(["Unavailable", "Corrupt"], other)
          assert.strictEqual(yield* outcome(writeKeys(backend, COMMITS, 1)), "Corrupt")
        }))
      yield* sizeIs(filename, COMMITS)
    }))
})

describe("SqliteBackend with an older file in its place", () => {
  it.live("is refused, until somebody says that it is meant", () =>
    Effect.gen(function*() {
      const filename = place("older")
      yield* withBackend(filename, (backend) => writeKeys(backend, 0, 3))
      fs.copyFileSync(filename, `${filename}.backup`)
      yield* withBackend(filename, (backend) => writeKeys(backend, 3, 4))
      fs.copyFileSync(`${filename}.backup`, filename)
      yield* refuses(filename, /about 4 of them: it ends with version 4, and version 8 was in it/)
      fs.rmSync(`${filename}-version`)
      yield* sizeIs(filename, 3)
    }))

  it.live("is refused when the last commit was one on top of another process's", () =>
    Effect.gen(function*() {
      const filename = place("on top")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* ended(yield* writer(filename, 0, 3), true)
          // as far as this process knows, the database is still new
          yield* writeKeys(backend, 3, 1)
        }))
      fs.rmSync(filename)
      yield* refuses(filename, /up to version 5 were in it/)
    }))

  it.live("is refused where there is none, or an empty one; without its version it is a new one", () =>
    Effect.gen(function*() {
      const filename = place("none")
      yield* withBackend(filename, (backend) => writeKeys(backend, 0, 3))
      fs.truncateSync(filename)
      yield* refuses(filename, /does not exist or is empty, and commits up to version 4 were in it/)
      fs.rmSync(filename)
      yield* refuses(filename, /does not exist or is empty, and commits up to version 4 were in it/)
      assert.isFalse(fs.existsSync(filename))
      fs.rmSync(`${filename}-version`)
      yield* sizeIs(filename, 0)
      yield* sizeIs(filename, 0)
    }))
})

describe("SqliteBackend with a file that lost nothing", () => {
  it.live("opens after a crash whose log SQLite's own tool has taken up", () =>
    Effect.gen(function*() {
      const filename = yield* killed("tool")
      const tool = new DatabaseSync(filename)
      assert.strictEqual(tool.prepare("SELECT count(*) AS count FROM kv").get()!.count, COMMITS)
      tool.close()
      assert.isFalse(fs.existsSync(`${filename}-wal`))
      yield* sizeIs(filename, COMMITS)
    }))

  it.live("opens in turns of two processes, one of them killed each time", () =>
    Effect.gen(function*() {
      const filename = place("turns")
      let keys = 0
      for (let turn = 0; turn < 2; turn++) {
        yield* withBackend(filename, (backend) =>
          Effect.gen(function*() {
            yield* writeKeys(backend, keys, 5)
            const child = yield* writer(filename, keys + 5, 5)
            // this process writes on top of the other one's
            yield* writeKeys(backend, keys + 10, 5)
            yield* ended(child, true)
          }))
        keys += 15
        yield* ended(yield* writer(filename, keys, 5), true)
        keys += 5
        yield* sizeIs(filename, keys)
      }
    }), 120_000)

  it.live("opens when the version is older than the commits, as after a loss of power", () =>
    Effect.gen(function*() {
      const filename = place("power")
      yield* withBackend(filename, (backend) => writeKeys(backend, 0, 2))
      const older = fs.readFileSync(`${filename}-version`)
      yield* ended(yield* writer(filename, 2, 5), true)
      fs.writeFileSync(`${filename}-version`, older)
      yield* sizeIs(filename, 7)
    }))

  const records: Record<string, (record: Buffer) => Buffer> = {
    "other bytes": (record) => Buffer.alloc(record.length, 0xa5),
    "one bit changed": (record) => Buffer.from(record.map((byte, i) => i === 10 ? byte ^ 1 : byte)),
    "a number beyond all versions": (record) => {
      const changed = Buffer.from(record)
      changed.writeBigUInt64LE(2n ** 60n, 8)
      changed.writeUInt32LE(crc32(changed.subarray(0, 16)), 16)
      return changed
    },
    "cut": (record) => record.subarray(0, 10),
    "empty": () => Buffer.alloc(0),
    "longer": (record) => Buffer.concat([record, record])
  }
  for (const [name, change] of Object.entries(records)) {
    it.live(`opens, and is guarded again, when its version is damaged: ${name}`, () =>
      Effect.gen(function*() {
        const filename = place(`record ${name}`)
        yield* withBackend(filename, (backend) => writeKeys(backend, 0, 3))
        fs.writeFileSync(`${filename}-version`, change(fs.readFileSync(`${filename}-version`)))
        yield* ended(yield* writer(filename, 3, 2), true)
        fs.rmSync(`${filename}-wal`)
        yield* refuses(filename, /about 2 of them/)
      }))
  }

  const others: Record<string, (file: string) => void> = {
    "a folder": (file) => fs.mkdirSync(file),
    "a pipe": (file) => execFileSync("mkfifo", [file]),
    "a link to another file": (file) => {
      fs.writeFileSync(`${file}.other`, "")
      fs.symlinkSync(`${file}.other`, file)
    }
  }
  for (const [name, make] of Object.entries(others)) {
    it.live.skipIf(process.platform === "win32")(
      `opens, commits and writes nothing elsewhere beside ${name}`,
      () =>
        Effect.gen(function*() {
          const filename = place(`beside ${name}`)
          make(`${filename}-version`)
          yield* withBackend(filename, (backend) => writeKeys(backend, 0, 3))
          yield* sizeIs(filename, 3)
          if (fs.existsSync(`${filename}-version.other`)) {
            assert.strictEqual(fs.readFileSync(`${filename}-version.other`, "utf8"), "")
          }
        })
    )
  }

  it.live("commits when its version was deleted meanwhile, and is guarded again when it is opened again", () =>
    Effect.gen(function*() {
      const filename = place("deleted")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* writeKeys(backend, 0, 3)
          fs.rmSync(`${filename}-version`)
          yield* writeKeys(backend, 3, 3)
        }))
      yield* sizeIs(filename, 6)
      yield* ended(yield* writer(filename, 6, 2), true)
      fs.rmSync(`${filename}-wal`)
      yield* refuses(filename, /about 2 of them/)
    }))
})

describe("SqliteBackend whose version cannot be written", () => {
  it.live("commits all the same, and notes the version of the first commit after", () =>
    Effect.gen(function*() {
      const filename = place("unwritable")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          const spy = vi.spyOn(nodeFs, "writeSync").mockImplementation(() => {
            throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" })
          })
          syncBuiltinESMExports()
          yield* Effect.ensuring(
            writeKeys(backend, 0, 3),
            Effect.sync(() => {
              assert.strictEqual(spy.mock.calls.length, 3)
              spy.mockRestore()
              syncBuiltinESMExports()
            })
          )
          yield* writeKeys(backend, 3, 1)
        }))
      yield* sizeIs(filename, 4)
      fs.rmSync(filename)
      yield* refuses(filename, /up to version 5/)
    }))
})

describe.skipIf(process.platform !== "linux")("SqliteBackend's files", () => {
  const targetOf = (fd: string): string | undefined => {
    try {
      return fs.readlinkSync(`/proc/self/fd/${fd}`, "utf8")
    } catch {
      // that of the listing itself
      return undefined
    }
  }

  /** The files in the folder of a database that this process has open. */
  const openFiles = (filename: string) =>
    fs.readdirSync("/proc/self/fd").flatMap((fd) => {
      const target = targetOf(fd)
      return target?.startsWith(path.dirname(filename)) === true ? [path.basename(target)] : []
    })

  it.live("are closed with the layer, and after a refusal", () =>
    Effect.gen(function*() {
      const filename = place("descriptors")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          yield* writeKeys(backend, 0, 3)
          assert.include(openFiles(filename), "app.db-version")
        }))
      assert.deepStrictEqual(openFiles(filename), [])
      yield* ended(yield* writer(filename, 3, 2), true)
      fs.truncateSync(`${filename}-wal`, 100)
      yield* refuses(filename, /about 2 of them/)
      fs.rmSync(`${filename}-wal`)
      yield* refuses(filename, /about 2 of them/)
      assert.deepStrictEqual(openFiles(filename), [])
    }))

  it.live("may all be written by whoever may write the database", () =>
    Effect.gen(function*() {
      const filename = place("modes")
      yield* withBackend(filename, (backend) => writeKeys(backend, 0, 1))
      fs.rmSync(`${filename}-version`)
      fs.chmodSync(filename, 0o660)
      if (process.getuid!() === 0) fs.chownSync(filename, 65_534, 65_534)
      yield* withBackend(filename, (backend) => writeKeys(backend, 1, 1))
      const [database, version] = ["", "-version"].map((suffix) => fs.statSync(filename + suffix))
      assert.strictEqual(version!.mode, database!.mode)
      assert.strictEqual(version!.uid, database!.uid)
      assert.strictEqual(version!.gid, database!.gid)
    }))
})
