/**
 * The consumer: takes batches off the queue, commits, runs their actions and locked handlers, and waits for more.
 *
 * Owner: one fiber a running server. It ends with the handle, which waits for it (`closing.ts`): a batch that began is
 * committed and its actions run before the scope closes (rule R25).
 *
 * 1. A crash writes nothing of its batch. The attempt of the message that crashed is counted before the next batch, which
 *    finds it so (`mending/failures.ts`, `batch.ts`).
 * 2. A batch that is too large or too slow to commit is halved, down to one message, which is then charged. So is one
 *    that conflicts again and again with what comes past the queue, and nobody is charged: shorter ones get through.
 * 3. A crash restarts the consumer under its schedule, which starts over after each commit; when the schedule ends,
 *    the handle stops and says so (rule R13).
 *    A locked handler that dies counts as one, and its message has been put back by then (`locked.ts`).
 *    So does one that meets a full queue, and nobody is charged for that.
 * 4. A state that cannot be read stops the handle (rule R16), and so does a state that is gone (rule R26).
 * 5. Nothing ends in silence: whatever else ends the consumer is logged and counted, and ends the handle.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type { BackendError } from "../../../BackendError.ts"
import { textOfCause } from "../../data/thrown.ts"
import { logError, logWarning } from "../../observing/logging.ts"
import { traced } from "../../observing/tracing.ts"
import { report } from "../../observing/unforeseen.ts"
import * as Envelopes from "../../queue/envelope.ts"
import { transact } from "../../transactions/loop.ts"
import { awaitWatch } from "../../transactions/watching.ts"
import { runActions } from "../handling/actions.ts"
import { Crash } from "../handling/handlers.ts"
import { record, retried } from "../handling/metrics.ts"
import { HeldLogs } from "../handling/purity.ts"
import { gone, isEnded, type Server, stop, stopUnreadable, Unreadable } from "../handling/server.ts"
import { identityOf } from "../kept/layout.ts"
import { afterDeath, charge, isOfMessage } from "../mending/failures.ts"
import { sweepWaiting } from "../mending/sweep.ts"
import { type Batch, batchBody, type Pace } from "./batch.ts"
import { type Acquired, runLocked } from "./locked.ts"

/** How the consumer comes back after a crash: quickly at first, never more often than every 30 seconds in the end. */
export const defaultRestart: Schedule.Schedule<unknown, unknown> = Schedule.min([
  Schedule.exponential("50 millis"),
  Schedule.spaced("30 seconds")
])

/** How long a consumer waits before it looks again, when the store cannot tell it of changes. */
const LOOK_AGAIN_MILLIS = 500

/** A batch that lost to others so often in a row is too long for the times between them. */
const CONFLICTS_LIMIT = 2

/** Between two sweeps of one consumer; each is a small transaction, and nothing depends on its hour. */
const SWEEP_MILLIS = 10 * 60_000

type Idle = Extract<Batch, { _tag: "Idle" }>

/** A locked handler died, and its message has been put back: the consumer goes on after a pause (3). */
class LockedCrash {
  readonly _tag = "LockedCrash"
  readonly cause: Cause.Cause<unknown>
  constructor(cause: Cause.Cause<unknown>) {
    this.cause = cause
  }
}

/** Runs the locked section of a lock that a batch acquired, or lets somebody run it. */
type RunLock<E> = (acquired: Acquired) => Effect.Effect<void, BackendError | Unreadable | E>

/**
 * How a consumer, or a host, begins with a server. A host is woken for timers, and measures a queue that keeps it busy: a
 * server that wakes for one message reads nothing for either.
 */
export const paceOf = (server: Server, nowMillis = 0): Pace => ({
  limit: server.options.consumeK,
  mayRest: true,
  mayLock: true,
  timers: { dueMillis: server.isHosted ? Infinity : 0, lookedMillis: nowMillis },
  seen: [],
  at: 0,
  measuredMillis: nowMillis,
  logs: HeldLogs.none,
  met: undefined,
  sighting: undefined
})

