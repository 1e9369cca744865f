/** What waits in a queue must not slow down what is in front of it. */
import { Effect, Fiber } from "effect"
import { bareCommit, behaviour, Counter, handled, head, measure, options, row, times, timesAsLong } from "./support.ts"

const MESSAGES = 300
const CASTS_A_PUSH = 1_000

/** Priority calls, casts and the consumer's turns by how many messages wait. */
export const backlog = Effect.gen(function*() {
  head("With messages waiting (must not grow)")
  const bare = bareCommit()
  const sizes = [0, 1_000, 100_000, ...(options.backlog === undefined ? [] : [Number(options.backlog)])]
  for (const size of sizes) {
    const tuid = ["backlog", size]
    const idle = yield* Counter.start(behaviour, { tuid, consume: false })
    for (let pushed = 0; pushed < size; pushed += CASTS_A_PUSH) {
      yield* idle.castAll(Array.from({ length: CASTS_A_PUSH }, () => ["Note", { by: 1 }] as const))
    }
    const called = yield* measure(MESSAGES, times(MESSAGES, idle.priorityCall("Add", { by: 1 })))
    row(`${size} waiting: priority call`, called, timesAsLong(bare, called))
    const cast = yield* measure(MESSAGES, times(MESSAGES, idle.cast("Note", { by: 1 })))
    row(`${size} waiting: cast`, cast, timesAsLong(bare, cast))
    const taken = yield* measure(
      MESSAGES,
      Effect.scoped(Effect.gen(function*() {
        const end = yield* Effect.forkChild(handled(MESSAGES), { startImmediately: true })
        const server = yield* Counter.start(behaviour, { tuid })
        yield* Fiber.join(end)
        yield* server.stop()
      }))
    )
    row(`${size} waiting: message taken by the consumer`, taken, timesAsLong(bare, taken))
  }
})
