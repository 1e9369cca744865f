/**
 * Starts a server in this process: initialises its durable state, runs its consumer, and gives the handle.
 *
 * 1. `init` runs at every start; its state is used only where none exists, or with `reset` (rule R24). When it fails,
 *    nothing was written.
 * 2. The handle ends with its scope: no message is taken after that, and calls of the handle settle (rules R9, R25).
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as StateCodec from "../../StateCodec.ts"
import { Tenant } from "../../Tenant.ts"
import { Transaction } from "../../Transaction.ts"
import type * as Tuple from "../../Tuple.ts"
import { codecOf } from "../codec.ts"
import { transact } from "../transact.ts"
import type { TransactionState } from "../transactionState.ts"
import * as Answers from "./answer.ts"
import * as Clients from "./client.ts"
import { consume } from "./consumer.ts"
import { DefinitionMismatch, ServerStopped } from "./errors.ts"
import type { Incoming } from "./handle.ts"
import { runInline, runPriority } from "./immediate.ts"
import { ServerKeys } from "./layout.ts"
import { check, type Checked } from "./messages.ts"
import type { Behaviour, Client, Effects, Kind, Options, Running } from "./model.ts"
import { holdLogs, PureRunner } from "./purity.ts"
import { make, type Server, stop } from "./server.ts"

export { client } from "./client.ts"
export { castAllTx } from "./messages.ts"

/** Writes the first state, or finds that there is one. Succeeds with the tuid that counts. */
const initialise = (behaviour: Behaviour, options: Options, tenant: Tenant["Service"]) =>
  Effect.gen(function*() {
    const { definition } = behaviour
    const state = yield* Transaction
    const logs = yield* holdLogs
    const runner = yield* PureRunner.make(definition.name, state, logs)
    const initial = yield* runner.run("init", Effect.suspend(() => behaviour.init({ tuid: options.tuid })))
    const tuid = initial.tuid ?? options.tuid
    const keys = yield* Clients.keysOf(definition.name, tenant, tuid)
    const [stored, head] = yield* Effect.all([state.get(keys.name), state.get(keys.head)])
    if (stored !== undefined && Buffer.from(stored).toString() !== definition.name) {
      return yield* new DefinitionMismatch({
        server: definition.name,
        stored: Buffer.from(stored).toString(),
        tuid: JSON.stringify(tuid, (_, value) => typeof value === "bigint" ? String(value) : value)
      })
    }
    if (head === undefined || options.reset) yield* writeFirst(behaviour, state, keys, initial.state)
    state.onCommit.push(() => logs.release())
    return tuid
  })

const writeFirst = (behaviour: Behaviour, state: TransactionState, keys: ServerKeys, first: unknown) =>
  Effect.map(StateCodec.make(behaviour.definition.state).write(keys.state, undefined, first), () => {
    state.set(keys.name, Buffer.from(behaviour.definition.name))
    state.set(keys.head, state.operationId)
  })

/** Two definitions with one name in one tenant layer would read each other's messages. */
const register = (
  behaviour: Behaviour,
  options: Options,
  tenant: Tenant["Service"]
): Effect.Effect<void, DefinitionMismatch> => {
  const { definition } = behaviour
  const known = tenant.definitions.get(definition.name)
  if (known !== undefined && known !== definition) {
    return Effect.fail(
      new DefinitionMismatch({
        server: definition.name,
        stored: `another definition named ${definition.name}`,
        tuid: JSON.stringify(options.tuid, (_, value) => typeof value === "bigint" ? String(value) : value)
      })
    )
  }
  tenant.definitions.set(definition.name, definition)
  return Effect.void
}

/** Starts a server. */
export const start = Effect.fnUntraced(function*(behaviour: Behaviour, effects: Effects, options: Options) {
  const tenant = yield* Tenant
  const { definition } = behaviour
  yield* Clients.keysOf(definition.name, tenant, options.tuid)
  yield* register(behaviour, options, tenant)
  const tuid: Tuple.Tuple = yield* transact(tenant, initialise(behaviour, options, tenant))
  const keys = new ServerKeys(tenant.prefix, tuid)
  const parent = yield* Scope.Scope
  const scope = yield* Scope.fork(parent)
  const server = make({ definition, behaviour, effects, options, tenant, tuid, keys, scope })
  const consumer = options.consume ? yield* Effect.forkIn(consume(server), scope) : undefined
  yield* Scope.addFinalizer(scope, Effect.sync(() => stop(server, "the server's scope closed")))
  return running(server, consumer)
})

