/**
 * What operators do with a server's lock: see who holds it, and break it. A lock that an operator breaks puts its
 * message back at once, with one more attempt (rule R19); its holder finds itself fenced.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { signalKey } from "../../transactions/watching.ts"
import * as Heads from "../kept/head.ts"
import { ServerKeys } from "../kept/layout.ts"
import { writeHead } from "../kept/state.ts"
import { BROKEN, requeue } from "./requeue.ts"

/** What waking a server needs to know of its definition. */
interface Owner {
  readonly name: string
  readonly hosted: boolean
}

const readHead = (state: TransactionState, keys: ServerKeys): Effect.Effect<Heads.Head | undefined> =>
  Effect.map(
    state.get(keys.head),
    (bytes) => bytes === undefined ? undefined : Result.getOrUndefined(Heads.decode(bytes))
  )

/** The lock of a server, if it is held. */
export const lock = (
  definition: Owner,
  tuid: Tuple.Tuple
): Effect.Effect<Option.Option<Heads.Lock>, never, Transaction> =>
  Effect.flatMap(Transaction, (state) =>
    Effect.map(
      readHead(state, new ServerKeys(state.prefix, tuid, definition)),
      (head) => Option.fromUndefinedOr(head?.lock)
    ))

/** Breaks the lock of a server. Succeeds with whether it was held. */
export const unlock = (definition: Owner, tuid: Tuple.Tuple): Effect.Effect<boolean, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const keys = new ServerKeys(state.prefix, tuid, definition)
    return Effect.flatMap(readHead(state, keys), (head) => {
      if (head?.lock === undefined) return Effect.succeed(false)
      const { attempts, token } = head.lock
      writeHead(state, keys, { ...head, lock: undefined })
      signalKey(state.target, state, keys.head)
      keys.ring(state)
      return attempts === undefined
        ? Effect.succeed(true)
        : Effect.as(requeue(state, keys, token, { attempts: attempts + 1, threshold: Infinity, cause: BROKEN }), true)
    })
  })
