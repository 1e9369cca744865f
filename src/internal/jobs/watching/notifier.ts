/**
 * Subscriptions: who waits for a job's changes is told the latest one (rule J4).
 *
 * Owner: one notifier a hub, whose fiber lives in the tenant's scope and looks only while there are subscriptions. A
 * subscription belongs to the scope that it was made in.
 *
 * 1. One watch a type: when the bell "changed" rings, one pass reads the rows of all jobs that somebody subscribed to.
 * 2. A subscription is registered before its first look at the job, and takes in only what passes say that began after
 *    that look; if a pass began in between, another one follows. So it never goes back in time, and no change falls
 *    between the look and the passes: a pass reads the bell, which fixes what it sees, before it collects the jobs.
 * 3. A row is told from another one by its revision and by when its job was added. States in between can be missed, the
 *    latest one and the removal cannot. After the removal nothing follows.
 * 4. When the tenant's layer ends, open waits fail: nobody would wake them.
 */
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import { BackendError, Closed } from "../../../BackendError.ts"
import { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import { logWarning } from "../../observing/logging.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import type { Hub } from "../background/hub.ts"
import type { Seen } from "../background/sharedWatch.ts"
import { type InvalidId, JobNotFound, render, unreadable } from "../definition/errors.ts"
import type { State } from "../definition/layout.ts"
import { checkId, elementText, type Model } from "../definition/model.ts"
import { decode, readData } from "../kept/row.ts"

/** Rows that one transaction reads for subscribers at the most. */
const PASS_JOBS_LIMIT = 500

const PAUSE_MILLIS = 250

/** A job as a subscriber sees it. */
export interface Snapshot {
  readonly state: State | "removed"
  /** Packed; `undefined` when the job is gone. */
  readonly data: Uint8Array | undefined
  readonly version: string
}

const GONE: Snapshot = { state: "removed", data: undefined, version: "removed" }

/** One subscription to one job. */
export class Watcher {
  readonly model: Model
  readonly id: Tuple.Element
  latest: Snapshot = GONE
  /** Passes up to this one began before the first look ended. */
  readyPass = Infinity
  /** What the last wait gave, or the subscription itself. */
  told = ""
  /** What the last wait gave. */
  waited = ""
  isOpen = true
  failure: BackendError | undefined
  /** Looks at the job now. */
  look: Effect.Effect<void, BackendError> = Effect.void
  readonly #listeners = new Set<() => void>()

  constructor(model: Model, id: Tuple.Element) {
    this.model = model
    this.id = id
  }

  /** Takes a newer look in; nothing follows a removal (3). */
  learn(pass: number, snapshot: Snapshot): void {
    if (pass <= this.readyPass || this.latest.version === snapshot.version || this.latest === GONE) return
    this.latest = snapshot
    this.#wakeAll()
  }

  /** Takes a look in that began when this version was the latest one, unless a pass has told of another since. */
  learnSince(version: string, snapshot: Snapshot): void {
    if (this.latest.version === version) this.learn(Infinity, snapshot)
  }

  /** Begins with the first look. */
  begin(pass: number, snapshot: Snapshot): void {
    this.readyPass = pass
    this.latest = snapshot
    this.told = snapshot.version
  }

  /** Ends the subscription: open waits end. */
  end(failure?: BackendError): void {
    this.isOpen = false
    this.failure = failure
    this.#wakeAll()
  }

  /** Ends when there is something else to look at than this version. */
  newsAfter(version: string): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      if (this.latest.version !== version || !this.isOpen) return resume(Effect.void)
      const listener = () => resume(Effect.void)
      this.#listeners.add(listener)
      return Effect.sync(() => this.#listeners.delete(listener))
    })
  }

  #wakeAll(): void {
    const listeners = Array.from(this.#listeners)
    this.#listeners.clear()
    for (const listener of listeners) listener()
  }
}

/**
 * A look at one row, or what is known of it where it has not changed: then its data is not read. `undefined` when the
 * row cannot be read.
 */
const snapshotOf = (
  hub: Hub,
  state: TransactionState,
  id: Tuple.Element,
  known?: Snapshot | undefined
): Effect.Effect<Snapshot | undefined> =>
  Effect.flatMap(state.get(hub.keys.job(id), true), (bytes) => {
    if (bytes === undefined) return Effect.succeed(GONE)
    const row = decode(bytes)
    if (row === undefined) return Effect.undefined
    const version = `${row.addedAt}/${row.revision}`
    if (known?.version === version) return Effect.succeed(known)
    return Effect.map(readData(state, hub.keys, id, row), ({ data }) => ({ state: row.state, data, version }))
  })

/** The subscriptions of a hub, by job. */
class Notifier {
  readonly #hub: Hub
  readonly #watchers = new Map<string, Set<Watcher>>()
  readonly #needed = Latch.makeUnsafe(false)
  /** Passes that have begun. */
  passes = 0
  isPassing = false

  constructor(hub: Hub) {
    this.#hub = hub
  }

  /** Another pass follows, whatever the bell says. */
  again(): void {
    this.#hub.changed.wakeAll()
  }

  add(watcher: Watcher): void {
    const text = elementText(watcher.id)
    const watchers = this.#watchers.get(text) ?? new Set()
    this.#watchers.set(text, watchers.add(watcher))
    this.#needed.openUnsafe()
  }

