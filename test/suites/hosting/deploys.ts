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
}
