/** What a server leaves behind in memory when it stops. */
import { Effect } from "effect"
import { behaviour, Counter, head, measure, row } from "./support.ts"

const SERVERS = 10_000
const WARM_SERVERS = 2_000

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
})
