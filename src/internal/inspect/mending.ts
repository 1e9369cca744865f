/**
 * What an operator does to a server that he has no definition of. What wakes a server needs the record of its definition:
 * who is hosted is woken by the index of its definition, others by their own bells.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { BackendError } from "../../BackendError.ts"
import { DeadLetterNotFound } from "../../DurableQueue.ts"
import { Tenant } from "../../Tenant.ts"
import { Transaction } from "../../Transaction.ts"
import type * as Tuple from "../../Tuple.ts"
import { show } from "../data/show.ts"
import * as DeadLetters from "../queue/deadLetters.ts"
import * as Envelopes from "../queue/envelope.ts"
import * as Queue from "../queue/queue.ts"
import { ServerKeys } from "../server/kept/layout.ts"
import type { DefinitionRecord } from "../server/kept/record.ts"
import { remove } from "../server/mending/kill.ts"
import * as Operating from "../server/mending/operating.ts"
import { MESSAGE_LIMIT_BYTES, push, sentNow } from "../server/sending/messages.ts"
import { cancel } from "../server/timers/setting.ts"
import { transact } from "../transactions/loop.ts"
import type { TransactionState } from "../transactions/state.ts"
import { DefinitionUnknown, InvalidMessage, type InvalidOption, ServerNotFound } from "./errors.ts"
import * as Paging from "./paging.ts"
import { bareKeys, checkTuid, lookAt, nameOf, recordOf } from "./servers.ts"
import { textOf } from "./texts.ts"

/** Dead letters that one pass requeues. */
const PASS_LETTERS = 100

/** A server, with all that is needed to wake it. */
interface Wakeable {
  readonly state: TransactionState
  readonly keys: ServerKeys
  readonly name: string
  readonly record: DefinitionRecord
}

const wakeable = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple,
  server?: string
): Effect.fn.Return<Wakeable, InvalidOption | DefinitionUnknown, Transaction> {
  const state = yield* Transaction
  const bare = bareKeys(state, yield* checkTuid(tuid))
  const [first] = yield* Queue.peek(state, bare, 1)
  const found = yield* nameOf(state, bare, first)
  const unknown = (problem: string) => new DefinitionUnknown({ tuid: textOf(tuid), server: found, problem })
  if (server !== undefined && found !== undefined && found !== server) {
    return yield* unknown(`it is one of ${show(found)}, not of ${show(server)}`)
  }
  const name = found ?? server
  if (name === undefined) {
    return yield* unknown("nothing in the tenant says of which definition it is: name its definition")
  }
  const record = yield* recordOf(state, name)
  if (record === undefined) {
    return yield* unknown(
      `the tenant has no record of the definition ${
        show(name)
      }. A program with this version of effect-dgen writes one ` +
        "when it starts or hosts a server of it: start one, and try again"
    )
  }
  return { state, name, record, keys: new ServerKeys(state.prefix, tuid, { name, hosted: record.hosted }) }
})

/** Puts a dead letter back at the end of the queue. */
export const requeue = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple,
  id: string
): Effect.fn.Return<void, InvalidOption | DefinitionUnknown | DeadLetterNotFound, Transaction> {
  const { keys, state } = yield* wakeable(tuid)
  if (!(yield* DeadLetters.requeue(state, keys, id))) return yield* new DeadLetterNotFound({ id: show(id) })
})

/** The version of the commit that a dead letter's name is of; -1 for a row that none wrote. */
const versionOf = (id: string): bigint => /^[0-9a-f]{24}$/.test(id) ? BigInt(`0x${id.slice(0, 16)}`) : -1n

/** Puts all dead letters back that there were when it began, in passes. Succeeds with how many. */
export const requeueAll = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple
): Effect.fn.Return<number, InvalidOption | DefinitionUnknown | BackendError, Tenant> {
  const tenant = yield* Tenant
  const until = yield* transact(tenant, Effect.flatMap(Transaction, (state) => state.readVersion))
  const pass = Effect.flatMap(
    wakeable(tuid),
    ({ keys, state }) =>
      Effect.flatMap(DeadLetters.peek(state, keys, PASS_LETTERS, undefined), (rows) => {
        // one that died again meanwhile stays
        const due = rows.filter(({ id }) => versionOf(id) <= until)
        return Effect.as(
          Effect.forEach(due, ({ id }) => DeadLetters.requeue(state, keys, id), { discard: true }),
          due.length
        )
      })
  )
  let total = 0
  for (;;) {
    const done = yield* transact(tenant, pass)
    total += done
    if (done === 0) return total
  }
})

/** Deletes a dead letter for good. */
export const discard = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple,
  id: string
): Effect.fn.Return<void, InvalidOption | DeadLetterNotFound, Transaction> {
  const state = yield* Transaction
  const keys = bareKeys(state, yield* checkTuid(tuid))
  if ((yield* DeadLetters.remove(state, keys, id)) === undefined) {
    return yield* new DeadLetterNotFound({ id: show(id) })
  }
})

