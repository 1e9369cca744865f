/** Servers under simulated failures, from seeds. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { allFaults, run } from "../src/testing/Simulation.ts"
import { check, makeTold, send, serve, settle } from "./simulation/journal.ts"

const quiet = Effect.provide(Logger.layer([]))

const journal = (seed: number) => {
  const told = makeTold()
  return run({ seed, faults: allFaults }, (world) =>
    Effect.gen(function*() {
      yield* world.spawn("server one", serve(told, { lockTimeout: "5 seconds", consumeK: 1 }), { restart: true })
      yield* world.spawn("server two", serve(told, { lockTimeout: "5 seconds", consumeK: 7 }), { restart: true })
      const senders = yield* Effect.forEach(["a", "b", "c"], (name) => world.spawn(name, send(told, name, 20)))
      yield* Effect.forEach(senders, (sender) => sender.exit)
      return yield* settle(world, told)
    })).pipe(
      Effect.map((result) => ({
        ...result,
        problems: check(told, result.value, result.history.some((line) => / dies | killed/.test(line)))
      })),
      quiet
    )
}

describe("a server under simulated failures", () => {
  for (let seed = 1; seed <= 20; seed++) {
    it.live(`loses nothing and does nothing twice (seed ${seed})`, () =>
      Effect.gen(function*() {
        const { history, problems } = yield* journal(seed)
        assert.deepStrictEqual(problems, [], history.join("\n"))
      }))
  }

  it.live("has one history for one seed", () =>
    Effect.gen(function*() {
      const one = yield* journal(7)
      const two = yield* journal(7)
      assert.deepStrictEqual(one.history, two.history)
      assert.deepStrictEqual(one.value, two.value)
      assert.strictEqual(one.simulatedMillis, two.simulatedMillis)
    }))
})
