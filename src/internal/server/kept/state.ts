/**
 * The state of a server in the store, and the head that stands before it: read and written within a transaction,
 * without anything of a server that runs.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as StateCodec from "../../../StateCodec.ts"
import type { Transaction } from "../../../Transaction.ts"
import { codecOf } from "../../data/codec.ts"
import { isA } from "../../data/show.ts"
import { messageOfThrown } from "../../data/thrown.ts"
import * as Listed from "../../tenant/listed.ts"
import type { TransactionState } from "../../transactions/state.ts"
import type { Definition } from "../definition/model.ts"
import * as Heads from "./head.ts"
import { isListed } from "./indexes.ts"
import { type Addressed, identityOf, type ServerKeys } from "./layout.ts"

/** Says whose state it is that does not fit. */
export const named = <A, E, R>(who: Addressed, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.mapError(
    effect,
    (error) =>
      isA(error, StateCodec.StateError)
        ? new StateCodec.StateError({
          operation: error.operation,
          field: error.field,
          problem: error.problem,
          ...identityOf(who)
        }) as E & StateCodec.StateError
        : error
  )

/** The head of its bytes. */
export const headOf = (bytes: Uint8Array): Effect.Effect<Heads.Head, StateCodec.StateError> =>
  Effect.fromResult(
    Result.mapError(
      Heads.decode(bytes),
      (problem) => new StateCodec.StateError({ operation: "decode", field: "", problem })
    )
  )

/** A state that an earlier version of its schema wrote, and nobody has written since. */
export class Outdated {
  readonly version: number
  constructor(version: number) {
    this.version = version
  }
}

/** A state as it was read, and what a write has to know of it. */
export interface Read {
  readonly state: unknown
  readonly stored: StateCodec.Stored<unknown> | Outdated
}

const unreadable = (problem: string) => new StateCodec.StateError({ operation: "decode", field: "", problem })

/**
 * The state of a server that has a head: one of an earlier version is taken through the steps to the newest one. One of a
 * version that this program does not know is refused before any of it is read.
 */
export const readState = (
  definition: Pick<Definition, "state" | "earlier">,
  keys: ServerKeys,
  { stateVersion }: Heads.Head
): Effect.Effect<Read, StateCodec.StateError, Transaction> => {
  const { earlier, state } = definition
  if (stateVersion > earlier.length + 1) {
    return Effect.fail(
      unreadable(
        `it has version ${stateVersion}, and this program knows versions up to ${
          earlier.length + 1
        }: deploy the newer ` +
          "program here too"
      )
    )
  }
  const schema = earlier[stateVersion - 1]?.schema ?? state
  return Effect.flatMap(StateCodec.make(schema).read(keys.state), (stored) => {
    if (stored === undefined) return Effect.fail(unreadable("it is missing"))
    if (stateVersion > earlier.length) return Effect.succeed({ state: stored.value, stored })
    return Effect.fromResult(
      Result.map(upgraded(definition, stored.value, stateVersion), (value): Read => ({
        state: value,
        stored: new Outdated(stateVersion)
      }))
    )
  })
}

/** A state of a version after all steps: each result has the fields of its schema, and fits it. */
export const upgraded = (
  { earlier, state }: Pick<Definition, "state" | "earlier">,
  value: unknown,
  version: number
): Result.Result<unknown, StateCodec.StateError> => {
  let current = value
  for (let from = version; from <= earlier.length; from++) {
    const codec = codecOf(earlier[from]?.schema ?? state)
    const named = (problem: string) => unreadable(`the step from ${from} to ${from + 1} failed: ${problem}`)
    const stepped = Result.try({
      try: () => earlier[from - 1]!.step(current),
      catch: (thrown) => named(messageOfThrown(thrown))
    })
    const fitted = Result.flatMap(stepped, (made) =>
      Result.mapError(
        Result.flatMap(codec.encode(made), (data) => codec.decode(data)),
        ({ field, problem }) => named(`its result does not fit${field === "" ? "" : ` at "${field}"`}: ${problem}`)
      ))
    if (Result.isFailure(fitted)) return fitted
    current = fitted.success
  }
  return Result.succeed(current)
}

/** Writes a head. */
export const writeHead = (transaction: TransactionState, keys: ServerKeys, head: Heads.Head): void => {
  transaction.set(keys.head, Heads.encode(head))
}

/** Writes whose server it is, and where it stands in the list of its definition: with its first state. */
export const writeName = (transaction: TransactionState, keys: ServerKeys, name: string): void => {
  Listed.begin(transaction)
  transaction.set(keys.name, Buffer.from(name))
  if (isListed(name)) transaction.set(keys.place.listed, new Uint8Array(0))
}
