/** Servers under simulated failures, from seeds: a few here, many with `npm run simulate`. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { scenarios } from "./scenarios.ts"

const SEEDS = 5

const quiet = Effect.provide(Logger.layer([]))

/**
 * Seeds that once found something: clocks with fractions, a merge that lost a count, a lost bell, an outage at a start, a
 * commit that arrived late.
 */
const found = [
  ["jobs-steady", 3],
  ["patience", 16],
  ["patience", 19],
  ["survivors", 2],
  ["poison-survivors", 3211]
] as const

describe("seeds that once failed", () => {
  for (const [name, seed] of found) {
    it.live(`${name}, seed ${seed}`, () =>
      Effect.gen(function*() {
        const { history, problems } = yield* scenarios.find((scenario) => scenario.name === name)!.run(seed)
        assert.deepStrictEqual(problems, [], history.join("\n"))
      }).pipe(quiet))
  }
})

for (const scenario of scenarios) {
  describe(`under simulated failures (${scenario.name})`, () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      it.live(`nothing is lost and nothing happens twice (seed ${seed})`, () =>
        Effect.gen(function*() {
          const { history, problems } = yield* scenario.run(seed)
          assert.deepStrictEqual(problems, [], history.join("\n"))
        }).pipe(quiet))
    }

    it.live("one seed has one history", () =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* scenario.run(7), yield* scenario.run(7))
      }).pipe(quiet))
  })
}
