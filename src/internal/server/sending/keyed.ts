/**
 * Waiting with a key, and looking at one: from any process.
 *
 * 1. Who waits with a key waits for its row to change, and finds the answer there. Looking and arming the watch are one
 *    transaction, so no answer is missed.
 * 2. A row that is gone while somebody waits with it went with its server.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { BackendError } from "../../../BackendError.ts"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import { transact } from "../../transactions/loop.ts"
import { type Armed, awaitWatch, watchKey } from "../../transactions/watching.ts"
import type { Definition, KeyResult } from "../definition/model.ts"
import * as Keyed from "../kept/keyed.ts"
import type { ServerKeys } from "../kept/layout.ts"
import * as Answers from "./answerCodec.ts"

interface Located {
  readonly definition: Definition
  readonly tenant: Tenant["Service"]
  readonly keys: ServerKeys
}

/** Waits with a key until its message has ended. Succeeds with the bytes of its answer (1). */
export const awaitKey = ({ keys, tenant }: Located, key: string): Effect.Effect<Uint8Array, BackendError> => {
  const look = transact(
    tenant,
    Effect.flatMap(
      Transaction,
      (state) =>
        Effect.flatMap(Keyed.read(state, keys, key), (row): Effect.Effect<Uint8Array | Armed> => {
          if (row?._tag === "Open") return Effect.sync(() => watchKey(state, Keyed.rowKey(keys, key)))
          return row === undefined
            ? Effect.succeed(Answers.killed)
            : Effect.map(Keyed.answerOf(state, keys, key, row), (answer) => answer ?? Answers.killed)
        })
    )
  )
  const step = Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(look, (found): Effect.Effect<Uint8Array | undefined, BackendError> =>
      found instanceof Uint8Array
        ? Effect.succeed(found)
        : Effect.as(Effect.ensuring(restore(awaitWatch(tenant, found)), Effect.sync(found.cancel)), undefined))
  )
  return Effect.map(Effect.repeat(step, { until: (answer) => answer !== undefined }), (answer) => answer!)
}

/** What is known of a key. */
export const result = (located: Located, key: string): Effect.Effect<KeyResult, BackendError> =>
  transact(
    located.tenant,
    Effect.flatMap(Transaction, (state) =>
      Effect.flatMap(Keyed.read(state, located.keys, key), (row): Effect.Effect<KeyResult> => {
        if (row?._tag === "Open") {
          return Effect.succeed({ _tag: "Waiting" })
        }
        if (row?._tag !== "Done" || row.endMillis <= state.timeMillis) {
          return Effect.succeed({ _tag: "Unknown" })
        }
        return Effect.map(
          Keyed.answerOf(state, located.keys, key, row),
          (answer) => ({ _tag: "Done", exit: exitOf(located, row.tag, answer) })
        )
      }))
  )

const exitOf = (located: Located, tag: string, answer: Uint8Array | undefined) => {
  const message = located.definition.messages.get(tag)
  if (answer === undefined || message === undefined) return Exit.void
  return Answers.decode(located, message, answer)
}
