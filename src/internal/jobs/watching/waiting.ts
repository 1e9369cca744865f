/**
 * Waiting for a subscribed job, or the first of several.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { BackendError } from "../../../BackendError.ts"
import type * as Tuple from "../../../Tuple.ts"
import { passedMillis } from "../background/time.ts"
import type { UnreadableData } from "../definition/errors.ts"
import type { State } from "../definition/layout.ts"
import { decodeData } from "../definition/model.ts"
import type { Snapshot, Watcher } from "./notifier.ts"

/**
 * What a subscriber is told: the job's state with its data, or that it was removed.
 *
 * @since 0.1.0
 * @category models
 */
export type Change<A> = {
  readonly type: Tuple.Element
  readonly id: Tuple.Element
} & ({ readonly state: State; readonly data: A } | { readonly state: "removed"; readonly data: undefined })

/** What a snapshot says in the terms of its type. */
export const changeOf = (watcher: Watcher, snapshot: Snapshot): Result.Result<Change<any>, UnreadableData> => {
  const { id, model } = watcher
  const named = { type: model.type, id }
  return snapshot.state === "removed" || snapshot.data === undefined
    ? Result.succeed({ ...named, state: "removed", data: undefined })
    : Result.map(decodeData(model, id, snapshot.data), (data) => ({ ...named, state: snapshot.state as State, data }))
}

/** Whether a job in a state comes to another one only by somebody's asking for a run: all but its removal. */
const isEnd = (state: State | "removed"): boolean => state === "finished" || state === "dead"

/**
 * Whether a subscription has news that the caller waits for: any change, or the state that is asked for by name, which may
 * have been there from the start, or an end at which that state cannot be reached any more.
 */
const hasNews = ({ latest, told, waited }: Watcher, state: State | "removed" | undefined): boolean =>
  state === undefined || latest.state === "removed"
    ? latest.version !== told
    : (latest.state === state || (isEnd(latest.state) && state !== "removed")) && latest.version !== waited

/** Takes the news of a subscription, if there are some. */
const take = Effect.fnUntraced(function*(
  watcher: Watcher,
  state: State | "removed" | undefined
): Effect.fn.Return<Snapshot | undefined, BackendError> {
  // an end that is not asked for may be over: somebody may have asked for another run, and this process not have seen it
  if (hasNews(watcher, state) && state !== undefined && watcher.latest.state !== state) yield* watcher.look
  if (!hasNews(watcher, state)) return undefined
  const { latest } = watcher
  watcher.told = latest.version
  watcher.waited = latest.version
  return latest
})

/** Whether nothing will follow. */
const isOver = (watcher: Watcher): boolean => !watcher.isOpen || watcher.told === "removed"

export const wait = Effect.fnUntraced(function*(
  watchers: ReadonlyArray<Watcher>,
  state: State | "removed" | undefined,
  timeoutMillis: number
): Effect.fn.Return<Option.Option<Change<any>>, UnreadableData | BackendError> {
  const deadline = (yield* passedMillis) + timeoutMillis
  for (;;) {
    for (const watcher of watchers) {
      if (watcher.failure !== undefined) return yield* watcher.failure
      const snapshot = watcher.isOpen ? yield* take(watcher, state) : undefined
      if (snapshot !== undefined) return Option.some(yield* Effect.fromResult(changeOf(watcher, snapshot)))
    }
    const left = deadline - (yield* passedMillis)
    if (left <= 0 || watchers.every(isOver)) return Option.none()
    const news = Effect.raceAllFirst(
      watchers.filter((watcher) => !isOver(watcher)).map((watcher) => watcher.newsAfter(watcher.latest.version))
    )
    yield* left === Infinity ? news : Effect.timeoutOption(news, left)
  }
})
