/** Hosted servers: what very many that sleep cost, what waking them costs, and whether those that never rest leave a place. */
import { Effect, Fiber, Layer, Logger, Schema } from "effect"
import { DgenServer, Tenant, Transaction, Tuple } from "effect-dgen"
import { indexesOf } from "../src/internal/server/kept/indexes.ts"
import { ServerKeys } from "../src/internal/server/kept/layout.ts"
import { pauses, rested, watched } from "./idle.ts"
import { options } from "./support.ts"

const MANY = 10_000
const HOT = 64

/** Servers that exist before the host starts. */
const EXISTING = Number(options.existing)

/** Servers that one transaction writes. */
const WRITTEN = 2_000

const IDLE_MILLIS = 20_000

/** Between two looks whether timers are left: far below what is measured. */
const LOOK_MILLIS = 20

class Hive extends DgenServer.Service<Hive>()("Hive", {
  state: Schema.Struct({ count: Schema.Int }),
  hosted: true,
  messages: {
    Note: DgenServer.cast({ payload: Schema.String }),
    Crash: DgenServer.cast(),
    /** Sends itself another one, as long as it may. */
    Spin: DgenServer.cast()
  }
}) {}

/** What was handled, by what was sent, and who waits for it. */
const seen = { kind: "", count: 0, at: Infinity, early: 0, due: 0, reached: () => {}, spins: false }

const behaviour = Hive.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: {
    Note: (kind, state) => {
      if (kind === seen.kind) {
        if (Date.now() < seen.due) seen.early++
        if (++seen.count === seen.at) seen.reached()
      }
      return DgenServer.noReply({ count: state.count + 1 })
    },
    Crash: () => Effect.die(new Error("crash")),
    Spin: (_, state) =>
      seen.spins
        ? Effect.as(Effect.orDie(Hive.castSelfTx("Spin")), DgenServer.noReply({ count: state.count + 1 }))
        : DgenServer.noReply(state)
  }
})

const host = Layer.build(Layer.fresh(Hive.hostLayer(behaviour, { concurrency: HOT })))

const tuidOf = (group: string, i: number) => [group, i]

const clients = (group: string, count: number) =>
  Effect.forEach(Array.from({ length: count }, (_, i) => i), (i) => Hive.client({ tuid: tuidOf(group, i) }))

/** Runs what sends `count` notes of a kind, and ends when they are handled; in milliseconds. */
const handling = <A, E, R>(kind: string, count: number, send: Effect.Effect<A, E, R>, due = 0) =>
  Effect.gen(function*() {
    const done = Effect.callback<void>((resume) => {
      Object.assign(seen, { kind, count: 0, at: count, early: 0, due, reached: () => resume(Effect.void) })
    })
    const start = performance.now()
    yield* Effect.all([done, send], { concurrency: "unbounded" })
    return performance.now() - start
  })

/** A note to each of many servers, or so many to few. */
const notes = (group: string, servers: number, kind: string, count = MANY) =>
  Effect.gen(function*() {
    const all = yield* clients(group, servers)
    return yield* handling(
      kind,
      count,
      Effect.forEach(Array.from({ length: count }, (_, i) => i), (i) => all[i % servers]!.cast("Note", kind), {
        concurrency: 256,
        discard: true
      })
    )
  })

const say = (name: string, text: string) => console.log(`${name.padEnd(56)}${text}`)

/** Writes servers as they are at rest, with the rows of one that is. */
const write = (count: number) =>
  Effect.gen(function*() {
    const { prefix } = yield* Tenant.Tenant
    const [model] = yield* clients("model", 1)
    yield* Effect.scoped(Effect.andThen(host, Effect.andThen(notes("model", 1, "model", 1), Effect.sleep(500))))
    const keysOf = (i: number) => new ServerKeys(prefix, tuidOf("existing", i), { name: "Hive", hosted: true })
    const own = new ServerKeys(prefix, tuidOf("model", 0), { name: "Hive", hosted: true })
    const rows = yield* Tenant.transact(
      Effect.flatMap(Transaction.Transaction, (state) =>
        state.getRange(own.prefix, Buffer.concat([own.prefix, Uint8Array.of(255)])))
    )
    for (let from = 0; from < count; from += WRITTEN) {
      yield* Tenant.transact(Effect.map(Transaction.Transaction, (state) => {
        for (let i = from; i < Math.min(count, from + WRITTEN); i++) {
          const keys = keysOf(i)
          for (const { key, value } of rows) {
            state.set(Buffer.concat([keys.prefix, key.subarray(own.prefix.length)]), value)
          }
          state.set(keys.place.listed, new Uint8Array(0))
        }
      }))
    }
    return model
  })

