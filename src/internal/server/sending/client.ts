/**
 * What any process can do with a server: call, cast and look, with no behaviour at hand.
 *
 * 1. A call is registered before it is pushed, and its keys are cleared when it ends without an answer (rule R9).
 * 2. A call ends with its answer, at its time limit, when its layer's scope closes, or when its handle ends.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { BackendError } from "../../../BackendError.ts"
import { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import { isA } from "../../data/show.ts"
import type { Caller } from "../../queue/envelope.ts"
import * as Queue from "../../queue/queue.ts"
import { LocalHostsOf } from "../../tenant/hosts.ts"
import { outside } from "../../transactions/callback.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { CallTimeout, InvalidTuid, QueueFull, ServerStopped } from "../definition/errors.ts"
import type { Client, Definition } from "../definition/model.ts"
import { type Addressed, identityOf, problemOfTuid, ServerKeys } from "../kept/layout.ts"
import { headOf, named, readState } from "../kept/state.ts"
import * as Answers from "./answerCodec.ts"
import { markWaiting } from "./answering.ts"
import { awaitKey, result } from "./keyed.ts"
import { check, type Checked, checkKey, encodeCasts, push, roomOf, sentNow, toBytes } from "./messages.ts"
import { unlessWaitedFor } from "./within.ts"

/** The keys of a server, or what is wrong with its tuid. */
export const keysOf = (
  definition: Definition,
  tenant: Tenant["Service"],
  tuid: Tuple.Tuple
): Effect.Effect<ServerKeys, InvalidTuid> => {
  const problem = problemOfTuid(tuid, definition.hosted)
  return problem === undefined
    ? Effect.succeed(new ServerKeys(tenant.prefix, tuid, definition))
    : Effect.fail(new InvalidTuid({ server: definition.name, problem }))
}

/** Fails at the time limit, whatever the call waits for. */
export const withTimeout = <A, E>(
  effect: Effect.Effect<A, E>,
  who: Addressed,
  tag: string,
  timeoutMillis: number
): Effect.Effect<A, E | CallTimeout> =>
  Effect.timeoutOrElse(effect, {
    duration: timeoutMillis,
    orElse: () => Effect.fail(new CallTimeout({ ...identityOf(who), tag, timeoutMillis }))
  })

/** A server as its clients know it. */
export interface Located {
  readonly definition: Definition
  readonly tenant: Tenant["Service"]
  readonly keys: ServerKeys
}

/** A call that is registered with its tenant's layer (1). */
export interface OpenCall {
  readonly caller: Caller
  readonly answer: Effect.Effect<Uint8Array, "stopped">
}

/** Runs `use` with a registered call. */
export const withCall = <A, E>(
  { keys, tenant }: Located,
  use: (call: OpenCall) => Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const { answer, end, id } = tenant.calls.open()
    // a test's clock may show fractions, and an envelope holds whole milliseconds
    const caller = { instance: tenant.instance, id, millis: Math.floor(now) }
    return Effect.onExit(use({ caller, answer }), (exit) => {
      end()
      return Exit.isSuccess(exit) || isUnsent(exit) ? Effect.void : Effect.ignore(forget(tenant, keys, caller))
    })
  })

/** Whether a call was refused before anything of it was written: there is nothing to take away. */
const isUnsent = ({ cause }: Exit.Failure<unknown, unknown>): boolean =>
  cause.reasons.every((reason) => reason._tag === "Fail" && isA(reason.error, QueueFull))

/** Takes away the key that says that a call waits, where there may be one. */
export const forget = (
  tenant: Tenant["Service"],
  keys: ServerKeys,
  caller: Caller
): Effect.Effect<void, BackendError> =>
  transact(
    tenant,
    Effect.map(Transaction, (state) => state.clear(keys.waitingKey(caller.millis, caller.instance, caller.id)))
  )

/** Waits for the bytes of an answer. */
export const awaitAnswer = (
  located: Located,
  call: Pick<OpenCall, "answer">
): Effect.Effect<Uint8Array, ServerStopped> =>
  Effect.mapError(
    call.answer,
    () => new ServerStopped({ ...identityOf(located), reason: "the scope of this process's tenant layer closed" })
  )

