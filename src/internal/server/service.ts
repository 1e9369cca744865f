/**
 * From a user's definition to the service class: checks what programs without types can get wrong, and hands the rest to
 * the runtime.
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schedule from "effect/Schedule"
import type { Transaction } from "../../Transaction.ts"
import type * as Tuple from "../../Tuple.ts"
import { CALL_TIMEOUT_LIMIT_MILLIS } from "../limits.ts"
import type { Options, Which } from "./api.ts"
import { InvalidOption, InvalidTuid } from "./errors.ts"
import type { Lock } from "./head.ts"
import { queueOf, ServerKeys } from "./layout.ts"
import type * as Model from "./model.ts"
import * as Operating from "./operating.ts"
import { replyTo } from "./replying.ts"
import * as Runtime from "./runtime.ts"

/** A call waits five seconds when it does not say how long (as in Erlang). */
const CALL_TIMEOUT_DEFAULT = Duration.seconds(5)

/** A larger batch would not fit a transaction's five seconds. */
export const CONSUME_K_LIMIT = 1_000

type Started = Options & { readonly tuid: Tuple.Tuple }

/** The services that hold a server's handlers with side effects. */
const servicesOf = (definition: Model.Definition) => {
  const { actions, messages, name } = definition
  const key = (what: string) => `effect-dgen/server/${name}/${what}`
  const Actions = Context.Service<any, Model.Effects["actions"]>(key("actions"))
  const Locked = Context.Service<any, Model.Effects["locked"]>(key("locked"))
  const DeadLetters = Context.Service<any, Model.DeadLetterHandler>(key("deadLetters"))
  const effects: Effect.Effect<Model.Effects, never, any> = Effect.all({
    actions: actions.size > 0 ? Effect.service(Actions) : Effect.succeed(new Map()),
    locked: [...messages.values()].some((message) => message.locks)
      ? Effect.service(Locked)
      : Effect.succeed(new Map()),
    deadLetter: Effect.map(Effect.serviceOption(DeadLetters), Option.getOrUndefined)
  })
  return { Actions, Locked, DeadLetters, effects }
}

/** A layer of handlers, with the services of where it is built. */
const handlersLayer = (
  service: Context.Service<any, any>,
  server: string,
  what: string,
  tags: ReadonlyArray<string>,
  handlers: Record<string, (...args: ReadonlyArray<any>) => unknown>
) => {
  const missing = tags.filter((tag) => !Predicate.isFunction(handlers[tag]))
  if (missing.length > 0) throw new TypeError(`${server}: there is no ${what} for ${missing.join(", ")}`)
  return Layer.effect(
    service,
    Effect.map(Effect.context<any>(), (context) =>
      new Map(
        Object.entries(handlers).map(([tag, handler]) => [
          tag,
          (...args: ReadonlyArray<unknown>) => {
            const result = handler(...args)
            return Effect.isEffect(result) ? Effect.provideContext(result, context) : result
          }
        ])
      ))
  )
}

const checkedTuid = <A>(
  server: string,
  which: Which | undefined,
  use: (tuid: Tuple.Tuple) => Effect.Effect<A, never, Transaction>
): Effect.Effect<A, InvalidTuid, Transaction> =>
  Effect.suspend((): Effect.Effect<A, InvalidTuid, Transaction> => {
    const tuid = which?.tuid ?? [server]
    try {
      if (!Array.isArray(tuid) || tuid.length === 0) throw new TypeError("a tuid is an array of one or more elements")
      void new ServerKeys(new Uint8Array(0), tuid)
    } catch (cause) {
      return Effect.fail(new InvalidTuid({ server, problem: (cause as Error).message }))
    }
    return use(tuid)
  })

const lockInfo = ({ attempts, kind, millis, tag, token }: Lock) => ({
  token: Buffer.from(token).toString("hex"),
  since: DateTime.makeUnsafe(millis),
  tag,
  kind,
  attempts
})

