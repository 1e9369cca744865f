/**
 * What any process can do with a server: call, cast and look, with no behaviour at hand.
 *
 * 1. A call is registered before it is pushed, and its keys are cleared when it ends without an answer (rule R9).
 * 2. A call ends with its answer, at its time limit, when its layer's scope closes, or when its handle stops.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { BackendError } from "../../BackendError.ts"
import * as DurableQueue from "../../DurableQueue.ts"
import * as StateCodec from "../../StateCodec.ts"
import { Tenant } from "../../Tenant.ts"
import { Transaction } from "../../Transaction.ts"
import type * as Tuple from "../../Tuple.ts"
import { transact } from "../transact.ts"
import * as Answers from "./answer.ts"
import { CallTimeout, InvalidTuid, ServerStopped } from "./errors.ts"
import { ServerKeys } from "./layout.ts"
import { check, type Checked, encodeCasts, push, toBytes } from "./messages.ts"
import type { Client, Definition } from "./model.ts"

/** Waiting keys are never reused, and this one byte says all there is to say: somebody waits. */
const WAITS = Uint8Array.of(1)

/** The keys of a server, or what is wrong with its tuid. */
export const keysOf = (
  server: string,
  tenant: Tenant["Service"],
  tuid: Tuple.Tuple
): Effect.Effect<ServerKeys, InvalidTuid> => {
  if (!Array.isArray(tuid) || tuid.length === 0) {
    return Effect.fail(
      new InvalidTuid({ server, problem: "a tuid is an array of one or more tuple elements, such as [\"cart\", 7]" })
    )
  }
  return Effect.try({
    try: () => new ServerKeys(tenant.prefix, tuid),
    catch: (cause) => new InvalidTuid({ server, problem: (cause as Error).message })
  })
}

/** Fails at the time limit, whatever the call waits for. */
export const withTimeout = <A, E>(
  effect: Effect.Effect<A, E>,
  server: string,
  tag: string,
  timeoutMillis: number
): Effect.Effect<A, E | CallTimeout> =>
  Effect.timeoutOrElse(effect, {
    duration: timeoutMillis,
    orElse: () => Effect.fail(new CallTimeout({ server, tag, timeoutMillis }))
  })

/** Pushes a call and waits for its answer. */
export const queuedCall = Effect.fnUntraced(function*(
  definition: Definition,
  tenant: Tenant["Service"],
  keys: ServerKeys,
  checked: Checked
) {
  const server = definition.name
  const millis = yield* Clock.currentTimeMillis
  const call = tenant.calls.open()
  const caller = { instance: tenant.instance, id: call.id, millis }
  const waitingKey = keys.waitingKey(millis, tenant.instance, call.id)
  const run = Effect.gen(function*() {
    const item = yield* Effect.fromResult(toBytes(definition, checked, caller))
    yield* transact(
      tenant,
      Effect.flatMap(Transaction, (state) => {
        state.set(waitingKey, WAITS)
        return push(state, keys, [item])
      })
    )
    return yield* Effect.mapError(
      call.answer,
      () => new ServerStopped({ server, reason: "the scope of this process's tenant layer closed" })
    )
  })
  const forget = transact(tenant, Effect.map(Transaction, (state) => state.clear(waitingKey)))
  const bytes = yield* Effect.onExit(run, (exit) => {
    call.end()
    return Exit.isSuccess(exit) ? Effect.void : Effect.ignore(forget)
  })
  return yield* Answers.decode(definition, checked.message, bytes)
})

/** A client of a server whose keys are known. */
export const make = (
  definition: Definition,
  tenant: Tenant["Service"],
  keys: ServerKeys,
  call: Client["call"]
): Client => {
  const run = <A, E>(body: Effect.Effect<A, E, Transaction>): Effect.Effect<A, E | BackendError> =>
    transact(tenant, body)
  const castAll: Client["castAll"] = (messages) =>
    Effect.suspend((): Effect.Effect<void, unknown> => {
      const items = encodeCasts(definition, messages.length === 1 ? "cast" : "castAll", messages)
      return Result.isFailure(items)
        ? Effect.fail(items.failure)
        : run(Effect.flatMap(Transaction, (state) => push(state, keys, items.success)))
    })
  return {
    call,
    cast: (tag, payload) => castAll([[tag, payload]]),
    castAll,
    queueLength: run(DurableQueue.length({ keys })),
    state: run(Effect.map(StateCodec.make(definition.state).read(keys.state), (stored) => stored?.value))
  }
}

/** A client that only publishes and looks: every call goes through the queue. */
export const client = Effect.fnUntraced(function*(definition: Definition, tuid: Tuple.Tuple) {
  const tenant = yield* Tenant
  const keys = yield* keysOf(definition.name, tenant, tuid)
  return make(definition, tenant, keys, (tag, payload, timeoutMillis) =>
    Effect.flatMap(
      Effect.fromResult(check(definition, ["call"], "call", tag, payload)),
      (checked) => withTimeout(queuedCall(definition, tenant, keys, checked), definition.name, tag, timeoutMillis)
    ))
})
