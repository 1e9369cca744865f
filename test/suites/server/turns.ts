/** While handlers compute, the event loop goes round: timers fire, and calls end at their time limits. */
import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Schema } from "effect"
import { DgenServer, Tenant, Transaction } from "effect-dgen"
import { type Store, testsOf } from "./support.ts"

class Miner extends DgenServer.Service<Miner>()("Miner", {
  state: Schema.Struct({ dug: Schema.Int }),
  messages: {
    Dig: DgenServer.call({ success: Schema.Int }),
    Drill: DgenServer.cast()
  }
}) {}

const DIG_MILLIS = 10

const compute = () => {
  const start = performance.now()
  while (performance.now() - start < DIG_MILLIS);
}

/** Counts what runs between two rounds of the event loop. */
const counted = () => {
  let since = 0
  let most = 0
  let isEnded = false
  const round = () => {
    since = 0
    if (!isEnded) setTimeout(round, 1)
  }
  round()
  return {
    work: () => {
      compute()
      most = Math.max(most, ++since)
    },
    end: () => {
      isEnded = true
      return most
    }
  }
}

/** Fifty milliseconds of work, and what runs between the timer's time and its turn. */
const MOST = 6

export const turnsSuite = (name: string, backend: Store): void => {
  describe(`${name}: turns of the event loop`, () => {
    const test = testsOf(backend, "turns")
    const mine = (count: ReturnType<typeof counted>) =>
      Miner.behaviour({
        init: Effect.succeed({ dug: 0 }),
        handlers: {
          Dig: (_, { dug }) => {
            count.work()
            return DgenServer.reply(dug + 1, { dug: dug + 1 })
          },
          Drill: (_, { dug }) => {
            count.work()
            return DgenServer.noReply({ dug: dug + 1 })
          }
        }
      })

    for (const consumeK of [1, 8]) {
      test(
        `64 callers whose handlers compute, consumeK ${consumeK}`,
        Effect.gen(function*() {
          const count = counted()
          const server = yield* Miner.start(mine(count), { tuid: ["mine"], consumeK })
          yield* Effect.replicateEffect(server.call("Dig", undefined, { timeout: "1 minute" }), 64, {
            concurrency: 64
          })
          assert.isAtMost(count.end(), MOST)
        })
      )
    }

    test(
      "a consumer with a full queue",
      Effect.gen(function*() {
        const count = counted()
        const server = yield* Miner.start(mine(count), { tuid: ["queue"], consumeK: 50 })
        yield* server.castAll(Array.from({ length: 40 }, () => ["Drill"] as const))
        yield* Effect.repeat(server.state, { until: (state) => state?.dug === 40 })
        assert.isAtMost(count.end(), MOST)
      })
    )

    test(
      "transactions of a program, one after another and beside each other",
      Effect.gen(function*() {
        const count = counted()
        const run = Tenant.transact(
          Effect.flatMap(Effect.sync(count.work), () => Transaction.set(["dug"], Uint8Array.of(1)))
        )
        yield* Effect.replicateEffect(run, 32, { concurrency: 8 })
        assert.isAtMost(count.end(), MOST)
      })
    )

    test(
      "a call ends at its time limit while others keep the server busy",
      Effect.gen(function*() {
        const count = counted()
        const server = yield* Miner.start(mine(count), { tuid: ["busy"] })
        const busy = yield* Effect.forkChild(
          Effect.replicateEffect(Effect.forever(Effect.ignore(server.call("Dig"))), 64, { concurrency: 64 }),
          { startImmediately: true }
        )
        const exit = yield* Effect.exit(server.call("Dig", undefined, { timeout: "100 millis" }))
        assert.isTrue(Exit.isFailure(exit))
        yield* Fiber.interrupt(busy)
        count.end()
      })
    )
  })
}
