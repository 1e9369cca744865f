/**
 * From a user's definition to the service class: has checked what programs without types can get wrong, and hands the
 * rest to the runtime.
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import { Tenant } from "../../Tenant.ts"
import type { Transaction } from "../../Transaction.ts"
import type * as Tuple from "../../Tuple.ts"
import { show } from "../data/show.ts"
import { captured } from "../observing/lending.ts"
import { outside } from "../transactions/callback.ts"
import {
  checkBehaviour,
  checkDurable,
  checkHandlers,
  checkHostOptions,
  checkList,
  checkOptions,
  checkTimeout,
  lenientTuidOf,
  tuidOf
} from "./checks.ts"
import type { DurableWorkerOptions } from "./definition/durable.ts"
import { InvalidOption, type InvalidTuid } from "./definition/errors.ts"
import { isProtocol, model, namedOptions, protocol } from "./definition/making.ts"
import type * as Model from "./definition/model.ts"
import type { HostOptions, Options, Which } from "./definition/options.ts"
import type { CallOptions, Messages, Protocol } from "./definition/protocol.ts"
import { operationsOf } from "./durable/operations.ts"
import { open } from "./durable/worker.ts"
import type { Host } from "./hosting/host.ts"
import { host, hosted } from "./hosting/start.ts"
import type { Lock } from "./kept/head.ts"
import { queueOf, ServerKeys } from "./kept/layout.ts"
import { remove } from "./mending/kill.ts"
import { list } from "./mending/listing.ts"
import * as Operating from "./mending/operating.ts"
import * as Runtime from "./running/start.ts"
import { checkKey, self } from "./sending/messages.ts"
import { replyTo } from "./sending/replying.ts"
import { argumentsOf, cancelTimerTx, castLaterTx, timersOf } from "./timers/client.ts"

/** Where a service class keeps its definition, for the tools of `effect-dgen/testing`. */
export const DefinitionOf = Symbol.for("effect-dgen/DgenServer/definition")

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
  checkHandlers(server, what, tags, handlers)
  return Layer.effect(
    service,
    Effect.map(Effect.map(Effect.context<any>(), captured), (context) =>
      new Map(
        tags.map((tag) => [
          tag,
          (...args: ReadonlyArray<unknown>) => {
            const result = handlers[tag]!(...args)
            return Effect.isEffect(result) ? Effect.provideContext(result, context) : result
          }
        ])
      ))
  )
}

const withTuid = <A, E>(
  definition: Model.Definition,
  which: Which | undefined,
  use: (tuid: Tuple.Tuple) => Effect.Effect<A, E, Transaction>
): Effect.Effect<A, E | InvalidTuid, Transaction> =>
  Effect.suspend(() => Effect.flatMap(tuidOf(definition, which), use))

/** Which server the options of a timer say. */
const whichOf = (options: unknown): Which | undefined =>
  Predicate.isObject(options) && (options as Which).tuid !== undefined ? { tuid: (options as Which).tuid } : undefined

const lockInfo = ({ attempts, kind, millis, tag, token }: Lock) => ({
  token: Buffer.from(token).toString("hex"),
  since: DateTime.makeUnsafe(millis),
  tag,
  kind,
  attempts
})

/** A client, with timers; that of a hosted server can kill it. */
const clientOf = (definition: Model.Definition, tuid: Tuple.Tuple) =>
  Effect.map(
    Effect.zip(Runtime.client(definition, tuid), Tenant),
    ([made, tenant]) => {
      const located = { definition, tenant, keys: new ServerKeys(tenant.prefix, tuid, definition) }
      return { ...made, ...timersOf(located), ...(definition.hosted ? { kill: remove(located) } : {}) }
    }
  )

/** The keys of the server whose handler runs. */
const selfKeys = (definition: Model.Definition, operation: string) =>
  Effect.map(self(definition, operation), (tuid) => (prefix: Uint8Array) => new ServerKeys(prefix, tuid, definition))

/** The service class of a name or a protocol, and the options beside it; throws a `TypeError` for what is no definition. */
export const define = (given: string | Protocol<string, Messages>, options: unknown): object => {
  const [name, all] = namedOptions(given, options)
  const definition = model(name, all)
  return Object.assign(make(definition), isProtocol(given) ? given : protocol(name, all))
}