const memory = Effect.sync(() => {
  globalThis.gc?.()
  return process.memoryUsage().rss / 1e6
})

/** A host among very many servers. */
const existing = Effect.gen(function*() {
  const start = performance.now()
  yield* write(EXISTING)
  say(`${EXISTING} servers written`, `${((performance.now() - start) / 1_000).toFixed(0)} s`)
  const before = yield* memory
  const begun = performance.now()
  yield* host
  yield* notes("awake", 1, "first", 1)
  say("a host starts, and handles a message", `${(performance.now() - begun).toFixed(0)} ms`)
  say("memory taken by it", `${((yield* memory) - before).toFixed(0)} MB`)
  yield* Effect.sleep(1_000)
  pauses("idle", yield* rested(IDLE_MILLIS))
})

/** Waking many, against sending as much to few that are awake. */
const waking = Effect.gen(function*() {
  yield* host
  yield* notes("hot", HOT, "warm", 2_000)
  const awake = yield* watched(notes("hot", HOT, "awake"))
  const sleeping = yield* watched(notes("sleeping", MANY, "sleeping"))
  // what a process computed is steadier than the time where others use the machine
  const [awakeCpu, sleepingCpu] = [awake, sleeping].map(({ core, millis }) => core * millis)
  say(
    `${MANY} casts to ${HOT} awake servers`,
    `${awake.value.toFixed(0)} ms, ${awakeCpu!.toFixed(0)} of them computing`
  )
  say(
    `one each to ${MANY} sleeping ones`,
    `${sleeping.value.toFixed(0)} ms, ${sleepingCpu!.toFixed(0)} computing: ` +
      `${(awake.value / sleeping.value).toFixed(2)} x the rate, by computing ${(awakeCpu! / sleepingCpu!).toFixed(2)} x`
  )
  pauses("", sleeping)
})

/** How long after a time the last wake-up has been answered: the messages of all timers are sent then. */
const allSent = (due: number) =>
  Effect.gen(function*() {
    const { prefix } = yield* Tenant.Tenant
    const { begin, end } = Tuple.range([], indexesOf(prefix, "Hive").wakes)
    const left = Tenant.transact(
      Effect.flatMap(Transaction.Transaction, (state) => state.getRange(begin, end, { limit: 1, snapshot: true }))
    )
    yield* Effect.repeat(Effect.delay(left, LOOK_MILLIS), { until: (rows) => rows.length === 0 })
    return Date.now() - due
  })

const timers = Effect.gen(function*() {
  yield* host
  const all = yield* clients("timed", MANY)
  const due = Math.ceil(Date.now() / 1_000) * 1_000 + 20_000
  yield* Effect.forEach(all, (one, i) => one.castLater("Note", "timed", { at: due + (i * 7_919) % 1_000 }), {
    concurrency: 256,
    discard: true
  })
  yield* Effect.sleep(Math.max(0, due - 200 - Date.now()))
  const sending = yield* Effect.forkChild(allSent(due))
  const fired = yield* watched(handling("timed", MANY, Effect.void, due))
  const sent = yield* Fiber.join(sending)
  say(
    `timers of ${MANY} servers, due in one second`,
    `after the first: all sent ${(sent / 1_000).toFixed(2)} s, handled ${((Date.now() - due) / 1_000).toFixed(2)} s, ` +
      `${seen.early} early`
  )
  pauses("", fired)
})

const fairness = Effect.gen(function*() {
  yield* host
  const alone = yield* notes("fair", MANY, "alone")
  seen.spins = true
  yield* Effect.forEach(yield* clients("spinning", HOT), (one) => one.cast("Spin"), { discard: true })
  const beside = yield* notes("fair", MANY, "beside")
  seen.spins = false
  say(`${MANY} servers with a message each, alone`, `${alone.toFixed(0)} ms`)
  say(`beside ${HOT} that never rest`, `${beside.toFixed(0)} ms: ${(beside / alone).toFixed(2)} x`)
  yield* Effect.forEach(yield* clients("crashing", MANY), (one) => one.cast("Crash"), {
    concurrency: 256,
    discard: true
  })
  const behind = yield* notes("fair", 1_000, "behind", 1_000)
  say(`1,000 casts behind ${MANY} servers that crash`, `${behind.toFixed(0)} ms`)
})

export const hosting = Effect.gen(function*() {
  console.log("\nhosted servers")
  for (const [name, part] of Object.entries({ existing, waking, timers, fairness })) {
    if (options.part === undefined || options.part === name) yield* Effect.scoped(part as typeof timers)
  }
}).pipe(Effect.provide(Logger.layer([])))
