/**
 * Another process on a SQLite file: `node child.ts <filename> <transfers> <increments>` moves one from `left` to
 * `right` and back, and adds to `sum`, each in a transaction of its own that is run again on a conflict.
 */
import { Context, Effect, Layer } from "effect"
import * as Backend from "../../src/Backend.ts"
import * as SqliteBackend from "../../src/SqliteBackend.ts"
import { commit, get, point, put, within } from "../support/driver.ts"

type Service = Backend.Backend["Service"]

export const retried = <A, E extends { readonly isRetryable: boolean }>(effect: Effect.Effect<A, E>) =>
  Effect.retry(effect, { while: (error) => error.isRetryable })

export const increment = (backend: Service, key: string) =>
  retried(within(backend, (driver) =>
    Effect.gen(function*() {
      const value = Number((yield* get(driver, key)) ?? "0")
      yield* Effect.yieldNow
      yield* commit(driver, [put(key, String(value + 1))], { reads: [point(key)] })
    })))

export const transfer = (backend: Service, amount: number) =>
  retried(within(backend, (driver) =>
    Effect.gen(function*() {
      const left = Number(yield* get(driver, "left"))
      const right = Number(yield* get(driver, "right"))
      yield* commit(driver, [put("left", String(left - amount)), put("right", String(right + amount))], {
        reads: [point("left"), point("right")]
      })
    })))

const [filename, transfers, increments] = process.argv.slice(2)
if (process.argv[1]?.endsWith("sqlite/child.ts")) {
  await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
    const backend = Context.get(
      yield* Layer.build(SqliteBackend.layer({ filename: filename! })),
      Backend.Backend
    )
    console.log("ready")
    for (let i = 0; i < Number(transfers); i++) yield* transfer(backend, i % 2 === 0 ? 1 : -1)
    for (let i = 0; i < Number(increments); i++) yield* increment(backend, "sum")
  })))
}
