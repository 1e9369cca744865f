/** One caller, and many callers, by how many messages a batch takes. */
import { Effect, Fiber } from "effect"
import {
  bareCommit,
  behaviour,
  Counter,
  countOf,
  handled,
  head,
  measure,
  row,
  times,
  timesAsLong,
  timesTheRate,
  together
} from "./support.ts"

const CALLERS = 64
const CASTS_A_PUSH = 1_000

const callers = (count: number, call: (caller: number) => Effect.Effect<unknown, unknown>) =>
  measure(
    CALLERS * Math.ceil(count / CALLERS),
    together(Array.from({ length: CALLERS }, (_, i) => times(Math.ceil(count / CALLERS), call(i))))
  )

/** Latency of one caller, and what many callers of one server share. */
export const calls = Effect.gen(function*() {
  head("Calls")
  const bare = bareCommit()
  const count = countOf(bare.millis)
  const server = yield* Counter.start(behaviour, { tuid: ["calls"] })
  const add = server.call("Add", { by: 1 })
  yield* times(200, add)
  const one = yield* measure(count, times(count, add))
  row("durable call, one after another (aim: 1.3)", one, timesAsLong(bare, one))
  const read = yield* measure(count, times(count, server.call("Value")))
  row("call that changes nothing", read, timesAsLong(bare, read))
  const many = yield* callers(4 * count, () => add)
  row(`durable call, ${CALLERS} callers (aim: 8)`, many, `${(one.millis / many.millis).toFixed(2)} x one`)
})

/** Messages a second. */
export const throughput = Effect.gen(function*() {
  head("Throughput, as multiples of bare commits one after another")
  const bare = bareCommit()
  const count = 2 * countOf(bare.millis)
  for (const consumeK of [1, 10, 100, 1_000]) {
    const server = yield* Counter.start(behaviour, { tuid: ["throughput", consumeK], consumeK })
    const called = yield* callers(count, () => server.call("Add", { by: 1 }))
    const aim = consumeK === 100 ? " (aim: 4)" : ""
    row(`consumeK ${consumeK}: ${CALLERS} callers on one server${aim}`, called, timesTheRate(bare, called))
  }
  for (const consumeK of [1, 10, 100, 1_000]) {
    const tuid = ["drained", consumeK]
    const casts = Math.max(CASTS_A_PUSH, Math.min(20_000, count * Math.min(10, consumeK)))
    const idle = yield* Counter.start(behaviour, { tuid, consume: false })
    for (let pushed = 0; pushed < casts; pushed += CASTS_A_PUSH) {
      yield* idle.castAll(Array.from({ length: CASTS_A_PUSH }, () => ["Note", { by: 1 }] as const))
    }
    const all = Math.ceil(casts / CASTS_A_PUSH) * CASTS_A_PUSH
    const drained = yield* measure(
      all,
      Effect.scoped(Effect.gen(function*() {
        const end = yield* Effect.forkChild(handled(all), { startImmediately: true })
        const server = yield* Counter.start(behaviour, { tuid, consumeK })
        yield* Fiber.join(end)
        yield* server.stop()
      }))
    )
    const aim = consumeK === 1_000 ? " (aim: 10)" : ""
    row(`consumeK ${consumeK}: casts drained${aim}`, drained, timesTheRate(bare, drained))
  }
  const servers = yield* Effect.forEach(
    Array.from({ length: CALLERS }, (_, i) => i),
    (i) => Counter.start(behaviour, { tuid: ["wide", i] })
  )
  const wide = yield* callers(count, (i) => servers[i]!.call("Add", { by: 1 }))
  row(`${CALLERS} callers on ${CALLERS} servers (aim: 5)`, wide, timesTheRate(bare, wide))
})
