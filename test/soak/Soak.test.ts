/** Processes on one SQLite file, killed again and again: for some seconds here, for long with `npm run soak`. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import * as path from "node:path"
import { temporaryFolder } from "../support/temporary.ts"
import { soak } from "./soak.ts"

const folder = temporaryFolder()

const MILLIS = 5_000

const seed = Date.now() % 1_000_000

describe("SqliteBackend under SIGKILL", () => {
  it.live(`nothing is lost and nothing happens twice (seed ${seed})`, () =>
    Effect.gen(function*() {
      const report = yield* soak({ store: path.join(folder, "soak.db"), folder, millis: MILLIS, seed })
      assert.deepStrictEqual(report.problems, [])
      assert.isAbove(report.kills, 0)
    }).pipe(Effect.provide(Logger.layer([]))), 120_000)
})
