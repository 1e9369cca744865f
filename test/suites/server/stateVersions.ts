/** States that change their shape: what an older state becomes, when it is written, and what is refused. */
import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Schema } from "effect"
import { DgenServer } from "effect-dgen"
import {
  defectOf,
  elsewhere,
  inside,
  keptLogs,
  keysOf,
  rowsUnder,
  scan,
  type Store,
  testsOf,
  until
} from "./support.ts"

export const V1 = Schema.Struct({ lines: Schema.Array(Schema.String), note: Schema.optional(Schema.String) })
export const V2 = Schema.Struct({
  items: Schema.Array(Schema.Struct({ id: Schema.String, count: Schema.Int })),
  total: Schema.Int
})
export const V3 = Schema.Struct({
  items: Schema.Record(Schema.String, Schema.Int),
  total: Schema.Int,
  owner: Schema.NullOr(Schema.String)
})

export const toV2 = (v1: typeof V1.Type): typeof V2.Type => ({
  ...v1,
  items: v1.lines.map((id) => ({ id, count: 1 })),
  total: v1.lines.length
})
export const toV3 = (v2: typeof V2.Type): typeof V3.Type => ({
  items: Object.fromEntries(v2.items.map(({ count, id }) => [id, count])),
  total: v2.total,
  owner: null
})

const messages = {
  Look: DgenServer.call({ success: Schema.String }),
  Touch: DgenServer.call({ success: Schema.String }),
  Add: DgenServer.call({ payload: { id: Schema.String }, success: Schema.Int })
}

class One extends DgenServer.Service<One>()("Cart", { state: V1, messages }) {}
class Two extends DgenServer.Service<Two>()("Cart", { state: DgenServer.versions(V1).to(V2, toV2), messages }) {}
class Three extends DgenServer.Service<Three>()("Cart", {
  state: DgenServer.versions(V1).to(V2, toV2).to(V3, toV3),
  messages
}) {}

const one = One.behaviour({
  init: Effect.succeed({ lines: ["ink", "pen"], note: "old" }),
  handlers: {
    Look: (_, state) => DgenServer.reply(JSON.stringify(state), state),
    Touch: (_, state) => DgenServer.reply(JSON.stringify(state), { ...state }),
    Add: ({ id }, state) => DgenServer.reply(state.lines.length + 1, { ...state, lines: [...state.lines, id] })
  }
})
const two = Two.behaviour({
  init: Effect.succeed({ items: [], total: 0 }),
  handlers: {
    Look: (_, state) => DgenServer.reply(JSON.stringify(state), state),
    Touch: (_, state) => DgenServer.reply(JSON.stringify(state), { ...state }),
    Add: ({ id }, state) =>
      DgenServer.reply(state.total + 1, { items: [...state.items, { id, count: 1 }], total: state.total + 1 })
  }
})
const three = Three.behaviour({
  init: Effect.succeed({ items: {}, total: 0, owner: "new" }),
  handlers: {
    Look: (_, state) => DgenServer.reply(JSON.stringify(state), state),
    Touch: (_, state) => DgenServer.reply(JSON.stringify(state), { ...state }),
    Add: ({ id }, state) =>
      DgenServer.reply(state.total + 1, { ...state, items: { ...state.items, [id]: 1 }, total: state.total + 1 })
  }
})

const tuid = ["cart", 7]
const upgraded = { items: { ink: 1, pen: 1 }, total: 2, owner: null }

/** In a tenant layer of its own, as another program has one: two definitions of one name do not run in one. */
const apart = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.scoped(Effect.flatMap(elsewhere, (context) => inside(context)(effect)))

/** A server that the first version made, and left. */
const made = apart(One.start(one, { tuid }))

