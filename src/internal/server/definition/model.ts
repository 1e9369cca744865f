/**
 * What the runtime of servers knows of a definition: names, kinds and codecs, with all types erased. `making.ts`
 * makes these values from what a user wrote; everything above works on them alone.
 */
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import type { DurableContext, DurableOptions } from "./durable.ts"

/** A codec that needs no service. */
export type AnyCodec = Schema.Codec<any, any, never, never>

/** The kinds of messages. */
export type Kind = "call" | "cast" | "info"

/** One message of a protocol. */
export interface Message {
  readonly tag: string
  readonly kind: Kind
  /** Whether its handler may ask for the lock. */
  readonly locks: boolean
  /** `undefined` when the message has no payload. */
  readonly payload: AnyCodec | undefined
  readonly success: AnyCodec
  readonly error: AnyCodec
}

/** One action of a protocol. */
export interface Action {
  readonly tag: string
  readonly payload: AnyCodec | undefined
  /** How it is run, if it is durable. */
  readonly durable: DurableOptions | undefined
}

/** A server's protocol and state. */
export interface Definition {
  readonly name: string
  /** Whether any message wakes its servers, in whatever process hosts it; else each is started. */
  readonly hosted: boolean
  /** How many timers one of its servers can have. */
  readonly maxTimers: number
  /** How many messages may wait before others are refused; `Infinity` where nobody looks. */
  readonly maxQueueLength: number
  /** How many keys one of its servers can have, and how long the answer to a message with a key is kept. */
  readonly maxKeys: number
  readonly keyRetentionMillis: number
  /** The newest schema of the state. */
  readonly state: AnyCodec
  /** Those before it, oldest first, and the steps from each to the next. */
  readonly earlier: ReadonlyArray<{ readonly schema: AnyCodec; readonly step: (state: any) => unknown }>
  readonly messages: ReadonlyMap<string, Message>
  readonly actions: ReadonlyMap<string, Action>
  /** Whether some of them are durable. */
  readonly hasDurable: boolean
}

/** An action that an outcome asks for. */
export interface ActionRequest {
  readonly server: string
  readonly tag: string
  readonly payload: unknown
}

/** What a handler returned. */
export type Outcome = Settled | { readonly _tag: "Lock"; readonly state: unknown }

/** What ends the handling of a message. */
export type Settled =
  | {
    readonly _tag: "Reply"
    readonly value: unknown
    readonly state: unknown
    readonly actions: ReadonlyArray<ActionRequest>
  }
  | { readonly _tag: "NoReply"; readonly state: unknown; readonly actions: ReadonlyArray<ActionRequest> }
  | {
    readonly _tag: "Stop"
    readonly reason: unknown
    readonly state: unknown
    readonly actions: ReadonlyArray<ActionRequest>
  }

/** What a locked handler returned: an outcome, or one that is made from the state as it is when the lock ends. */
export type LockedOutcome =
  | Settled
  | { readonly _tag: "Update"; readonly apply: (state: unknown) => Settled | PureEffect<Settled> }

type PureEffect<A> = Effect.Effect<A, unknown, Transaction>

/** Who waits for an answer: kept in the envelope, and by users in their state. */
export interface From {
  readonly server: string
  readonly tag: string
  readonly tuid: Tuple.Tuple
  /** The tenant layer that waits, the call's number there, and when the call was made. */
  readonly process: Uint8Array
  readonly id: number
  readonly millis: number
  /** The key of the call and the id of its message, where it has a key. */
  readonly key?: string
  readonly message?: string
}

/** What a handler gets besides payload and state. */
export interface HandlerContext {
  readonly from: From | undefined
  readonly attempt: number
  /** Tells this message from every other one of its server; priority and info messages have one too. */
  readonly id: string
  readonly tuid: Tuple.Tuple
  /** The timer that sent the message, and the time that it was set for. */
  readonly timer: { readonly id: string; readonly due: DateTime.Utc } | undefined
}

/** What locked handlers get besides payload and state. */
export interface LockedContext extends HandlerContext {
  readonly kind: Kind
}

export type Handler = (
  payload: unknown,
  state: unknown,
  context: HandlerContext
) => Outcome | Effect.Effect<Outcome, unknown, Transaction>

