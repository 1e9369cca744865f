/** What TypeScript lets through: values with more properties than their schemas have. */
import { assert, describe } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { DgenServer, Tenant } from "effect-dgen"
import { fast, type Store, testsOf, until } from "./support.ts"

class Refused extends Schema.TaggedError<Refused>()("Refused", { at: Schema.Struct({ x: Schema.Int }) }) {}

const Form = Schema.Union([Schema.Struct({ a: Schema.Int }), Schema.Struct({ a: Schema.Int, b: Schema.Int })])
const payload = { by: Schema.Int, deep: Schema.Struct({ n: Schema.Int }) }

class Sieve extends DgenServer.Service<Sieve>()("Sieve", {
  state: Schema.Struct({ seen: Schema.Array(Schema.String) }),
  messages: {
    Ask: DgenServer.call({ payload, success: Schema.Struct({ by: Schema.Int }) }),
    Refuse: DgenServer.call({ error: Refused }),
    Put: DgenServer.cast({ payload }),
    Tell: DgenServer.info({ payload }),
    Either: DgenServer.call({ payload: Form, success: Form }),
    Misfit: DgenServer.call()
  }
}) {}

const seen = (state: { readonly seen: ReadonlyArray<string> }, value: unknown) => ({
  seen: [...state.seen, JSON.stringify(value)]
})

const sieve = Sieve.behaviour({
  init: Effect.succeed({ seen: [] }),
  handlers: {
    Ask: (payload, state) => DgenServer.reply({ ...payload, more: true }, seen(state, payload)),
    Refuse: () => Effect.fail(new Refused({ at: more({ x: 1 }) })),
    Put: (payload, state) => DgenServer.noReply(seen(state, payload)),
    Tell: (payload, state) => DgenServer.noReply(seen(state, payload)),
    Either: (payload, state) => DgenServer.reply(payload, seen(state, payload)),
    Misfit: (_, state) => DgenServer.reply(undefined, more(state))
  }
})

/** As an object that was read from somewhere has. */
const more = <O extends object>(value: O): O => ({ ...value, more: { of: "it" } })

const sent = more({ by: 1, deep: more({ n: 2 }) })
const taken = { by: 1, deep: { n: 2 } }

export const excessSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "excess")

  describe(`${name}: properties that a schema does not have`, () => {
    for (const consumeK of [1, 5]) {
      live(
        `are left out of payloads and answers, on every way (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const server = yield* Sieve.start(sieve, { ...fast, tuid: ["Sieve"], consumeK })
          const client = yield* Sieve.client()
          assert.deepStrictEqual(yield* server.call("Ask", sent), { by: 1 })
          assert.deepStrictEqual(yield* client.call("Ask", sent), { by: 1 })
          assert.deepStrictEqual(yield* server.priorityCall("Ask", sent), { by: 1 })
          yield* server.cast("Put", sent)
          yield* server.castAll([["Put", sent], ["Put", sent]])
          yield* Tenant.transact(Sieve.castTx("Put", sent))
          yield* server.priorityCast("Put", sent)
          yield* server.info("Tell", sent)
          yield* until(server.queueLength, (length) => length === 0)
          assert.deepStrictEqual(
            (yield* server.state)?.seen.map((text) => JSON.parse(text)),
            Array.from({ length: 9 }, () => taken)
          )
          const error = yield* Effect.flip(server.call("Refuse"))
          assert.deepStrictEqual(error._tag === "Refused" ? { ...error.at } : error, { x: 1 })
        })
      )
    }
    live(
      "tell the members of a union apart where they belong to one",
      Effect.gen(function*() {
        const server = yield* Sieve.start(sieve, { ...fast, tuid: ["Sieve"] })
        yield* server.call("Either", { a: 1 })
        yield* server.call("Either", more({ a: 1 }))
        assert.deepStrictEqual((yield* server.state)?.seen, ["{\"a\":1}", "{\"a\":1}"])
      })
    )
    live(
      "are refused in a state, where they would be lost without a word",
      Effect.gen(function*() {
        const server = yield* Sieve.start(sieve, { ...fast, tuid: ["Sieve"], deadLetterThreshold: 1 })
        const error = yield* Effect.flip(server.call("Misfit"))
        assert.strictEqual(error._tag, "DeadLettered")
        assert.include(error.message, "more")
        assert.deepStrictEqual(yield* server.state, { seen: [] })
      })
    )
  })
}