/** Everything of a service class but its types. */
const make = (definition: Model.Definition): object => {
  const { name } = definition
  const Base = Context.Service<any, any>()(`effect-dgen/server/${name}`)
  const { Actions, DeadLetters, effects, Locked } = servicesOf(definition)
  const Hosting = Context.Service<any, Host>(`effect-dgen/server/${name}/host`)
  const lockingTags = [...definition.messages.values()].flatMap((message) => message.locks ? [message.tag] : [])
  const start = (behaviour: Model.Behaviour, started: Started) =>
    Effect.flatMap(
      Effect.andThen(checkBehaviour(definition, behaviour), checkOptions(name, started)),
      (checked) =>
        Effect.flatMap(effects, (handlers) =>
          Effect.map(Runtime.start(behaviour, handlers, checked), (running) =>
            typedRunning(definition, running)))
    )
  return Object.assign(Base, {
    [DefinitionOf]: definition,
    behaviour: (input: any) => makeBehaviour(definition, input),
    action: (tag: string, payload?: unknown): Model.ActionRequest => ({ server: name, tag, payload }),
    actionsLayer: (handlers: any) =>
      handlersLayer(Actions, name, "handler of the action", [...definition.actions.keys()], handlers),
    lockedLayer: (handlers: any) => handlersLayer(Locked, name, "locked handler", lockingTags, handlers),
    deadLetterLayer: (handler: (letter: Model.DeadMessage) => Effect.Effect<void, never, any>) => {
      if (!Predicate.isFunction(handler)) throw new TypeError(`${name}: the handler of dead letters must be a function`)
      return Layer.effect(
        DeadLetters,
        Effect.map(
          Effect.map(Effect.context<any>(), captured),
          (context) => (letter: Model.DeadMessage) => Effect.provideContext(handler(letter), context)
        )
      )
    },
    layer: (behaviour: Model.Behaviour, started: Options = {}) =>
      Layer.effect(
        Base,
        start(behaviour, Predicate.isObject(started) ? { ...started, tuid: [name] } : started as never) as any
      ),
    start,
    ...(definition.hasDurable
      ? {
        durable: operationsOf(definition),
        durableLayer: (options?: DurableWorkerOptions) =>
          Layer.effectDiscard(
            Effect.flatMap(checkDurable(name, options), (checked) =>
              Effect.flatMap(Effect.service(Actions), (handlers) => open(definition, handlers, checked)))
          )
      }
      : {}),
    client: (which?: Which) =>
      Effect.map(clientOf(definition, lenientTuidOf(name, which)), (made) => typedClient(definition, made)),
    hostLayer: (behaviour: Model.Behaviour, options?: HostOptions) =>
      Layer.effect(
        Hosting,
        Effect.flatMap(
          Effect.andThen(checkBehaviour(definition, behaviour), checkHostOptions(name, options)),
          (checked) => Effect.flatMap(effects, (handlers) => host(behaviour, handlers, checked))
        )
      ),
    hosted: (which?: Which) =>
      Effect.flatMap(
        Effect.service(Hosting),
        (made: Host) =>
          Effect.map(
            hosted(made, lenientTuidOf(name, which)),
            (client) => ({ ...typedRunning(definition, client), kill: client.kill })
          )
      ),
    list: (options?: unknown) => Effect.flatMap(checkList(name, options), (page) => list(definition, page)),
    castSelfTx: (tag: string, payload?: unknown, options?: unknown) =>
      Runtime.castSelfTx(definition, "castSelfTx", [[tag, payload, options]]),
    castLaterTx: (tag: string, ...args: ReadonlyArray<unknown>) =>
      withTuid(
        definition,
        whichOf(argumentsOf(definition, tag, args)[1]),
        (tuid) =>
          castLaterTx(definition, (prefix) => new ServerKeys(prefix, tuid, definition), "castLaterTx", tag, args)
      ),
    castLaterSelfTx: (tag: string, ...args: ReadonlyArray<unknown>) =>
      Effect.flatMap(
        selfKeys(definition, "castLaterSelfTx"),
        (keysOf) => castLaterTx(definition, keysOf, "castLaterSelfTx", tag, args)
      ),
    cancelTimerTx: (id: unknown, which?: Which) =>
      withTuid(
        definition,
        which,
        (tuid) => cancelTimerTx(definition, (prefix) => new ServerKeys(prefix, tuid, definition), id)
      ),
    cancelTimerSelfTx: (id: unknown) =>
      Effect.flatMap(selfKeys(definition, "cancelTimerSelfTx"), (keysOf) => cancelTimerTx(definition, keysOf, id)),
    castTx: (tag: string, payload?: unknown, which?: Which) =>
      withTuid(
        definition,
        which,
        (tuid) => Runtime.castAllTx(definition, tuid, "castTx", [[tag, payload, keyOf(which)]])
      ),
    castAllTx: (messages: any, which?: Which) =>
      withTuid(definition, which, (tuid) => Runtime.castAllTx(definition, tuid, "castAllTx", messages)),
    replyTo: (from: Model.From, exit: any) => replyTo(definition, from, exit),
    queue: (which?: Which) => queueOf(definition, lenientTuidOf(name, which)),
    lock: (which?: Which) =>
      withTuid(definition, which, (tuid) => Effect.map(Operating.lock(definition, tuid), Option.map(lockInfo))),
    unlock: (which?: Which) => withTuid(definition, which, (tuid) => Operating.unlock(definition, tuid))
  })
}

