/**
 * A worker: takes jobs, runs their handlers, settles them. Their leases are kept by leases.ts.
 *
 * Owner: one a layer. Its loops live in the layer's scope; handlers run in fibers of their own, which nobody has to
 * await: one that cannot be interrupted does not hold up the layer's end.
 *
 * 1. A job is held, and its lease renewed, from its taking until its settling is committed. `concurrency` handlers run
 *    at the most; taken jobs beyond that wait here, the most urgent first. There are none of these unless handlers end
 *    faster than a transaction commits (ahead.ts); those that wait for too long, or when the type is paused, go back.
 * 2. One loop settles and takes: what handlers ended with since the last turn, and new jobs for the free places, are
 *    one transaction. A turn is not interrupted, so nothing that was taken is forgotten.
 * 3. A turn settles no more than fits well into a transaction, counting the data that is written again with a row. One
 *    that fails is repeated smaller and takes nothing; later ones grow again while they succeed. A job whose settling
 *    fails alone, in a way that again does not help, is left to its timeout.
 * 4. A handler whose lease is lost is interrupted at once: the bell "revoked" tells of removal and expiry, a beat or a
 *    settling that meets another lock of the rest. Nothing is written for it.
 * 5. The end of the scope: nothing is taken any more; handlers have the grace period, their leases renewed; then they
 *    are interrupted; whatever is not settled then is handed back, its attempt not counted (rule J6).
 * 6. While a worker of the tenant's layer waits for a suspect, or runs one, nothing else is taken (solitude.ts).
 */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import type { BackendError } from "../../../BackendError.ts"
import type { Trace } from "../../data/trace.ts"
import { record } from "../../observing/measuring.ts"
import type { TransactionState } from "../../transactions/state.ts"
import type { Hub } from "../background/hub.ts"
import { passedMillis } from "../background/time.ts"
import { byUrgency, elementText, type Model } from "../definition/model.ts"
import { type Job, lockOf, wasSettledHere } from "../kept/job.ts"
import { type JobMetrics, metricsOf } from "../kept/metrics.ts"
import { PART_BYTES_LIMIT, PartLimit } from "../kept/passLimits.ts"
import type { Row } from "../kept/row.ts"
import { take, type Taken, taking, waitForMore, type Wanted } from "./accept.ts"
import { Ahead } from "./ahead.ts"
import { Depth } from "./depth.ts"
import { type Held, Leases, storedBytesOf } from "./leases.ts"
import { type Ended, type Outcome, outcomeOf, settleAll, sizeOf } from "./settling.ts"
import { type Solitude, solitudeOf, type Taker } from "./solitude.ts"

/** Jobs that one turn takes. */
const TAKE_LIMIT = 200

/** An interrupted handler has so long for its finalizers before its job is handed back without it. */
export const INTERRUPT_LIMIT_MILLIS = 1_000

/** So long the end of the scope waits for the store to take the jobs back. */
const HAND_BACK_LIMIT_MILLIS = 5_000

/** What tells a handler to end. */
export interface Signals {
  /** Aborted when the handler is interrupted. */
  readonly interrupted: () => AbortSignal
  /** Aborted when a stop is coming. */
  readonly stopping: () => AbortSignal
}

/** A handler with all that it needs. */
export type Run<E> = (job: Job<any>, trace: Trace | undefined, signals: Signals) => Effect.Effect<unknown, E>

/** How many jobs a worker runs together, and takes before one of them has ended. */
export interface Capacity {
  readonly jobs: () => number
  readonly isBatched: boolean
}

const STOPS = new Error("the worker stops")

const controllerOf = (held: Held): AbortController => {
  held.controller ??= new AbortController()
  return held.controller
}

