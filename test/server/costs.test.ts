/** What a message reads and writes where its definition has neither keys, limits, versions nor durable actions: counted. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Layer, Logger, Schema, type Scope } from "effect"
import { type Backend, DgenServer, MemoryBackend, Tenant, Tuple } from "effect-dgen"
import { indexesOf } from "../../src/internal/server/kept/indexes.ts"
import { inside, keysOf, tapped } from "../suites/server/support.ts"

const messages = {
  Count: DgenServer.call({ success: Schema.Int }),
  Look: DgenServer.call({ success: Schema.Int }),
  Add: DgenServer.cast()
}

class Plain extends DgenServer.Service<Plain>()("Plain", { state: Schema.Int, messages, actions: { Tell: {} } }) {}

class Hosted extends DgenServer.Service<Hosted>()("Hosted", {
  state: Schema.Int,
  messages,
  actions: { Tell: {} },
  hosted: true
}) {}

const behaviour = Plain.behaviour({
  init: Effect.succeed(0),
  handlers: {
    Count: (_, n) => DgenServer.reply(n + 1, n + 1, [Plain.action("Tell", {})]),
    Look: (_, n) => DgenServer.reply(n, n),
    Add: (_, n) => DgenServer.noReply(n + 1, [Plain.action("Tell", {})])
  }
})

const hostedBehaviour = Hosted.behaviour({
  init: Effect.succeed(0),
  handlers: {
    Count: (_, n) => DgenServer.reply(n + 1, n + 1, [Hosted.action("Tell", {})]),
    Look: (_, n) => DgenServer.reply(n, n),
    Add: (_, n) => DgenServer.noReply(n + 1, [Hosted.action("Tell", {})])
  }
})

const isUnder = (prefix: Uint8Array, key: Uint8Array): boolean =>
  Buffer.from(key.subarray(0, prefix.length)).equals(Buffer.from(prefix))

/** What lies under a prefix, by its name. */
const nameIn = (prefix: Uint8Array) => (key: Uint8Array): string | undefined => {
  if (!isUnder(prefix, key)) return undefined
  const [name] = Tuple.unpack(key.subarray(0, key.indexOf(0, prefix.length + 1) + 1), prefix.length)
  return String(name)
}

/** Runs in a tenant that tells what is read and written of a server, and of its place among those that have something to do. */
const counted = (tuid: Tuple.Tuple) =>
  Effect.gen(function*() {
    const { prefix } = yield* keysOf(tuid)
    const tenant = yield* Tenant.Tenant
    const name = nameIn(prefix)
    const { bells, list, wakes, work } = indexesOf(tenant.prefix, "Hosted")
    const places = { entry: work, bell: bells, wake: wakes, listed: list }
    const seen: Array<string> = []
    const waits = { rests: yield* Deferred.make<void>() }
    const note = (what: string, key: Uint8Array) => {
      const found = name(key) ?? Object.entries(places).find(([, place]) => isUnder(place, key))?.[0]
      // a host looks at its bells and wake-ups at any time
      const isLook = what === "range" && (found === "bell" || found === "wake")
      if (found !== undefined && !isLook) seen.push(`${what} ${found}`)
      // nothing of what keys and durable actions have beside their servers
      else assert.isFalse(isDurable(tenant.prefix, key), what)
    }
    const rests = Effect.suspend(() => Effect.asVoid(Deferred.succeed(waits.rests, undefined)))
    const context = yield* tapped({
      gets: (key) => note("get", key),
      reads: (begin) => note("range", begin),
      watched: (watches) => watches.some(({ key }) => isUnder(prefix, key)) ? rests : Effect.void,
      before: ({ mutations }) =>
        Effect.sync(() => {
          for (const mutation of mutations) {
            note(mutation.op, mutation.op === "clearRange" ? mutation.begin : mutation.key)
          }
        }),
      after: ({ mutations }) =>
        mutations.some((mutation) => mutation.op === "clear" && isUnder(work, mutation.key)) ? rests : Effect.void
    })
    return {
      context,
      /** The server rests, or its consumer waits, for the first time. */
      first: Effect.suspend(() => Deferred.await(waits.rests)),
      /** What an effect reads and writes. */
      costs: (run: Effect.Effect<unknown, unknown>) =>
        Effect.suspend(() => {
          seen.length = 0
          return Effect.map(run, () => seen.toSorted())
        }),
      /** The same, until the server has nothing to do any more. */
      costsUntilRest: (run: Effect.Effect<unknown, unknown>) =>
        Effect.gen(function*() {
          waits.rests = yield* Deferred.make<void>()
          seen.length = 0
          yield* run
          yield* Deferred.await(waits.rests)
          return seen.toSorted()
        })
    }
  })

