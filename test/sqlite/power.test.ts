/**
 * What was told is on the disk, whenever the power goes: two processes run under a record of their writes and syncs, and what
 * a disk may hold then is opened, at many moments of the record and in many ways (see `recordedDisk.ts`).
 */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { SqliteFile } from "../../src/internal/sqlite/file.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { type Event, eventsOf, RecordedDisk } from "./recordedDisk.ts"
import { nameOf } from "./support.ts"

const folder = temporaryFolder()

/** Twice as many pages as a log has before it is copied, and so several logs. */
const COMMITS = 160
const VALUE_BYTES = 60_000

/** By the last digit of their numbers. */
const VALUES = Array.from({ length: 10 }, (_, digit) => Buffer.alloc(VALUE_BYTES, `${digit}`))

const CALLS = "write,pwrite64,pwritev,fdatasync,fsync,ftruncate,unlink"

const hasRecorder = (() => {
  try {
    execFileSync("strace", ["-f", "--seccomp-bpf", "-o", "/dev/null", "true"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
})()

const why = hasRecorder ? "" : " (skipped: there is no strace that works here)"

/** Runs the processes, each of whose syncs takes some milliseconds longer, and gives what they did. */
const record = (filename: string): ReadonlyArray<Event> => {
  const trace = `${filename}.trace`
  const slow = "inject=fdatasync,fsync:delay_enter=4000:delay_exit=4000"
  const recorded = ["-f", "--seccomp-bpf", "-y", "-s", "100000", "-o", trace, "-e", `trace=${CALLS}`, "-e", slow]
  const child = path.join(import.meta.dirname, "powerChild.ts")
  const own = ["--conditions=effect-dgen-source", child, filename, `${COMMITS}`, `${VALUE_BYTES}`]
  execFileSync("strace", recorded.concat(process.execPath, own))
  const files = ["", "-wal", "-version"].map((suffix) => filename + suffix)
  return eventsOf(fs.readFileSync(trace, "latin1"), files, `${filename}-told`)
}

/** Numbers from 0 to 1, the same for the same seed. */
const randomOf = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
}

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31)
const random = randomOf(seed)

/** Which of what was not synced is there, by how many changes there are. */
const losses: Record<string, () => (change: number, changes: number, isCut: boolean) => boolean> = {
  "nothing": () => () => false,
  "everything": () => () => true,
  "what was cut off or deleted": () => (_, __, isCut) => isCut,
  "half of the sectors": () => () => random() < 0.5,
  "nearly all sectors": () => () => random() < 0.97,
  "the latest changes": () => (change, changes) => change > changes * 0.7,
  "all but some changes": () => {
    const seen = new Map<number, boolean>()
    return (change) => {
      if (!seen.has(change)) seen.set(change, random() < 0.8)
      return seen.get(change)!
    }
  }
}

const place = path.join(folder, "after.db")

/** What is there of all files if the power goes now, and of it all but this is lost; gives how many keys. */
const contentOf = (disk: RecordedDisk, filename: string, loss: keyof typeof losses): number => {
  const isKept = losses[loss]!()
  fs.rmSync(`${place}-shm`, { force: true })
  for (const suffix of ["", "-wal", "-version"]) {
    fs.writeFileSync(place + suffix, disk.afterLoss(filename + suffix, isKept))
  }
  const file = SqliteFile.open(place)
  const rows = file.range("k", "l", Infinity, false)
  file.close()
  const db = new DatabaseSync(place, { readOnly: true })
  const integrity = db.prepare("PRAGMA integrity_check").get()
  db.close()
  assert.deepStrictEqual({ ...integrity }, { integrity_check: "ok" })
  rows.forEach(([key, value], i) => {
    assert.strictEqual(key, nameOf(i))
    assert.isTrue(VALUES[i % 10]!.equals(value), key)
  })
  return rows.length
}

/** Moments at which something interesting may be half done. */
const momentsOf = (events: ReadonlyArray<Event>): ReadonlySet<number> => {
  const first = events.findIndex(({ _tag }) => _tag === "Told")
  const moments = new Set<number>()
  events.forEach((event, i) => {
    if (i >= first && random() < (event._tag === "Truncate" ? 1 : event._tag === "Write" ? 0.005 : 0.25)) moments.add(i)
  })
  return moments
}

describe("SqliteBackend when the power goes", () => {
  it.skipIf(!hasRecorder)(
    `has all that somebody was told of, and is whole (seed ${seed})${why}`,
    () => {
      const filename = path.join(folder, "app.db")
      const events = record(filename)
      const moments = momentsOf(events)
      const disk = new RecordedDisk()
      let told = 0
      let opened = 0
      let withLoss = 0
      events.forEach((event, i) => {
        disk.apply(event)
        if (event._tag === "Told") told = Math.max(told, Number(event.text))
        if (!moments.has(i)) return
        const names = Object.keys(losses)
        const some = event._tag === "Truncate" ? names : ["nothing", names[Math.floor(random() * names.length)]!]
        for (const loss of some) {
          const found = contentOf(disk, filename, loss)
          assert.isAtLeast(found, told, `event ${i}, kept: ${loss}`)
          opened++
          if (found < COMMITS && disk.pending > 0) withLoss++
        }
      })
      assert.strictEqual(told, COMMITS)
      // the log was begun anew, by the thread and not at the end alone
      const logs = events.filter((event) => event._tag === "Write" && event.file.endsWith("-wal") && event.at === 0)
      assert.isAbove(logs.length, 1)
      assert.isAbove(withLoss, 50)
      console.log(`${opened} states of a disk, at ${moments.size} moments, were opened`)
    },
    300_000
  )
})
