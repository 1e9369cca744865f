/**
 * A worker: takes jobs, runs their handlers, keeps their leases, settles them.
 *
 * Owner: one a layer. Its loops live in the layer's scope; handlers run in fibers of their own, which nobody has to
 * await: one that cannot be interrupted does not hold up the layer's end.
 *
 * 1. `held` has every job from its taking until its settling is committed. `concurrency` handlers run at the most; taken
 *    jobs beyond that wait here, their leases renewed. There are none of these unless handlers end faster than a
 *    transaction commits: then so many are taken ahead that no handler has to wait for the next commit.
 * 2. One loop settles and takes: what handlers ended with since the last turn, and new jobs for the free places, are
 *    one transaction. A turn is not interrupted, so nothing that was taken is forgotten.
 * 3. One beat renews all leases, a third of the timeout after the last good one began, so that a slow store does not
 *    spread them. A lease is as old as the beginning of what renewed it, or of the transaction that took the first job.
 *    Once it is older than the timeout it is lost, whatever the store would say.
 * 4. A handler whose lease is lost is interrupted at once: the bell "revoked" tells of removal and expiry, a beat or a
 *    settling that meets another lock of the rest. Nothing is written for it.
 * 5. The end of the scope: nothing is taken any more; handlers have the grace period, their leases renewed; then they
 *    are interrupted; whatever is not settled then is handed back, its attempt not counted (rule J6).
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Metric from "effect/Metric"
import type { BackendError } from "../../BackendError.ts"
import { Transaction } from "../../Transaction.ts"
import { transact } from "../transact.ts"
import type { TransactionState } from "../transactionState.ts"
import { take, type Taken, taking, waitForMore } from "./accept.ts"
import { render, textOf } from "./errors.ts"
import type { Hub } from "./hub.ts"
import { type Job, lockOf, wasSettledHere } from "./job.ts"
import { complete, failRun, handBack, loadHeld, prefetch, renew } from "./lifecycle.ts"
import { elementText, encodeData, type Model, type Place, retryDelay } from "./model.ts"
import { errorText } from "./operations.ts"
import type { Row } from "./row.ts"
import * as Settings from "./settings.ts"
import { passedMillis } from "./time.ts"

/** Two beats can be lost, or one be late by twice this, before a lease is. */
const BEATS_PER_TIMEOUT = 3

/** Leases that one transaction renews or checks. */
const BEAT_JOBS_LIMIT = 500

/** What one turn settles, or one beat renews, in bytes: far from the limit of a transaction. */
const WRITE_BYTES_LIMIT = 2_000_000

/** Jobs that one turn takes. */
const TAKE_LIMIT = 200

/** Jobs that are taken ahead of a free handler at the most. */
const AHEAD_LIMIT = 64

/** After a failed turn or beat the next one waits for so long, at the most. */
const PAUSE_MILLIS = 250

/** An interrupted handler has so long for its finalizers before its job is handed back without it. */
const INTERRUPT_LIMIT_MILLIS = 1_000

/** So long the end of the scope waits for the store to take the jobs back. */
const HAND_BACK_LIMIT_MILLIS = 5_000

const handled = Metric.counter("effect_dgen_jobs_handled", {
  description: "Jobs that a worker of this process has settled",
  incremental: true
})

/** What a worker owes a job when its handler has ended. */
type Outcome =
  | { readonly _tag: "Finish"; readonly data: Uint8Array | undefined }
  | { readonly _tag: "Fail"; readonly failure: unknown; readonly text: string }
  | { readonly _tag: "HandBack" }

interface Held {
  readonly job: Job<any>
  readonly lock: Uint8Array
  /** Made when the handler asks for its signal, or is interrupted: most never do. */
  controller: AbortController | undefined
  /** Missing while the job waits for a free handler. */
  fiber: Fiber.Fiber<unknown, unknown> | undefined
  /** Why the worker interrupted the handler, if it did. */
  interrupted: "lost" | "drained" | undefined
  isOver: boolean
}

interface Ended {
  readonly held: Held
  readonly outcome: Outcome
}

/** A handler with all that it needs. */
export type Run<E> = (job: Job<any>, signal: () => AbortSignal) => Effect.Effect<unknown, E>