  remove(watcher: Watcher): void {
    const text = elementText(watcher.id)
    const watchers = this.#watchers.get(text)
    watchers?.delete(watcher)
    if (watchers?.size === 0) this.#watchers.delete(text)
    if (this.#watchers.size === 0) this.#needed.closeUnsafe()
  }

  get run(): Effect.Effect<never> {
    const turn = Effect.andThen(
      this.#needed.await,
      Effect.flatMap(this.#look, (seen) => this.#hub.changed.changed(seen))
    )
    const safe = Effect.catchCause(turn, (cause) =>
      Effect.andThen(
        logWarning(
          `jobs of type ${render(this.#hub.type)}: looking for changes failed, trying again`,
          cause
        ),
        Effect.sleep(PAUSE_MILLIS)
      ))
    return Effect.forever(safe)
  }

  /** One pass (1, 2). */
  get #look(): Effect.Effect<Seen, BackendError> {
    return Effect.ensuring(
      Effect.gen(() => this.#pass()),
      Effect.sync(() => {
        this.isPassing = false
      })
    )
  }

  *#pass(): Effect.fn.Return<Seen, BackendError> {
    this.isPassing = true
    this.passes++
    let ids: Array<Tuple.Element> = []
    let at = 0
    const see = this.#hub.changed.see()
    let seen = see(undefined)
    do {
      const part = (state: TransactionState) =>
        Effect.forEach(
          ids.slice(at, at + PASS_JOBS_LIMIT),
          (id) => Effect.map(snapshotOf(this.#hub, state, id, this.#known(id)), (snapshot) => ({ id, snapshot })),
          { concurrency: "unbounded" }
        )
      const first = (state: TransactionState) =>
        Effect.flatMap(state.get(this.#hub.keys.changedBell, true), (bell) => {
          seen = see(bell)
          ids = Array.from(this.#watchers.values(), ([watcher]) => watcher!.id)
          return part(state)
        })
      const body = Effect.flatMap(Transaction, at === 0 ? first : part)
      for (const { id, snapshot } of yield* transact(this.#hub.tenant, body)) {
        // of what cannot be read there is no news
        if (snapshot !== undefined) this.#tell(id, snapshot)
      }
      at += PASS_JOBS_LIMIT
    } while (at < ids.length)
    return seen
  }

  /** What all subscribers of a job know of it already. */
  #known(id: Tuple.Element): Snapshot | undefined {
    const [first, ...others] = this.#watchers.get(elementText(id)) ?? []
    return others.every(({ latest }) => latest.version === first?.latest.version) ? first?.latest : undefined
  }

  #tell(id: Tuple.Element, snapshot: Snapshot): void {
    for (const watcher of Array.from(this.#watchers.get(elementText(id)) ?? [])) watcher.learn(this.passes, snapshot)
  }

  /** Nobody will look any more: open waits fail (4). */
  endAll(): void {
    const failure = new BackendError({
      reason: new Closed({ message: "the tenant's layer has ended, and with it its subscriptions" })
    })
    for (const watchers of Array.from(this.#watchers.values())) {
      for (const watcher of Array.from(watchers)) watcher.end(failure)
    }
  }
}

const notifiers = new WeakMap<Hub, Notifier>()

const notifierOf = (hub: Hub): Effect.Effect<Notifier> =>
  Effect.suspend(() => {
    let notifier = notifiers.get(hub)
    if (notifier === undefined) {
      notifier = new Notifier(hub)
      notifiers.set(hub, notifier)
    }
    const current = notifier
    return Effect.as(hub.background("notifier", current.run, () => current.endAll()), current)
  })

/** Ends a subscription; again is no harm. */
export const unsubscribe = (hub: Hub, watcher: Watcher): Effect.Effect<void> =>
  Effect.sync(() => {
    notifiers.get(hub)?.remove(watcher)
    if (watcher.isOpen) watcher.end()
  })

/** Subscribes to a job that exists, for as long as the scope is open. */
export const subscribe = Effect.fnUntraced(function*(
  hub: Hub,
  model: Model,
  id: Tuple.Element
): Effect.fn.Return<Watcher, InvalidId | JobNotFound | BackendError, Scope.Scope> {
  yield* checkId(model, id)
  const notifier = yield* notifierOf(hub)
  const watcher = new Watcher(model, id)
  yield* Effect.acquireRelease(
    Effect.sync(() => notifier.add(watcher)),
    () => unsubscribe(hub, watcher)
  )
  const passesBefore = notifier.isPassing ? -1 : notifier.passes
  const body = Effect.flatMap(Transaction, (state) => snapshotOf(hub, state, id))
  const snapshot = yield* transact(hub.tenant, body)
  if (snapshot === undefined) return yield* Effect.die(unreadable(model.type, id))
  if (snapshot === GONE) {
    yield* unsubscribe(hub, watcher)
    return yield* new JobNotFound({ type: model.type, id })
  }
  watcher.begin(notifier.passes, snapshot)
  watcher.look = Effect.suspend(() => {
    const { version } = watcher.latest
    return Effect.map(transact(hub.tenant, body), (now) => {
      if (now !== undefined) watcher.learnSince(version, now)
    })
  })
  if (notifier.passes !== passesBefore) notifier.again()
  return watcher
})
