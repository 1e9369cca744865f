/**
 * What the benchmarks share: a folder, the clock, bare SQLite commits to compare with, and the flushes of the file under
 * test. All ratios are within one run on one file system.
 */
import { Effect, Layer, Schema } from "effect"
import { DgenServer, MemoryBackend, SqliteBackend, Tenant } from "effect-dgen"
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { parseArgs } from "node:util"
import { SqliteFile } from "../src/internal/sqlite/file.ts"

/** Every measurement takes about this long, whatever a flush costs. */
const MEASURE_MILLIS = 2_000
const COUNT_LEAST = 200
const COUNT_MOST = 20_000

export const options = parseArgs({
  options: {
    /** The file system to measure. */
    folder: { type: "string", default: ".data" },
    /** One more size of backlog, such as 1000000. */
    backlog: { type: "string" },
    /** How many servers are idle. */
    servers: { type: "string", default: "10000" },
    /** How many hosted servers exist before a host starts. */
    existing: { type: "string", default: "100000" },
    /** How many messages are killed with their server. */
    messages: { type: "string", default: "1000000" },
    /** One part alone. */
    only: { type: "string" },
    /** Of the hosted servers one part alone: existing, waking, timers, fairness. */
    part: { type: "string" }
  }
}).values

fs.mkdirSync(options.folder, { recursive: true })
export const folder = fs.mkdtempSync(path.join(options.folder, "bench-"))

export class Counter extends DgenServer.Service<Counter>()("Counter", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: {
    Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }),
    Value: DgenServer.call({ success: Schema.Int }),
    Note: DgenServer.cast({ payload: { by: Schema.Int } })
  }
}) {}

/** Called for every note, so that a benchmark knows how far a consumer is. */
export const noted = { count: 0, at: Infinity, reached: () => {} }

export const behaviour = Counter.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: {
    Add: ({ by }, state) => DgenServer.reply(state.count + by, { count: state.count + by }),
    Value: (_, state) => DgenServer.reply(state.count, state),
    Note: ({ by }, state) => {
      if (++noted.count === noted.at) noted.reached()
      return DgenServer.noReply({ count: state.count + by })
    }
  }
})

/** Ends when a consumer has handled so many notes from now on. */
export const handled = (count: number): Effect.Effect<void> =>
  Effect.callback((resume) => {
    noted.at = noted.count + count
    // after the batch's commit
    noted.reached = () => resume(Effect.yieldNow)
  })

/** Runs an effect again and again, with nothing of a schedule between the runs. */
export const times = <A, E, R>(count: number, effect: Effect.Effect<A, E, R>): Effect.Effect<void, E, R> =>
  Effect.suspend(() => {
    let done = 0
    return Effect.whileLoop({ while: () => done++ < count, body: () => effect, step: () => {} })
  })

/** Runs effects side by side. */
export const together = <A, E, R>(effects: ReadonlyArray<Effect.Effect<A, E, R>>): Effect.Effect<void, E, R> =>
  Effect.all(effects, { concurrency: "unbounded", discard: true })

const flushes = { count: 0, millis: 0 }

const { execute, sync, syncNow } = SqliteFile.prototype

/** Adds the time since then to that of flushes. */
const spent = (start: number, isFlush: boolean) => {
  if (isFlush) flushes.count++
  flushes.millis += performance.now() - start
}

SqliteFile.prototype.execute = function(this: SqliteFile, sql) {
  if (sql !== "COMMIT") return execute.call(this, sql)
  const start = performance.now()
  execute.call(this, sql)
  spent(start, !this.syncsBeside)
}

SqliteFile.prototype.sync = function(this: SqliteFile, done) {
  const start = performance.now()
  sync.call(this, (failure) => {
    spent(start, true)
    done(failure)
  })
}

SqliteFile.prototype.syncNow = function(this: SqliteFile) {
  const start = performance.now()
  syncNow.call(this)
  spent(start, true)
}

export interface Measured {
  /** Of one run. */
  readonly millis: number
  /** What this process computed for one run: steadier than the time where others use the machine. */
  readonly cpuMillis: number
  /** Of one flush: mostly the disk's sync. */
  readonly flushMillis: number
  /** How many runs shared a flush. */
  readonly perFlush: number
}

const cpuSince = (before: NodeJS.CpuUsage): number => {
  const { system, user } = process.cpuUsage(before)
  return (system + user) / 1_000
}

