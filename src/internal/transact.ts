/**
 * The loop that every transaction of the library runs in, above all drivers: begin, body, commit, and again when the
 * store says that again can help.
 *
 * Owner: the calling fiber owns its try; the driver's transaction is closed on every way out.
 *
 * 1. A try whose store failed commits nothing, whatever its body made of the failure (rule R3).
 * 2. A commit that began is waited for, also by an interrupted fiber: whoever saw it applied runs its hooks.
 * 3. `onAccepted` hooks run once, when later transactions of this process read the writes; `onCommit` hooks run once,
 *    when the commit is durable. A try that only read commits too: what it read is durable when it succeeds.
 * 4. Where a commit can be unknown, a try after the first looks at the slot before it runs (rule R1, `slots.ts`).
 * 5. The loop ends: at the first success, at an error that again cannot help, or after `RETRY_LIMIT_MILLIS`.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Backend, CommitRequest } from "../Backend.ts"
import type { BackendError } from "../BackendError.ts"
import { Transaction } from "../Transaction.ts"
import type { Slot, Slots } from "./slots.ts"
import { TransactionState } from "./transactionState.ts"

/** Longer than any store's own timeout, shorter than a person's patience. */
const RETRY_LIMIT_MILLIS = 30_000

/** So many conflicts in a row are met by letting other fibers run: who conflicted lost to one that won. */
const IMMEDIATE_RETRIES = 16

const BACKOFF_FIRST_MILLIS = 1
const BACKOFF_LIMIT_MILLIS = 200

/** Where transactions run: a tenant, or the root that holds the directories. */
export interface Target {
  readonly backend: Backend["Service"]
  readonly prefix: Uint8Array
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

const operationIds = { next: 0 }

/** A number no other transaction has: the process and a counter. */
const makeOperationId = (processId: Uint8Array): Uint8Array => {
  const id = new Uint8Array(22)
  id.set(processId)
  new DataView(id.buffer).setUint32(16, operationIds.next++)
  return id
}

/** Runs a body as one transaction. */
export const transact = <A, E>(
  target: Target,
  body: Effect.Effect<A, E, Transaction>,
  observer: Observer<A> = {}
): Effect.Effect<A, E | BackendError> =>
  target.slots === undefined
    ? loop(target, body, observer, undefined)
    : target.slots.withSlot(target, (slot) => loop(target, body, observer, slot))

const loop = Effect.fnUntraced(function*<A, E>(
  target: Target,
  body: Effect.Effect<A, E, Transaction>,
  observer: Observer<A>,
  slot: Slot | undefined
): Effect.fn.Return<A, E | BackendError> {
  const clock = yield* Clock.Clock
  const started = clock.currentTimeMillisUnsafe()
  const operationId = makeOperationId(target.backend.processId)
  const computed: Array<Done<A>> = []
  for (let tries = 1;; tries++) {
    new DataView(operationId.buffer).setUint16(20, Math.min(tries, 0xffff))
    const outcome = yield* runTry(target, body, observer, slot, operationId.slice(), tries, computed)
    if (outcome._tag === "Done") return yield* outcome.exit
    const error = outcome.error
    const over = clock.currentTimeMillisUnsafe() - started > RETRY_LIMIT_MILLIS || tries >= (observer.tries ?? Infinity)
    const retryable = error.isRetryable || (error.isMaybeCommitted && slot !== undefined && outcome.inCommit)
    if (over || !retryable) {
      // what may have been applied must not be answered "failed" with an error that says it was not
      if (slot !== undefined && outcome.inCommit) slot.retire()
      return yield* error
    }
    observer.retried?.(error, tries)
    yield* backoff(error, tries)
  }
})

const backoff = (error: BackendError, tries: number): Effect.Effect<void> => {
  if (error.reason._tag !== "Unavailable" && tries <= IMMEDIATE_RETRIES) return Effect.yieldNow
  return Effect.sleep(Math.min(BACKOFF_LIMIT_MILLIS, BACKOFF_FIRST_MILLIS * 2 ** Math.min(tries, 16)))
}

interface Done<A> {
  readonly value: A
  readonly state: TransactionState
}

type Try<A, E> =
  | { readonly _tag: "Done"; readonly exit: Exit.Exit<A, E> }
  | { readonly _tag: "Failed"; readonly error: BackendError; readonly inCommit: boolean }

const failed = (error: BackendError, inCommit: boolean): Try<never, never> => ({ _tag: "Failed", error, inCommit })

const runTry = <A, E>(
  target: Target,
  body: Effect.Effect<A, E, Transaction>,
  observer: Observer<A>,
  slot: Slot | undefined,
  operationId: Uint8Array,
  tries: number,
  computed: Array<Done<A>>
): Effect.Effect<Try<A, E>> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.matchEffect(target.backend.begin, {
      onFailure: (error) => Effect.succeed(failed(error, false)),
      onSuccess: (driver) =>
        Effect.flatMap(Clock.currentTimeMillis, (timeMillis) => {
          const state = new TransactionState(driver, {
            target,
            operationId,
            attempt: tries,
            timeMillis
          })
          const earlier = slot !== undefined && tries > 1
            ? restore(slot.applied(state, operationId))
            : Effect.succeed(0)
          return Effect.onExit(
            Effect.flatMap(Effect.exit(earlier), (found): Effect.Effect<Try<A, E>> => {
              if (state.failure !== undefined) return Effect.succeed(failed(state.failure, false))
              if (Exit.isFailure(found)) return Effect.failCause(found.cause)
              const done = computed[found.value]
              if (done !== undefined) {
                accepted(done, observer)
                committed(done.state)
                return Effect.succeed({ _tag: "Done", exit: Exit.succeed(done.value) })
              }
              return Effect.flatMap(
                Effect.exit(restore(Effect.provideService(body, Transaction, state))),
                (exit) => finish(state, exit, observer, slot, tries, computed)
              )
            }),
            () => Effect.sync(() => state.close())
          )
        })
    })
  )

const accepted = <A>(done: Done<A>, observer: Observer<A>): void => {
  observer.accepted?.(done.value)
  for (const hook of done.state.onAccepted) hook()
}

const committed = (state: TransactionState): void => {
  for (const hook of state.onCommit) hook()
}

/** A failure is an answer too: it is given when what the body read is durable, and nothing else is written. */
const settleFailure = <A, E>(state: TransactionState, exit: Exit.Failure<A, E>): Effect.Effect<Try<A, E>> =>
  Cause.hasInterrupts(exit.cause)
    ? Effect.succeed({ _tag: "Done", exit })
    : Effect.match(state.driver.commit(EMPTY, () => {}), {
      onSuccess: (): Try<A, E> => ({ _tag: "Done", exit }),
      onFailure: (error): Try<A, E> => failed(error, false)
    })

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
  if (Exit.isFailure(exit)) return settleFailure(state, exit)
  for (const hook of state.beforeCommit) hook()
  if (state.hasWrites) slot?.write(state)
  if (state.failure !== undefined) return Effect.succeed(failed(state.failure, false))
  const done: Done<A> = { value: exit.value, state }
  computed[tries] = done
  let isAccepted = false
  const accept = () => {
    if (isAccepted) return
    isAccepted = true
    accepted(done, observer)
  }
  return Effect.match(state.driver.commit(state.request(), accept), {
    onSuccess: (versionstamp): Try<A, E> => {
      state.versionstamp = versionstamp
      accept()
      committed(state)
      return { _tag: "Done", exit }
    },
    onFailure: (error): Try<A, E> => failed(error, true)
  })
}
