/**
 * The loop that every transaction of the library runs in, above all drivers: begin, body, commit, and again when the
 * store says that again can help.
 *
 * Owner: the calling fiber owns its try; the driver's transaction is closed on every way out.
 *
 * 1. A try whose store failed commits nothing, whatever its body made of the failure (rule R3).
 * 2. A commit that began is waited for, also by an interrupted fiber: whoever saw it applied runs its hooks.
 * 3. `onAccepted` hooks run once, when later transactions of this process read the writes; `onCommit` hooks run once,
 *    when the commit is durable. A try that only read commits too: what it read is durable when it succeeds. A hook that
 *    throws keeps no other from running and fails nothing: it is reported.
 * 4. Where a commit can be unknown, a try after the first looks at the slot before it runs (rule R1, `slots.ts`).
 * 5. The loop ends: at the first success, at an error that again cannot help, or when it has spent `RETRY_LIMIT_MILLIS`.
 *    While the fate of a try is unknown it goes on whatever the observer's limit is, and if it must end then, it ends as
 *    unknown. A process that stood still has not spent that time: it goes on, and learns the fate of its try.
 * 6. No try begins when the turn of the event loop has lasted too long: timers and sockets come first (`turns.ts`).
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { type CommitRequest, type DriverTransaction, TRANSACTION_LIMIT_MILLIS } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as Keys from "../data/keys.ts"
import { report } from "../observing/unforeseen.ts"
import { outside } from "./callback.ts"
import { Transaction } from "./service.ts"
import type { Slot, Slots } from "./slots.ts"
import { type Place, TransactionState } from "./state.ts"
import { difference, rehearse, StrictMode, written } from "./strictMode.ts"
import { isTurnOver, nextTurn } from "./turns.ts"

/** Longer than any store's own timeout, shorter than a person's patience. */
const RETRY_LIMIT_MILLIS = 30_000

/** What one try can spend: longer ones have stood still. */
const TRY_LIMIT_MILLIS = 2 * TRANSACTION_LIMIT_MILLIS

/** So many conflicts in a row are met by letting other fibers run: who conflicted lost to one that won. */
const IMMEDIATE_RETRIES = 16

const BACKOFF_FIRST_MILLIS = 1
const BACKOFF_LIMIT_MILLIS = 200

/** Where transactions run, with the slots that make them idempotent where a commit can be unknown. */
export interface Target extends Place {
  readonly slots: Slots | undefined
}

/** What the loop tells whoever runs a transaction on behalf of a server. */
export interface Observer<A> {
  /** The writes are visible to later transactions of this process; the commit may still fail. */
  readonly accepted?: (value: A) => void
  /** A try failed and another one begins. */
  readonly retried?: (error: BackendError, tries: number) => void
  /** How many tries there may be at all: the inline path has one. */
  readonly tries?: number
}

/** Operations are numbered for each process id, which no other backend has. */
const operations = new WeakMap<object, { next: number }>()

const nextOperation = (processId: Uint8Array): number => {
  let counter = operations.get(processId)
  if (counter === undefined) operations.set(processId, counter = { next: 0 })
  return counter.next++
}

/** Bytes no other try has: the process, the operation's number, and the try's. */
const operationId = (processId: Uint8Array, operation: number, tries: number): Uint8Array => {
  const id = new Uint8Array(22)
  id.set(processId)
  Keys.writeUint32(id, 16, operation)
  id[20] = Math.min(tries, 0xffff) >>> 8
  id[21] = Math.min(tries, 0xffff)
  return id
}

/** Runs a body as one transaction. */
export const transact = <A, E>(
  target: Target,
  body: Effect.Effect<A, E, Transaction>,
  observer: Observer<A> = {}
): Effect.Effect<A, E | BackendError> =>
  outside(
    "a transaction of its own",
    target.slots === undefined
      ? loop(target, body, observer, undefined)
      : target.slots.withSlot(target, (slot) => loop(target, body, observer, slot))
  )

