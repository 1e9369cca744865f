/** What a message reads and writes where its definition has neither keys, limits, versions nor durable actions: counted. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Layer, Logger, Schema } from "effect"
import { DgenServer, MemoryBackend, Tenant, Tuple } from "effect-dgen"
import { inside, keysOf, tapped, until } from "../suites/server/support.ts"

const messages = {
  Count: DgenServer.call({ success: Schema.Int }),
  Look: DgenServer.call({ success: Schema.Int }),
  Add: DgenServer.cast()
}

class Plain extends DgenServer.Service<Plain>()("Plain", { state: Schema.Int, messages, actions: { Tell: {} } }) {}

const behaviour = Plain.behaviour({
  init: Effect.succeed(0),
  handlers: {
    Count: (_, n) => DgenServer.reply(n + 1, n + 1, [Plain.action("Tell", {})]),
    Look: (_, n) => DgenServer.reply(n, n),
    Add: (_, n) => DgenServer.noReply(n + 1, [Plain.action("Tell", {})])
  }
})

/** What lies under a server's prefix, by its name. */
const nameIn = (prefix: Uint8Array) => (key: Uint8Array): string | undefined => {
  if (!Buffer.from(key.subarray(0, prefix.length)).equals(Buffer.from(prefix))) return undefined
  const [name] = Tuple.unpack(key.subarray(0, key.indexOf(0, prefix.length + 1) + 1), prefix.length)
  return String(name)
}

describe("a definition without keys, limits, versions and durable actions", () => {
  it.live("reads and writes what it did before there were any", () =>
    Effect.gen(function*() {
      const { prefix } = yield* keysOf(["plain"])
      const tenant = yield* Tenant.Tenant
      const name = nameIn(prefix)
      const seen: Array<string> = []
      const waits = yield* Deferred.make<void>()
      const own = (what: string, key: Uint8Array) => {
        const found = name(key)
        if (found !== undefined) seen.push(`${what} ${found}`)
        // nothing of what keys and durable actions have beside their servers
        else assert.isFalse(isDurable(tenant.prefix, key), what)
      }
      const context = yield* tapped({
        gets: (key) => own("get", key),
        reads: (begin) => own("range", begin),
        watched: () => Effect.asVoid(Deferred.succeed(waits, undefined)),
        before: ({ mutations }) =>
          Effect.sync(() => {
            for (const mutation of mutations) {
              own(mutation.op, mutation.op === "clearRange" ? mutation.begin : mutation.key)
            }
          })
      })
      const plain = yield* Plain.start(behaviour, { tuid: ["plain"] }).pipe(
        Effect.provide(Plain.actionsLayer({ Tell: () => Effect.void })),
        inside(context)
      )
      const costs = (run: Effect.Effect<unknown, unknown>) =>
        Effect.suspend(() => {
          seen.length = 0
          return Effect.map(run, () => seen.toSorted())
        })
      // the consumer has nothing to do: what is read from now on is what messages read
      yield* Deferred.await(waits)
      yield* plain.call("Count")
      assert.deepStrictEqual(yield* costs(plain.call("Look")), ["get head", "range item"])
      assert.deepStrictEqual(yield* costs(plain.call("Count")), ["get head", "range item", "set head", "set state"])
      const cast = Effect.andThen(plain.cast("Add"), until(plain.state, (n) => n === 3))
      yield* costs(cast)
      assert.deepStrictEqual(seen.filter((one) => !one.startsWith("get") && !one.startsWith("range")).toSorted(), [
        "add pop",
        "add push",
        "clear item",
        "set head",
        "set state",
        "versionstampedKey item"
      ])
    }).pipe(
      Effect.scoped,
      Effect.provide(Tenant.layer(["costs"]).pipe(Layer.provideMerge(MemoryBackend.layer))),
      Effect.provide(Logger.layer([]))
    ))
})

/** Whether a key is one of a tenant's durable actions. */
const isDurable = (tenantPrefix: Uint8Array, key: Uint8Array): boolean => {
  const durable = Tuple.pack(["a"], Uint8Array.of(...tenantPrefix, ...Tuple.pack([1])))
  return Buffer.from(key.subarray(0, durable.length)).equals(Buffer.from(durable))
}
