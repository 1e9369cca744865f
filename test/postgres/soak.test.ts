/** Processes on one server that are killed again and again, with the workload and the checks of the soak. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { soak } from "../soak/soak.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { server } from "./support.ts"

const MILLIS = 5_000

const seed = Date.now() % 1_000_000

describe("PostgresBackend under SIGKILL", () => {
  it.live(`nothing is lost and nothing happens twice (seed ${seed})`, () =>
    Effect.gen(function*() {
      const report = yield* soak({ store: server.url, folder: temporaryFolder(), millis: MILLIS, seed })
      assert.deepStrictEqual(report.problems, [])
      assert.isAbove(report.kills, 0)
    }).pipe(Effect.provide(Logger.layer([]))), 180_000)
})
