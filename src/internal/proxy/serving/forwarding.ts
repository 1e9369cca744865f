/**
 * A request from outside on its way to a server: its address becomes a tuid, it gets its key, and it waits as every call
 * does, for a bounded time. Who goes away before the answer takes the waiting along.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Headers from "effect/http/Headers"
import type { Tenant } from "../../../Tenant.ts"
import type * as Tuple from "../../../Tuple.ts"
import { asEffect, type Exposure } from "../definition/exposure.ts"
import { outward } from "./outward.ts"

/** A service class, as far as requests need it. */
export interface Service {
  readonly client: (which: { readonly tuid: Tuple.Tuple }) => Effect.Effect<
    {
      readonly call: (tag: string, payload: unknown, options: object) => Effect.Effect<unknown, unknown>
      readonly cast: (tag: string, payload: unknown, options: object) => Effect.Effect<void, unknown>
    },
    unknown,
    Tenant
  >
}

/** What came from outside. */
export interface Incoming {
  readonly address: unknown
  readonly payload: unknown
  readonly headers: Headers.Headers
}

/** The header that tells a request from every other one. */
const KEY_HEADER = "idempotency-key"

/** Passes a request on, with the services of the layer that serves. Fails with what may be told outside. */
export const forward = (
  service: Service,
  tenant: Context.Context<Tenant>,
  exposure: Exposure,
  incoming: Incoming
): Effect.Effect<unknown, unknown> => {
  const { kind, server, tag, timeout } = exposure
  const { address, headers, payload } = incoming
  const answer = Effect.gen(function*() {
    const tuid = yield* asEffect(exposure.toTuid(address))
    const key = yield* asEffect(exposure.keyOf?.({ tag, address, payload, headers }))
    const client = yield* Effect.provideContext(service.client({ tuid }), tenant)
    return kind === "call"
      ? yield* client.call(tag, payload, { key, timeout })
      : yield* client.cast(tag, payload, { key })
  })
  return Effect.catchCause(
    answer,
    (cause) => Effect.flatMap(outward({ server, tag, address, key: headers[KEY_HEADER] }, cause), Effect.fail)
  ) as Effect.Effect<unknown, unknown>
}
