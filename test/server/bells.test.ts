/** What a host hears of while it has no room: nothing is forgotten, wherever the look at the entries was. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Layer } from "effect"
import { MemoryBackend, Tenant, Transaction, Tuple } from "effect-dgen"
import * as Counters from "../../src/internal/data/counters.ts"
import { Bells } from "../../src/internal/server/hosting/bells.ts"
import { bellOf, indexesOf } from "../../src/internal/server/kept/indexes.ts"

const BELL = 0

/** Servers of one bell, in the order of their entries. */
const tuids = Array.from({ length: 20_000 }, (_, n): Tuple.Tuple => ["server", n])
  .filter((tuid) => bellOf(Tuple.pack(tuid)) === BELL)

/** Offers that find room before there is none. */
const ROOM = 300

/** Writes the entries of servers, as somebody in another process. */
const enter = (entered: ReadonlyArray<Tuple.Tuple>) =>
  Tenant.transact(Effect.map(Transaction.Transaction, (state) => {
    const entries = indexesOf(state.prefix, "Hive").entries(BELL)
    for (const tuid of entered) state.set(Tuple.pack([tuid], entries), Uint8Array.of(1))
  }))

describe("a host without room", () => {
  for (const when of ["before", "during"] as const) {
    it.live(
      `hears of an entry in front of where its look stopped, that was missed ${when} the next page`,
      () =>
        Effect.gen(function*() {
          const tenant = yield* Tenant.Tenant
          const [first, ...others] = tuids
          const heard = new Set<string>()
          const [full, all] = yield* Effect.all([Deferred.make<void>(), Deferred.make<void>()])
          let hasRoom = false
          const bells: Bells = new Bells({
            tenant,
            indexes: indexesOf(tenant.prefix, "Hive"),
            due: () => Effect.void,
            offer: (tuid) => {
              if (!hasRoom && heard.size === ROOM) {
                Deferred.doneUnsafe(full, Effect.void)
                return false
              }
              // it is made, and finds no room, while the page is at others
              if (when === "during" && hasRoom && heard.size === ROOM) bells.missed(BELL)
              heard.add(JSON.stringify(tuid))
              if (heard.size === tuids.length) Deferred.doneUnsafe(all, Effect.void)
              return true
            }
          })
          yield* enter(others)
          yield* Effect.forkScoped(bells.listen)
          yield* Deferred.await(full)
          yield* enter([first!])
          if (when === "before") bells.missed(BELL)
          hasRoom = true
          bells.call()
          yield* Deferred.await(all)
          assert.strictEqual(heard.size, tuids.length)
        }).pipe(
          Effect.scoped,
          Effect.provide(Tenant.layer(["bells"]).pipe(Layer.provideMerge(MemoryBackend.layer)))
        ),
      20_000
    )
  }
})

describe("a host whose own ring was seen and dropped, because another process was faster", () => {
  for (const [what, drops] of [["dropped", true], ["kept", false]] as const) {
    it.live(`hears of the ring of another after one that was ${what}`, () =>
      Effect.gen(function*() {
        const tenant = yield* Tenant.Tenant
        const indexes = indexesOf(tenant.prefix, "Hive")
        const [first, second] = tuids
        const heard = new Map([first!, second!].map((tuid) => [JSON.stringify(tuid), Deferred.makeUnsafe<void>()]))
        const bells = new Bells({
          tenant,
          indexes,
          due: () => Effect.void,
          offer: (tuid) => {
            Deferred.doneUnsafe(heard.get(JSON.stringify(tuid))!, Effect.void)
            return true
          }
        })
        const rings = Tenant.transact(
          Effect.map(Transaction.Transaction, (state) => state.add(indexes.bell(BELL), Counters.PLUS_ONE))
        )
        yield* Effect.andThen(enter([first!]), rings)
        yield* Effect.forkScoped(bells.listen)
        yield* Deferred.await(heard.get(JSON.stringify(first))!)
        const own = bells.ringing(BELL)
        if (!drops) yield* rings
        own.rang()
        if (!drops) own.stayed()
        own.ended()
        yield* Effect.andThen(enter([second!]), rings)
        yield* Deferred.await(heard.get(JSON.stringify(second))!)
      }).pipe(
        Effect.scoped,
        Effect.provide(Tenant.layer(["bells"]).pipe(Layer.provideMerge(MemoryBackend.layer)))
      ), 20_000)
  }
})
