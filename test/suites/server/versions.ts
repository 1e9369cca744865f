/** Two releases of one server beside each other, on one store: what the older one does not know is the newer one's. */
import { assert, describe } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { type BackendError, DgenServer, Tenant, Tuple } from "effect-dgen"
import { formatKey } from "../../../src/internal/tenant/layout.ts"
import { elsewhere, fast, inside, overwrite, rowsUnder, type Store, testsOf, until } from "./support.ts"

const item = { id: Schema.String, title: Schema.String }

class Old extends DgenServer.Service<Old>()("Board", {
  state: Schema.Struct({ n: Schema.Int, items: Schema.Array(Schema.Struct(item)) }),
  messages: {
    Bump: DgenServer.call({ success: Schema.Int }),
    Retitle: DgenServer.cast({ payload: item })
  }
}) {}

/** The next release. */
class New extends DgenServer.Service<New>()("Board", {
  state: Schema.Struct({
    n: Schema.Int,
    items: Schema.Array(Schema.Struct({ ...item, done: Schema.Boolean })),
    log: Schema.Array(Schema.String),
    byUser: Schema.Record(Schema.String, Schema.Int)
  }),
  messages: {
    Bump: DgenServer.call({ success: Schema.Int }),
    Retitle: DgenServer.cast({ payload: item })
  }
}) {}

const retitled = <I extends { readonly id: string; readonly title: string }>(
  items: ReadonlyArray<I>,
  { id, title }: { readonly id: string; readonly title: string }
) => items.map((found) => found.id === id ? { ...found, title } : found)

const old = Old.behaviour({
  init: Effect.succeed({ n: 0, items: [] }),
  handlers: {
    Bump: (_, state) => DgenServer.reply(state.n + 1, { ...state, n: state.n + 1 }),
    Retitle: (payload, state) => DgenServer.noReply({ ...state, items: retitled(state.items, payload) })
  }
})

const first = {
  n: 0,
  items: [{ id: "x", title: "X", done: true }, { id: "y", title: "Y", done: false }],
  log: ["a"],
  byUser: { ada: 1 }
}

const next = New.behaviour({
  init: Effect.succeed(first),
  handlers: {
    Bump: (_, state) => DgenServer.reply(state.n + 1, { ...state, n: state.n + 1, log: [...state.log, "bump"] }),
    Retitle: (payload, state) => DgenServer.noReply({ ...state, items: retitled(state.items, payload) })
  }
})

const options = { ...fast, tuid: ["Board"] }

/** Another release writes down which format it has given to the tenant. */
const record = (value: Uint8Array) =>
  Effect.flatMap(Tenant.Tenant, ({ prefix }) => overwrite([{ op: "set", key: formatKey(prefix), value }]))

export const versionsSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "versions")

  describe(`${name}: a tenant's format`, () => {
    for (const value of [Tuple.pack([2]), Tuple.pack(["two"]), Uint8Array.of(0xff)]) {
      live(
        `that this version does not know (${Buffer.from(value).toString("hex")}) is refused, with what to do`,
        Effect.gen(function*() {
          yield* record(value)
          const error = (yield* Effect.flip(elsewhere)) as BackendError.BackendError
          assert.strictEqual(error.reason._tag, "NewerFormat")
          assert.isFalse(error.isRetryable)
          assert.include(error.message, "install the version")
          assert.include(error.message, "versions")
        })
      )
    }
    live(
      "is 1 without a record, and with one that says so; nothing is written for it",
      Effect.gen(function*() {
        const { prefix } = yield* Tenant.Tenant
        assert.deepStrictEqual(yield* rowsUnder(formatKey(prefix)), [])
        yield* record(Tuple.pack([1]))
        yield* inside(yield* elsewhere)(Old.start(old, options))
      })
    )
  })

  describe(`${name}: two releases of a server`, () => {
    for (const cache of [true, false]) {
      live(
        `an older one keeps what it does not know of the state, and the newer one reads it (cache: ${cache})`,
        Effect.gen(function*() {
          yield* Effect.scoped(New.start(next, options))
          const other = yield* elsewhere
          yield* Effect.scoped(Effect.gen(function*() {
            const server = yield* inside(other)(Old.start(old, { ...options, cache }))
            assert.strictEqual(yield* server.call("Bump"), 1)
            assert.strictEqual(yield* server.call("Bump"), 2)
            yield* server.cast("Retitle", { id: "y", title: "Why" })
            yield* until(server.queueLength, (length) => length === 0)
          }))
          const server = yield* New.start(next, { ...options, cache })
          assert.deepStrictEqual(yield* server.state, {
            ...first,
            n: 2,
            items: [first.items[0]!, { id: "y", title: "Why", done: false }]
          })
        })
      )
    }
    live(
      "taking turns, each with its cache, they lose nothing of each other",
      Effect.gen(function*() {
        const newer = yield* New.start(next, options)
        const other = yield* elsewhere
        const older = yield* inside(other)(Old.start(old, options))
        for (let turn = 0; turn < 4; turn++) {
          yield* newer.call("Bump")
          yield* older.call("Bump")
        }
        const state = yield* newer.state
        assert.strictEqual(state!.n, 8)
        assert.deepStrictEqual(state!.byUser, { ada: 1 })
        assert.deepStrictEqual(state!.items, first.items)
        // either may have handled any of the calls: the log has the newer one's, and none is lost
        assert.strictEqual(state!.log[0], "a")
        assert.deepStrictEqual(yield* older.state, {
          n: 8,
          items: first.items.map(({ id, title }) => ({ id, title }))
        })
      })
    )
  })
}