/** Pushes a call and waits for the bytes of its answer; one that was tried already has its place whatever waits. */
export const queued = Effect.fnUntraced(
  function*(located: Located, checked: Checked, call: OpenCall, attempts = 0, isTried = false) {
    const { definition, keys, tenant } = located
    yield* unlessWaitedFor(definition, checked.message.tag, located)
    const item = yield* Effect.fromResult(toBytes(located, checked, call.caller, yield* sentNow))
    const write = (state: TransactionState) => {
      markWaiting(state, keys, call.caller)
      push(state, keys, [item], attempts)
    }
    yield* tenant.pushes.push(item.length, write, isTried ? undefined : roomOf(located, 1))
    const answer = yield* awaitAnswer(located, call)
    return checked.key !== undefined && Answers.isWaits(answer) ? yield* withKey(located, checked.key) : answer
  }
)

/** Waits with the key of another call: for its answer, or for the end of the tenant's layer. */
export const withKey = (located: Located, key: string): Effect.Effect<Uint8Array, BackendError | ServerStopped> =>
  Effect.suspend(() => {
    const { answer, end } = located.tenant.calls.open()
    return Effect.ensuring(
      Effect.raceFirst(awaitKey(located, key), awaitAnswer(located, { answer })),
      Effect.sync(end)
    )
  })

/** Whether there is a server. */
export const exists = ({ keys, tenant }: Located): Effect.Effect<boolean, BackendError> =>
  transact(
    tenant,
    Effect.flatMap(Transaction, (state) => Effect.map(state.get(keys.head), (head) => head !== undefined))
  )

const isLocked = (keys: ServerKeys) =>
  Effect.flatMap(Transaction, (state) =>
    Effect.flatMap(
      state.get(keys.head),
      (bytes) =>
        bytes === undefined ? Effect.succeed(false) : Effect.map(headOf(bytes), (head) => head.lock !== undefined)
    ))

const stateOf = (definition: Definition, keys: ServerKeys) =>
  Effect.flatMap(Transaction, (state) =>
    Effect.flatMap(state.get(keys.head), (bytes) =>
      bytes === undefined
        ? Effect.undefined
        : Effect.flatMap(headOf(bytes), (head) => Effect.map(readState(definition, keys, head), (read) => read.state))))

/** A client of a server whose keys are known. */
export const make = (located: Located, call: Client["call"]): Client => {
  const { definition, keys, tenant } = located
  const run = <A, E>(body: Effect.Effect<A, E, Transaction>): Effect.Effect<A, E | BackendError> =>
    transact(tenant, body)
  const send = (operation: string, messages: Parameters<Client["castAll"]>[0]) =>
    outside(
      operation,
      Effect.flatMap(sentNow, (sent): Effect.Effect<void, unknown> => {
        const items = encodeCasts(located, operation, messages, sent)
        return Result.isFailure(items)
          ? Effect.fail(items.failure)
          : tenant.pushes.push(
            items.success.reduce((bytes, item) => bytes + item.length, 0),
            (state) => push(state, keys, items.success),
            roomOf(located, items.success.length)
          )
      })
    )
  return {
    call,
    cast: (tag, ...args) => send("cast", [[tag, args[0], args[1]]]),
    castAll: (messages) => send("castAll", messages),
    result: (key) =>
      Effect.flatMap(
        Effect.fromResult(checkKey(definition.name, { key: key ?? null })),
        (checked) => result(located, checked!)
      ),
    // made when they are run: very many handles never look
    queueLength: Effect.suspend(() => run(Effect.flatMap(Transaction, (state) => Queue.length(state, keys)))),
    locked: Effect.suspend(() => named(located, run(isLocked(keys)))),
    state: Effect.suspend(() => named(located, run(stateOf(definition, keys))))
  }
}

/** A client that only publishes and looks: every call goes through the queue. */
export const client = Effect.fnUntraced(function*(definition: Definition, tuid: Tuple.Tuple) {
  const tenant = yield* Tenant
  const keys = yield* keysOf(definition, tenant, tuid)
  const located = { definition, tenant, keys }
  const hosts = definition.hosted ? Context.get(tenant.services, LocalHostsOf) : undefined
  return make(located, (tag, payload, timeoutMillis, key) => {
    const call = Effect.flatMap(
      Effect.fromResult(check(located, ["call"], "call", tag, payload)),
      (checked) =>
        Effect.flatMap(
          withCall(located, (open) => queued(located, { ...checked, key }, open)),
          (bytes) => Answers.decode(located, checked.message, bytes)
        )
    )
    return Effect.suspend(() =>
      hosts?.get(definition.name)?.call(tuid, tag, payload, timeoutMillis, key) ??
        withTimeout(call, located, tag, timeoutMillis)
    )
  })
})
