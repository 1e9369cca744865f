/**
 * What can be said to a server, and nothing of what it is made of: its name, and its messages with their schemas. This module
 * uses `effect` and nothing of Node, so that a browser and a server can share a file of definitions. What the server does
 * not show, its state and its actions, is added by `DgenServer.Service`, in a file that only servers read.
 *
 * What you owe: the file of definitions imports `effect` and this module (and `effect-dgen/DgenProxy`, for clients), each by
 * its own path: `effect-dgen` itself brings the stores along.
 *
 * @since 0.2.0
 */
import type * as Schema from "effect/Schema"
import * as Making from "./internal/server/definition/making.ts"
import type * as D from "./internal/server/definition/protocol.ts"

export type { Call, Cast, Info, Protocol } from "./internal/server/definition/protocol.ts"

/**
 * Defines a call: a message that is answered, with a value of `success` (default: nothing) or an `error` (default:
 * none). With `locks: true` its handler may return `lock`.
 *
 * **Example** (A call with all it can have, and one with nothing)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Overdrawn extends Schema.TaggedError<Overdrawn>()("Overdrawn", { balance: Schema.Int }) {}
 *
 * class Account extends DgenServer.Service<Account>()("Account", {
 *   state: Schema.Int,
 *   messages: {
 *     Draw: DgenServer.call({ payload: { amount: Schema.Int }, success: Schema.Int, error: Overdrawn }),
 *     Empty: DgenServer.call()
 *   }
 * }) {}
 *
 * const AccountLive = Account.layer(Account.behaviour({
 *   init: Effect.succeed(100),
 *   handlers: {
 *     Draw: Effect.fnUntraced(function*({ amount }, balance) {
 *       if (amount > balance) return yield* new Overdrawn({ balance })
 *       return DgenServer.reply(balance - amount, balance - amount)
 *     }),
 *     Empty: () => DgenServer.reply(undefined, 0)
 *   }
 * }))
 *
 * const program = Effect.gen(function*() {
 *   const account = yield* Account
 *   const left = yield* account.call("Draw", { amount: 30 })
 *   yield* account.call("Empty")
 *   const error = yield* Effect.flip(account.call("Draw", { amount: 1 }))
 *   return [left, error._tag]
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * await Effect.runPromise(program.pipe(Effect.provide(AccountLive.pipe(Layer.provide(TestStore)))))
 * // => [70, "Overdrawn"]
 * ```
 *
 * @since 0.1.0
 * @category definitions
 */
export const call = <
  const P extends D.PayloadInput = undefined,
  S extends D.PureSchema = Schema.Void,
  E extends D.PureSchema = Schema.Never,
  const L extends boolean = false
>(options: {
  readonly payload?: P
  readonly success?: S
  readonly error?: E
  readonly locks?: L
} = {}): D.Call<D.PayloadSchema<P>, S, E, L> => Making.message("call", options) as any

/**
 * Defines a cast: a message that is queued and not answered. With `locks: true` its handler may return `lock`.
 *
 * @since 0.1.0
 * @category definitions
 */
export const cast = <const P extends D.PayloadInput = undefined, const L extends boolean = false>(
  options: { readonly payload?: P; readonly locks?: L } = {}
): D.Cast<D.PayloadSchema<P>, L> => Making.message("cast", options) as any

/**
 * Defines an info message: handled at once, past the queue, and not answered. One that crashes is lost. With
 * `locks: true` its handler may return `lock`.
 *
 * @since 0.1.0
 * @category definitions
 */
export const info = <const P extends D.PayloadInput = undefined, const L extends boolean = false>(
  options: { readonly payload?: P; readonly locks?: L } = {}
): D.Info<D.PayloadSchema<P>, L> => Making.message("info", options) as any

/**
 * Names a server, and what can be said to it. `DgenServer.Service` takes it in place of a name and messages.
 *
 * **Example** (A protocol for browsers, and the server behind it)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 * import * as Protocol from "effect-dgen/Protocol"
 *
 * // a file that a browser reads too
 * const CartProtocol = Protocol.make("Cart", {
 *   messages: {
 *     Add: Protocol.cast({ payload: { sku: Schema.String } }),
 *     Items: Protocol.call({ success: Schema.Array(Schema.String) })
 *   }
 * })
 *
 * // one that only servers read
 * class Cart extends DgenServer.Service<Cart>()(CartProtocol, {
 *   hosted: true,
 *   state: Schema.Array(Schema.String)
 * }) {}
 *
 * const CartHost = Cart.hostLayer(Cart.behaviour({
 *   init: Effect.succeed([]),
 *   handlers: {
 *     Add: ({ sku }, items) => DgenServer.noReply([...items, sku]),
 *     Items: (_, items) => DgenServer.reply(items, items)
 *   }
 * }))
 *
 * const program = Effect.gen(function*() {
 *   const cart = yield* Cart.client({ tuid: ["cart", 7] })
 *   yield* cart.cast("Add", { sku: "ink" })
 *   return yield* cart.call("Items")
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * await Effect.runPromise(program.pipe(Effect.provide(CartHost.pipe(Layer.provideMerge(TestStore)))))
 * // => ["ink"]
 * ```
 *
 * @since 0.2.0
 * @category definitions
 */
export const make = <const Name extends string, const M extends D.Messages>(
  name: Name,
  options: { readonly messages: M }
): D.Protocol<Name, M> => Making.protocol(name, options) as D.Protocol<Name, M>
