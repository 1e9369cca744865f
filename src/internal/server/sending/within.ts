/**
 * Within what a fiber runs: a running server's own actions, locked handlers and transactions know whose they are. Who asks
 * for the server's end there does not wait for it, and who would wait for its queue there, while the queue waits for him,
 * is refused.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import type { Tenant } from "../../../Tenant.ts"
import { equalsBytes } from "../../../Tuple.ts"
import { guarded } from "../../observing/lending.ts"
import { WouldDeadlock } from "../definition/errors.ts"
import type { Definition } from "../definition/model.ts"
import { identityOf, type ServerKeys } from "../kept/layout.ts"

/** Which server. */
interface Place {
  readonly definition: { readonly name: string }
  readonly tenant: Tenant["Service"]
  readonly keys: ServerKeys
}

/** What a server runs. */
export interface Within {
  readonly place: Place
  /** Whether the server's queue waits for it. */
  readonly holdsQueue: boolean
  /** It has ended: what it left behind is nobody's any more. */
  isOver: boolean
}

/** Within what the current fiber runs, if a server runs it. */
export const RunsIn = Context.Reference<Within | undefined>("effect-dgen/server/RunsIn", {
  defaultValue: () => undefined
})

const isOf = (within: Within | undefined, { keys, tenant }: Place): within is Within =>
  within !== undefined && !within.isOver && within.place.tenant.backend === tenant.backend &&
  equalsBytes(within.place.keys.prefix, keys.prefix)

/** Whether the current fiber is run by a server. */
export const runsWithin = (place: Place): Effect.Effect<boolean> =>
  Effect.withFiber((fiber) => Effect.succeed(isOf(fiber.getRef(RunsIn), place)))

/** Refuses to wait for a queue that waits for whoever asks. */
export const unlessWaitedFor = (
  definition: Definition,
  tag: string,
  place: Place
): Effect.Effect<void, WouldDeadlock> =>
  Effect.withFiber((fiber) => {
    const within = fiber.getRef(RunsIn)
    return isOf(within, place) && within.holdsQueue
      ? Effect.fail(new WouldDeadlock({ ...identityOf({ definition, keys: place.keys }), tag }))
      : Effect.void
  })

/**
 * Runs what belongs to a server within it: its lines say whose they are, and whatever its users' loggers and tracers throw
 * is theirs alone.
 */
export const runningIn = <A, E>(within: Within, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.updateContext(
    effect,
    (context: Context.Context<never>) =>
      guarded(context, (services) => {
        services.set(RunsIn.key, within)
        const annotations = Context.get(context, References.CurrentLogAnnotations)
        services.set(References.CurrentLogAnnotations.key, { ...annotations, ...identityOf(within.place) })
      })
  )