/** Measures an effect that does something `count` times. */
export const measure = <A, E, R>(count: number, effect: Effect.Effect<A, E, R>): Effect.Effect<Measured, E, R> =>
  Effect.suspend(() => {
    const before = { ...flushes }
    const start = performance.now()
    const cpu = process.cpuUsage()
    return Effect.map(effect, () => {
      const millis = (performance.now() - start) / count
      const cpuMillis = cpuSince(cpu) / count
      const flushed = flushes.count - before.count
      return { millis, cpuMillis, flushMillis: (flushes.millis - before.millis) / flushed, perFlush: count / flushed }
    })
  })

/** Commits of three rows, one after another, as a program without this library makes them. */
export const bareCommits = (count: number, stateBytes = 8): Measured => {
  const file = path.join(folder, "bare.db")
  const db = new DatabaseSync(file)
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
  db.exec("CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")
  const set = db.prepare("INSERT INTO kv (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v")
  const [begin, commit] = [db.prepare("BEGIN IMMEDIATE"), db.prepare("COMMIT")]
  const [head, state, version] = [Buffer.alloc(24, 1), Buffer.alloc(26, 2), Buffer.alloc(8, 3)]
  let flushMillis = 0
  const cpu = process.cpuUsage()
  const start = performance.now()
  for (let i = 0; i < count; i++) {
    begin.run()
    set.run(head, Buffer.alloc(22, i % 256))
    set.run(state, Buffer.alloc(stateBytes, i % 256))
    set.run(version, Buffer.alloc(8, i % 256))
    const flush = performance.now()
    commit.run()
    flushMillis += performance.now() - flush
  }
  const millis = performance.now() - start
  const cpuMillis = cpuSince(cpu)
  db.close()
  for (const suffix of ["", "-wal", "-shm"]) fs.rmSync(file + suffix, { force: true })
  return { millis: millis / count, cpuMillis: cpuMillis / count, flushMillis: flushMillis / count, perFlush: 1 }
}

bareCommits(COUNT_LEAST)

/** How many commits take the time of a measurement. */
export const countOf = (millis: number): number =>
  Math.min(COUNT_MOST, Math.max(COUNT_LEAST, Math.round(MEASURE_MILLIS / millis)))

/** The yardstick of all ratios; measured anew for each part, because machines are not steady. */
export const bareCommit = (): Measured => {
  const bare = bareCommits(countOf(bareCommits(COUNT_LEAST).millis))
  row("bare SQLite commit of the same bytes", bare, "")
  return bare
}

export const head = (title: string) =>
  console.log(
    `\n${title.padEnd(56)}${
      ["ms", "ratio", "cpu ms", "flush ms", "per flush"].map((name) => name.padStart(14)).join("")
    }`
  )

export const row = (name: string, measured: Measured, ratio: string) => {
  const flush = Number.isFinite(measured.perFlush)
    ? [measured.flushMillis.toFixed(4), measured.perFlush.toFixed(1)]
    : ["-", "-"]
  const columns = [measured.millis.toFixed(4), ratio, measured.cpuMillis.toFixed(4), ...flush]
  console.log(name.padEnd(56) + columns.map((column) => column.padStart(14)).join(""))
}

/** How many times the rate of bare commits, one after another. */
export const timesTheRate = (bare: Measured, measured: Measured): string =>
  `${(bare.millis / measured.millis).toFixed(2)} x rate`

/** How many times as long as a bare commit. */
export const timesAsLong = (bare: Measured, measured: Measured): string =>
  `${(measured.millis / bare.millis).toFixed(2)} x bare`

export const store = Tenant.layer(["bench"]).pipe(
  Layer.provide(SqliteBackend.layer({ filename: path.join(folder, "bench.db") }))
)

/** Enough calls for the compiler of the machine, on no disk. */
export const warmUp = Effect.gen(function*() {
  const server = yield* Counter.start(behaviour, { tuid: ["warm"] })
  const batches = yield* Counter.start(behaviour, { tuid: ["warm", "batches"], consumeK: 10 })
  yield* times(5_000, server.call("Add", { by: 1 }))
  yield* together(Array.from({ length: 64 }, () => times(40, batches.call("Add", { by: 1 }))))
  yield* times(500, batches.cast("Note", { by: 1 }))
}).pipe(Effect.scoped, Effect.provide(Tenant.layer(["warm"]).pipe(Layer.provide(MemoryBackend.layer))))
