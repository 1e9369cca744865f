/**
 * The leases of the jobs that a worker holds: renewed while the store answers, lost once they are too old.
 *
 * Owner: one a worker. Its loops live in the layer's scope; the worker adds and removes jobs, and is told which are lost.
 *
 * 1. A lease is as old as the job's last sign of life: the beginning of the transaction that took it, or of the beat's
 *    transaction that renewed it, by the time that passes. Once that is older than the timeout the lease is lost,
 *    whatever the store would say; leases of other jobs are not.
 * 2. One beat renews all leases, a third of the timeout after the oldest sign of life, so that a slow store does not
 *    spread them. Jobs that have ended are renewed too until their settling is committed: their run was not in vain
 *    because the store is slow. Nothing else happens to them here: there is no handler that could be interrupted.
 *    One that was renewed under a longer timeout than this worker hears of is renewed at once, and has the shorter one
 *    from then on.
 * 3. What waits for a lease to grow old is woken when a job comes that is older than all others, as one is that was
 *    taken by a slow commit, and when the timeout gets shorter.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import type { BackendError } from "../../../BackendError.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import type { Trace } from "../../data/trace.ts"
import { logWarning } from "../../observing/logging.ts"
import { transact } from "../../transactions/loop.ts"
import type { Hub } from "../background/hub.ts"
import { passedMillis } from "../background/time.ts"
import { render } from "../definition/errors.ts"
import type { Model, Place } from "../definition/model.ts"
import { type Job, wasSettledHere } from "../kept/job.ts"
import { renew } from "../kept/lifecycle.ts"
import { PART_BYTES_LIMIT, PART_JOBS_LIMIT } from "../kept/passLimits.ts"
import { loadHeld, prefetch } from "../kept/places.ts"
import type { Row } from "../kept/row.ts"
import * as Settings from "../kept/settings.ts"

/** Two beats can be lost, or one be late by twice this, before a lease is. */
const BEATS_PER_TIMEOUT = 3

/** After a failed turn or beat the next one waits for so long, at the most. */
const PAUSE_MILLIS = 250

/** So many times a transaction that renews or settles a job writes its id, in keys and in conflict ranges. */
const ID_WRITES = 16

/** A job of a worker. */
export interface Held {
  readonly job: Job<any>
  readonly lock: Uint8Array
  /** The span that the job was added in. */
  readonly trace: Trace | undefined
  /** When it came here, by the time that passes. */
  readonly takenMillis: number
  /** When its handler began, by the same time; 0 before that. */
  begunMillis: number
  /** When its last sign of life began, by the time that passes (1). */
  signMillis: number
  /** What settling it writes of its stored data, as far as it is known: whoever resubmits it can give it more. */
  storedBytes: number
  /** Made when the handler asks for its signal, or is interrupted: most never do. */
  controller: AbortController | undefined
  /** Made when the handler asks for the signal of a stop. */
  stop: AbortController | undefined
  /** Missing while the job waits for a free handler, and when that has ended. */
  fiber: Fiber.Fiber<unknown, unknown> | undefined
  /** Why the worker interrupted the handler, if it did. */
  interrupted: "lost" | "drained" | undefined
  /** The handler has ended, or is given up on. */
  isOver: boolean
}

/** Whose leases they are. */
export interface Owner {
  /** Interrupts the handler of a job; one that has ended is never lost. */
  readonly lost: (held: Held) => void
  /** The leases are about to be renewed. */
  readonly beaten: () => void
}

/** What is done to a job that is still held. */
type Renewal = (place: Place, held: Held, row: Row) => Effect.Effect<unknown>

/** What a loop waits for: its time, or a lease that is older than those it knew of (3). */
interface Alarm {
  readonly latch: Latch.Latch
  oldestMillis: number
}

/** Short data lies in the row, which is written again; of long data only that of the next run is. */
export const storedBytesOf = ({ body }: Row): number => body.bytes?.length ?? Math.max(0, body.nextBytes)

export const idBytes = ({ job }: Held): number => ID_WRITES * Tuple.pack([job.id]).length

