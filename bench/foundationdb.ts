/**
 * Durable calls on a FoundationDB cluster against the package's own transactions on it, as ratios within one run.
 *
 *   npm run bench:foundationdb
 */
import { Context, Effect, Layer, Schema } from "effect"
import { Backend, type BackendError, DgenServer, FoundationDbBackend, Tenant } from "effect-dgen"
import { fork } from "node:child_process"
import { findFoundationDb, whySkipped } from "../scripts/foundationDb.mjs"
import { type FdbPackage, type FdbTransaction, importPackage } from "../src/internal/foundationdb/package.ts"
import { startCluster } from "../test/foundationdb/throwawayCluster.ts"

const ROUNDS = 4
const CALLS = 500
const CALLERS = 64
const CASTS = 10_000
const PROCESSES = 2
const CALLS_A_PROCESS = 2_000

class Counter extends DgenServer.Service<Counter>()("Counter", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: {
    Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }),
    Bump: DgenServer.cast()
  }
}) {}

const behaviour = Counter.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: {
    Add: ({ by }, state) => DgenServer.reply(state.count + by, { count: state.count + by }),
    Bump: (_, state) => DgenServer.noReply({ count: state.count + 1 })
  }
})

/** Milliseconds a run. */
const time = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const start = performance.now()
    yield* effect
    return performance.now() - start
  })

const row = (name: string, ...columns: ReadonlyArray<string>) =>
  console.log(name.padEnd(58) + columns.map((column) => column.padStart(18)).join(""))

/** Counts the conflicts of all transactions of a backend. */
const counting = (backend: Backend.Backend["Service"], counted: { conflicts: number }): Backend.Backend["Service"] => ({
  ...backend,
  begin: Effect.map(backend.begin, (driver): Backend.DriverTransaction => ({
    readVersion: driver.readVersion,
    get: (key) => driver.get(key),
    getRange: (begin, end, options) => driver.getRange(begin, end, options),
    commit: (request, accepted) =>
      Effect.tapError(driver.commit(request, accepted), (error: BackendError.BackendError) =>
        Effect.sync(() => {
          if (error.reason._tag === "Conflict") counted.conflicts++
        })),
    close: () => driver.close()
  }))
})

const counted = { conflicts: 0 }

const tenantOn = (clusterFile: string, path: ReadonlyArray<string>) =>
  Tenant.layer(path).pipe(
    Layer.provide(Layer.effect(
      Backend.Backend,
      Effect.map(
        Layer.build(FoundationDbBackend.layer({ clusterFile })),
        (context) => counting(Context.get(context, Backend.Backend), counted)
      )
    ))
  )

/** A read and a write of one key, by the package alone. */
const bare = async (clusterFile: string, count: number): Promise<number> => {
  const fdb = await importPackage() as FdbPackage & {
    readonly open: (clusterFile: string) => {
      readonly doTn: (body: (transaction: FdbTransaction) => Promise<void>) => Promise<void>
      readonly close: () => void
    }
  }
  const db = fdb.open(clusterFile)
  const key = Buffer.from("bench-bare")
  const start = performance.now()
  for (let i = 0; i < count; i++) {
    await db.doTn(async (transaction) => {
      const value = await transaction.get(key)
      transaction.set(key, Buffer.from(String(Number(value === undefined ? 0 : Buffer.from(value).toString()) + 1)))
    })
  }
  const millis = performance.now() - start
  db.close()
  return millis / count
}

/** Many callers at once; succeeds with the time of the longest call. */
const many = (server: Counter["Service"]) =>
  Effect.gen(function*() {
    let longest = 0
    const call = Effect.map(time(server.call("Add", { by: 1 })), (millis) => {
      longest = Math.max(longest, millis)
    })
    yield* Effect.all(
      Array.from({ length: CALLERS }, () => Effect.repeat(call, { times: CALLS / 10 - 1 })),
      { concurrency: "unbounded" }
    )
    return longest
  })

