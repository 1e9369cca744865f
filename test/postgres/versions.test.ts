/** Eight processes at one tenant: the order of their commits is the order of what is seen, and none takes what another has. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { PostgresBackend, Tenant, Transaction } from "effect-dgen"
import { execFile } from "node:child_process"
import * as path from "node:path"
import { promisify } from "node:util"
import { freshSchema, server } from "./support.ts"

const PROCESSES = 8
const EACH = 40
const ALL = PROCESSES * EACH

describe("eight processes on PostgreSQL", () => {
  it.live("push in the order in which readers see it, and take each message once", () => {
    const schema = freshSchema()
    return Effect.gen(function*() {
      yield* Tenant.transact(
        Effect.forEach(
          Array.from({ length: ALL }, (_, i) => i),
          (i) => Transaction.set(["waiting", i], Uint8Array.of(1))
        )
      )
      const keys = Tenant.transact(
        Effect.map(
          Transaction.getRange(["pushed"], { snapshot: true }),
          (rows) => rows.map(({ key }) => JSON.stringify(key))
        )
      )
      const end = { isThere: false }
      let looks = 0
      const reader = yield* Effect.forkChild(Effect.gen(function*() {
        let seen: ReadonlyArray<string> = []
        while (!end.isThere) {
          const now = yield* keys
          assert.deepStrictEqual(now.slice(0, seen.length), seen)
          if (now.length > seen.length) looks++
          seen = now
        }
      }))
      const child = path.join(import.meta.dirname, "versionsChild.ts")
      yield* Effect.promise(() =>
        Promise.all(
          Array.from({ length: PROCESSES }, () =>
            promisify(execFile)(process.execPath, [child, server.url, schema, String(EACH)]))
        )
      )
      end.isThere = true
      yield* Fiber.join(reader)
      assert.isAbove(looks, 10)
      assert.strictEqual((yield* keys).length, ALL)
      const taken = yield* Tenant.transact(Transaction.getRange(["taken"]))
      assert.deepStrictEqual(taken.map(({ value }) => value[0]), Array.from({ length: ALL }, () => 1))
    }).pipe(
      Effect.provide(Layer.provide(Tenant.layer(["versions"]), PostgresBackend.layer({ url: server.url, schema })))
    )
  }, 120_000)
})
