/** States that do not fit their schema: when a server starts, and under a server that runs (rule R16). */
import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Schema } from "effect"
import { DgenServer } from "effect-dgen"
import { packValue } from "../../../src/internal/data/codec.ts"
import {
  elsewhere,
  fast,
  inside,
  keptLogs,
  keysOf,
  overwrite,
  rowsUnder,
  type Store,
  testsOf,
  until
} from "./support.ts"

const messages = {
  Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }),
  AddCast: DgenServer.cast({ payload: { by: Schema.Int } })
}

class Count extends DgenServer.Service<Count>()("Count", {
  state: Schema.Struct({ inner: Schema.Struct({ count: Schema.Int }) }),
  messages
}) {}

/** The next release, whose state has another form. */
class Renamed extends DgenServer.Service<Renamed>()("Count", {
  state: Schema.Struct({ inner: Schema.Struct({ count: Schema.String }) }),
  messages
}) {}

const count = Count.behaviour({
  init: Effect.succeed({ inner: { count: 0 } }),
  handlers: {
    Add: ({ by }, { inner }) => DgenServer.reply(inner.count + by, { inner: { count: inner.count + by } }),
    AddCast: ({ by }, { inner }) => DgenServer.noReply({ inner: { count: inner.count + by } })
  }
})

const renamed = Renamed.behaviour({
  init: Effect.succeed({ inner: { count: "0" } }),
  handlers: {
    Add: (_, state) => DgenServer.reply(0, state),
    AddCast: (_, state) => DgenServer.noReply(state)
  }
})

const start = (options: DgenServer.Options = {}) => Count.start(count, { ...fast, tuid: ["Count"], ...options })

/** All rows of the server, as they are. */
const rows = Effect.flatMap(keysOf(["Count"]), ({ prefix }) => rowsUnder(prefix))

/** Another program writes a state of its own, as a consumer of another process would: every row that ends in a value. */
const garble = (garbage: Uint8Array) =>
  Effect.gen(function*() {
    const keys = yield* keysOf(["Count"])
    const state = yield* rowsUnder(keys.state)
    yield* overwrite([
      { op: "set", key: keys.head, value: new Uint8Array(22).fill(7) },
      ...state.filter((row) => row.value.length > 0).map((row) => ({
        op: "set" as const,
        key: row.key,
        value: garbage
      }))
    ])
  })

export const stateSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "state")

  describe(`${name}: a state that does not fit its schema`, () => {
    live(
      "fails the start with the path, and changes nothing",
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.flatMap(start(), (server) => server.call("Add", { by: 3 })))
        const before = yield* rows
        const other = yield* elsewhere
        const error: any = yield* Effect.flip(inside(other)(Renamed.start(renamed, { tuid: ["Count"] })))
        assert.deepStrictEqual([error._tag, error.operation, error.field], ["StateError", "decode", "inner.count"])
        assert.deepStrictEqual(yield* rows, before)
        const client = yield* inside(other)(Renamed.client())
        assert.strictEqual((yield* Effect.flip(client.state))._tag, "StateError")
        const server = yield* start()
        assert.strictEqual(yield* server.call("Add", { by: 1 }), 4)
      })
    )
    live(
      "is put right by a start with reset",
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.flatMap(start(), (server) => server.call("Add", { by: 3 })))
        const other = yield* elsewhere
        const server = yield* inside(other)(Renamed.start(renamed, { tuid: ["Count"], reset: true }))
        assert.deepStrictEqual(yield* server.state, { inner: { count: "0" } })
      })
    )
    for (
      const [what, bytes] of Object.entries({
        "of another type": packValue({ count: "many" }),
        "no MessagePack": Uint8Array.of(0xc1, 1, 2)
      })
    ) {
      for (const consumeK of [1, 5]) {
        live(
          `${what}, under a running consumer (consumeK ${consumeK}): it stops, and changes nothing`,
          Effect.gen(function*() {
            const logs = keptLogs()
            const server = yield* start({ consumeK, deadLetterThreshold: 1 }).pipe(Effect.provide(logs.layer))
            assert.strictEqual(yield* server.call("Add", { by: 1 }), 1)
            yield* garble(bytes)
            const before = (yield* rows).filter((row) => row.value.length > 8)
            yield* server.cast("AddCast", { by: 1 })
            const exit: any = yield* until(
              Effect.exit(server.call("Add", { by: 1 })),
              (exit) => Exit.isFailure(exit)
            )
            const { error } = exit.cause.reasons[0]
            assert.strictEqual(error._tag, "ServerStopped")
            assert.include(error.reason, "does not fit its schema")
            if (what === "of another type") assert.include(error.reason, "inner.count")
            assert.strictEqual(logs.count("state cannot be read"), 1)
            // the cast waits, uncharged, for a release that reads the state
            const after = (yield* rows).filter((row) => before.some(({ key }) => Buffer.compare(key, row.key) === 0))
            assert.deepStrictEqual(after, before)
            assert.isAtLeast(yield* server.queueLength, 1)
          })
        )
      }
      for (const operation of ["call", "priorityCall"] as const) {
        live(
          `${what}, met by a ${operation} alone: the handle stops, and changes nothing`,
          Effect.gen(function*() {
            const server = yield* start({ deadLetterThreshold: 1 })
            assert.strictEqual(yield* server.call("Add", { by: 1 }), 1)
            yield* garble(bytes)
            const before = yield* rows
            const error: any = yield* Effect.flip(server[operation]("Add", { by: 1 }))
            assert.strictEqual(error._tag, "ServerStopped")
            assert.include(error.reason, "does not fit its schema")
            assert.strictEqual((yield* Effect.flip(server.call("Add", { by: 1 })))._tag, "ServerStopped")
            assert.deepStrictEqual(yield* rows, before)
          })
        )
      }
    }
    live(
      "with a head that says nothing, too",
      Effect.gen(function*() {
        const server = yield* start()
        const { head } = yield* keysOf(["Count"])
        yield* overwrite([{ op: "set", key: head, value: Uint8Array.of(1, 2, 3) }])
        yield* server.cast("AddCast", { by: 1 })
        yield* until(Effect.exit(server.call("Add", { by: 1 })), Exit.isFailure)
        const other = yield* elsewhere
        const error: any = yield* Effect.flip(inside(other)(start()))
        assert.strictEqual(error._tag, "StateError")
      })
    )
  })
}
