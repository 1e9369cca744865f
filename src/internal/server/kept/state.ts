/**
 * The state of a server in the store, and the head that stands before it: read and written within a transaction,
 * without anything of a server that runs.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as StateCodec from "../../../StateCodec.ts"
import type { Transaction } from "../../../Transaction.ts"
import { isA } from "../../data/show.ts"
import * as Listed from "../../tenant/listed.ts"
import type { TransactionState } from "../../transactions/state.ts"
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

/** The state of a server that has a head. */
export const readState = (
  codec: StateCodec.StateCodec<unknown>,
  keys: ServerKeys
): Effect.Effect<StateCodec.Stored<unknown>, StateCodec.StateError, Transaction> =>
  Effect.flatMap(
    codec.read(keys.state),
    (stored) =>
      stored === undefined
        ? Effect.fail(new StateCodec.StateError({ operation: "decode", field: "", problem: "it is missing" }))
        : Effect.succeed(stored)
  )

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