/** What one transaction renews or checks. */
const partsOf = (all: ReadonlyArray<Held>): ReadonlyArray<ReadonlyArray<Held>> => {
  const parts: Array<Array<Held>> = []
  let bytes = 0
  for (const held of all) {
    const part = parts.at(-1)
    bytes += idBytes(held)
    if (part !== undefined && part.length < PART_JOBS_LIMIT && bytes <= PART_BYTES_LIMIT) part.push(held)
    else {
      parts.push([held])
      bytes = idBytes(held)
    }
  }
  return parts
}

/** A handler that has settled its job itself has no lease to lose. */
const canBeLost = ({ isOver, lock }: Held): boolean => !isOver && !wasSettledHere(lock)

export class Leases {
  readonly #hub: Hub
  readonly #model: Model
  readonly #owner: Owner
  readonly #held = new Set<Held>()
  #timeoutMillis: number
  /** When a shorter timeout was heard of, and how long it was before. */
  #heardMillis = -Infinity
  #beforeMillis = 0
  readonly #nextBeat: Alarm = { latch: Latch.makeUnsafe(false), oldestMillis: Infinity }
  readonly #nextLoss: Alarm = { latch: Latch.makeUnsafe(false), oldestMillis: Infinity }
  /** Open while jobs are held. */
  readonly #busy = Latch.makeUnsafe(false)
  /** Open while none is. */
  readonly #idle = Latch.makeUnsafe(true)

  constructor(hub: Hub, model: Model, owner: Owner) {
    this.#hub = hub
    this.#model = model
    this.#owner = owner
    this.#timeoutMillis = model.timeoutMillis
  }

  get size(): number {
    return this.#held.size
  }