export const stateVersionsSuite = (name: string, backend: Store): void => {
  const test = testsOf(backend, "stateVersions")
  const rows = Effect.flatMap(keysOf(tuid), ({ state }) => rowsUnder(state))

  describe(`${name}: states that change their shape`, () => {
    test(
      "are taken through all steps when they are read, and left as they are by who only looks",
      Effect.gen(function*() {
        yield* made
        const before = yield* rows
        const cart = yield* Three.start(three, { tuid })
        assert.deepStrictEqual(JSON.parse(yield* cart.call("Look")), upgraded)
        assert.deepStrictEqual(yield* cart.state, upgraded)
        assert.deepStrictEqual(yield* Effect.flatMap(Three.client({ tuid }), (client) => client.state), upgraded)
        assert.deepStrictEqual(yield* rows, before)
      })
    )

    test(
      "are written whole with the first change, and nothing of the older shape stays",
      Effect.gen(function*() {
        yield* made
        yield* apart(Effect.gen(function*() {
          const cart = yield* Three.start(three, { tuid })
          assert.strictEqual(yield* cart.call("Add", { id: "nib" }), 3)
          assert.strictEqual(yield* cart.call("Add", { id: "cap" }), 4)
        }))
        const expected = { items: { ink: 1, pen: 1, nib: 1, cap: 1 }, total: 4, owner: null }
        const cold = yield* Three.start(three, { tuid, cache: false })
        assert.deepStrictEqual(yield* cold.state, expected)
        const fresh = yield* Three.start(three, { tuid: ["cart", 8] })
        for (const id of ["ink", "pen", "nib", "cap"]) yield* fresh.call("Add", { id })
        const shape = (keys: ReadonlyArray<ReadonlyArray<unknown>>) => keys.filter(([part]) => part === "state")
        assert.deepStrictEqual(shape(yield* scan(tuid)), shape(yield* scan(["cart", 8])))
      })
    )

    test(
      "are read by the middle version, too, and each writes its own",
      Effect.gen(function*() {
        yield* made
        yield* apart(Effect.flatMap(Two.start(two, { tuid }), (cart) => cart.call("Add", { id: "nib" })))
        const cart = yield* Three.start(three, { tuid })
        assert.deepStrictEqual(yield* cart.state, { items: { ink: 1, pen: 1, nib: 1 }, total: 3, owner: null })
      })
    )

    test(
      "of a newer version are refused before anything is read",
      Effect.gen(function*() {
        yield* made
        yield* apart(Effect.flatMap(Three.start(three, { tuid }), (cart) => cart.call("Add", { id: "nib" })))
        for (
          const error of [
            yield* Effect.flip(apart(Two.start(two, { tuid }))),
            yield* Effect.flip(apart(One.start(one, { tuid })))
          ]
        ) {
          assert.strictEqual(error._tag, "StateError")
          assert.include(error.message, "version 3")
        }
        const cart = yield* Three.start(three, { tuid })
        assert.strictEqual((yield* cart.state)?.total, 3)
      })
    )

    test(
      "end the handle of an older program that still runs",
      Effect.gen(function*() {
        const old = yield* One.start(one, { tuid })
        yield* apart(Effect.flatMap(Three.start(three, { tuid }), (cart) => cart.call("Add", { id: "nib" })))
        const error = yield* Effect.flip(old.call("Look"))
        assert.strictEqual(error._tag, "ServerStopped")
        assert.include(error.message, "version 3")
      })
    )

    for (
      const [title, step] of [
        ["throws", () => {
          throw new Error("no")
        }],
        ["gives what does not fit", () => ({ items: "none", total: 0 })],
        ["gives an effect", () => Effect.succeed({ items: [], total: 0 })],
        ["gives a promise", () => Promise.resolve({ items: [], total: 0 })],
        ["gives nothing", () => undefined]
      ] as const
    ) {
      test(
        `with a step that ${title} cannot be read, and the step is named`,
        Effect.gen(function*() {
          yield* made
          class Broken extends DgenServer.Service<Broken>()("Cart", {
            state: DgenServer.versions(V1).to(V2, step as never),
            messages
          }) {}
          const behaviour = Broken.behaviour({
            init: Effect.succeed({ items: [], total: 0 }),
            handlers: {
              Look: (_, state) => DgenServer.reply("", state),
              Touch: (_, state) => DgenServer.reply("", state),
              Add: (_, state) => DgenServer.reply(0, state)
            }
          })
          const before = yield* rows
          const error = yield* Effect.flip(apart(Broken.start(behaviour, { tuid })))
          assert.strictEqual(error._tag, "StateError")
          assert.include(error.message, "from 1 to 2")
          assert.deepStrictEqual(yield* rows, before)
        })
      )
    }

    test(
      "that do not fit one transaction in their new shape stop the server, and charge nobody",
      Effect.gen(function*() {
        const Large = Schema.Struct({ seed: Schema.Int })
        const Larger = Schema.Record(Schema.String, Schema.String)
        const of = { messages: { Touch: DgenServer.cast() } }
        class Small extends DgenServer.Service<Small>()("Growing", { state: Large, ...of }) {}
        class Big extends DgenServer.Service<Big>()("Growing", {
          state: DgenServer.versions(Large).to(
            Larger,
            () => Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`${i}`, "x".repeat(90_000)]))
          ),
          ...of
        }) {}
        yield* apart(Small.start(
          Small.behaviour({
            init: Effect.succeed({ seed: 1 }),
            handlers: { Touch: (_, state) => DgenServer.noReply(state) }
          }),
          { tuid }
        ))
        const { layer, lines } = keptLogs()
        const big = yield* Big.start(
          Big.behaviour({
            init: Effect.succeed({}),
            handlers: { Touch: (_, state) => DgenServer.noReply({ ...state, more: "" }) }
          }),
          { tuid, deadLetterThreshold: 1 }
        ).pipe(Effect.provide(layer))
        yield* big.cast("Touch")
        yield* until(Effect.sync(() => lines.join()), (text) => text.includes("does not fit one transaction"))
        assert.strictEqual(yield* big.queueLength, 1)
        assert.strictEqual((yield* Effect.flip(big.priorityCast("Touch")))._tag, "ServerStopped")
      })
    )

    test(
      "that are none are refused where they are defined",
      Effect.gen(function*() {
        for (
          const define of [
            () => DgenServer.versions(7 as never),
            () => DgenServer.versions(V1).to(7 as never, toV2 as never),
            () => DgenServer.versions(V1).to(V2, 7 as never)
          ]
        ) {
          const exit = yield* Effect.exit(Effect.sync(define))
          assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause), defectOf(exit))
        }
      })
    )

    test(
      "are hosted: an older host steps back from the server, and a newer one goes on",
      Effect.gen(function*() {
        class Old extends DgenServer.Service<Old>()("Hosted", { state: V1, messages, hosted: true }) {}
        class New extends DgenServer.Service<New>()("Hosted", {
          state: DgenServer.versions(V1).to(V2, toV2),
          messages,
          hosted: true
        }) {}
        const old = Old.hostLayer(Old.behaviour({
          init: Effect.succeed({ lines: ["ink"] }),
          handlers: {
            Look: (_, state) => DgenServer.reply("old", state),
            Touch: (_, state) => DgenServer.reply("old", { ...state }),
            Add: ({ id }, state) => DgenServer.reply(1, { lines: [...state.lines, id] })
          }
        }))
        const next = New.hostLayer(New.behaviour({
          init: Effect.succeed({ items: [], total: 0 }),
          handlers: {
            Look: (_, state) => DgenServer.reply(`${state.total}`, state),
            Touch: (_, state) => DgenServer.reply("new", { ...state }),
            Add: ({ id }, state) =>
              DgenServer.reply(state.total + 1, { items: [...state.items, { id, count: 1 }], total: state.total + 1 })
          }
        }))
        yield* apart(Effect.gen(function*() {
          yield* Layer.build(Layer.fresh(old))
          yield* Effect.flatMap(Old.client({ tuid }), (cart) => cart.call("Add", { id: "pen" }))
        }))
        yield* apart(Effect.gen(function*() {
          yield* Layer.build(Layer.fresh(next))
          const cart = yield* New.client({ tuid })
          assert.strictEqual(yield* cart.call("Add", { id: "nib" }), 3)
        }))
      })
    )
  })
}
