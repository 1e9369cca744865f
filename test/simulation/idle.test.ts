/** What hosts cost that have nothing to do, counted where the store is asked. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Logger, Schema } from "effect"
import { Backend, DgenServer, Tenant } from "effect-dgen"
import { run } from "../../src/testing/Simulation.ts"

const HOSTS = 20

/** Long enough for beats, nets behind watches, and slow looks. */
const SECONDS = 300

const hostOf = (i: number) => {
  class Idle extends DgenServer.Service<Idle>()(`Idle${i}`, {
    state: Schema.Int,
    hosted: true,
    messages: { Add: DgenServer.cast() }
  }) {}
  const behaviour = Idle.behaviour({
    init: Effect.succeed(0),
    handlers: { Add: (_, state) => DgenServer.noReply(state + 1) }
  })
  return { Idle, layer: Idle.hostLayer(behaviour) }
}

/** A store that counts what it is asked. */
const counting = (counts: { reads: number; writes: number }) =>
  Effect.map(Backend.Backend, (backend) =>
    Backend.Backend.of({
      ...backend,
      begin: Effect.map(backend.begin, (driver) => ({
        readVersion: driver.readVersion,
        get: (key) => {
          counts.reads++
          return driver.get(key)
        },
        getRange: (begin, end, options) => {
          counts.reads++
          return driver.getRange(begin, end, options)
        },
        commit: (request, accepted) => {
          if (request.mutations.length > 0) counts.writes++
          return driver.commit(request, accepted)
        },
        close: () => driver.close()
      }))
    }))

it.live(`${HOSTS} hosts that have nothing to do read less than 20 times a second, and write less than 10 times`, () =>
  run({ seed: 1 }, () =>
    Effect.gen(function*() {
      const counts = { reads: 0, writes: 0 }
      const backend = yield* counting(counts)
      yield* Effect.gen(function*() {
        const hosts = Array.from({ length: HOSTS }, (_, i) => hostOf(i))
        for (const { Idle, layer } of hosts) {
          yield* Layer.build(Layer.fresh(layer))
          for (let server = 0; server < 50; server++) {
            yield* Effect.flatMap(Idle.client({ tuid: [server] }), (client) => client.cast("Add"))
          }
        }
        yield* Effect.sleep("1 minute")
        Object.assign(counts, { reads: 0, writes: 0 })
        yield* Effect.sleep(`${SECONDS} seconds`)
        assert.isBelow(counts.reads / SECONDS, 20)
        assert.isBelow(counts.writes / SECONDS, 10)
      }).pipe(
        Effect.provide(Tenant.layer(["idle"])),
        Effect.provideService(Backend.Backend, backend)
      )
    })).pipe(Effect.provide(Logger.layer([]))))

const SLEEPING = 300

it.live("a message to a server that sleeps costs two commits at the most: its own, and that of its handling", () =>
  run({ seed: 1 }, () =>
    Effect.gen(function*() {
      const counts = { reads: 0, writes: 0 }
      const backend = yield* counting(counts)
      yield* Effect.gen(function*() {
        const { Idle, layer } = hostOf(0)
        yield* Layer.build(Layer.fresh(layer))
        const clients = yield* Effect.forEach(
          Array.from({ length: SLEEPING }, (_, i) => i),
          (i) => Idle.client({ tuid: [i] })
        )
        // the first of them make the servers
        yield* Effect.forEach(clients, (client) => client.cast("Add"), { concurrency: 16 })
        yield* Effect.sleep("10 minutes")
        Object.assign(counts, { reads: 0, writes: 0 })
        yield* Effect.forEach(clients, (client) => client.cast("Add"), { concurrency: 16 })
        yield* Effect.sleep("1 second")
        const { writes } = counts
        for (const client of clients) assert.strictEqual(yield* client.state, 2)
        // and a sign of life of the host
        assert.isAtMost(writes, 2 * SLEEPING + 1)
      }).pipe(
        Effect.provide(Tenant.layer(["sleeping"])),
        Effect.provideService(Backend.Backend, backend)
      )
    })).pipe(Effect.provide(Logger.layer([]))))

it.live("timers of many servers that are due at once are sent together, in order, and each is handled once", () =>
  run({ seed: 1 }, () =>
    Effect.gen(function*() {
      const counts = { reads: 0, writes: 0 }
      const backend = yield* counting(counts)
      yield* Effect.gen(function*() {
        const { Idle, layer } = hostOf(1)
        yield* Layer.build(Layer.fresh(layer))
        const clients = yield* Effect.forEach(
          Array.from({ length: SLEEPING }, (_, i) => i),
          (i) => Idle.client({ tuid: [i] })
        )
        yield* Effect.forEach(clients, (client) => client.castLater("Add", { after: "1 hour" }), { discard: true })
        yield* Effect.sleep("50 minutes")
        for (const client of clients) assert.isUndefined(yield* client.state)
        Object.assign(counts, { reads: 0, writes: 0 })
        yield* Effect.sleep("11 minutes")
        for (const client of clients) assert.strictEqual(yield* client.state, 1)
        // one for the handling of each, a few for sending them, and what a host writes in eleven minutes
        assert.isBelow(counts.writes, 1.1 * SLEEPING + 11 * 25)
      }).pipe(
        Effect.provide(Tenant.layer(["timed"])),
        Effect.provideService(Backend.Backend, backend)
      )
    })).pipe(Effect.provide(Logger.layer([]))))