const loop = Effect.fnUntraced(function*<A, E>(
  target: Target,
  body: Effect.Effect<A, E, Transaction>,
  observer: Observer<A>,
  slot: Slot | undefined
): Effect.fn.Return<A, E | BackendError> {
  const clock = yield* Clock.Clock
  let spentMillis = 0
  const operation = nextOperation(target.backend.processId)
  const isStrict = yield* StrictMode
  const computed: Array<Done<A>> = []
  // the error of a try that may have been applied, until a later one has looked
  let unknown: BackendError | undefined
  let wasUnknown = false
  for (let tries = 1;; tries++) {
    if (isTurnOver(clock)) yield* nextTurn
    const id = operationId(target.backend.processId, operation, tries)
    const started = clock.currentTimeMillisUnsafe()
    const outcome = yield* runTry(target, body, observer, slot, id, tries, computed, clock, isStrict)
    if (outcome._tag === "Done") return yield* outcome.exit
    const error = outcome.error
    if (outcome.hasLooked) unknown = undefined
    if (outcome.inCommit && error.isMaybeCommitted) {
      unknown = error
      wasUnknown = true
      if (slot !== undefined) slot.isAwaited = true
    }
    spentMillis += Math.min(TRY_LIMIT_MILLIS, clock.currentTimeMillisUnsafe() - started)
    const over = spentMillis > RETRY_LIMIT_MILLIS ||
      (!wasUnknown && tries >= (observer.tries ?? Infinity))
    const retryable = error.isRetryable || (error.isMaybeCommitted && slot !== undefined && outcome.inCommit)
    if (over || !retryable) {
      // what may have been applied must not be answered "failed" with an error that says it was not
      if (slot !== undefined && outcome.inCommit) slot.retire()
      return yield* unknown ?? error
    }
    observer.retried?.(error, tries)
    const waitMillis = backoffMillis(error, tries)
    spentMillis += waitMillis
    yield* waitMillis === 0 ? Effect.yieldNow : Effect.sleep(waitMillis)
  }
})

const backoffMillis = (error: BackendError, tries: number): number => {
  const waits = error.reason._tag === "Unavailable" ? tries : tries - IMMEDIATE_RETRIES
  return waits <= 0 ? 0 : Math.min(BACKOFF_LIMIT_MILLIS, BACKOFF_FIRST_MILLIS * 2 ** Math.min(waits, 16))
}

interface Done<A> {
  readonly value: A
  readonly state: TransactionState
}

type Try<A, E> =
  | { readonly _tag: "Done"; readonly exit: Exit.Exit<A, E> }
  | {
    readonly _tag: "Failed"
    readonly error: BackendError
    readonly inCommit: boolean
    /** Whether it found that no earlier try had been applied. */
    readonly hasLooked: boolean
  }

const failed = (error: BackendError, inCommit: boolean): Try<never, never> => ({
  _tag: "Failed",
  error,
  inCommit,
  hasLooked: false
})

const runTry = <A, E>(
  target: Target,
  body: Effect.Effect<A, E, Transaction>,
  observer: Observer<A>,
  slot: Slot | undefined,
  id: Uint8Array,
  tries: number,
  computed: Array<Done<A>>,
  clock: Clock.Clock,
  isStrict: boolean
): Effect.Effect<Try<A, E>> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.matchEffect(target.backend.begin, {
      onFailure: (error) => Effect.succeed(failed(error, false)),
      onSuccess: (driver) => {
        const options = { target, operationId: id, attempt: tries, timeMillis: clock.currentTimeMillisUnsafe() }
        const state = new TransactionState(driver, options)
        const counted = Effect.provideService(body, Transaction, state)
        const run = Effect.flatMap(
          Effect.exit(restore(isStrict ? twice(driver, options, state, body, counted) : counted)),
          (exit) => finish(state, exit, observer, slot, tries, computed)
        )
        return Effect.onExit(
          slot === undefined || tries === 1
            ? run
            : lookBack(state, slot, restore(slot.applied(state, id)), run, observer, computed),
          () => Effect.sync(() => state.close())
        )
      }
    })
  )

/**
 * Runs a body once, as a part of what somebody else commits or not: nothing is told of it, and no hook runs. The driver's
 * commit hands over what there is to commit.
 */
export const runOnce = <A, E>(
  target: Place,
  driver: DriverTransaction,
  body: Effect.Effect<A, E, Transaction>
): Effect.Effect<A, E | BackendError> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.all([Clock.currentTimeMillis, StrictMode]), ([timeMillis, isStrict]) => {
      const id = operationId(target.backend.processId, nextOperation(target.backend.processId), 1)
      const options = { target, operationId: id, attempt: 1, timeMillis }
      const state = new TransactionState(driver, options)
      const counted = Effect.provideService(body, Transaction, state)
      const run = Effect.exit(restore(isStrict ? twice(driver, options, state, body, counted) : counted))
      const finished = Effect.flatMap(run, (exit): Effect.Effect<A, E | BackendError> => {
        if (state.failure !== undefined) return Effect.fail(state.failure)
        if (Exit.isFailure(exit)) return exit
        for (const hook of state.beforeCommit) hook()
        if (state.failure !== undefined) return Effect.fail(state.failure)
        return Effect.as(driver.commit(state.request(), () => {}), exit.value)
      })
      return Effect.ensuring(finished, Effect.sync(() => state.close()))
    })
  )

