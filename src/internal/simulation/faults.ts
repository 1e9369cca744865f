/**
 * A backend that fails as stores do, at places that a seed chooses. It wraps a backend that does not fail.
 *
 * 1. A fault is decided before its step, from the node's own random numbers, so that one seed gives one history.
 * 2. Only what a store may do happens: a commit is refused or applied as a whole, also when its answer is lost; an answer
 *    "applied" is never wrong; a commit whose answer was lost may still arrive later, unless it conflicts.
 * 3. Delays pass by the `Clock` of whoever runs the step.
 */
import * as Effect from "effect/Effect"
import type { Backend, CommitRequest, DriverTransaction, WatchRequest } from "../../Backend.ts"
import { BackendError, CommitUnknown, Conflict, TransactionTooOld, Unavailable } from "../../BackendError.ts"
import type { SeededRandom } from "./random.ts"

/**
 * How often a simulated store fails, as probabilities from 0 to 1: of a step, of a commit, or of a watch.
 *
 * @since 0.1.0
 * @category models
 */
export interface Faults {
  /** A commit is refused as a conflict, although there was none. */
  readonly conflict?: number | undefined
  /** A commit ends without an answer: it was applied, was not, or will be a little later. */
  readonly commitUnknown?: number | undefined
  /** A read or a commit is refused because its snapshot is too old. */
  readonly tooOld?: number | undefined
  /** From this step on, the store does not answer for up to two seconds. */
  readonly unavailable?: number | undefined
  /** A commit takes up to a second, before or after it is applied. */
  readonly slowCommit?: number | undefined
  /** A read takes up to a tenth of a second. */
  readonly slowRead?: number | undefined
  /** A watch never fires. */
  readonly lostWatch?: number | undefined
  /** A watch fires, within a second, although nothing changed. */
  readonly spuriousWatch?: number | undefined
}

const SLOW_COMMIT_MILLIS = 1_000
const SLOW_READ_MILLIS = 100
const OUTAGE_MILLIS = 2_000
const LATE_COMMIT_MILLIS = 3_000
const SPURIOUS_MILLIS = 1_000

/** What the wrapper needs of where it runs. */
export interface Surroundings {
  readonly random: SeededRandom
  readonly faults: Faults
  /** The time of the store, which no node's clock has. */
  readonly nowMillis: () => number
  /** Called at each step of the node: it may die here, or stand still. */
  readonly step: (what: string) => Effect.Effect<void>
  /** Runs what goes on even if the node dies. */
  readonly detach: (effect: Effect.Effect<void>) => void
  /** Calls the node back, if it still lives. */
  readonly callback: (run: () => void) => void
}

const failure = {
  conflict: () =>
    new BackendError({ reason: new Conflict({ message: "simulated: another transaction wrote what this one read" }) }),
  tooOld: () => new BackendError({ reason: new TransactionTooOld({ message: "simulated: the snapshot is too old" }) }),
  unknown: () =>
    new BackendError({ reason: new CommitUnknown({ message: "simulated: the commit's answer was lost" }) }),
  unavailable: () => new BackendError({ reason: new Unavailable({ message: "simulated: the store does not answer" }) })
}

/** A backend that fails. */
export const withFaults = (
  backend: Backend["Service"],
  surroundings: Surroundings,
  processId: Uint8Array
): Backend["Service"] => {
  let outageUntilMillis = -Infinity
  const { faults, nowMillis, random, step } = surroundings
  /** A step of the node: the store may be gone, or go here. */
  const reach = (what: string): Effect.Effect<void, BackendError> =>
    Effect.andThen(
      step(what),
      Effect.suspend(() => {
        if (random.happens(faults.unavailable)) outageUntilMillis = nowMillis() + random.between(1, OUTAGE_MILLIS)
        return nowMillis() < outageUntilMillis ? Effect.fail(failure.unavailable()) : Effect.void
      })
    )
  const read = <A>(effect: Effect.Effect<A, BackendError>): Effect.Effect<A, BackendError> =>
    Effect.andThen(
      reach("read"),
      Effect.suspend(() => {
        if (random.happens(faults.tooOld)) return Effect.fail(failure.tooOld())
        return random.happens(faults.slowRead)
          ? Effect.andThen(Effect.sleep(random.between(1, SLOW_READ_MILLIS)), effect)
          : effect
      })
    )
  const begin = Effect.andThen(
    reach("begin"),
    Effect.map(backend.begin, (opened): DriverTransaction => {
      const driver = new HeldDriver(opened)
      return {
        readVersion: read(opened.readVersion),
        get: (key) => read(opened.get(key)),
        getRange: (from, to, options) => read(opened.getRange(from, to, options)),
        commit: (request, accepted) =>
          Effect.andThen(reach("commit"), Effect.suspend(() => commit(surroundings, driver, request, accepted))),
        close: () => driver.close()
      }
    })
  )
  return { ...backend, processId, commitCanBeUnknown: true, begin }
}

