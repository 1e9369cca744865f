/**
 * Durable actions, as a definition declares them and as programs look at them: actions that are kept in the store until
 * they have run. `DgenServer` exports these types.
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Result from "effect/Result"
import type * as Schedule from "effect/Schedule"
import type { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import type { InvalidOption, InvalidPayload } from "./errors.ts"

export const DurableTypeId = "~effect-dgen/DgenServer/Durable"

/** A durable action, whatever its payload. */
export interface AnyDurable {
  readonly [DurableTypeId]: DurableOptions
}

/**
 * An action that is kept in the store from the commit that asks for it until it has run.
 *
 * @since 0.2.0
 * @category models
 */
export interface Durable<out Payload> extends AnyDurable {
  readonly payload: Payload
}

/**
 * How a durable action is run.
 *
 * @since 0.2.0
 * @category models
 */
export interface DurableOptions {
  /**
   * How long it waits after a failed attempt; when the schedule ends, it is dead. From one second doubling up to five minutes
   * if absent, without an end. The schedule gets what the handler failed with.
   */
  readonly retry?: Schedule.Schedule<unknown, unknown> | undefined
  /** After so many attempts that failed, or whose process died, it is dead: `Infinity` if absent. */
  readonly maxAttempts?: number | undefined
  /**
   * How long the process that runs it may give no sign of life before another one runs it again: 30 seconds if absent, 100 ms
   * at least. It bounds no handler: one that goes on in a living process is not run again, and not ended.
   */
  readonly timeout?: Duration.Input | undefined
}

/** The options of a durable action; `undefined` for what is none. */
export const durableOptionsOf = (action: unknown): DurableOptions | undefined =>
  Predicate.hasProperty(action, DurableTypeId) ? action[DurableTypeId] as DurableOptions : undefined

/** The tags of the durable actions of a record, and of the others. */
export type DurableTag<A> = {
  readonly tags: { [T in keyof A]: A[T] extends AnyDurable ? T : never }[keyof A] & string
}["tags"]

/**
 * What a handler of a durable action gets besides its payload: the server's `tuid`, an `id` that is the same on every run of
 * this action and no other's, and which attempt this is, from 1.
 *
 * @since 0.2.0
 * @category models
 */
export interface DurableContext {
  readonly id: string
  readonly tuid: Tuple.Tuple
  readonly attempt: number
}

/**
 * Where a durable action is: it waits for its turn or its next attempt, it runs, it has run, or it is dead: it failed as
 * often as it may, and is set aside until somebody puts it back or removes it.
 *
 * @since 0.2.0
 * @category models
 */
export type DurableState = "pending" | "running" | "finished" | "dead"

/**
 * How many durable actions of a definition's servers are in each state.
 *
 * @since 0.2.0
 * @category models
 */
export type DurableCounts = { readonly [S in DurableState]: number }

/**
 * A durable action as a list shows it. `payload` is as its schema has it, or why it cannot be read; `error` is what the last
 * attempt failed with, empty if it did not. Times are milliseconds since 1970: of one that waits behind others, `dueMillis`
 * is `undefined`.
 *
 * @since 0.2.0
 * @category models
 */
export interface DurableAction<out Tag extends string, out Payload> {
  readonly id: string
  /** Empty where the action cannot be read. */
  readonly tuid: Tuple.Tuple
  readonly tag: Tag
  readonly payload: Result.Result<Payload, InvalidPayload>
  readonly state: DurableState
  readonly attempts: number
  readonly error: string
  readonly dueMillis: number | undefined
  readonly endedMillis: number | undefined
}

/**
 * A page of durable actions. `next` is where the following page begins; `undefined` after the last one.
 *
 * @since 0.2.0
 * @category models
 */
export interface DurablePage<out Action> {
  readonly actions: ReadonlyArray<Action>
  readonly next: string | undefined
}

/**
 * Which durable actions a page shows: those of one state, or all; 1 to 1,000 of them, 100 if `limit` is absent, after the
 * page whose `next` is `after`.
 *
 * @since 0.2.0
 * @category models
 */
export interface DurableListOptions {
  readonly state?: DurableState | undefined
  readonly limit?: number | undefined
  readonly after?: string | undefined
}

/**
 * What a program can ask of the durable actions of a definition's servers: transaction effects.
 *
 * @since 0.2.0
 * @category models
 */
export interface DurableActions<Action> {
  /** How many there are in each state. Those that have run are kept for an hour. */
  readonly counts: Effect.Effect<DurableCounts, never, Transaction>
  /**
   * A page of them: by their tags, first what is its server's turn or has ended, then what waits behind that, server by
   * server, in its order.
   */
  readonly list: (options?: DurableListOptions) => Effect.Effect<DurablePage<Action>, InvalidOption, Transaction>
  /**
   * Puts a dead one back, with no attempt behind it: behind all that its server has waiting. Succeeds with whether there was
   * one.
   */
  readonly requeueDead: (id: string) => Effect.Effect<boolean, InvalidOption, Transaction>
  /** Removes dead ones, 1,000 at the most; succeeds with how many. Repeat it until that is 0. */
  readonly purgeDead: (
    options?: { readonly limit?: number | undefined }
  ) => Effect.Effect<number, InvalidOption, Transaction>
}

/**
 * How a process runs the durable actions of a definition's servers.
 *
 * @since 0.2.0
 * @category models
 */
export interface DurableWorkerOptions {
  /** How many run together, each of another server: 64 if absent. */
  readonly concurrency?: number | undefined
  /** How long they may go on when the layer's scope closes: 10 seconds if absent. */
  readonly grace?: Duration.Input | undefined
}