/** Runs a body after a rehearsal, and holds what they wrote against each other. */
const twice = <A, E>(
  driver: DriverTransaction,
  options: ConstructorParameters<typeof TransactionState>[1],
  state: TransactionState,
  body: Effect.Effect<A, E, Transaction>,
  run: Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.flatMap(rehearse(driver, options, body), (first) =>
    Effect.tap(run, () => {
      const impure = difference(first, written(state))
      return impure === undefined ? Effect.void : Effect.die(impure)
    }))

/** What an earlier try computed, if it was applied after all; else the next one runs (4). */
const lookBack = <A, E>(
  state: TransactionState,
  slot: Slot,
  applied: Effect.Effect<number>,
  run: Effect.Effect<Try<A, E>>,
  observer: Observer<A>,
  computed: ReadonlyArray<Done<A>>
): Effect.Effect<Try<A, E>> =>
  Effect.flatMap(Effect.exit(applied), (found): Effect.Effect<Try<A, E>> => {
    if (state.failure !== undefined) return Effect.succeed(failed(state.failure, false))
    if (Exit.isFailure(found)) return Effect.failCause(found.cause)
    const done = computed[found.value]
    if (done === undefined) {
      return Effect.map(run, (outcome) => outcome._tag === "Failed" ? { ...outcome, hasLooked: true } : outcome)
    }
    slot.isAwaited = false
    const thrown: Array<unknown> = []
    accepted(done, observer, thrown)
    committed(done.state, thrown)
    return told(thrown, { _tag: "Done", exit: Exit.succeed(done.value) })
  })

const accepted = <A>(done: Done<A>, observer: Observer<A>, thrown: Array<unknown>): void => {
  runHook(() => observer.accepted?.(done.value), thrown)
  for (const hook of done.state.onAccepted) runHook(hook, thrown)
}

const committed = (state: TransactionState, thrown: Array<unknown>): void => {
  for (const hook of state.onCommit) runHook(hook, thrown)
}

/** A hook is nobody else's fault: what it throws is kept for the report (3). */
const runHook = (hook: () => void, thrown: Array<unknown>): void => {
  try {
    hook()
  } catch (error) {
    thrown.push(error)
  }
}

/** The outcome of a try, once its hooks that threw are reported. */
const told = <A, E>(thrown: ReadonlyArray<unknown>, outcome: Try<A, E>): Effect.Effect<Try<A, E>> =>
  thrown.length === 0 ? Effect.succeed(outcome) : Effect.as(
    Effect.forEach(thrown, (error) => report("hook", "a hook of a commit threw", Cause.die(error)), { discard: true }),
    outcome
  )

/**
 * A failure is an answer too: it is given when what the body read is durable, and nothing else is written, by this try or
 * by an earlier one (4).
 */
const settleFailure = <A, E>(
  state: TransactionState,
  exit: Exit.Failure<A, E>,
  slot: Slot | undefined
): Effect.Effect<Try<A, E>> => {
  if (Cause.hasInterrupts(exit.cause)) return Effect.succeed({ _tag: "Done", exit })
  const fence = slot?.isAwaited === true ? slot.fence(state.operationId) : undefined
  return Effect.match(state.driver.commit(fence ?? EMPTY, () => {}), {
    onSuccess: (): Try<A, E> => {
      if (slot !== undefined) slot.isAwaited = false
      return { _tag: "Done", exit }
    },
    onFailure: (error): Try<A, E> => failed(error, fence !== undefined)
  })
}

const EMPTY: CommitRequest = { mutations: [], readConflicts: [], writeConflicts: [], watches: [] }

const finish = <A, E>(
  state: TransactionState,
  exit: Exit.Exit<A, E>,
  observer: Observer<A>,
  slot: Slot | undefined,
  tries: number,
  computed: Array<Done<A>>
): Effect.Effect<Try<A, E>> => {
  if (state.failure !== undefined) return Effect.succeed(failed(state.failure, false))
  if (Exit.isFailure(exit)) return settleFailure(state, exit, slot)
  for (const hook of state.beforeCommit) hook()
  if (state.hasWrites || slot?.isAwaited === true) slot?.write(state)
  if (state.failure !== undefined) return Effect.succeed(failed(state.failure, false))
  const done: Done<A> = { value: exit.value, state }
  computed[tries] = done
  let isAccepted = false
  const thrown: Array<unknown> = []
  const accept = () => {
    if (isAccepted) return
    isAccepted = true
    accepted(done, observer, thrown)
  }
  return Effect.matchEffect(state.driver.commit(state.request(), accept), {
    onSuccess: (versionstamp) => {
      state.versionstamp = versionstamp
      if (slot !== undefined) slot.isAwaited = false
      accept()
      committed(state, thrown)
      return told(thrown, { _tag: "Done", exit })
    },
    onFailure: (error) => told(thrown, failed(error, true))
  })
}
