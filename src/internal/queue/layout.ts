/** Where a queue lies: the part of a server's keys that its messages and dead letters use. */
import type * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type { TransactionState } from "../transactions/state.ts"

export interface QueueKeys {
  /** Items: `<versionstamp> <piece> <pieces>`. */
  readonly items: Uint8Array
  /** Counters of what was pushed and what was taken. */
  readonly push: Uint8Array
  readonly pop: Uint8Array
  /** Dead letters: `<versionstamp> <piece> <pieces>`, and the counter of them. */
  readonly dead: Uint8Array
  readonly deadCount: Uint8Array
  /** How many messages were taken off the queue and still belong to it, by snapshot; absent where there are none ever. */
  readonly countBeside?: (state: TransactionState) => Effect.Effect<number>
  /** Wakes who takes messages, with the commit of a push. */
  readonly ring: (state: TransactionState) => void
}

const TypeId = "~effect-dgen/DurableQueue"
const ShownId = "~effect-dgen/DurableQueue/shown"

/** A queue by where it lies in a tenant. */
export interface Located {
  readonly [TypeId]: (tenantPrefix: Uint8Array) => QueueKeys
  /** The payload of a message as it may be shown: with what is redacted hidden. */
  readonly [ShownId]: Shown
}

/** A payload as it may be shown. */
export type Shown = (tag: string | undefined, payload: unknown) => unknown

/** A queue from where it lies. */
export const locate = (keys: (tenantPrefix: Uint8Array) => QueueKeys, shown: Shown): Located => ({
  [TypeId]: keys,
  [ShownId]: shown
})

export const isLocated = (value: unknown): value is Located => Predicate.hasProperty(value, TypeId)

export const keysOf = (queue: Located, tenantPrefix: Uint8Array): QueueKeys => queue[TypeId](tenantPrefix)

export const shownOf = (queue: Located): Shown => queue[ShownId]
