/**
 * What a tenant's layer keeps in the store for itself (slots, answers on their way to it), and how it goes when the layer
 * does: by itself when its scope closes, by any other layer of the tenant when its process died.
 *
 * Owner: the tenant's layer; the fiber that looks for the dead is interrupted when the layer's scope closes.
 *
 * 1. Whatever lies under a layer's prefix stands beside its sign of life, written in the same commit or an earlier one.
 * 2. The sign is renewed with what is written there, when it is older than `BEAT_MILLIS`. Only a layer whose sign is older
 *    than `DEAD_MILLIS` is swept, and that is longer than any call may wait, so nobody waits for what is swept (rule R9).
 * 3. Each new sign is followed by one look for the dead: a bounded transaction, which goes on where the last one ended.
 *    Nothing runs by a timer, and a layer that wrote nothing costs nothing.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { Transaction } from "../../Transaction.ts"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import { logDebug } from "../observing/logging.ts"
import { transact } from "../transactions/loop.ts"
import type { Place, TransactionState } from "../transactions/state.ts"
import { libraryPrefix, processPrefix } from "./layout.ts"
import { CALL_TIMEOUT_LIMIT_MILLIS, INSTANCE_BYTES } from "./limits.ts"

const BEAT_MILLIS = 10 * 60_000

/** The longest call, and an hour for clocks that differ and for signs that are not quite new. */
const DEAD_MILLIS = CALL_TIMEOUT_LIMIT_MILLIS + 60 * 60_000

/** Layers that one pass looks at. */
const PASS_LIMIT = 100

/** A store that does not answer must not hold up the end of a program. */
const FAREWELL_MILLIS = 2_000

const millisBytes = (millis: number): Uint8Array => {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setFloat64(0, millis)
  return bytes
}

const readMillis = (bytes: Uint8Array): number =>
  bytes.length === 8 ? new DataView(bytes.buffer, bytes.byteOffset).getFloat64(0) : 0

/** Where a layer's sign of life lies. */
export const beatKey = (tenant: Uint8Array, instance: Uint8Array): Uint8Array =>
  Tuple.pack(["beat"], processPrefix(tenant, instance))

/** The layer that a key belongs to; `undefined` for a key that none has, or whose sign of life would not fit a key. */
const instanceOf = (key: Uint8Array, offset: number): Uint8Array | undefined => {
  const [, instance] = Result.getOrElse(Tuple.unpackResult(key, offset), () => [])
  return instance instanceof Uint8Array && instance.length <= INSTANCE_BYTES ? instance : undefined
}

/** The presence of the layer that a transaction runs in. */
export const PresenceOf = Context.Reference<Presence | undefined>("effect-dgen/tenant/Presence", {
  defaultValue: () => undefined
})

/** A layer's presence in its tenant. */
export class Presence {
  readonly key: Uint8Array
  readonly #target: Place & { readonly slots: undefined }
  readonly #prefix: Uint8Array
  readonly #fork: (effect: Effect.Effect<void>) => Fiber.Fiber<void>
  #markedMillis = -Infinity
  #cursor: Uint8Array | undefined
  #looking: Fiber.Fiber<void> | undefined

  private constructor(target: Place, instance: Uint8Array, fork: (effect: Effect.Effect<void>) => Fiber.Fiber<void>) {
    this.#fork = fork
    // what it writes may be written twice: it needs no slot, and must leave none behind
    this.#target = { ...target, slots: undefined }
    this.#prefix = processPrefix(target.prefix, instance)
    this.key = beatKey(target.prefix, instance)
  }

  static make(target: Place, instance: Uint8Array): Effect.Effect<Presence, never, Scope.Scope> {
    return Effect.contextWith((context) => {
      const presence = new Presence(target, instance, Effect.runForkWith(context))
      return Effect.as(Effect.addFinalizer(() => presence.#leave), presence)
    })
  }

  /** Adds the sign of life to a transaction that writes under the layer's prefix, when there is none yet (1). */
  mark(state: TransactionState): void {
    const { timeMillis } = state
    if (timeMillis - this.#markedMillis < BEAT_MILLIS) return
    state.set(this.key, millisBytes(timeMillis))
    state.onCommit.push(() => this.marked(timeMillis))
  }

  /** The bytes of the sign of life, for who writes it without a transaction of ours; `marked` follows its commit. */
  sign(timeMillis: number): Uint8Array {
    return millisBytes(timeMillis)
  }

  marked(timeMillis: number): void {
    this.#markedMillis = timeMillis
    this.#look()
  }

  /** Looks for the dead once (3); a look that fails is worth no more than a line: there will be another. */
  #look(): void {
    if (this.#looking !== undefined && this.#looking.pollUnsafe() === undefined) return
    const look = transact(this.#target, Effect.flatMap(Transaction, (state) => this.#pass(state)))
    this.#looking = this.#fork(
      Effect.catchCause(look, (cause) => logDebug("sweeping what dead processes left failed", cause))
    )
  }

  #pass(state: TransactionState): Effect.Effect<void> {
    const { begin, end } = Tuple.range(["p"], libraryPrefix(state.prefix))
    const from = this.#cursor ?? begin
    const step = (at: Uint8Array, left: number): Effect.Effect<Uint8Array | undefined> => {
      if (left === 0) return Effect.succeed(at)
      return Effect.flatMap(state.getRange(at, end, { limit: 1, snapshot: true }), (rows) => {
        if (rows.length === 0) return Effect.undefined
        const { key } = rows[0]!
        const instance = instanceOf(key, libraryPrefix(state.prefix).length)
        // a key that no layer has must not end every look
        if (instance === undefined) return step(Keys.next(key), left - 1)
        const prefix = processPrefix(state.prefix, instance)
        return Effect.flatMap(this.#visit(state, instance), () => step(Tuple.strinc(prefix), left - 1))
      })
    }
    return Effect.map(step(from, PASS_LIMIT), (next) => {
      state.onCommit.push(() => {
        this.#cursor = next
      })
    })
  }

  /** Takes away what a dead layer left; one without a sign of life gets one, and time to show another. */
  #visit(state: TransactionState, instance: Uint8Array): Effect.Effect<void> {
    const key = beatKey(state.prefix, instance)
    return Effect.map(state.get(key), (beat) => {
      if (beat === undefined) return state.set(key, millisBytes(state.timeMillis))
      if (state.timeMillis - readMillis(beat) <= DEAD_MILLIS) return
      const prefix = processPrefix(state.prefix, instance)
      state.clearRange(prefix, Tuple.strinc(prefix))
    })
  }

  get #leave(): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.#markedMillis === -Infinity) return Effect.void
      const ended = this.#looking === undefined ? Effect.void : Fiber.interrupt(this.#looking)
      const clear = transact(
        this.#target,
        Effect.map(Transaction, (state) => state.clearRange(this.#prefix, Tuple.strinc(this.#prefix)))
      )
      return Effect.ignore(Effect.timeoutOption(Effect.interruptible(Effect.andThen(ended, clear)), FAREWELL_MILLIS))
    })
  }
}