/** A transaction of the store that stays open for a commit that arrives late. */
class HeldDriver {
  readonly commit: DriverTransaction["commit"]
  readonly #driver: DriverTransaction
  #isHeld = false
  #isClosed = false

  constructor(driver: DriverTransaction) {
    this.#driver = driver
    this.commit = driver.commit
  }

  close(): void {
    this.#isClosed = true
    if (!this.#isHeld) this.#driver.close()
  }

  /** A commit that was sent now and arrives after a while, whatever became of the transaction. */
  commitLate(request: CommitRequest, millis: number): Effect.Effect<void> {
    this.#isHeld = true
    // a commit that read nothing conflicts with what was written since it was sent
    return Effect.ignore(this.#driver.readVersion).pipe(
      Effect.andThen(Effect.sleep(millis)),
      Effect.andThen(Effect.ignore(this.#driver.commit(request, () => {}))),
      Effect.andThen(Effect.sync(() => {
        this.#isHeld = false
        if (this.#isClosed) this.#driver.close()
      }))
    )
  }
}

/** One commit and its fate. */
const commit = (
  { callback, detach, faults, random, step }: Surroundings,
  driver: HeldDriver,
  plain: CommitRequest,
  accepted: () => void
): Effect.Effect<Uint8Array, BackendError> => {
  if (random.happens(faults.tooOld)) return Effect.fail(failure.tooOld())
  const request = {
    ...plain,
    watches: plain.watches.map((watch) => simulatedWatch(watch, random, faults, detach, callback))
  }
  const run = Effect.tap(driver.commit(request, accepted), () => step("applied"))
  if (request.mutations.length === 0) return run
  if (random.happens(faults.conflict)) return Effect.fail(failure.conflict())
  if (random.happens(faults.commitUnknown)) {
    switch (random.between(0, 2)) {
      case 0:
        return Effect.fail(failure.unknown())
      case 1:
        return Effect.andThen(Effect.ignore(driver.commit(request, () => {})), Effect.fail(failure.unknown()))
      default:
        detach(driver.commitLate(request, random.between(1, LATE_COMMIT_MILLIS)))
        return Effect.fail(failure.unknown())
    }
  }
  if (!random.happens(faults.slowCommit)) return run
  const wait = Effect.sleep(random.between(1, SLOW_COMMIT_MILLIS))
  return random.happens(0.5) ? Effect.andThen(wait, run) : Effect.tap(run, () => wait)
}

const simulatedWatch = (
  watch: WatchRequest,
  random: SeededRandom,
  faults: Faults,
  detach: Surroundings["detach"],
  callback: Surroundings["callback"]
): WatchRequest => {
  const isLost = random.happens(faults.lostWatch)
  const request: WatchRequest = {
    key: watch.key,
    fire: () => {
      if (!isLost) callback(watch.fire)
    },
    fail: (error) => callback(() => watch.fail(error)),
    onCancel: undefined
  }
  watch.onCancel = () => request.onCancel?.()
  if (random.happens(faults.spuriousWatch)) {
    detach(Effect.andThen(Effect.sleep(random.between(1, SPURIOUS_MILLIS)), Effect.sync(() => callback(watch.fire))))
  }
  return request
}