const controllerOf = (held: Held): AbortController => {
  held.controller ??= new AbortController()
  return held.controller
}

/** So many times a transaction that renews or settles a job writes its id, in keys and in conflict ranges. */
const ID_WRITES = 16

const idBytes = ({ job }: Held): number => ID_WRITES * elementText(job.id).length

const sizeOf = ({ held, outcome }: Ended): number =>
  idBytes(held) + (outcome._tag === "Finish" ? outcome.data?.length ?? 0 : 0)

/** What one transaction renews or checks. */
const beatParts = (all: ReadonlyArray<Held>): ReadonlyArray<ReadonlyArray<Held>> => {
  const parts: Array<Array<Held>> = []
  let bytes = 0
  for (const held of all) {
    const part = parts.at(-1)
    bytes += idBytes(held)
    if (part !== undefined && part.length < BEAT_JOBS_LIMIT && bytes <= WRITE_BYTES_LIMIT) part.push(held)
    else {
      parts.push([held])
      bytes = idBytes(held)
    }
  }
  return parts
}

export class Worker<E> {
  readonly #hub: Hub
  readonly #model: Model
  readonly #run: Run<E>
  readonly #concurrency: number
  readonly #services: Context.Context<never>
  readonly #held = new Set<Held>()
  /** The last run of each job in `held`: a handler that has settled its job itself may go on beside the next run. */
  readonly #latest = new Map<string, Held>()
  /** Taken jobs that wait for a free handler. */
  #waiting: Array<Held> = []
  #ended: Array<Ended> = []
  #active = 0
  #isStarting = false
  /** So many jobs may be taken beyond the free handlers. */
  #ahead = 0
  readonly #aheadLimit: number
  #isDraining = false
  #timeoutMillis: number
  /** When the last good beat began, by the time that passes. */
  #lastBeatMillis = 0
  #settleLimit = Infinity
  /** Open while there is something for the loop to do besides new jobs. */
  readonly #work = Latch.makeUnsafe(false)
  /** Open while jobs are held. */
  readonly #busy = Latch.makeUnsafe(false)
  /** Open while none is. */
  readonly #idle = Latch.makeUnsafe(true)

  /** Handlers run with the loggers, the tracer and the clock of `services`. */
  constructor(hub: Hub, model: Model, run: Run<E>, concurrency: number, services: Context.Context<never>) {
    const { maxAttempts, maxRunning, maxRunningPerKey } = model
    this.#hub = hub
    this.#model = model
    this.#run = run
    this.#concurrency = concurrency
    this.#services = services
    // a job that waits here takes a place from another process, and an attempt from itself should this process die
    this.#aheadLimit = maxRunning !== Infinity || maxRunningPerKey !== Infinity
      ? 0
      : maxAttempts === Infinity
      ? AHEAD_LIMIT
      : Math.min(concurrency, AHEAD_LIMIT)
    this.#timeoutMillis = model.timeoutMillis
  }

