/**
 * Answers on their way to callers: written with the commit of the transaction that made them, handed over in memory
 * where the caller is in this process, and written under the caller's process with its bell rung where it is not.
 *
 * 1. A call is answered once: whoever answers it takes away the key that says it waits (rule R9).
 * 2. An inline call has no such key yet while its handler runs. What answers it in its own transaction is kept beside the
 *    transaction.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { KeyValue } from "../../../Backend.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import type { Caller } from "../../queue/envelope.ts"
import { CallsOf, writeAnswer, writeAnswers } from "../../tenant/calls.ts"
import { processPrefix } from "../../tenant/layout.ts"
import { PresenceOf } from "../../tenant/presence.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { signalKey } from "../../transactions/watching.ts"
import type { ServerKeys } from "../kept/layout.ts"

/** What says that a call waits: for its turn, or, handled and left open, for somebody who answers it. */
const WAITS = Uint8Array.of(1)
const IS_OPEN = Uint8Array.of(2)

/** Calls that were left open, of one server that ends: more do not fit the transaction that ends it. */
const OPEN_LIMIT = 20_000

interface OpenCall {
  readonly caller: Caller
  answer: Uint8Array | undefined
}

const OPEN_CALL = Symbol("effect-dgen/server/openCall")

const openCallOf = (state: TransactionState): OpenCall | undefined => state.kept<OpenCall>(OPEN_CALL)

const isCaller = (a: Caller, b: Caller): boolean => a.id === b.id && Tuple.equalsBytes(a.instance, b.instance)

/** Says that a call waits for its answer. */
export const markWaiting = (state: TransactionState, keys: ServerKeys, caller: Caller, isOpen = false): void => {
  Context.get(state.target.services, PresenceOf)?.mark(state)
  state.set(keys.waitingKey(caller.millis, caller.instance, caller.id), isOpen ? IS_OPEN : WAITS)
}

/** Says that a call was handled and left open, if it still waits. */
export const leaveOpen = (state: TransactionState, keys: ServerKeys, caller: Caller): Effect.Effect<void> => {
  const key = keys.waitingKey(caller.millis, caller.instance, caller.id)
  return Effect.map(state.get(key), (waiting) => waiting === undefined ? undefined : state.set(key, IS_OPEN))
}

/** The rows of the calls that were left open. */
export const openCalls = (state: TransactionState, keys: ServerKeys): Effect.Effect<ReadonlyArray<KeyValue>> => {
  const { begin, end } = Tuple.range([], keys.waiting)
  return Effect.map(
    state.getRange(begin, end, { limit: OPEN_LIMIT }),
    (rows) => rows.filter(({ value }) => value[0] === IS_OPEN[0])
  )
}

/** Says that a call is handled in this very transaction (2). */
export const openInline = (state: TransactionState, caller: Caller | undefined): void => {
  if (caller !== undefined) state.keep(OPEN_CALL, { caller, answer: undefined } satisfies OpenCall)
}

/** The answer that this transaction gave to the call that it handles, if it did. */
export const inlineAnswer = (state: TransactionState): Uint8Array | undefined => openCallOf(state)?.answer

/** Answers a call with the commit of a transaction, if it still waits. */
export const answerCaller = (
  keys: ServerKeys,
  state: TransactionState,
  caller: Caller,
  answer: Uint8Array
): Effect.Effect<void> => {
  const open = openCallOf(state)
  if (open !== undefined && isCaller(open.caller, caller)) {
    open.answer ??= answer
    return Effect.void
  }
  const key = keys.waitingKey(caller.millis, caller.instance, caller.id)
  return Effect.map(state.get(key), (waiting) => {
    if (waiting === undefined) return
    state.clear(key)
    sendAnswer(state, caller, answer)
  })
}

/** Sends an answer to a call whose waiting key is taken care of. */
export const sendAnswer = (
  state: TransactionState,
  caller: Pick<Caller, "instance" | "id">,
  answer: Uint8Array
): void => {
  const calls = Context.get(state.target.services, CallsOf)
  if (calls !== undefined && calls.has(caller.instance, caller.id)) {
    state.onCommit.push(() => calls.settle(caller.id, Exit.succeed(answer)))
    return
  }
  writeAnswer(state, caller.instance, caller.id, answer)
  ring(state, caller.instance)
}

const ring = (state: TransactionState, instance: Uint8Array): void =>
  signalKey(state.target, state, Tuple.pack(["bell"], processPrefix(state.prefix, instance)))

/** The calls of one layer. */
interface OfLayer {
  readonly instance: Uint8Array
  readonly ids: Array<number>
}

/** Calls by their layers: many calls take little memory so. */
export class Callers {
  readonly #layers = new Map<string, OfLayer>()

  add({ id, instance }: Pick<Caller, "instance" | "id">): void {
    const key = Keys.toText(instance)
    const known = this.#layers.get(key)
    if (known === undefined) this.#layers.set(key, { instance, ids: [id] })
    else known.ids.push(id)
  }

  /** Sends all of them the same short answer, as `sendAnswer` does; any number fits a transaction. */
  send(state: TransactionState, answer: Uint8Array): void {
    const calls = Context.get(state.target.services, CallsOf)
    for (const { ids, instance } of this.#layers.values()) {
      const away = calls === undefined ? ids : ids.filter((id) => !calls.has(instance, id))
      if (calls !== undefined && away.length < ids.length) {
        state.onCommit.push(() => {
          for (const id of ids) calls.settle(id, Exit.succeed(answer))
        })
      }
      if (away.length === 0) continue
      writeAnswers(state, instance, away, answer)
      ring(state, instance)
    }
  }
}
