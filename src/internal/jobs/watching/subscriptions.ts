/**
 * Subscriptions as their users have them: made for a scope, waited for, read as a stream. What they learn comes from
 * notifier.ts.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { BackendError } from "../../../BackendError.ts"
import type { Tenant } from "../../../Tenant.ts"
import type * as Tuple from "../../../Tuple.ts"
import { usedHub } from "../background/hub.ts"
import { startMonitor } from "../background/monitor.ts"
import { type InvalidId, InvalidOption, type JobNotFound, type UnreadableData } from "../definition/errors.ts"
import { isState, type State, STATES } from "../definition/layout.ts"
import { type Model, optionsOf, patienceOf } from "../definition/model.ts"
import * as Notifier from "./notifier.ts"
import * as Waiting from "./waiting.ts"

const TypeId = "~effect-dgen/Jobs/Subscription"

interface Inside {
  readonly watcher: Notifier.Watcher
  readonly end: Effect.Effect<void>
}

/**
 * A subscription to a job's changes, made by `subscribe`. It ends with its scope, or by `unsubscribe`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Subscription<out A> {
  readonly [TypeId]: Inside
  readonly type: Tuple.Element
  readonly id: Tuple.Element
  /** The job's state when the subscription began. */
  readonly state: State
  /** The job's data when the subscription began. */
  readonly data: A
}

/** `undefined` for a value that is no subscription. */
const insideOf = (value: unknown): Inside | undefined => {
  const inside = typeof value === "object" && value !== null
    ? (value as Partial<Subscription<unknown>>)[TypeId]
    : undefined
  return inside?.watcher instanceof Notifier.Watcher ? inside : undefined
}

/** Nothing tells which type it should have been. */
const noSubscription = (option: string): InvalidOption =>
  new InvalidOption({ type: undefined, option, problem: "must be what `subscribe` gave" })

type SubscribeError = JobNotFound | UnreadableData | InvalidId | InvalidOption | BackendError

/** A subscription has a scope of its own: with it ends the use of the hub, whether it is ended by hand or by its owner. */
export const subscribe = (
  model: Model,
  id: Tuple.Element
): Effect.Effect<Subscription<any>, SubscribeError, Tenant | Scope.Scope> =>
  Effect.flatMap(
    Effect.flatMap(Effect.scope, Scope.fork),
    (own) =>
      Effect.onError(Scope.provide(subscribing(model, id, Scope.close(own, Exit.void)), own), () =>
        Scope.close(own, Exit.void))
  )

const subscribing = Effect.fnUntraced(function*(
  model: Model,
  id: Tuple.Element,
  end: Effect.Effect<void>
): Effect.fn.Return<Subscription<any>, SubscribeError, Tenant | Scope.Scope> {
  const hub = yield* usedHub(model)
  yield* startMonitor(hub)
  const watcher = yield* Notifier.subscribe(hub, model, id)
  const { data, state } = yield* Effect.fromResult(Waiting.changeOf(watcher, watcher.latest))
  return { [TypeId]: { watcher, end }, type: model.type, id, state: state as State, data }
})

export const changes = (
  model: Model,
  id: Tuple.Element
): Stream.Stream<Waiting.Change<any>, SubscribeError, Tenant> =>
  Stream.unwrap(Effect.map(subscribe(model, id), (subscription) => {
    const { data, id, state, type } = subscription
    const first: Waiting.Change<any> = { type, id, state, data }
    return Stream.concat(
      Stream.succeed(first),
      Stream.unfold(false, (isOver) =>
        isOver
          ? Effect.undefined
          : Effect.map(wait(subscription, {}), (change) =>
            Option.isNone(change) ? undefined : [change.value, change.value.state === "removed"] as const))
    )
  }))

interface WaitOptions {
  readonly state?: State | "removed" | undefined
  readonly timeout?: Duration.Input | undefined
}

type WaitError = UnreadableData | InvalidOption | BackendError

export const wait = (
  subscriptions: Subscription<any> | ReadonlyArray<Subscription<any>>,
  options: WaitOptions
): Effect.Effect<Option.Option<Waiting.Change<any>>, WaitError> =>
  Effect.suspend(() => {
    const all: ReadonlyArray<unknown> = Array.isArray(subscriptions) ? subscriptions : [subscriptions]
    const watchers: Array<Notifier.Watcher> = []
    for (const one of all) {
      const inside = insideOf(one)
      if (inside === undefined) return Effect.fail(noSubscription("subscriptions"))
      watchers.push(inside.watcher)
    }
    const [first] = watchers
    return first === undefined ? Effect.succeedNone : waitFor(first.model, watchers, options)
  })

const waitFor = Effect.fnUntraced(function*(
  model: Model,
  watchers: ReadonlyArray<Notifier.Watcher>,
  input: WaitOptions
): Effect.fn.Return<Option.Option<Waiting.Change<any>>, WaitError> {
  const { state, timeout } = yield* optionsOf(model, input)
  if (state !== undefined && state !== "removed" && !isState(state)) {
    const problem = `must be one of ${STATES.join(", ")}, removed`
    return yield* new InvalidOption({ type: model.type, option: "state", problem })
  }
  return yield* Waiting.wait(watchers, state, yield* patienceOf(model, timeout))
})

export const end = (subscription: Subscription<any>): Effect.Effect<void> =>
  Effect.suspend(() => insideOf(subscription)?.end ?? Effect.die(noSubscription("subscription")))
