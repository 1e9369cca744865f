/** How many transactions a walk takes, and what it does where the store gives it short moments only. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type Backend, BackendError, MemoryBackend, Tenant } from "effect-dgen"
import { walked } from "../../src/internal/inspect/servers.ts"
import { gathered, Pace } from "../../src/internal/inspect/walking.ts"
import { Clerk } from "./clerk.ts"

const SERVERS = 500

const tooOld = Effect.fail(
  new BackendError.BackendError({ reason: new BackendError.TransactionTooOld({ message: "met another state" }) })
)

/** A tenant of many servers, whose transactions are counted, and end after so many reads. */
const counted = Effect.gen(function*() {
  for (let n = 0; n < SERVERS; n++) {
    yield* Tenant.transact(Clerk.castTx("Write", { text: "" }, { tuid: ["clerk", n] }))
  }
  const tenant = yield* Tenant.Tenant
  const store = { begun: 0, reads: Infinity }
  const begin = Effect.map(tenant.backend.begin, (driver): Backend.DriverTransaction => {
    store.begun++
    let left = store.reads
    return {
      ...driver,
      readVersion: driver.readVersion,
      get: (key) => left-- > 0 ? driver.get(key) : tooOld,
      getRange: (begin, end, options) => left-- > 0 ? driver.getRange(begin, end, options) : tooOld,
      commit: (request, accepted) => driver.commit(request, accepted),
      close: () => driver.close()
    }
  })
  return { tenant: { ...tenant, backend: { ...tenant.backend, begin } }, store }
})

const all = { look: Infinity, millis: 60_000, after: undefined }

const test = (title: string, body: Effect.Effect<void, unknown, Tenant.Tenant>) =>
  it.live(title, () => Effect.provide(body, Tenant.layer(["walking"]).pipe(Layer.provide(MemoryBackend.layer))))

describe("a walk over servers", () => {
  test(
    "looks at many at a time, also when it wants few more",
    Effect.gen(function*() {
      const { store, tenant } = yield* counted
      const stuck = walked({ server: "Nobody", stuck: true, olderThan: 0 })
      const found = yield* gathered(tenant, new Pace(100), stuck, { ...all, limit: 1 })
      assert.deepStrictEqual([found.rows.length, found.looked, found.next], [0, SERVERS, undefined])
      assert.isAtMost(store.begun, SERVERS / 100 + 1)
    })
  )
  test(
    "gives no more rows than are wanted, and goes on behind them",
    Effect.gen(function*() {
      const { tenant } = yield* counted
      const seen: Array<string> = []
      let after: string | undefined
      do {
        const page = yield* gathered(tenant, new Pace(100), walked(), { ...all, limit: 30, after })
        assert.isAtMost(page.rows.length, 30)
        seen.push(...page.rows.map(({ tuid }) => tuid.text))
        after = page.next
      } while (after !== undefined)
      assert.deepStrictEqual(seen, Array.from({ length: SERVERS }, (_, n) => `["clerk",${n}]`))
    })
  )
  test(
    "becomes shorter until it comes through, misses none, and tries no page again and again",
    Effect.gen(function*() {
      const { store, tenant } = yield* counted
      store.reads = 50
      const { rows } = yield* gathered(tenant, new Pace(1_000), walked(), { ...all, limit: Infinity })
      assert.strictEqual(rows.length, SERVERS)
      assert.strictEqual(new Set(rows.map(({ tuid }) => tuid.text)).size, SERVERS)
      // a few servers come through at a time, and a page that is too long is tried three times
      assert.isBelow(store.begun, SERVERS)
    })
  )
})
