/** What a hosted definition asks for, and what it refuses. */
import { Effect, type Layer, Schema } from "effect"
import { DgenServer, type Tenant, type Transaction } from "effect-dgen"
import { describe, expect, test } from "tstyche"

class Cart extends DgenServer.Service<Cart>()("Cart", {
  state: Schema.Struct({ items: Schema.Array(Schema.String) }),
  hosted: true,
  messages: {
    Add: DgenServer.cast({ payload: { sku: Schema.String } }),
    Expire: DgenServer.cast(),
    Items: DgenServer.call({ success: Schema.Array(Schema.String) })
  }
}) {}

class Lone extends DgenServer.Service<Lone>()("Lone", {
  state: Schema.Int,
  messages: { Add: DgenServer.cast({ payload: { by: Schema.Int } }) }
}) {}

declare const failing: DgenServer.Behaviour<Cart, "no">
declare const behaviour: DgenServer.Behaviour<Cart, never>

const handlers = {
  Add: () => DgenServer.noReply({ items: [] }),
  Expire: () => DgenServer.noReply({ items: [] }),
  Items: () => DgenServer.reply([], { items: [] })
}

describe("a hosted definition", () => {
  test("is hosted by a layer that needs its tenant", () => {
    expect(Cart.hostLayer(behaviour)).type.toBe<
      Layer.Layer<DgenServer.Hosted<"Cart">, DgenServer.StartError, Tenant.Tenant>
    >()
  })

  test("has no init that can fail, or that chooses its tuid", () => {
    expect(Cart.hostLayer).type.not.toBeCallableWith(failing)
    expect(Cart.behaviour).type.toBeCallableWith({ init: Effect.succeed({ items: [] }), handlers })
    expect(Cart.behaviour).type.not.toBeCallableWith({
      init: Effect.succeed(DgenServer.at(["cart", 7], { items: [] })),
      handlers
    })
  })

  test("asks for a tuid wherever a server is meant", () => {
    expect(Cart.client).type.not.toBeCallableWith()
    expect(Cart.client).type.toBeCallableWith({ tuid: ["cart", 7] })
    expect(Cart.castTx).type.not.toBeCallableWith("Add", { sku: "ink" })
    expect(Cart.castTx).type.toBeCallableWith("Add", { sku: "ink" }, { tuid: ["cart", 7] })
    expect(Cart.castTx).type.toBeCallableWith("Expire", undefined, { tuid: ["cart", 7] })
    expect(Cart.castSelfTx).type.toBeCallableWith("Add", { sku: "ink" })
    expect(Cart.castLaterTx).type.not.toBeCallableWith("Expire", { after: "1 hour" })
    expect(Cart.castLaterTx).type.toBeCallableWith("Expire", { after: "1 hour", tuid: ["cart", 7] })
    expect(Cart.castLaterSelfTx).type.toBeCallableWith("Expire", { after: "1 hour" })
    expect(Cart.unlock).type.not.toBeCallableWith()
  })

  test("has clients past the queue where it is hosted, and lists its servers", () => {
    expect(Cart.hosted({ tuid: ["cart", 7] })).type.toBeAssignableTo<
      Effect.Effect<{ readonly kill: unknown; readonly priorityCast: unknown }, unknown, DgenServer.Hosted<"Cart">>
    >()
    expect(Cart.list()).type.toBeAssignableTo<Effect.Effect<unknown, unknown, Transaction.Transaction>>()
  })
})

describe("a definition that is started", () => {
  test("has no host, and says why", () => {
    expect(Lone.hostLayer).type.toBe<"define Lone with hosted: true">()
    expect(Lone.hosted).type.toBe<"define Lone with hosted: true">()
  })
})

describe("gone", () => {
  test("stands for the next state of a reply or none, and of nothing else", () => {
    const init = Effect.succeed({ items: [] })
    expect(Cart.behaviour).type.toBeCallableWith({
      init,
      handlers: { ...handlers, Expire: () => DgenServer.noReply(DgenServer.gone) }
    })
    expect(Cart.behaviour).type.toBeCallableWith({
      init,
      handlers: { ...handlers, Items: () => DgenServer.reply([], DgenServer.gone) }
    })
    expect(Cart.behaviour).type.not.toBeCallableWith({
      init,
      handlers: { ...handlers, Expire: () => DgenServer.stop("enough", DgenServer.gone) }
    })
  })
})

describe("timers", () => {
  test("have one time, and casts alone", () => {
    expect(Lone.castLaterTx).type.toBeCallableWith("Add", { by: 1 }, { every: "1 hour", missed: "skip" })
    expect(Lone.castLaterTx).type.not.toBeCallableWith("Add", { by: 1 }, {})
    expect(Lone.castLaterTx).type.not.toBeCallableWith("Add", { by: 1 }, { every: "1 hour", missed: "all" })
    expect(Cart.castLaterSelfTx).type.not.toBeCallableWith("Items", { after: "1 hour" })
  })
})