const single = (clusterFile: string) =>
  Effect.gen(function*() {
    const inline = yield* Counter.start(behaviour, { tuid: ["inline"] })
    const queued = yield* Counter.start(behaviour, { tuid: ["queued"], consumeK: 100 })
    yield* Effect.repeat(inline.call("Add", { by: 1 }), { times: 200 })
    yield* Effect.repeat(queued.call("Add", { by: 1 }), { times: 100 })
    yield* Effect.promise(() => bare(clusterFile, 200))
    // they take turns, and the best turn counts: what disturbs one for a while disturbs the others, too
    let [base, one, two] = [Infinity, Infinity, Infinity]
    const calls = (server: Counter["Service"]) =>
      Effect.map(time(Effect.repeat(server.call("Add", { by: 1 }), { times: CALLS - 1 })), (millis) => millis / CALLS)
    for (let round = 0; round < ROUNDS; round++) {
      base = Math.min(base, yield* Effect.promise(() => bare(clusterFile, CALLS)))
      one = Math.min(one, yield* calls(inline))
      two = Math.min(two, yield* calls(queued))
    }
    row("", "ms", "")
    row("bare transaction: one read, one write", base.toFixed(3))
    row("call, inline", one.toFixed(3), `${(one / base).toFixed(2)} x bare`)
    row("call, through the queue", two.toFixed(3), `${(two / base).toFixed(2)} x bare`)
    const total = CALLERS * CALLS / 10
    for (const [title, server] of [["consumeK 1", inline], ["consumeK 100", queued]] as const) {
      let longest = 0
      const millis = yield* time(Effect.map(many(server as Counter["Service"]), (found) => {
        longest = found
      }))
      row(
        `${CALLERS} callers on one server, ${title}`,
        (millis / total).toFixed(3),
        `${(total / millis * 1000).toFixed(0)}/s`,
        `${(base * total / millis).toFixed(1)} x bare`,
        `longest ${longest.toFixed(0)} ms`
      )
    }
    const casts = yield* Counter.start(behaviour, { tuid: ["casts"], consume: false })
    for (let i = 0; i < CASTS; i += 500) {
      yield* casts.castAll(Array.from({ length: 500 }, () => ["Bump"] as const))
    }
    const drain = yield* time(Effect.gen(function*() {
      const server = yield* Counter.start(behaviour, { tuid: ["casts"], consumeK: 100 })
      yield* Effect.repeat(server.queueLength, { while: (length) => length > 0 })
    }))
    row(
      `${CASTS} casts drained, consumeK 100`,
      (drain / CASTS).toFixed(3),
      `${(CASTS / drain * 1000).toFixed(0)}/s`,
      `${(base * CASTS / drain).toFixed(1)} x bare`
    )
  }).pipe(Effect.scoped, Effect.provide(tenantOn(clusterFile, ["bench", "single"])))

/** One of several processes that all run and call the same servers. Reports its time and its conflicts. */
const worker = (clusterFile: string, servers: number) =>
  Effect.gen(function*() {
    const all = yield* Effect.forEach(
      Array.from({ length: servers }, (_, i) => i),
      (i) => Counter.start(behaviour, { tuid: ["shared", i] })
    )
    const started = new Promise((resolve) => process.once("message", resolve))
    process.send?.("ready")
    yield* Effect.promise(() => started)
    counted.conflicts = 0
    const millis = yield* time(Effect.all(
      Array.from({ length: CALLERS / PROCESSES }, (_, i) =>
        Effect.repeat(all[i % servers]!.call("Add", { by: 1 }, { timeout: "60 seconds" }), {
          times: CALLS_A_PROCESS / (CALLERS / PROCESSES) - 1
        })),
      { concurrency: "unbounded" }
    ))
    process.send?.({ millis, conflicts: counted.conflicts })
    process.disconnect()
  }).pipe(Effect.scoped, Effect.provide(tenantOn(clusterFile, ["bench", `shared ${servers}`])))

const together = async (clusterFile: string, servers: number) => {
  const children = Array.from(
    { length: PROCESSES },
    () => fork(import.meta.filename, [clusterFile, String(servers)], { execArgv: ["--conditions=effect-dgen-source"] })
  )
  const next = () => Promise.all(children.map((child) => new Promise<any>((resolve) => child.once("message", resolve))))
  await next()
  const ended = next()
  for (const child of children) child.send("go")
  const reports = await ended
  const calls = PROCESSES * CALLS_A_PROCESS
  const millis = Math.max(...reports.map((report) => report.millis))
  const conflicts = reports.reduce((sum, report) => sum + report.conflicts, 0)
  row(
    `${servers} servers, each in ${PROCESSES} processes, ${CALLERS} callers`,
    `${(calls / millis * 1000).toFixed(0)}/s`,
    `${(conflicts / calls).toFixed(2)} conflicts a call`
  )
}

const [clusterFile, servers] = process.argv.slice(2)
const why = whySkipped()
if (servers !== undefined) await Effect.runPromise(worker(clusterFile!, Number(servers)))
else if (why !== undefined) console.log(`no FoundationDB: ${why}`)
else {
  const found = findFoundationDb()
  const cluster = found.clusterFile === undefined
    ? await startCluster(found)
    : { clusterFile: found.clusterFile, stop: () => {} }
  await Effect.runPromise(single(cluster.clusterFile))
  for (const count of [1, 4, 16]) await together(cluster.clusterFile, count)
  await Effect.runPromise(
    Effect.scoped(
      Effect.provide(Tenant.remove(["bench"]), FoundationDbBackend.layer({ clusterFile: cluster.clusterFile }))
    )
  )
  cluster.stop()
}
