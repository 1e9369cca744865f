/**
 * What a procedure passes before all else: `effect/rpc` tells a client of the defects of whatever stands around the handler,
 * such as a middleware that dies. Here they become an error with an id, and lie with it in the log.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Headers from "effect/http/Headers"
import * as Predicate from "effect/Predicate"
import { Exposed } from "../definition/exposure.ts"
import { outward } from "./outward.ts"

/** What a middleware is told of a request. */
interface About {
  readonly rpc: { readonly annotations: Context.Context<never> }
  readonly payload: unknown
  readonly headers: Headers.Headers
}

/** The middleware. What fails, or is interrupted, stays as it is. */
export const rpcGate = <A, E, R>(handler: Effect.Effect<A, E, R>, about: About): Effect.Effect<A, any, R> =>
  Effect.catchCause(handler, (cause) => {
    if (!Cause.hasDies(cause)) return Effect.failCause(cause)
    const { server, tag } = Context.getUnsafe(about.rpc.annotations as Context.Context<Exposed>, Exposed)
    const address = Predicate.hasProperty(about.payload, "tuid") ? about.payload.tuid : undefined
    return Effect.flatMap(outward({ server, tag, address, key: undefined }, cause), Effect.fail)
  })