const makeBehaviour = (
  definition: Model.Definition,
  input: { readonly init: any; readonly handlers: Record<string, Model.Handler> }
): Model.Behaviour => {
  if (!Predicate.isObject(input)) throw new TypeError(`${definition.name}: a behaviour has init and handlers`)
  checkHandlers(definition.name, "handler", definition.messages.keys(), input.handlers)
  if (!Effect.isEffect(input.init) && !Predicate.isFunction(input.init)) {
    throw new TypeError(`${definition.name}: init must be an Effect, or a function that returns one`)
  }
  const init = (options: { readonly tuid: Tuple.Tuple }): Effect.Effect<Model.Initial, unknown, Transaction> => {
    const made: unknown = Predicate.isFunction(input.init) ? input.init(options) : input.init
    if (!Effect.isEffect(made)) throw new TypeError(`${definition.name}: init must return an Effect, not ${show(made)}`)
    return Effect.map(
      made as Effect.Effect<any, unknown, Transaction>,
      (first: any) => Predicate.isTagged(first, "At") ? first as any : { tuid: undefined, state: first }
    )
  }
  return { definition, init, handlers: new Map(Object.entries(input.handlers)) }
}

/** The key of a cast that is part of a transaction stands beside its tuid. */
const keyOf = (which: Which | undefined): unknown =>
  Predicate.isObject(which) && (which as { readonly key?: unknown }).key !== undefined
    ? { key: (which as { readonly key?: unknown }).key }
    : undefined

const timed = (
  definition: Model.Definition,
  operation: string,
  run: (tag: string, payload: unknown, timeoutMillis: number, key?: string) => Effect.Effect<unknown, unknown>
) =>
(tag: string, ...args: ReadonlyArray<unknown>) => {
  const [payload, options = {}] =
    definition.messages.get(tag)?.payload !== undefined || args.length !== 1 || !isCallOptions(args[0])
      ? args
      : [undefined, args[0]]
  const checked = Effect.zip(
    checkTimeout(definition.name, options as CallOptions),
    operation === "call"
      ? Effect.fromResult(checkKey(definition.name, options))
      : withoutKey(definition, operation, options)
  )
  return outside(operation, Effect.flatMap(checked, ([millis, key]) => run(tag, payload, millis, key)))
}

/** What goes past the queue has no key. */
const withoutKey = ({ name }: Model.Definition, operation: string, options: unknown) =>
  Predicate.isObject(options) && (options as CallOptions).key !== undefined
    ? Effect.fail(new InvalidOption({ server: name, option: "key", problem: `is not taken by ${operation}: use call` }))
    : Effect.undefined

/** A call without a payload may have its options in the payload's place. */
const isCallOptions = (value: unknown): boolean =>
  Predicate.isObject(value) && Object.keys(value).every((name) => name === "timeout" || name === "key")

const typedClient = <A extends Model.Client>(definition: Model.Definition, client: A) => ({
  ...client,
  call: timed(definition, "call", client.call)
})

const typedRunning = <A extends Pick<Model.Running, "call" | "priorityCall">>(
  definition: Model.Definition,
  running: A
) => ({
  ...running,
  call: timed(definition, "call", running.call),
  priorityCall: timed(definition, "priorityCall", running.priorityCall)
})