/** Deletes all dead letters for good. Succeeds with how many there were. */
export const discardAll = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple
): Effect.fn.Return<number, InvalidOption, Transaction> {
  const state = yield* Transaction
  const keys = bareKeys(state, yield* checkTuid(tuid))
  const count = yield* Queue.count(state, keys.deadCount)
  DeadLetters.purge(state, keys)
  yield* Queue.done(state)
  return count
})

/** Breaks the lock of a server: its message is queued again. Succeeds with whether it was held. */
export const unlock = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple
): Effect.fn.Return<boolean, InvalidOption | DefinitionUnknown | ServerNotFound, Transaction> {
  const state = yield* Transaction
  yield* checkTuid(tuid)
  if ((yield* lookAt(state, tuid)) === undefined) return yield* new ServerNotFound({ tuid: textOf(tuid) })
  const { name, record } = yield* wakeable(tuid)
  return yield* Operating.unlock({ name, hosted: record.hosted }, tuid)
})

/** Ends a server for good, with all that is kept of it. */
export const kill = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple
): Effect.fn.Return<void, InvalidOption | ServerNotFound | BackendError, Tenant> {
  const tenant = yield* Tenant
  const checked = yield* checkTuid(tuid)
  const found = yield* transact(
    tenant,
    Effect.flatMap(Transaction, (state) => {
      const keys = bareKeys(state, checked)
      return Effect.flatMap(
        Effect.zip(lookAt(state, checked), Queue.peek(state, keys, 1)),
        ([looked, [first]]) =>
          looked === undefined
            ? Effect.fail(new ServerNotFound({ tuid: textOf(checked) }))
            : Effect.map(nameOf(state, keys, first), (name = "") => name)
      )
    })
  )
  // what only a hosted server has is taken away of each: nobody has to know of what kind it is
  const definition = { name: found, hosted: true }
  yield* remove({ definition, tenant, keys: new ServerKeys(tenant.prefix, checked, definition) })
})

/** The options of a cast: the definition of a server that nothing is stored of yet, and the message's key. */
export interface CastOptions {
  readonly server?: string | undefined
  readonly key?: string | undefined
}

/** Casts a message, its payload as its schema encodes it to JSON. */
export const cast = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple,
  tag: string,
  payload?: unknown,
  input?: CastOptions
): Effect.fn.Return<void, InvalidOption | DefinitionUnknown | InvalidMessage, Transaction> {
  const { key, server } = yield* Paging.optionsOf(input)
  if (key !== undefined && !Envelopes.isKey(key)) {
    return yield* Paging.refuse("key", `must be a text of 1 to ${Envelopes.KEY_LIMIT_BYTES} bytes, not ${show(key)}`)
  }
  const { keys, name, record, state } = yield* wakeable(tuid, server)
  const refused = (problem: string) => new InvalidMessage({ server: name, tag: show(tag), problem })
  const message = record.messages.find((one) => one.tag === tag)
  const casts = record.messages.filter(({ kind }) => kind === "cast").map((one) => one.tag).join(", ")
  if (message === undefined) return yield* refused(`there is no such message. It takes one of: ${casts}`)
  if (message.kind !== "cast") return yield* refused(`it is a ${message.kind}. It takes one of: ${casts}`)
  if (message.hasPayload !== (payload !== undefined)) {
    return yield* refused(message.hasPayload ? "it takes a payload" : "it takes no payload")
  }
  const bytes = Envelopes.tryEncode({ tag, payload, caller: undefined, server: name, key, ...(yield* sentNow) })
  if (Result.isFailure(bytes)) {
    const { field, problem } = bytes.failure
    return yield* refused(`its payload${field === "" ? "" : ` at "${field}"`} cannot be kept: ${problem}`)
  }
  if (bytes.success.length > MESSAGE_LIMIT_BYTES) {
    return yield* refused(`it has ${bytes.success.length} bytes, and at most ${MESSAGE_LIMIT_BYTES} fit`)
  }
  push(state, keys, [bytes.success])
  yield* Queue.done(state)
})

/** Takes a timer away. Succeeds with whether that prevented a message. */
export const cancelTimer = (
  tuid: Tuple.Tuple,
  id: string
): Effect.Effect<boolean, InvalidOption, Transaction> =>
  Effect.flatMap(Transaction, (state) =>
    Effect.flatMap(
      checkTuid(tuid),
      () =>
        typeof id === "string" && id !== "" && id.isWellFormed()
          ? cancel(bareKeys(state, tuid), id)
          : Paging.refuse("id", `must be a timer's id, not ${show(id)}`)
    ))
