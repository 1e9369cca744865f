/** What a key costs a call, what a durable action costs it, and how a process bears that very many keys end at one moment. */
import { Effect, Schema } from "effect"
import { DgenServer, Tenant } from "effect-dgen"
import { pauses, watched } from "./idle.ts"
import { bareCommit, behaviour, Counter, countOf, head, measure, row, times, timesAsLong } from "./support.ts"

const KEYS = 100_000
const CASTS_A_PUSH = 1_000

/** Longer than it takes to handle them all, so that they end while nothing else happens. */
const RETENTION_MILLIS = 60_000

class Keyed extends DgenServer.Service<Keyed>()("Keyed", {
  state: Schema.Int,
  messages: { Note: DgenServer.cast() },
  keyRetention: RETENTION_MILLIS,
  maxKeys: KEYS
}) {}

class Acting extends DgenServer.Service<Acting>()("Acting", {
  state: Schema.Int,
  messages: { Add: DgenServer.call({ success: Schema.Int }) },
  actions: { Did: DgenServer.durable({ payload: { count: Schema.Int } }) }
}) {}

const noting = Keyed.behaviour({
  init: Effect.succeed(0),
  handlers: { Note: (_, count) => DgenServer.noReply(count + 1) }
})

const acting = Acting.behaviour({
  init: Effect.succeed(0),
  handlers: {
    Add: (_, count) => DgenServer.reply(count + 1, count + 1, [Acting.action("Did", { count })])
  }
})

const expire = Effect.gen(function*() {
  const server = yield* Keyed.start(noting, { tuid: ["keys"], consumeK: CASTS_A_PUSH })
  for (let pushed = 0; pushed < KEYS; pushed += CASTS_A_PUSH) {
    const casts = Array.from({ length: CASTS_A_PUSH }, (_, i) => ["Note", undefined, { key: `${pushed + i}` }] as const)
    yield* server.castAll(casts)
  }
  yield* Effect.repeat(Effect.delay(server.state, 100), { until: (count) => count === KEYS })
  const isGone = Effect.map(server.result(`${KEYS - 1}`), ({ _tag }) => _tag === "Unknown")
  const ended = yield* watched(Effect.repeat(Effect.delay(isGone, 1_000), { until: (gone) => gone }))
  pauses(`${KEYS} keys end (aim: 50 ms at the most)`, ended)
})

export const keys = Effect.gen(function*() {
  head("Keys and durable actions")
  const bare = bareCommit()
  const count = countOf(bare.millis)
  const server = yield* Counter.start(behaviour, { tuid: ["with keys"] })
  const add = server.call("Add", { by: 1 })
  yield* times(200, add)
  let key = 0
  const keyed = Effect.suspend(() => server.call("Add", { by: 1 }, { key: `${key++}` }))
  yield* times(200, keyed)
  const without = yield* measure(count, times(count, add))
  row("call without a key", without, timesAsLong(bare, without))
  const withKey = yield* measure(count, times(count, keyed))
  row("call with a key (aim: 1.3 of the one without)", withKey, `${(withKey.millis / without.millis).toFixed(2)} x one`)
  const done = { count: 0 }
  yield* Effect.scoped(Effect.gen(function*() {
    const asking = yield* Acting.start(acting, { tuid: ["acting"] }).pipe(
      Effect.provide(Acting.actionsLayer({ Did: () => Effect.sync(() => void done.count++) }))
    )
    yield* times(100, asking.call("Add"))
    const asked = yield* measure(count, times(count, asking.call("Add")))
    row("call that asks for a durable action", asked, `${(asked.millis / without.millis).toFixed(2)} x one`)
    const left = Effect.map(Tenant.transact(Acting.durable.counts), ({ pending, running }) => pending + running)
    const before = done.count
    const drained = yield* measure(1, Effect.repeat(Effect.delay(left, 50), { until: (count) => count === 0 }))
    const each = drained.millis / Math.max(1, done.count - before)
    const none = { millis: each, cpuMillis: NaN, flushMillis: NaN, perFlush: NaN }
    row("each of those of one server that wait, when nobody calls", none, timesAsLong(bare, none))
  }))
  yield* expire
})