  /** Settles and takes, for ever (2). */
  get loop(): Effect.Effect<never> {
    const step = Effect.uninterruptible(Effect.exit(this.#turn))
    return Effect.forever(
      Effect.flatMap(step, (exit) => Exit.isSuccess(exit) ? exit.value : this.#pause("taking jobs", exit.cause))
    )
  }

  /** Renews the leases, for ever (3). */
  get beats(): Effect.Effect<never> {
    const rest = Effect.flatMap(
      passedMillis,
      (now) => Effect.sleep(Math.max(0, this.#lastBeatMillis + this.#timeoutMillis / BEATS_PER_TIMEOUT - now))
    )
    return Effect.forever(Effect.andThen(
      Effect.andThen(this.#busy.await, rest),
      Effect.suspend(() => this.#held.size === 0 ? Effect.void : this.#beat)
    ))
  }

  /** Interrupts handlers whose jobs are taken away, for ever (4). */
  get revocations(): Effect.Effect<never> {
    const look = Effect.suspend(() => {
      const see = this.#hub.revoked.see()
      const bell = transact(
        this.#hub.tenant,
        Effect.flatMap(Transaction, (state) => Effect.map(state.get(this.#hub.keys.revokedBell, true), see))
      )
      return Effect.tap(bell, () => this.#check(() => Effect.void))
    })
    const turn = Effect.andThen(this.#busy.await, Effect.flatMap(look, (seen) => this.#hub.revoked.changed(seen)))
    return Effect.forever(Effect.catchCause(turn, (cause) => this.#pause("looking for revoked jobs", cause)))
  }

  /** The end (5). */
  drain(graceMillis: number): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      this.#isDraining = true
      this.#giveUpWaiting()
      this.#work.openUnsafe()
      yield* Effect.timeoutOption(this.#idle.await, graceMillis)
      for (const held of Array.from(this.#held)) this.#interrupt(held, "drained")
      yield* Effect.timeoutOption(this.#idle.await, INTERRUPT_LIMIT_MILLIS)
      for (const held of Array.from(this.#held)) this.#giveUp(held)
      yield* Effect.timeoutOption(this.#idle.await, HAND_BACK_LIMIT_MILLIS)
    })
  }

  // --- internal ---

  #pause(what: string, cause: Cause.Cause<unknown>): Effect.Effect<void> {
    return Effect.andThen(
      Effect.logWarning(`jobs of type ${render(this.#model.type)}: ${what} failed, trying again`, cause),
      Effect.suspend(() => Effect.sleep(Math.min(PAUSE_MILLIS, this.#timeoutMillis / 6)))
    )
  }

  /** One turn; succeeds with what to wait for before the next one. */
  get #turn(): Effect.Effect<Effect.Effect<void>, BackendError> {
    return Effect.suspend(() => {
      this.#work.closeUnsafe()
      const batch = this.#nextBatch()
      if (batch.length === 0) this.#settleLimit = Infinity
      // after a failure the settling is alone, so that what fails is known
      const free = this.#isDraining || this.#settleLimit === 1
        ? 0
        : Math.min(TAKE_LIMIT, this.#concurrency + this.#ahead - this.#held.size + batch.length)
      if (batch.length === 0 && free === 0) return Effect.succeed(this.#work.await)
      let begunMillis = 0
      const body = (state: TransactionState, claimed: Array<string>) =>
        Effect.flatMap(passedMillis, (now) => {
          begunMillis = now
          return Effect.andThen(
            this.#settle(state, batch),
            free === 0
              ? Effect.undefined
              : take(this.#hub, this.#model, state, { limit: free, maxScheduledTime: undefined }, claimed)
          )
        })
      return Effect.matchCauseEffect(taking(this.#hub, body, () => {}), {
        onFailure: (cause) => {
          this.#ended.unshift(...batch)
          return this.#failedTurn(batch, cause)
        },
        onSuccess: (taken) => {
          if (taken !== undefined) this.#adapt(batch.length > 0 && taken.jobs.length === free)
          return this.#committed(batch, taken, begunMillis)
        }
      })
    })
  }

  /** What one transaction settles. */
  #nextBatch(): Array<Ended> {
    let bytes = 0
    let count = 0
    for (const ended of this.#ended) {
      bytes += sizeOf(ended)
      if (count > 0 && (bytes > WRITE_BYTES_LIMIT || count >= this.#settleLimit)) break
      count++
    }
    return this.#ended.splice(0, count)
  }

  /** One that always fails must not hold up the others: they are settled one by one, and it is left to its timeout. */
  #failedTurn(
    batch: ReadonlyArray<Ended>,
    cause: Cause.Cause<BackendError>
  ): Effect.Effect<never, BackendError> {
    const error = cause.reasons.find((reason) => reason._tag === "Fail")?.error
    const isTransient = error !== undefined && error.isRetryable
    if (!isTransient && batch.length === 1 && this.#settleLimit === 1) {
      this.#ended.shift()
      this.#forget(batch[0]!.held)
    }
    if (!isTransient) this.#settleLimit = 1
    return Effect.failCause(cause)
  }

  /** Starts what was taken; succeeds with what to wait for. */
  #committed(
    batch: ReadonlyArray<Ended>,
    taken: Taken | undefined,
    begunMillis: number
  ): Effect.Effect<Effect.Effect<void>> {
    this.#settleLimit = Infinity
    for (const { held } of batch) this.#forget(held)
    const counted = batch.length === 0 ? Effect.void : Metric.update(handled, batch.length)
    if (taken === undefined) return Effect.as(counted, Effect.void)
    this.#timeoutMillis = taken.timeoutMillis
    const next = taken.jobs.length > 0 || taken.isCut
      ? Effect.void
      : Effect.raceFirst(this.#work.await, waitForMore(this.#hub, taken))
    return Effect.map(counted, () => {
      if (this.#held.size === 0) this.#lastBeatMillis = begunMillis
      for (const job of taken.jobs) this.#hold(job)
      if (this.#isDraining) this.#giveUpWaiting()
      this.#startNext()
      return next
    })
  }

  /** Takes more ahead while handlers had to wait for this commit, less while jobs had to wait for handlers (1). */
  #adapt(isBusy: boolean): void {
    if (this.#waiting.length > 0) this.#ahead = Math.floor(this.#ahead / 2)
    else if (this.#active === 0 && isBusy) this.#ahead = Math.min(this.#aheadLimit, Math.max(1, this.#ahead * 2))
  }

  #hold(job: Job<any>): void {
    const held: Held = {
      job,
      lock: lockOf(job)!,
      controller: undefined,
      fiber: undefined,
      interrupted: undefined,
      isOver: false
    }
    const text = elementText(job.id)
    const before = this.#latest.get(text)
    // taken again before the news of its loss came here: the new run must not go beside the old one
    if (before !== undefined && !wasSettledHere(before.lock)) this.#interrupt(before, "lost")
    this.#latest.set(text, held)
    this.#held.add(held)
    this.#waiting.push(held)
    this.#busy.openUnsafe()
    this.#idle.closeUnsafe()
  }

  /** Starts handlers while some are free. One can end at once: then the next one starts in the same turn. */
  #startNext(): void {
    if (this.#isStarting) return
    this.#isStarting = true
    while (this.#active < this.#concurrency && this.#waiting.length > 0) {
      const held = this.#waiting.shift()!
      if (held.isOver) continue
      this.#active++
      held.fiber = Effect.runForkWith(this.#services)(
        Effect.suspend(() => this.#run(held.job, () => controllerOf(held).signal))
      )
      held.fiber.addObserver((exit) => {
        // the place of one that was lost, or given up on, was free before
        if (!held.isOver) this.#active--
        this.#end(held, this.#outcomeOf(held, exit))
        this.#startNext()
      })
    }
    this.#isStarting = false
  }

  #outcomeOf(held: Held, exit: Exit.Exit<unknown, unknown>): Outcome {
    if (Exit.isFailure(exit)) {
      if (held.interrupted !== undefined) return { _tag: "HandBack" }
      return { _tag: "Fail", failure: Cause.squash(exit.cause), text: textOf(() => Cause.pretty(exit.cause)) }
    }
    if (exit.value === undefined) return { _tag: "Finish", data: undefined }
    const encoded = Effect.runSyncExit(encodeData(this.#model, held.job.id, exit.value))
    if (Exit.isSuccess(encoded)) return { _tag: "Finish", data: encoded.value }
    const failure = Cause.squash(encoded.cause)
    return { _tag: "Fail", failure, text: errorText(failure) }
  }

  /** The handler has ended, or is given up on. */
  #end(held: Held, outcome: Outcome): void {
    if (held.isOver) return
    held.isOver = true
    if (held.interrupted === "lost") return this.#forget(held)
    this.#ended.push({ held, outcome })
    this.#work.openUnsafe()
  }

  #forget(held: Held): void {
    const text = elementText(held.job.id)
    if (this.#latest.get(text) === held) this.#latest.delete(text)
    this.#held.delete(held)
    this.#work.openUnsafe()
    if (this.#held.size > 0) return
    this.#busy.closeUnsafe()
    this.#idle.openUnsafe()
  }

  /** The worker is done with a job whose handler may go on for a while. */
  #giveUp(held: Held): void {
    if (held.isOver) return
    if (held.fiber !== undefined) this.#active--
    this.#end(held, { _tag: "HandBack" })
    this.#startNext()
  }

  #giveUpWaiting(): void {
    for (const held of this.#waiting.splice(0)) this.#giveUp(held)
  }

  #interrupt(held: Held, reason: "lost" | "drained"): void {
    if (held.isOver || held.interrupted === "lost") return
    held.interrupted = reason
    controllerOf(held).abort(new Error(reason === "lost" ? "the lease of the job is lost" : "the worker stops"))
    held.fiber?.interruptUnsafe()
    // its place is free at once, however long the handler takes to end
    if (reason === "lost" || held.fiber === undefined) this.#giveUp(held)
  }

  /** Settles what handlers have ended with; a job that somebody else has meanwhile is left alone (4). */
  #settle(state: TransactionState, batch: ReadonlyArray<Ended>): Effect.Effect<void> {
    const place: Place = { model: this.#model, state, keys: this.#hub.keys }
    const each = Effect.forEach(batch, ({ held: { job, lock }, outcome }) => {
      const settled = Effect.flatMap(loadHeld(place, job.id, lock), (row): Effect.Effect<unknown> => {
        switch (outcome._tag) {
          case "Finish":
            return complete(place, job.id, row, outcome.data)
          case "HandBack":
            return handBack(place, job.id, row)
          case "Fail":
            return Effect.flatMap(
              retryDelay(place.model, row.attempts, state.timeMillis, outcome.failure),
              (delay) =>
                failRun(place, job.id, row, outcome.text, delay === undefined ? undefined : state.timeMillis + delay)
            )
        }
      })
      return Effect.ignore(settled)
    }, { discard: true })
    return Effect.andThen(prefetch(place, () => batch.map(({ held }) => held.job.id), true), each)
  }

  /**
   * Reads all held jobs and runs `use` on each, some in a transaction; handlers whose job is lost are interrupted. A
   * handler that has settled its job itself goes on.
   */
  #check(use: (place: Place, held: Held, row: Row) => Effect.Effect<unknown>): Effect.Effect<void, BackendError> {
    return Effect.gen({ self: this }, function*() {
      const all = Array.from(this.#held).filter((held) => !held.isOver)
      for (const part of beatParts(all)) {
        const body = Effect.flatMap(Transaction, (state) => {
          const place: Place = { model: this.#model, state, keys: this.#hub.keys }
          const looks = Effect.forEach(part, (held) =>
            Effect.matchEffect(loadHeld(place, held.job.id, held.lock), {
              onFailure: () => Effect.succeed(held),
              onSuccess: (row) => Effect.as(use(place, held, row), undefined)
            }))
          const rows = prefetch(place, () => part.map((held) => held.job.id), true)
          return Effect.zip(Effect.andThen(rows, looks), Settings.read(place), { concurrent: true })
        })
        const [looks, settings] = yield* transact(this.#hub.tenant, body)
        this.#timeoutMillis = settings.timeoutMillis
        for (const held of looks) if (held !== undefined && !wasSettledHere(held.lock)) this.#interrupt(held, "lost")
      }
    })
  }

  /** Renews all leases, watched over by their time limit (3). */
  get #beat(): Effect.Effect<void> {
    const renewed = Effect.gen({ self: this }, function*() {
      const begun = yield* passedMillis
      yield* this.#check((place, held, row) => renew(place, held.job.id, row, undefined))
      this.#lastBeatMillis = begun
    })
    const again = Effect.forever(
      Effect.flatMap(Effect.exit(renewed), (exit) =>
        Exit.isSuccess(exit)
          ? Effect.fail("renewed" as const)
          : this.#pause("renewing leases", exit.cause))
    )
    const lost = Effect.suspend(() => {
      const left = this.#lastBeatMillis + this.#timeoutMillis
      return Effect.flatMap(passedMillis, (now) =>
        Effect.andThen(
          Effect.sleep(Math.max(0, left - now)),
          Effect.sync(() => {
            for (const held of Array.from(this.#held)) this.#interrupt(held, "lost")
          })
        ))
    })
    return Effect.ignore(Effect.raceFirst(again, lost))
  }
}
