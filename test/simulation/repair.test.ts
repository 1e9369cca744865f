/** What hosts find by looking, where no bell leads: entries that are missing, and wake-ups of clocks that were wrong. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger, Schema } from "effect"
import { type Backend, DgenServer, Tenant, Transaction } from "effect-dgen"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { moveWake } from "../../src/internal/server/kept/indexes.ts"
import { ServerKeys } from "../../src/internal/server/kept/layout.ts"
import * as Rows from "../../src/internal/server/timers/rows.ts"
import { run, type World } from "../../src/testing/Simulation.ts"

class Bee extends DgenServer.Service<Bee>()("Bee", {
  state: Schema.Int,
  hosted: true,
  messages: { Fly: DgenServer.cast(), Wait: DgenServer.cast({ locks: true }) }
}) {}

const behaviour = Bee.behaviour({
  init: Effect.succeed(0),
  handlers: { Fly: (_, state) => DgenServer.noReply(state + 1), Wait: (_, state) => DgenServer.lock(state) }
})

const tenant = Tenant.layer(["bees"])

const hosting = Bee.hostLayer(behaviour, { lockTimeout: "10 seconds" }).pipe(
  Layer.provide(Bee.lockedLayer({ Wait: (_, state) => Effect.succeed(DgenServer.noReply(state + 1)) }))
)

const host = Layer.launch(hosting).pipe(Effect.provide(tenant))

/** Runs a program of the tenant in a world without faults. */
const test = (
  title: string,
  program: (world: World) => Effect.Effect<void, unknown, Tenant.Tenant | Backend.Backend | Scope.Scope>
) =>
  it.live(
    title,
    () => run({ seed: 1 }, (world) => Effect.provide(program(world), tenant)).pipe(Effect.provide(Logger.layer([])))
  )

const tuidOf = (bee: number) => ["bee", bee]

const keysOf = (tuid: ReadonlyArray<string | number>) =>
  Effect.map(Tenant.Tenant, ({ prefix }) => new ServerKeys(prefix, tuid, { name: "Bee", hosted: true }))

describe("a host that looks", () => {
  test("finds servers whose queue is not empty and that have no entry, a few a minute", (world) =>
    Effect.gen(function*() {
      const bees = yield* Effect.forEach([0, 1, 2], (bee) => Bee.client({ tuid: tuidOf(bee) }))
      for (const [bee, client] of bees.entries()) {
        yield* client.cast("Fly")
        const { place } = yield* keysOf(tuidOf(bee))
        yield* Tenant.transact(Effect.map(Transaction.Transaction, (state) => state.clear(place.entry)))
      }
      yield* world.spawn("host", host)
      yield* Effect.sleep("40 seconds")
      for (const client of bees) assert.isUndefined(yield* client.state)
      yield* Effect.sleep("1 minute")
      for (const client of bees) assert.strictEqual(yield* client.state, 1)
    }))

  test("finds timers that nobody is woken for", (world) =>
    Effect.gen(function*() {
      const bee = yield* Bee.client({ tuid: tuidOf(1) })
      yield* bee.castLater("Fly", { after: "1 second" })
      const { place } = yield* keysOf(tuidOf(1))
      yield* Tenant.transact(Effect.map(Transaction.Transaction, (state) => {
        state.clearRange(place.indexes.wake(0, place.tuid), place.indexes.wake(1e14, place.tuid))
      }))
      yield* world.spawn("host", host)
      yield* Effect.sleep("100 seconds")
      assert.strictEqual(yield* bee.state, 1)
    }))

  test("begins timers anew that a wrong clock has put further ahead than they can reach, behind many that are not", (world) =>
    Effect.gen(function*() {
      for (let other = 10; other < 40; other++) {
        const client = yield* Bee.client({ tuid: tuidOf(other) })
        yield* client.castLater("Fly", { after: "36500 days" })
      }
      const bee = yield* Bee.client({ tuid: tuidOf(1) })
      yield* bee.castLater("Fly", { every: "10 seconds", id: "often" })
      yield* putAhead(365 * 86_400_000)
      yield* world.spawn("host", host)
      yield* Effect.sleep("10 minutes")
      assert.isAbove((yield* bee.state) ?? 0, 10)
    }))
})

/** Moves the timer and its wake-up, as if a clock that was ahead had sent it last. */
const putAhead = (millis: number) =>
  Effect.gen(function*() {
    const keys = yield* keysOf(tuidOf(1))
    yield* Tenant.transact(Effect.gen(function*() {
      const state = yield* Transaction.Transaction
      const id = Rows.idKey(keys, "often")
      const held = Rows.decodeHeld(yield* state.get(id))!
      const rows = yield* state.getRange(
        keys.timers,
        new ServerKeys(state.prefix, tuidOf(2), { name: "Bee", hosted: true }).prefix
      )
      const [row] = Rows.assemble(keys, rows.slice(0, 1), true)
      const place = { ...held.place!, due: held.place!.due + millis }
      Rows.clear(state, keys, held.place!, held.mark)
      Rows.write(state, keys, { ...row!.timer!, ...place })
      state.set(id, Rows.encodeHeld({ mark: held.mark, place }))
      moveWake(state, keys, held.place!.due, place.due)
    }))
  })
