/** The end of a server with very many messages: what the process notices of it. */
import { Effect } from "effect"
import { pauses, watched } from "./idle.ts"
import { behaviour, Counter, head, options, row } from "./support.ts"

const MESSAGES = Number(options.messages)
const CASTS_A_PUSH = 1_000

/** A row is deleted in some microseconds. */
const SWEEP_MILLIS = 20_000

export const clearing = Effect.gen(function*() {
  head(`Kill of a server with ${MESSAGES} messages`)
  const server = yield* Counter.start(behaviour, { tuid: ["doomed"], consume: false })
  for (let pushed = 0; pushed < MESSAGES; pushed += CASTS_A_PUSH) {
    yield* server.castAll(Array.from({ length: CASTS_A_PUSH }, () => ["Note", { by: 1 }] as const))
  }
  const before = process.memoryUsage().rss
  const killed = yield* watched(server.kill())
  row("kill", { millis: killed.millis, cpuMillis: NaN, flushMillis: NaN, perFlush: NaN }, "")
  pauses("kill", killed)
  const swept = yield* watched(Effect.sleep(SWEEP_MILLIS))
  pauses(`the ${SWEEP_MILLIS / 1_000} s after it, in which the rows are deleted`, swept)
  console.log(`${"memory".padEnd(56)}${((process.memoryUsage().rss - before) / 1e6).toFixed(0)} MB more`)
})