/** Everything of a service class but its types. */
export const make = (definition: Model.Definition): object => {
  const { name } = definition
  const Base = Context.Service<any, any>()(`effect-dgen/server/${name}`)
  const { Actions, DeadLetters, effects, Locked } = servicesOf(definition)
  const lockingTags = [...definition.messages.values()].flatMap((message) => message.locks ? [message.tag] : [])
  const start = (behaviour: Model.Behaviour, started: Started) =>
    Effect.flatMap(
      checkOptions(name, started),
      (checked) =>
        Effect.flatMap(effects, (handlers) =>
          Effect.map(Runtime.start(behaviour, handlers, checked), (running) => typedRunning(name, running)))
    )
  return Object.assign(Base, {
    behaviour: (input: any) => makeBehaviour(definition, input),
    action: (tag: string, payload?: unknown): Model.ActionRequest => ({ server: name, tag, payload }),
    actionsLayer: (handlers: any) =>
      handlersLayer(Actions, name, "handler of the action", [...definition.actions.keys()], handlers),
    lockedLayer: (handlers: any) => handlersLayer(Locked, name, "locked handler", lockingTags, handlers),
    deadLetterLayer: (handler: (letter: Model.DeadMessage) => Effect.Effect<void, never, any>) =>
      Layer.effect(
        DeadLetters,
        Effect.map(Effect.context<any>(), (context) => (letter: Model.DeadMessage) =>
          Effect.provideContext(handler(letter), context))
      ),
    layer: (behaviour: Model.Behaviour, started: Options = {}) =>
      Layer.effect(Base, start(behaviour, { ...started, tuid: [name] }) as any),
    start,
    client: (which?: Which) =>
      Effect.map(Runtime.client(definition, which?.tuid ?? [name]), (made) => typedClient(name, made)),
    castTx: (tag: string, payload?: unknown, which?: Which) =>
      checkedTuid(
        name,
        which,
        (tuid) => Runtime.castAllTx(definition, tuid, [[tag, payload]]) as Effect.Effect<void, never, Transaction>
      ),
    castAllTx: (messages: any, which?: Which) =>
      checkedTuid(
        name,
        which,
        (tuid) => Runtime.castAllTx(definition, tuid, messages) as Effect.Effect<void, never, Transaction>
      ),
    replyTo: (from: Model.From, exit: any) => replyTo(definition, from, exit),
    queue: (which?: Which) => queueOf(which?.tuid ?? [name]),
    lock: (which?: Which) => checkedTuid(name, which, (tuid) => Effect.map(Operating.lock(tuid), Option.map(lockInfo))),
    unlock: (which?: Which) => checkedTuid(name, which, Operating.unlock)
  })
}

const makeBehaviour = (
  definition: Model.Definition,
  input: { readonly init: any; readonly handlers: Record<string, Model.Handler> }
): Model.Behaviour => {
  const missing = [...definition.messages.keys()].filter((tag) => !Predicate.isFunction(input.handlers[tag]))
  if (missing.length > 0) throw new TypeError(`${definition.name}: there is no handler for ${missing.join(", ")}`)
  const init = (options: { readonly tuid: Tuple.Tuple }): Effect.Effect<Model.Initial, unknown, Transaction> =>
    Effect.map(
      Predicate.isFunction(input.init) ? input.init(options) : input.init,
      (first: any) => Predicate.isTagged(first, "At") ? first as any : { tuid: undefined, state: first }
    )
  return { definition, init, handlers: new Map(Object.entries(input.handlers)) }
}

// --- options ---

const invalid = (server: string, option: string, problem: string) =>
  Effect.fail(new InvalidOption({ server, option, problem }))

const checkOptions = (server: string, options: Started): Effect.Effect<Model.Options, InvalidOption> => {
  const consumeK = options.consumeK ?? 1
  if (!Number.isInteger(consumeK) || consumeK < 1 || consumeK > CONSUME_K_LIMIT) {
    return invalid(server, "consumeK", `must be a whole number from 1 to ${CONSUME_K_LIMIT}, not ${String(consumeK)}`)
  }
  const deadLetterThreshold = options.deadLetterThreshold ?? Infinity
  if (deadLetterThreshold !== Infinity && (!Number.isInteger(deadLetterThreshold) || deadLetterThreshold < 1)) {
    const given = String(deadLetterThreshold)
    return invalid(server, "deadLetterThreshold", `must be a whole number above zero, or Infinity, not ${given}`)
  }
  const lockTimeout = Duration.fromInput(options.lockTimeout ?? Duration.infinity)
  const lockTimeoutMillis = lockTimeout._tag === "Some" ? Duration.toMillis(lockTimeout.value) : NaN
  if (!(lockTimeoutMillis > 0)) {
    return invalid(server, "lockTimeout", `must be a duration above zero, not ${String(options.lockTimeout)}`)
  }
  for (const option of ["consume", "reset", "cache"] as const) {
    const value: unknown = options[option]
    if (value !== undefined && typeof value !== "boolean") {
      return invalid(server, option, `must be true or false, not ${String(value)}`)
    }
  }
  if (options.restart !== undefined && !Schedule.isSchedule(options.restart)) {
    return invalid(server, "restart", `must be a Schedule, not ${String(options.restart)}`)
  }
  return Effect.succeed({
    tuid: options.tuid,
    consume: options.consume ?? true,
    reset: options.reset ?? false,
    consumeK,
    cache: options.cache ?? true,
    deadLetterThreshold,
    lockTimeoutMillis,
    restart: options.restart
  })
}

const timed = (
  server: string,
  run: (tag: string, payload: unknown, timeoutMillis: number) => Effect.Effect<unknown, unknown>
) =>
(tag: string, payload?: unknown, options: { readonly timeout?: Duration.Input } = {}) => {
  const timeout = Duration.fromInput(options.timeout ?? CALL_TIMEOUT_DEFAULT)
  const millis = timeout._tag === "Some" ? Duration.toMillis(timeout.value) : NaN
  return millis > 0 && millis <= CALL_TIMEOUT_LIMIT_MILLIS
    ? run(tag, payload, millis)
    : invalid(server, "timeout", `must be a duration above zero, at most 24 hours, not ${String(options.timeout)}`)
}

const typedClient = (server: string, client: Model.Client) => ({ ...client, call: timed(server, client.call) })

const typedRunning = (server: string, running: Model.Running) => ({
  ...running,
  call: timed(server, running.call),
  priorityCall: timed(server, running.priorityCall)
})