/** One turn: a batch, its actions, its lock. Succeeds with what the batch came to. */
export const turn = <E = never>(
  server: Server,
  pace: Pace,
  runLock: RunLock<E>
): Effect.Effect<Batch, Crash | Unreadable | BackendError | E> => {
  const run = transact(server.tenant, batchBody(server, pace), {
    retried: (error, tries) => {
      const { _tag } = error.reason
      // whoever pushes again and again must not be met again and again
      if (_tag === "Conflict") pace.mayRest = false
      if (_tag === "TransactionTooOld" || _tag === "Conflict" && tries > CONFLICTS_LIMIT) pace.limit = halved(pace)
      retried(server, error)
    }
  })
  return Effect.flatMap(
    traced(run, "DgenServer.consume", () => ({ attributes: identityOf(server) })),
    (batch): Effect.Effect<Batch, BackendError | Unreadable | E> => {
      switch (batch._tag) {
        case "Again":
          return Effect.as(batch.died === undefined ? Effect.void : afterDeath(server, batch.died), batch)
        case "Idle":
          return Effect.as(steppedBack(server, pace, batch), batch)
        case "Done":
          pace.limit = Math.min(server.options.consumeK, Math.max(1, pace.limit * 2))
          return Effect.as(afterBatch(server, batch, runLock), batch)
        default:
          return Effect.succeed(batch)
      }
    }
  )
}

/** Says once why the consumer leaves its first message alone. */
const steppedBack = (server: Server, pace: Pace, { unread }: Idle): Effect.Effect<void> => {
  const { met } = pace
  if (unread === undefined || met === undefined || met.told) return Effect.void
  met.told = true
  const what = unread.tag === undefined ? "a message" : `"${unread.tag}"`
  return logWarning(`${server.name}: this version cannot read ${what}, and waits for one that can: ${unread.problem}`)
}

const afterBatch = <E>(
  server: Server,
  batch: Extract<Batch, { _tag: "Done" }>,
  runLock: RunLock<E>
): Effect.Effect<void, BackendError | Unreadable | E> => {
  record(server, server.metrics.batchSize, batch.count)
  return Effect.andThen(
    runActions(server, batch.actions, batch.state),
    batch.acquired === undefined ? Effect.void : runLock(batch.acquired)
  )
}

const halved = (pace: Pace): number => Math.max(1, Math.floor(pace.seen.length / 2))

/** What a failed batch says about its messages and the next batch (1, 2). */
const learn = (server: Server, pace: Pace, error: Crash | BackendError): Effect.Effect<void, BackendError> => {
  const [first] = pace.seen
  const alone = pace.seen.length === 1 ? first : undefined
  if (error._tag === "BackendError") {
    const { _tag } = error.reason
    if (_tag !== "TransactionTooLarge" && _tag !== "TransactionTooOld") {
      const culprit = isOfMessage(error) ? pace.seen[pace.at] : undefined
      pace.logs.release()
      return culprit === undefined ? Effect.void : charge(server, culprit, error.message)
    }
    pace.limit = halved(pace)
    if (alone === undefined) return Effect.void
    pace.logs.release()
    return charge(server, alone, error.message)
  }
  error.logs.release()
  if (error.full !== undefined) return Effect.void
  const culprit = error.index === undefined ? alone : pace.seen[error.index]
  if (culprit !== undefined) return charge(server, culprit, textOfCause(error.cause))
  pace.limit = halved(pace)
  return Effect.void
}

/** Runs a locked section; one whose handler died is a crash of the consumer (3). */
const section = (server: Server, acquired: Acquired): Effect.Effect<void, BackendError | LockedCrash | Unreadable> =>
  Effect.flatMap(
    runLocked(server, acquired),
    (ended) => ended._tag === "Crashed" ? Effect.fail(new LockedCrash(ended.cause)) : Effect.void
  )

/** Ends the watches of a batch that had nothing to do. */
export const cancelWatches = ({ also, watch }: Idle): void => {
  watch.cancel()
  also?.cancel()
}

/** A turn, and the wait after it if there was nothing to do; the watch ends with it, also where an interruption came before the wait. */
const turnAndWait = (server: Server, pace: Pace, wait: (batch: Idle) => Effect.Effect<void>) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.tap(Effect.exit(turn(server, pace, (acquired) => section(server, acquired))), (exit) => {
      if (Exit.isFailure(exit)) return Effect.void
      if (exit.value._tag === "Gone") gone(server)
      if (exit.value._tag !== "Idle") return Effect.void
      return Effect.ensuring(restore(wait(exit.value)), Effect.sync(() => cancelWatches(exit.value as Idle)))
    })
  )

/** The consumer of a server: an end of it that nobody foresaw ends the handle, which says so (5). */
export const consume = (server: Server): Effect.Effect<void> =>
  Effect.catchCause(live(server), (cause) =>
    Effect.andThen(
      Effect.sync(() => stop(server, `its consumer ended unexpectedly: ${textOfCause(cause)}`)),
      report("consumer", `${server.name}: the consumer ended unexpectedly, and the handle with it`, cause)
    ))