/** What `init` returned: the state, and the tuid when it chose one with `DgenServer.at`. */
export interface Initial {
  readonly tuid: Tuple.Tuple | undefined
  readonly state: unknown
}

/** The pure part of a server. */
export interface Behaviour {
  readonly definition: Definition
  readonly init: (options: { readonly tuid: Tuple.Tuple }) => Effect.Effect<Initial, unknown, Transaction>
  readonly handlers: ReadonlyMap<string, Handler>
}

/** What handlers of actions get besides payload and state: the server, and the id of the message that asked. */
export interface ActionContext {
  readonly tuid: Tuple.Tuple
  readonly id: string
}

export type ActionHandler = (
  payload: unknown,
  state: unknown,
  context: ActionContext
) => Effect.Effect<unknown, never, never>

export type DurableHandler = (payload: unknown, context: DurableContext) => Effect.Effect<unknown, unknown, never>

export type LockedHandler = (
  payload: unknown,
  state: unknown,
  context: LockedContext
) => LockedOutcome | Effect.Effect<LockedOutcome, unknown, never>

/** A message that was taken off the queue for good, as its handler sees it. */
export interface DeadMessage extends LockedContext {
  readonly tag: string
  readonly payload: unknown
  readonly attempts: number
  readonly cause: string
}

export type DeadLetterHandler = (letter: DeadMessage) => Effect.Effect<void, never, never>

/** A server's handlers with side effects; their services are already provided. */
export interface Effects {
  /** Those of durable actions are `DurableHandler`s. */
  readonly actions: ReadonlyMap<string, ActionHandler>
  readonly locked: ReadonlyMap<string, LockedHandler>
  readonly deadLetter: DeadLetterHandler | undefined
}

/** Checked options of a running server, durations in milliseconds. */
export interface Options {
  readonly tuid: Tuple.Tuple
  readonly consume: boolean
  readonly reset: boolean
  readonly consumeK: number
  readonly cache: boolean
  /** `Infinity` when messages are never taken off the queue for failing. */
  readonly deadLetterThreshold: number
  /** How long a message that this version cannot read is left alone. */
  readonly unreadableGraceMillis: number
  /** `Infinity` when locks are never broken. */
  readonly lockTimeoutMillis: number
  readonly restart: Schedule.Schedule<unknown, unknown> | undefined
  readonly graceMillis: number
  /** `Infinity` when actions may take as long as they like. */
  readonly actionTimeoutMillis: number
}

/** Checked options of a host. */
export interface HostOptions extends Omit<Options, "tuid"> {
  readonly concurrency: number
  readonly maxLocked: number
  readonly maxResident: number
  readonly idleTimeToLiveMillis: number
}

/** A cast's tag, its payload, and its options. */
export type CastInput = readonly [tag: string, payload?: unknown, options?: unknown]

/** What is known of a key. */
export type KeyResult =
  | { readonly _tag: "Waiting" }
  | { readonly _tag: "Done"; readonly exit: Answer }
  | { readonly _tag: "Unknown" }

/** What the runtime gives back; `DgenServer` types it. Errors are `CallError`s, `BackendError`s and schema errors. */
export interface Client {
  readonly call: (
    tag: string,
    payload: unknown,
    timeoutMillis: number,
    key?: string
  ) => Effect.Effect<unknown, unknown>
  readonly cast: (tag: string, ...args: ReadonlyArray<unknown>) => Effect.Effect<void, any>
  readonly castAll: (messages: ReadonlyArray<CastInput>) => Effect.Effect<void, any>
  readonly result: (key: string) => Effect.Effect<KeyResult, any>
  readonly queueLength: Effect.Effect<number, any>
  readonly locked: Effect.Effect<boolean, any>
  readonly state: Effect.Effect<unknown, any>
}

/** A running server of this process. */
export interface Running extends Client {
  readonly tuid: Tuple.Tuple
  readonly priorityCall: (tag: string, payload: unknown, timeoutMillis: number) => Effect.Effect<unknown, unknown>
  readonly priorityCast: (tag: string, payload: unknown) => Effect.Effect<void, any>
  readonly info: (tag: string, payload: unknown) => Effect.Effect<void, any>
  readonly stop: (reason?: unknown) => Effect.Effect<void>
  readonly kill: (reason?: unknown) => Effect.Effect<void, any>
}

/** An answer to a call. */
export type Answer = Exit.Exit<unknown, unknown>
