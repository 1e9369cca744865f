/** A counter: its state is one number, and it says what it counted after each commit. */
import { Effect, Schema } from "effect"
import { DgenServer } from "effect-dgen"

/** The most that the counter counts by `Increment`. */
export const MAX = 1_000_000

export class Overflow extends Schema.TaggedError<Overflow>()("Overflow", { max: Schema.Int }) {}

// what the counter is: its state, its messages, its actions
export class Counter extends DgenServer.Service<Counter>()("Counter", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: {
    Increment: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int, error: Overflow }),
    Value: DgenServer.call({ success: Schema.Int }),
    Add: DgenServer.cast({ payload: { by: Schema.Int } }),
    Tick: DgenServer.info()
  },
  actions: { Announce: { total: Schema.Int } }
}) {}

// what it does: pure, each message in one transaction
export const behaviour = Counter.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: {
    Increment: Effect.fnUntraced(function*({ by }, state) {
      const count = state.count + by
      if (count > MAX) return yield* new Overflow({ max: MAX })
      return DgenServer.reply(count, { count }, [Counter.action("Announce", { total: count })])
    }),
    Value: (_, state) => DgenServer.reply(state.count, state),
    Add: ({ by }, state) => DgenServer.noReply({ count: state.count + by }),
    Tick: (_, state) => DgenServer.noReply({ count: state.count + 1 })
  }
})