/** The consumer's life: turns, and its restarts (3). Ends when the handle ends. */
const live = Effect.fnUntraced(function*(server: Server) {
  const pace = paceOf(server)
  const restart = server.options.restart ?? defaultRestart
  const clock = yield* Clock.Clock
  let sweptMillis = clock.currentTimeMillisUnsafe()
  const idle = (batch: Idle) =>
    Effect.suspend(() => {
      if (clock.currentTimeMillisUnsafe() - sweptMillis <= SWEEP_MILLIS) return waitFor(server, batch)
      sweptMillis = clock.currentTimeMillisUnsafe()
      return Effect.andThen(sweepWaiting(server), waitFor(server, batch))
    })
  let step = yield* Schedule.toStepWithSleep(restart)
  let isStepped = false
  while (!isEnded(server)) {
    const exit = yield* turnAndWait(server, pace, idle)
    if (Exit.isSuccess(exit)) {
      // most turns follow a success, and a schedule that has not begun starts nowhere else
      if (isStepped) step = yield* Schedule.toStepWithSleep(restart)
      isStepped = false
      continue
    }
    const error = exit.cause.reasons.find((reason) => reason._tag === "Fail")?.error
    if (error instanceof Unreadable) {
      yield* stopUnreadable(server, error)
      return
    }
    // what a locked handler died of has been logged and counted
    if (!(error instanceof LockedCrash)) yield* failed(server, pace, exit.cause)
    isStepped = true
    const pause = Effect.raceFirst(step(Cause.squash(exit.cause)), Deferred.await(server.ended))
    const again = yield* Effect.exit(pause)
    if (Exit.isFailure(again) && !Cause.hasInterruptsOnly(again.cause)) yield* giveUp(server)
  }
})

/** Tells of a turn that failed, and learns from it (1, 2). */
export const failed = (
  server: Server,
  pace: Pace,
  exit: Cause.Cause<Crash | LockedCrash | Unreadable | BackendError>
): Effect.Effect<void> => {
  const error = exit.reasons.find((reason) => reason._tag === "Fail")?.error as Crash | BackendError | undefined
  const full = error instanceof Crash ? error.full : undefined
  if (full === undefined) record(server, server.metrics.outcome("crash"), 1)
  const what = error === undefined ? "consuming" : whatOf(pace, error)
  const told = full === undefined
    ? logError(
      `${server.name}: ${what} crashed, the consumer restarts`,
      error instanceof Crash ? error.cause : exit
    )
    : logWarning(`${server.name}: ${what} waits for room: ${full.message}`)
  if (error === undefined) return told
  return Effect.andThen(
    told,
    Effect.catch(
      Effect.uninterruptible(learn(server, pace, error)),
      (failure) => logWarning(`${server.name}: a failed attempt could not be counted`, failure)
    )
  )
}

/** What was under way: the message that the store refused is named like one whose handler died. */
const whatOf = (pace: Pace, error: Crash | BackendError): string => {
  if (error instanceof Crash) return error.what
  const culprit = isOfMessage(error) ? pace.seen[pace.at] : undefined
  const envelope = culprit && Result.getOrUndefined(Envelopes.decode(culprit.message))
  return envelope === undefined ? "consuming" : `handling "${envelope.tag}"`
}

const giveUp = (server: Server): Effect.Effect<void> =>
  logError(`${server.name}: the restart schedule has ended, the consumer stops`).pipe(
    Effect.andThen(Effect.sync(() => {
      record(server, server.metrics.ended, 1)
      stop(server, "the consumer crashed and its restart schedule has ended")
    }))
  )

/** Waits for the key to change, for the time that is due, or for the handle's end. */
const waitFor = (server: Server, { also, dueMillis, watch }: Idle): Effect.Effect<void> => {
  if (isEnded(server)) return Effect.void
  server.wakeIdle = watch.wake
  return Effect.catch(
    also === undefined
      ? awaitWatch(server.tenant, watch, dueMillis)
      : Effect.raceFirst(awaitWatch(server.tenant, watch, dueMillis), awaitWatch(server.tenant, also)),
    (error) =>
      Effect.andThen(
        logWarning(`${server.name}: watching the store failed, looking again`, error),
        Effect.raceFirst(Effect.sleep(LOOK_AGAIN_MILLIS), Deferred.await(server.ended))
      )
  )
}
