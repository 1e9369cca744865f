/**
 * Durable calls against bare commits of the same bytes in the same file system, as ratios within one run.
 *
 *   npm run bench
 */
import { Effect, Layer, Schema } from "effect"
import { DgenServer, SqliteBackend, Tenant } from "effect-dgen"
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"

const CALLS = 2_000
const CALLERS = 64
const SERVERS = 10_000

class Counter extends DgenServer.Service<Counter>()("Counter", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: {
    Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }),
    Value: DgenServer.call({ success: Schema.Int })
  }
}) {}

const behaviour = Counter.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: {
    Add: ({ by }, state) => DgenServer.reply(state.count + by, { count: state.count + by }),
    Value: (_, state) => DgenServer.reply(state.count, state)
  }
})

fs.mkdirSync(".data", { recursive: true })
const folder = fs.mkdtempSync(path.join(".data", "bench-"))

/** Milliseconds a run. */
const time = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const start = performance.now()
    yield* effect
    return performance.now() - start
  })

const row = (name: string, ...columns: ReadonlyArray<string>) =>
  console.log(name.padEnd(52) + columns.map((column) => column.padStart(16)).join(""))

/** What a call writes, by hand: three small rows and a commit that is synced. */
const bareCommits = (count: number) => {
  const db = new DatabaseSync(path.join(folder, "bare.db"))
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
  db.exec("CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")
  const set = db.prepare("INSERT INTO kv (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v")
  const [begin, commit] = [db.prepare("BEGIN IMMEDIATE"), db.prepare("COMMIT")]
  const [head, state, version] = [Buffer.alloc(24, 1), Buffer.alloc(26, 2), Buffer.alloc(8, 3)]
  const start = performance.now()
  for (let i = 0; i < count; i++) {
    begin.run()
    set.run(head, Buffer.alloc(22, i % 256))
    set.run(state, Buffer.alloc(8, i % 256))
    set.run(version, Buffer.alloc(8, i % 256))
    commit.run()
  }
  const millis = performance.now() - start
  db.close()
  return millis / count
}

const store = Tenant.layer(["bench"]).pipe(
  Layer.provide(SqliteBackend.layer({ filename: path.join(folder, "bench.db") }))
)

const program = Effect.gen(function*() {
  const server = yield* Counter.start(behaviour, { tuid: ["one"] })
  const add = server.call("Add", { by: 1 })
  yield* Effect.repeat(add, { times: 300 })
  bareCommits(300)
  fs.rmSync(path.join(folder, "bare.db"))
  const bare = bareCommits(CALLS)
  const one = (yield* time(Effect.repeat(add, { times: CALLS - 1 }))) / CALLS
  const many = (yield* time(
    Effect.all(Array.from({ length: CALLERS }, () => Effect.repeat(add, { times: CALLS / 10 - 1 })), {
      concurrency: "unbounded"
    })
  )) / (CALLERS * CALLS / 10)
  const read = (yield* time(Effect.repeat(server.call("Value"), { times: CALLS - 1 }))) / CALLS
  row("", "ms", "ratio")
  row("bare SQLite commit of the same bytes", bare.toFixed(4))
  row("durable call, one after another", one.toFixed(4), `${(one / bare).toFixed(2)} x bare`)
  row("call that changes nothing", read.toFixed(4), `${(read / bare).toFixed(2)} x bare`)
  row(`durable call, ${CALLERS} callers on one server`, many.toFixed(4), `${(one / many).toFixed(1)} x the rate`)
})

const memory = Effect.gen(function*() {
  const collect = Effect.promise(async () => {
    for (let i = 0; i < 3; i++) {
      globalThis.gc?.()
      await new Promise((resolve) => setImmediate(resolve))
    }
    return process.memoryUsage().heapUsed
  })
  const visit = (i: number) =>
    Effect.scoped(
      Effect.flatMap(Counter.start(behaviour, { tuid: ["many", i] }), (server) => server.call("Add", { by: 1 }))
    )
  yield* Effect.forEach(Array.from({ length: 200 }, (_, i) => -i - 1), visit, { concurrency: 32, discard: true })
  const before = yield* collect
  const millis = yield* time(
    Effect.forEach(Array.from({ length: SERVERS }, (_, i) => i), visit, { concurrency: 32, discard: true })
  )
  const after = yield* collect
  const measured = globalThis.gc === undefined ? "run with --expose-gc" : `${((after - before) / SERVERS).toFixed(0)} B`
  row(`${SERVERS} servers: start, one call, stop`, (millis / SERVERS).toFixed(4), `${measured} each`)
})

await Effect.runPromise(Effect.andThen(program, memory).pipe(Effect.scoped, Effect.provide(store)))
fs.rmSync(folder, { recursive: true })
