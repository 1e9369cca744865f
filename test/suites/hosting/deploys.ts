/** Hosts of an older version beside what a newer one sends: it waits, and nothing else does. Run on every backend. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { elsewhere, inside, type Store, testsOf, until } from "../server/support.ts"

const state = Schema.Struct({ items: Schema.Array(Schema.String) })
const Add = DgenServer.cast({ payload: Schema.String })

class Old extends DgenServer.Service<Old>()("Basket", { state, hosted: true, messages: { Add } }) {}

class New extends DgenServer.Service<New>()("Basket", {
  state,
  hosted: true,
  messages: { Add, Clear: DgenServer.cast() }
}) {}

const old = Old.hostLayer(Old.behaviour({
  init: Effect.succeed({ items: [] }),
  handlers: { Add: (item, { items }) => DgenServer.noReply({ items: [...items, item] }) }
}))

const young = New.hostLayer(New.behaviour({
  init: Effect.succeed({ items: [] }),
  handlers: {
    Add: (item, { items }) => DgenServer.noReply({ items: [...items, item] }),
    Clear: () => DgenServer.noReply({ items: ["cleared"] })
  }
}))

const tuid = (basket: number) => ({ tuid: ["basket", basket] })

/** Another definition, with a state of another kind and a message of the same name. */
class Other extends DgenServer.Service<Other>()("Other", {
  hosted: true,
  state: Schema.Int,
  messages: { Add: DgenServer.call({ payload: Schema.String }), Note: DgenServer.cast(), Tick: DgenServer.info() }
}) {}

const other = Other.hostLayer(Other.behaviour({
  init: Effect.succeed(0),
  handlers: {
    Add: (_, count) => DgenServer.reply(undefined, count + 1),
    Note: (_, count) => DgenServer.noReply(count),
    Tick: (_, count) => DgenServer.noReply(count)
  }
}))

export const hostedDeploysSuite = (name: string, backend: Store): void => {
  const test = testsOf(backend, "hosted deploys")

  describe(`${name}: hosts of two versions`, () => {
    test(
      "leave what theirs cannot read to the other, uncharged and in its place, and go on with the other servers",
      Effect.gen(function*() {
        yield* Layer.build(Layer.fresh(old))
        const others = yield* elsewhere
        const newer = yield* inside(others)(New.client(tuid(1)))
        yield* newer.castAll([["Add", "ink"], ["Clear"], ["Add", "pen"]])
        const second = yield* Old.client(tuid(2))
        yield* second.cast("Add", "nib")
        yield* until(second.state, (found) => found?.items.length === 1)
        const first = yield* Old.client(tuid(1))
        yield* until(first.state, (found) => found?.items.length === 1)
        assert.strictEqual(yield* first.queueLength, 2)
        assert.deepStrictEqual(yield* Tenant.transact(DurableQueue.peekDeadLetters(Old.queue(tuid(1)))), [])
        yield* inside(others)(Layer.build(Layer.fresh(young)))
        yield* until(first.state, (found) => found?.items.length === 2)
        assert.deepStrictEqual((yield* first.state)!.items, ["cleared", "pen"])
      })
    )
  })

  describe(`${name}: a host beside another definition's servers`, () => {
    test(
      "takes none of them for its own, whichever way a message comes",
      Effect.gen(function*() {
        yield* Layer.build(Layer.fresh(young))
        const context = yield* Layer.build(Layer.fresh(other))
        const basket = yield* New.client(tuid(1))
        yield* basket.cast("Add", "ink")
        yield* until(basket.state, (found) => found?.items.length === 1)
        const wrong = yield* Effect.provideContext(Other.hosted(tuid(1)), context)
        for (const call of [wrong.call("Add", "pen"), wrong.priorityCall("Add", "pen")]) {
          const error = yield* Effect.flip(call)
          assert.deepInclude(error, { _tag: "DefinitionMismatch", server: "Other", stored: "Basket" })
        }
        for (const send of [wrong.priorityCast("Note"), wrong.info("Tick")]) {
          const error = yield* Effect.flip(send)
          assert.strictEqual(error._tag, "HandlerCrashed")
          assert.include(error.message, "belongs to Basket")
        }
        assert.deepStrictEqual((yield* basket.state)!.items, ["ink"])
        yield* basket.cast("Add", "nib")
        yield* until(basket.state, (found) => found?.items.length === 2)
      })
    )
  })
}