  /** All jobs that are held now, those that have ended too: the list stays as it is. */
  get all(): ReadonlyArray<Held> {
    return Array.from(this.#held)
  }

  /** Ends when no job is held. */
  get idle(): Effect.Effect<void> {
    return this.#idle.await
  }

  add(held: Held): void {
    this.#held.add(held)
    this.#wake(held.signMillis)
    this.#busy.openUnsafe()
    this.#idle.closeUnsafe()
  }

  delete(held: Held): void {
    this.#held.delete(held)
    if (this.#held.size > 0) return
    this.#busy.closeUnsafe()
    this.#idle.openUnsafe()
  }

  /** How long a holder may be silent, as the store says. */
  setTimeout(millis: number, nowMillis: number): void {
    const isShorter = millis < this.#timeoutMillis
    if (isShorter && this.#held.size > 0) {
      this.#heardMillis = nowMillis
      this.#beforeMillis = this.#timeoutMillis
    }
    this.#timeoutMillis = millis
    if (isShorter) this.#wake(-Infinity)
  }

  pause(what: string, cause: Cause.Cause<unknown>): Effect.Effect<void> {
    return Effect.andThen(
      logWarning(`jobs of type ${render(this.#model.type)}: ${what} failed, trying again`, cause),
      Effect.suspend(() => Effect.sleep(Math.min(PAUSE_MILLIS, this.#timeoutMillis / 6)))
    )
  }

  /** Renews the leases, for ever (2). */
  get beats(): Effect.Effect<never> {
    const step = Effect.flatMap(passedMillis, (now) => {
      const oldest = this.#oldest(this.#nextBeat, () => true)
      const left = oldest + this.#timeoutMillis / BEATS_PER_TIMEOUT - now
      return left > 0 ? this.#wait(this.#nextBeat, left) : this.#beat
    })
    return Effect.forever(Effect.andThen(this.#busy.await, step))
  }

  /** Tells of leases that are too old, for ever (1), whatever becomes of a beat meanwhile. */
  get losses(): Effect.Effect<never> {
    const step = Effect.flatMap(passedMillis, (now) => {
      for (const held of this.all) {
        if (canBeLost(held) && this.#lostAt(held.signMillis) <= now) this.#owner.lost(held)
      }
      const oldest = this.#oldest(this.#nextLoss, canBeLost)
      return this.#wait(this.#nextLoss, this.#lostAt(oldest) - now)
    })
    return Effect.forever(Effect.andThen(this.#busy.await, step))
  }

  /** Looks for jobs that are taken away, for ever. */
  get revocations(): Effect.Effect<never> {
    const look = Effect.suspend(() => {
      const see = this.#hub.revoked.see()
      const bell = transact(
        this.#hub.tenant,
        Effect.flatMap(Transaction, (state) => Effect.map(state.get(this.#hub.keys.revokedBell, true), see))
      )
      return Effect.tap(bell, () => this.#check(this.all.filter(({ isOver }) => !isOver)))
    })
    const turn = Effect.andThen(this.#busy.await, Effect.flatMap(look, (seen) => this.#hub.revoked.changed(seen)))
    return Effect.forever(Effect.catchCause(turn, (cause) => this.pause("looking for revoked jobs", cause)))
  }

  // --- internal ---

  /** When a lease is lost whose last sign of life was at this time (1). */
  #lostAt(signMillis: number): number {
    return signMillis >= this.#heardMillis
      ? signMillis + this.#timeoutMillis
      : Math.min(signMillis + this.#beforeMillis, this.#heardMillis + this.#timeoutMillis)
  }

  /** Wakes the loops that know of no sign of life as old as this (3). */
  #wake(signMillis: number): void {
    for (const alarm of [this.#nextBeat, this.#nextLoss]) {
      if (signMillis < alarm.oldestMillis) alarm.latch.openUnsafe()
    }
  }

  /** The oldest sign of life of some, for a loop that will wait for what follows from it. */
  #oldest(alarm: Alarm, counts: (held: Held) => boolean): number {
    alarm.latch.closeUnsafe()
    alarm.oldestMillis = Infinity
    for (const held of this.#held) {
      if (counts(held)) alarm.oldestMillis = Math.min(alarm.oldestMillis, held.signMillis)
    }
    return alarm.oldestMillis
  }

  #wait(alarm: Alarm, millis: number): Effect.Effect<void> {
    return millis === Infinity ? alarm.latch.await : Effect.raceFirst(Effect.sleep(millis), alarm.latch.await)
  }

  /** Reads jobs, and runs `renewal` on each, some in a transaction; tells of those that are somebody else's. */
  #check(all: ReadonlyArray<Held>, renewal?: Renewal): Effect.Effect<void, BackendError> {
    return Effect.gen(() => this.#checking(all, renewal))
  }

  *#checking(
    all: ReadonlyArray<Held>,
    renewal: Renewal | undefined
  ): Effect.fn.Return<void, BackendError> {
    for (const part of partsOf(all)) {
      let begunMillis = 0
      const body = Effect.flatMap(Effect.zip(Transaction, passedMillis), ([state, now]) => {
        begunMillis = now
        const place: Place = { model: this.#model, state, keys: this.#hub.keys }
        const looks = Effect.forEach(part, (held) =>
          Effect.matchEffect(loadHeld(place, held.job.id, held.lock), {
            onFailure: () => Effect.undefined,
            onSuccess: (row) => renewal === undefined ? Effect.succeed(row) : Effect.as(renewal(place, held, row), row)
          }))
        const rows = prefetch(place, () => part.map((held) => held.job.id), true)
        return Effect.zip(Effect.andThen(rows, looks), Settings.read(place), { concurrent: true })
      })
      const [rows, settings] = yield* transact(this.#hub.tenant, body)
      this.setTimeout(settings.timeoutMillis, yield* passedMillis)
      for (const [index, held] of part.entries()) {
        const row = rows[index]
        if (row !== undefined) held.storedBytes = storedBytesOf(row)
        else if (canBeLost(held)) this.#owner.lost(held)
        // one that is not ours any more has no lease, and is looked at again with the others
        if (renewal !== undefined) held.signMillis = begunMillis
      }
    }
  }

  /** Renews all leases (2). */
  get #beat(): Effect.Effect<void> {
    const renewed = Effect.suspend(() =>
      this.#check(this.all, (place, held, row) => renew(place, held.job.id, row, undefined))
    )
    this.#owner.beaten()
    const again = Effect.forever(
      Effect.flatMap(Effect.exit(renewed), (exit) =>
        Exit.isSuccess(exit)
          ? Effect.fail("renewed" as const)
          : this.pause("renewing leases", exit.cause))
    )
    // one that never ends must not keep the next one from jobs that were taken since
    return Effect.ignore(Effect.raceFirst(again, Effect.sleep(this.#timeoutMillis)))
  }
}