export class Worker<E> implements Taker {
  readonly #hub: Hub
  readonly #model: Model
  readonly #run: Run<E>
  readonly #capacity: Capacity
  readonly #services: Context.Context<never>
  readonly #metrics: JobMetrics
  readonly #leases: Leases
  readonly #solitude: Solitude
  readonly #clock: Clock.Clock
  /** The last run of each job that is held: a handler that has settled its job itself may go on beside the next run. */
  readonly #latest = new Map<string, Held>()
  /** Taken jobs that wait for a free handler. */
  #waiting: Array<Held> = []
  #ended: Array<Ended> = []
  #active = 0
  #isStarting = false
  readonly #ahead: Ahead
  readonly #depth: Depth
  #isDraining = false
  readonly #stopping = Latch.makeUnsafe(false)
  /** So many jobs one turn settles at the most (3). */
  readonly #settleLimit = new PartLimit()
  /** Whether the last turn failed: then the next one only settles. */
  #hasFailed = false
  /** Open while there is something for the loop to do besides new jobs. */
  readonly #work = Latch.makeUnsafe(false)

  /** Handlers run with the loggers, the tracer and the clock of `services`. */
  constructor(hub: Hub, model: Model, run: Run<E>, capacity: Capacity, services: Context.Context<never>) {
    const { maxAttempts, maxRunning, maxRunningPerKey, rateLimit, rateLimitPerKey } = model
    this.#hub = hub
    this.#model = model
    this.#run = run
    this.#capacity = capacity
    this.#services = services
    this.#metrics = metricsOf(model.type)
    this.#clock = Context.get(services, Clock.Clock)
    this.#solitude = solitudeOf(hub)
    // a job that waits here takes a place from another process, and an attempt from itself should this process die
    const isLimited = maxRunning !== Infinity || maxRunningPerKey !== Infinity || rateLimit !== undefined ||
      rateLimitPerKey !== undefined || capacity.isBatched
    this.#ahead = new Ahead(isLimited ? 0 : maxAttempts === Infinity ? Infinity : capacity.jobs())
    this.#depth = new Depth(hub, model)
    this.#leases = new Leases(hub, model, {
      lost: (held) => this.#interrupt(held, "lost"),
      beaten: () => this.#depth.stir()
    })
  }

  /** What runs until the scope closes: settles and takes (2), keeps the leases, interrupts handlers that lost theirs (4). */
  get loops(): ReadonlyArray<Effect.Effect<never>> {
    return [this.#loop, this.#leases.beats, this.#leases.losses, this.#leases.revocations, this.#depth.looks]
  }

  /** Ends when a stop is coming: the grace period begins. */
  get stopping(): Effect.Effect<void> {
    return this.#stopping.await
  }

  get held(): number {
    return this.#leases.size
  }

  stir(): void {
    this.#work.openUnsafe()
  }

  /** From here to the end of the scope others know of this worker (6). */
  get present(): Effect.Effect<void, never, Scope.Scope> {
    return Effect.acquireRelease(
      Effect.sync(() => this.#solitude.add(this)),
      () => Effect.sync(() => this.#solitude.delete(this))
    )
  }

  /** The end (5). */
  drain(graceMillis: number): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      this.#isDraining = true
      this.#stopping.openUnsafe()
      for (const { stop } of this.#leases.all) stop?.abort(STOPS)
      this.#giveUpWaiting()
      this.#work.openUnsafe()
      yield* Effect.timeoutOption(this.#leases.idle, graceMillis)
      for (const held of this.#leases.all) this.#interrupt(held, "drained")
      yield* Effect.timeoutOption(this.#leases.idle, INTERRUPT_LIMIT_MILLIS)
      for (const held of this.#leases.all) this.#giveUp(held)
      yield* Effect.timeoutOption(this.#leases.idle, HAND_BACK_LIMIT_MILLIS)
    })
  }

  // --- internal ---

  /** Settles and takes, for ever (2). */
  get #loop(): Effect.Effect<never> {
    const step = Effect.uninterruptible(Effect.exit(this.#turn))
    return Effect.forever(
      Effect.flatMap(step, (exit) => Exit.isSuccess(exit) ? exit.value : this.#leases.pause("taking jobs", exit.cause))
    )
  }

  /** One turn; succeeds with what to wait for before the next one. */
  get #turn(): Effect.Effect<Effect.Effect<void>, BackendError> {
    return Effect.suspend(() => {
      this.#work.closeUnsafe()
      for (const held of this.#ahead.late(this.#waiting, this.#now)) this.#giveUp(held)
      const batch = this.#nextBatch()
      if (batch.length === 0) this.#settleLimit.reset()
      const { untilMillis, wanted } = this.#wanted(batch.length)
      if (batch.length === 0 && wanted === undefined) return Effect.succeed(this.#pause(Effect.never, untilMillis))
      let begunMillis = 0
      const body = (state: TransactionState, claimed: Array<string>) =>
        Effect.flatMap(passedMillis, (now) => {
          begunMillis = now
          return Effect.andThen(
            settleAll({ model: this.#model, state, keys: this.#hub.keys }, batch),
            wanted === undefined ? Effect.undefined : take(this.#hub, this.#model, state, wanted, claimed)
          )
        })
      return Effect.matchCauseEffect(taking(this.#hub, body, () => {}), {
        onFailure: (cause) => {
          this.#ended.unshift(...batch)
          return this.#failedTurn(batch, cause)
        },
        onSuccess: (taken) => {
          const isShort = taken !== undefined && batch.length > 0 && this.#active === 0 &&
            wanted!.limit > 0 && taken.jobs.length === wanted!.limit
          this.#ahead.committed(this.#now - begunMillis, { isShort, areWaiting: this.#waiting.length > 0 })
          if (wanted?.suspect !== undefined && !taken!.isAlone) this.#solitude.missed()
          return this.#committed(batch, taken, begunMillis)
        }
      })
    })
  }

  /** What a turn takes that settles so many jobs, or until when it takes nothing. */
  #wanted(ending: number): { readonly wanted: Wanted | undefined; readonly untilMillis: number } {
    const none = { wanted: undefined, untilMillis: Infinity }
    // after a failure the settling is alone, so that what fails is known
    if (this.#isDraining || (this.#hasFailed && ending > 0)) return none
    const permit = this.#solitude.permit(this, ending, this.#now)
    if (permit._tag === "Nothing") return { wanted: undefined, untilMillis: permit.untilMillis }
    const held = this.#leases.size - ending
    const free = Math.max(0, Math.min(TAKE_LIMIT, this.#capacity.jobs() + this.#ahead.jobs - held))
    // who has jobs in hand looks whether the type was paused, also when it takes no more
    if (free === 0 && (ending === 0 || this.#waiting.length === 0)) return none
    const suspect = permit._tag === "Alone" ? permit.suspect : undefined
    return {
      wanted: { limit: free, maxScheduledTime: undefined, isBusy: this.#solitude.isBusy(ending), suspect },
      untilMillis: Infinity
    }
  }

  /** Waits for work, or for what else there is, or until the first in hand has waited for too long (1). */
  #pause(other: Effect.Effect<void>, untilMillis = Infinity): Effect.Effect<void> {
    const now = this.#now
    const left = Math.min(this.#ahead.patienceLeft(this.#waiting, now), Math.max(0, untilMillis - now))
    const work = Effect.raceFirst(this.#work.await, other)
    return left === Infinity ? work : Effect.raceFirst(work, Effect.sleep(left))
  }

  /** What one transaction settles. */
  #nextBatch(): Array<Ended> {
    let bytes = 0
    let count = 0
    for (const ended of this.#ended) {
      bytes += sizeOf(ended)
      if (count > 0 && (bytes > PART_BYTES_LIMIT || count >= this.#settleLimit.jobs)) break
      count++
    }
    return this.#ended.splice(0, count)
  }

  /** One that always fails must not hold up the others: turns get smaller until it is alone (3). */
  #failedTurn(
    batch: ReadonlyArray<Ended>,
    cause: Cause.Cause<BackendError>
  ): Effect.Effect<never, BackendError> {
    const error = cause.reasons.find((reason) => reason._tag === "Fail")?.error
    const isTransient = error !== undefined && error.isRetryable
    if (!isTransient && batch.length === 1 && this.#hasFailed) {
      this.#ended.shift()
      this.#forget(batch[0]!.held)
    }
    this.#hasFailed = true
    if (batch.length > 0) this.#settleLimit.failed(batch.length)
    return Effect.failCause(cause)
  }

  /** Starts what was taken; succeeds with what to wait for. */
  #committed(
    batch: ReadonlyArray<Ended>,
    taken: Taken | undefined,
    begunMillis: number
  ): Effect.Effect<Effect.Effect<void>> {
    this.#hasFailed = false
    this.#settleLimit.succeeded()
    for (const { held } of batch) this.#forget(held)
    this.#depth.stir()
    if (taken === undefined) return Effect.succeed(Effect.void)
    this.#leases.setTimeout(taken.timeoutMillis, this.#now)
    return Effect.sync(() => {
      for (const [index, job] of taken.jobs.entries()) this.#hold(job, taken.rows[index]!, begunMillis)
      if (taken.isAlone) this.#solitude.began(this)
      if (this.#isDraining || taken.isPaused) this.#giveUpWaiting()
      const compare = byUrgency(this.#model)
      this.#waiting.sort((a, b) => compare(a.job, b.job))
      this.#startNext()
      if (taken.jobs.length > 0 || taken.isCut) return Effect.void
      if (taken.suspect !== undefined) {
        this.#solitude.met(this, taken.suspect, this.#now, taken.timeoutMillis)
        this.#hub.pending.wakeAll()
        return Effect.void
      }
      return this.#pause(waitForMore(this.#hub, taken))
    })
  }

  /** The time that passes, in milliseconds and parts of them. */
  get #now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  #hold(job: Job<any>, row: Row, begunMillis: number): void {
    const held: Held = {
      job,
      lock: lockOf(job)!,
      trace: row.trace,
      takenMillis: this.#now,
      begunMillis: 0,
      signMillis: begunMillis,
      storedBytes: storedBytesOf(row),
      controller: undefined,
      stop: undefined,
      fiber: undefined,
      interrupted: undefined,
      isOver: false
    }
    const text = elementText(job.id)
    const before = this.#latest.get(text)
    // taken again before the news of its loss came here: the new run must not go beside the old one
    if (before !== undefined && !wasSettledHere(before.lock)) this.#interrupt(before, "lost")
    this.#latest.set(text, held)
    this.#leases.add(held)
    this.#waiting.push(held)
  }

  /** Starts handlers while some are free. One can end at once: then the next one starts in the same turn. */
  #startNext(): void {
    if (this.#isStarting) return
    this.#isStarting = true
    while (this.#active < this.#capacity.jobs() && this.#waiting.length > 0) {
      const held = this.#waiting.shift()!
      if (held.isOver) continue
      this.#active++
      held.begunMillis = this.#now
      const waited = Math.max(0, this.#clock.currentTimeMillisUnsafe() - held.job.scheduledAt)
      record(this.#metrics.waitingMillis, waited, this.#services)
      held.fiber = Effect.runForkWith(this.#services)(
        Effect.suspend(() => this.#run(held.job, held.trace, this.#signalsOf(held)))
      )
      held.fiber.addObserver((exit) => {
        // the place of one that was lost, or given up on, was free before
        if (!held.isOver) this.#active--
        const ran = this.#now - held.begunMillis
        this.#ahead.ran(ran)
        record(this.#metrics.runMillis, ran, this.#services)
        this.#end(held, outcomeOf(this.#model, held, exit))
        held.fiber = undefined
        this.#startNext()
      })
    }
    this.#isStarting = false
  }

  #signalsOf(held: Held): Signals {
    return {
      interrupted: () => controllerOf(held).signal,
      stopping: () => {
        held.stop ??= new AbortController()
        if (this.#isDraining) held.stop.abort(STOPS)
        return held.stop.signal
      }
    }
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
    this.#leases.delete(held)
    this.#solitude.ended(this)
    this.#work.openUnsafe()
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
    controllerOf(held).abort(reason === "lost" ? new Error("the lease of the job is lost") : STOPS)
    held.fiber?.interruptUnsafe()
    // its place is free at once, however long the handler takes to end
    if (reason === "lost" || held.fiber === undefined) this.#giveUp(held)
  }
}
