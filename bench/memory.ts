/** What a server leaves behind in memory when it stops, and what it holds after very many messages. */
import { Effect, Fiber } from "effect"
import { behaviour, Counter, handled, head, measure, row, times } from "./support.ts"

const SERVERS = 10_000
const WARM_SERVERS = 2_000

/** After the first so many messages the machine is warm, and what is held then is what a server needs. */
const WARM_MESSAGES = 10_000
const MESSAGES = 1_000_000

/** Messages that are sent in one transaction, and taken in another. */
const BATCH = 500

export const memory = Effect.gen(function*() {
  head("Memory")
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
  const visits = (from: number, count: number) =>
    Effect.forEach(Array.from({ length: count }, (_, i) => from + i), visit, { concurrency: 32, discard: true })
  yield* visits(-WARM_SERVERS, WARM_SERVERS)
  const before = yield* collect
  const measured = yield* measure(SERVERS, visits(0, SERVERS))
  const after = yield* collect
  const bytes = globalThis.gc === undefined ? "--expose-gc" : `${((after - before) / SERVERS).toFixed(0)} B each`
  row(`${SERVERS} servers: start, one call, stop`, measured, bytes)

  const server = yield* Counter.start(behaviour, { tuid: ["much"], consumeK: BATCH })
  const notes = Array.from({ length: BATCH }, () => ["Note", { by: 1 }] as const)
  const batch = Effect.flatMap(
    Effect.forkChild(handled(BATCH), { startImmediately: true }),
    (ended) => Effect.andThen(server.castAll(notes), Fiber.join(ended))
  )
  yield* times(WARM_MESSAGES / BATCH, batch)
  const warm = yield* collect
  const many = yield* measure(MESSAGES, times(MESSAGES / BATCH, batch))
  const held = yield* collect
  row(`${MESSAGES} messages of one server`, many, grown(warm, held))
})

/** What is held more, where it can be told. */
const grown = (before: number, after: number): string =>
  globalThis.gc === undefined ? "--expose-gc" : `${((after - before) / 1_024).toFixed(0)} kB more`