/** A handler's input from a message that does not go through the queue, as if it had. */
const direct = (checked: Checked): Omit<Incoming, "id"> => ({
  message: checked.message,
  payload: checked.message.payload === undefined
    ? undefined
    : Result.getOrThrow(codecOf(checked.message.payload).decode(checked.data)),
  caller: undefined,
  attempt: 1
})

/** Runs in the server's scope; the caller only awaits, and is answered as soon as there is an answer. */
const inScope = <E>(
  server: Server,
  run: (answered: (answer: Uint8Array | undefined) => void) => Effect.Effect<void, E>
): Effect.Effect<Uint8Array | undefined, E> =>
  Effect.suspend(() => {
    const answer = Deferred.makeUnsafe<Uint8Array | undefined, E>()
    const work = Effect.onExit(
      run((bytes) => void Deferred.doneUnsafe(answer, Exit.succeed(bytes))),
      (exit) => Effect.sync(() => Exit.isFailure(exit) && Deferred.doneUnsafe(answer, exit as Exit.Exit<never, E>))
    )
    return Effect.andThen(
      Effect.forkIn(Effect.uninterruptible(work), server.scope, { startImmediately: true }),
      Deferred.await(answer)
    )
  })

/** A call: inline where it can be, else through the queue. */
const callOf = (server: Server): Client["call"] => (tag, payload, timeoutMillis) => {
  const { definition, tenant, keys } = server
  const through = Effect.gen(function*() {
    const checked = yield* Effect.fromResult(check(definition, ["call"], "call", tag, payload))
    if (server.options.consumeK === 1 && server.options.consume && !Deferred.isDoneUnsafe(server.stopped)) {
      const bytes = yield* inScope(server, (answered) => runInline(server, direct(checked), answered))
      if (bytes !== undefined) return yield* Answers.decode(definition, checked.message, bytes)
    }
    return yield* untilStopped(server, Clients.queuedCall(definition, tenant, keys, checked))
  })
  return withStop(server, Clients.withTimeout(through, definition.name, tag, timeoutMillis))
}

const stoppedError = (server: Server, reason: string) =>
  Effect.fail(new ServerStopped({ server: server.definition.name, reason }))

/** A call on a stopped handle ends at once. */
const withStop = <A, E>(server: Server, effect: Effect.Effect<A, E>): Effect.Effect<A, E | ServerStopped> =>
  Effect.suspend((): Effect.Effect<A, E | ServerStopped> =>
    Deferred.isDoneUnsafe(server.stopped)
      ? Effect.flatMap(Deferred.await(server.stopped), (reason) => stoppedError(server, reason))
      : effect
  )

/** A call that waits ends when the handle stops; an answer that came with the stop wins. */
const untilStopped = <A, E>(server: Server, effect: Effect.Effect<A, E>): Effect.Effect<A, E | ServerStopped> =>
  Effect.raceFirst(
    effect,
    Effect.flatMap(
      Deferred.await(server.stopped),
      (reason) => Effect.andThen(Effect.yieldNow, stoppedError(server, reason))
    )
  )

const running = (server: Server, consumer: Fiber.Fiber<void> | undefined): Running => {
  const { definition } = server
  const priority = (kinds: ReadonlyArray<Kind>, operation: string, tag: string, payload: unknown) =>
    withStop(
      server,
      Effect.flatMap(Effect.fromResult(check(definition, kinds, operation, tag, payload)), (checked) =>
        Effect.map(
          inScope(server, (answered) => runPriority(server, direct(checked), answered)),
          (bytes) => ({ checked, bytes })
        ))
    )
  return {
    ...Clients.make(definition, server.tenant, server.keys, callOf(server)),
    tuid: server.tuid,
    priorityCall: (tag, payload, timeoutMillis) =>
      Clients.withTimeout(
        Effect.flatMap(priority(["call"], "priorityCall", tag, payload), ({ bytes, checked }) =>
          bytes === undefined
            ? Effect.flatMap(Deferred.await(server.stopped), (reason) => stoppedError(server, reason))
            : Answers.decode(definition, checked.message, bytes)),
        definition.name,
        tag,
        timeoutMillis
      ),
    priorityCast: (tag, payload) => Effect.asVoid(priority(["cast"], "priorityCast", tag, payload)),
    info: (tag, payload) => Effect.asVoid(priority(["info"], "info", tag, payload)),
    stop: (reason) =>
      Effect.andThen(
        Effect.sync(() => stop(server, reason === undefined ? "stop was called" : String(reason))),
        consumer === undefined ? Effect.void : Effect.asVoid(Fiber.await(consumer))
      )
  }
}
