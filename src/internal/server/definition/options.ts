/**
 * What programs say beside a definition: how a server runs in a process, how a process hosts servers, which server is
 * meant, and when a timer is due. `DgenServer` exports these types.
 */
import type * as Cron from "effect/Cron"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type * as Schedule from "effect/Schedule"
import type * as Tuple from "../../../Tuple.ts"

/**
 * How a server runs in this process.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Whether this process takes messages off the queue, or only sends. Default: `true`. */
  readonly consume?: boolean | undefined
  /** Whether to put the state of `init` over the one that exists. Default: `false`. */
  readonly reset?: boolean | undefined
  /**
   * How often handling a message may fail before it is taken off the queue, as a dead letter. Default: `Infinity`, it is
   * tried for ever.
   */
  readonly deadLetterThreshold?: number | undefined
  /** The most messages that one transaction takes, 1 to 1,000; calls run inline only at 1. Default: 1. */
  readonly consumeK?: number | undefined
  /**
   * How long a lock may be held before other consumers break it, and queue its message again. Default: `Infinity`, never: a holder that died with the
   * lock then blocks the queue until an operator breaks it.
   */
  readonly lockTimeout?: Duration.Input | undefined
  /**
   * How long a message that this version of the program cannot read (an unknown tag, a payload of another schema) is left
   * in its place for another version, from its first meeting on; only then does it fail like one whose handler crashes.
   * The messages behind it wait. Default: 10 minutes.
   */
  readonly unreadableGrace?: Duration.Input | undefined
  /** Whether to keep the state in memory while no other process changes it. Default: `true`. */
  readonly cache?: boolean | undefined
  /** When the consumer comes back after a crash; it starts over after a commit. Default: exponential, 30 s at most. */
  readonly restart?: Schedule.Schedule<unknown, unknown> | undefined
  /**
   * How long actions and locked handlers that run may go on when the server's scope closes, or the handle is stopped, all
   * together. Then they are interrupted, and messages under the lock are queued again. Default: 10 seconds.
   */
  readonly grace?: Duration.Input | undefined
  /**
   * How long one action, or the handler of one dead letter, may take; then it is interrupted, and counts as crashed.
   * Default: `Infinity`; one that has run for 30 seconds is warned about.
   */
  readonly actionTimeout?: Duration.Input | undefined
}

/**
 * How a process hosts the servers of a definition.
 *
 * @since 0.2.0
 * @category models
 */
export interface HostOptions extends Omit<Options, "consume" | "reset"> {
  /**
   * When a server is taken up again after a crash; it starts over after a commit. A schedule that has ended begins anew
   * after a minute. Default: exponential, 30 s at most.
   */
  readonly restart?: Schedule.Schedule<unknown, unknown> | undefined
  /** How many servers work at a time in this process. Default: 64. */
  readonly concurrency?: number | undefined
  /** How many locked handlers run at a time; beyond it, messages that may lock wait. Default: 1,000. */
  readonly maxLocked?: number | undefined
  /** How long a server that has nothing to do keeps its state in memory. Default: 5 minutes. */
  readonly idleTimeToLive?: Duration.Input | undefined
  /** How many such servers may. Default: 10,000. */
  readonly maxResident?: number | undefined
}

/**
 * Which of many servers of one definition.
 *
 * @since 0.1.0
 * @category models
 */
export interface Which {
  readonly tuid?: Tuple.Tuple | undefined
}

/**
 * Which of the servers of a hosted definition.
 *
 * @since 0.2.0
 * @category models
 */
export interface WhichHosted {
  readonly tuid: Tuple.Tuple
}

/** Which server: of a hosted definition it has to be said. */
export type WhichArgs<IsHosted extends boolean> = IsHosted extends true ? [which: WhichHosted] : [which?: Which]

/**
 * When a timer is due: after a time, at a time, again and again after a period (of a second or more, counted from
 * `first`, which is one period from now if it is absent), or when a cron expression says so (in UTC, if no zone is given).
 * Of ticks that passed while nobody ran the server the latest is made up for; with `missed: "skip"` none is that is more
 * than a minute late. An `id` has 1 to 256 bytes; without one, the timer gets one that no other has.
 *
 * @since 0.2.0
 * @category models
 */
export type TimerOptions =
  & { readonly id?: string | undefined }
  & (
    | { readonly after: Duration.Input; readonly key?: string | undefined }
    | { readonly at: DateTime.DateTime.Input; readonly key?: string | undefined }
    | {
      readonly every: Duration.Input
      readonly first?: DateTime.DateTime.Input | undefined
      readonly missed?: "latest" | "skip" | undefined
      readonly key?: never
    }
    | {
      readonly cron: string | Cron.Cron
      readonly timeZone?: string | undefined
      readonly missed?: "latest" | "skip" | undefined
      readonly key?: never
    }
  )