const inMemory = (run: Effect.Effect<void, unknown, Tenant.Tenant | Backend.Backend | Scope.Scope>) =>
  run.pipe(
    Effect.scoped,
    Effect.provide(Tenant.layer(["costs"]).pipe(Layer.provideMerge(MemoryBackend.layer))),
    Effect.provide(Logger.layer([]))
  )

const words = (text: string) => text.split(", ")

/** What a cast costs in its two commits, wherever its server runs. */
const CAST = words("add push, clear item, get head, range item, set head, set state, versionstampedKey item")

/** What it costs beside that where its server is hosted: an entry, and its end with the end of the queue. */
const HOSTED = words("add bell, clear entry, clear pop, clear push, get entry, get wake, set entry")

describe("a definition without keys, limits, versions and durable actions", () => {
  it.live("reads and writes what it did before there were any, where its server is started", () =>
    inMemory(Effect.gen(function*() {
      const { context, costs, costsUntilRest, first } = yield* counted(["plain"])
      const start = Plain.start(behaviour, { tuid: ["plain"] }).pipe(
        Effect.provide(Plain.actionsLayer({ Tell: () => Effect.void })),
        inside(context)
      )
      const plain = yield* start
      yield* first
      yield* plain.call("Count")
      assert.deepStrictEqual(yield* costs(plain.call("Look")), ["get head", "range item"])
      assert.deepStrictEqual(yield* costs(plain.call("Count")), ["get head", "range item", "set head", "set state"])
      // the consumer takes it, and looks again before it waits
      const waiting = words("get head, range item, range timer")
      assert.deepStrictEqual(yield* costsUntilRest(plain.cast("Add")), [...CAST, "add pop", ...waiting].sort())
      yield* plain.stop()
      const opened = Effect.flatMap(start, (again) => Effect.andThen(first, again.call("Look")))
      // the start, the first look of the consumer, which measures the queue, and a call that loads the state
      assert.deepStrictEqual(
        yield* costsUntilRest(Effect.scoped(opened)),
        words(
          "get head, get head, get head, get head, get name, get pop, get push, range item, range item, " +
            "range state, range state, range timer"
        )
      )
    })))

  it.live("reads and writes no more than it did, where its server is hosted", () =>
    inMemory(Effect.gen(function*() {
      const { context, costs, costsUntilRest } = yield* counted(["hosted"])
      const host = Hosted.hostLayer(hostedBehaviour).pipe(
        Layer.provide(Hosted.actionsLayer({ Tell: () => Effect.void }))
      )
      const hosting = <A, E, R>(run: Effect.Effect<A, E, R>) =>
        Effect.andThen(Layer.build(host), run).pipe(Effect.scoped, inside(context))
      const client = yield* Hosted.client({ tuid: ["hosted"] }).pipe(inside(context))
      yield* hosting(Effect.gen(function*() {
        const made = words("clearRange state, set listed, set name")
        assert.deepStrictEqual(yield* costsUntilRest(client.cast("Add")), [...CAST, ...HOSTED, ...made].sort())
        assert.deepStrictEqual(yield* costsUntilRest(client.cast("Add")), [...CAST, ...HOSTED].sort())
        assert.deepStrictEqual(yield* costs(client.call("Look")), ["get head", "range item"])
        assert.deepStrictEqual(yield* costs(client.call("Count")), ["get head", "range item", "set head", "set state"])
      }))
      // one that sleeps is loaded
      const loaded = words("get name, range state")
      assert.deepStrictEqual(
        yield* hosting(costsUntilRest(client.cast("Add"))),
        [...CAST, ...HOSTED, ...loaded].sort()
      )
    })))
})

/** Whether a key is one of a tenant's durable actions. */
const isDurable = (tenantPrefix: Uint8Array, key: Uint8Array): boolean => {
  const durable = Tuple.pack(["a"], Uint8Array.of(...tenantPrefix, ...Tuple.pack([1])))
  return isUnder(durable, key)
}
