/**
 * The consumer: takes batches off the queue, commits, runs their actions and locked handlers, and waits for more.
 *
 * Owner: one fiber a running server, in the server's scope. Only its waiting, and locked handlers, can be interrupted, so
 * that a batch that began is committed and its actions run before the scope closes (rule R25).
 *
 * 1. A crash writes nothing of its batch. The attempt of the message that crashed is counted before the next batch, which
 *    finds it so (`failures.ts`, `batch.ts`).
 * 2. A batch that is too large or too slow to commit is halved, down to one message, which is then charged. So is one
 *    that conflicts again and again with what comes past the queue, and nobody is charged: shorter ones get through.
 * 3. A crash restarts the consumer under its schedule, which starts over after each commit; when the schedule ends,
 *    the handle stops and says so (rule R13).
 * 4. A state that cannot be read stops the handle (rule R16), and so does a state that is gone (rule R26).
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import type { BackendError } from "../../../BackendError.ts"
import { transact } from "../../transactions/loop.ts"
import { traced } from "../../transactions/tracing.ts"
import { awaitWatch } from "../../transactions/watching.ts"
import { runActions } from "../handling/actions.ts"
import { Crash } from "../handling/handlers.ts"
import { record, retried } from "../handling/metrics.ts"
import { HeldLogs } from "../handling/purity.ts"
import { gone, isEnded, type Server, stop, stopUnreadable, Unreadable } from "../handling/server.ts"
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

/** Runs the locked section of a lock that a batch acquired, or lets somebody run it. */
type RunLock = (acquired: Acquired) => Effect.Effect<void, BackendError | Unreadable>

/** How a consumer, or a host, begins with a server. */
export const paceOf = (server: Server): Pace => ({
  limit: server.options.consumeK,
  mayRest: true,
  mayLock: true,
  seen: [],
  at: 0,
  measuredMillis: 0,
  logs: HeldLogs.none,
  met: undefined,
  sightings: new Map()
})

/** One turn: a batch, its actions, its lock. Succeeds with what the batch came to. */
export const turn = (
  server: Server,
  pace: Pace,
  runLock: RunLock
): Effect.Effect<Batch, Crash | Unreadable | BackendError> => {
  const run = transact(server.tenant, batchBody(server, pace), {
    retried: (error, tries) => {
      const { _tag } = error.reason
      // whoever pushes again and again must not be met again and again
      if (_tag === "Conflict") pace.mayRest = false
      if (_tag === "TransactionTooOld" || _tag === "Conflict" && tries > CONFLICTS_LIMIT) pace.limit = halved(pace)
      retried(server, error)
    }
  })
  const attributes = { server: server.definition.name }
  return Effect.flatMap(
    traced(run, "DgenServer.consume", () => ({ attributes })),
    (batch): Effect.Effect<Batch, BackendError | Unreadable> => {
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
  return Effect.logWarning(
    `${server.definition.name}: this version cannot read "${unread.tag}", and waits for one that can: ${unread.problem}`
  )
}

const afterBatch = (
  server: Server,
  batch: Extract<Batch, { _tag: "Done" }>,
  runLock: RunLock
): Effect.Effect<void, BackendError | Unreadable> => {
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
  const culprit = error.index === undefined ? alone : pace.seen[error.index]
  if (culprit !== undefined) return charge(server, culprit, Cause.pretty(error.cause))
  pace.limit = halved(pace)
  return Effect.void
}

/** A turn, and the wait after it if there was nothing to do; the watch ends with it, also where an interruption came before the wait. */
const turnAndWait = (server: Server, pace: Pace, wait: (batch: Idle) => Effect.Effect<void>) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.tap(Effect.exit(turn(server, pace, (acquired) => Effect.asVoid(runLocked(server, acquired)))), (exit) => {
      if (Exit.isFailure(exit)) return Effect.void
      if (exit.value._tag === "Gone") gone(server)
      if (exit.value._tag !== "Idle") return Effect.void
      return Effect.ensuring(restore(wait(exit.value)), Effect.sync(exit.value.watch.cancel))
    })
  )

/** The consumer's life: turns, and its restarts (3). Ends when the handle ends. */
export const consume = Effect.fnUntraced(function*(server: Server) {
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
  while (!isEnded(server)) {
    const exit = yield* turnAndWait(server, pace, idle)
    if (Exit.isSuccess(exit)) {
      step = yield* Schedule.toStepWithSleep(restart)
      continue
    }
    const error = exit.cause.reasons.find((reason) => reason._tag === "Fail")?.error
    if (error instanceof Unreadable) {
      yield* stopUnreadable(server, error)
      return
    }
    yield* failed(server, pace, exit.cause)
    const pause = Effect.raceFirst(step(Cause.squash(exit.cause)), Deferred.await(server.ended))
    const again = yield* Effect.exit(pause)
    if (Exit.isFailure(again) && !Cause.hasInterruptsOnly(again.cause)) yield* giveUp(server)
  }
})

/** Tells of a turn that failed, and learns from it (1, 2). */
export const failed = (
  server: Server,
  pace: Pace,
  exit: Cause.Cause<Crash | Unreadable | BackendError>
): Effect.Effect<void> => {
  const error = exit.reasons.find((reason) => reason._tag === "Fail")?.error as Crash | BackendError | undefined
  const what = error instanceof Crash ? `handling "${error.messageTag}"` : "consuming"
  const name = server.definition.name
  record(server, server.metrics.outcome("crash"), 1)
  const told = Effect.logError(
    `${name}: ${what} crashed, the consumer restarts`,
    error instanceof Crash ? error.cause : exit
  )
  if (error === undefined) return told
  return Effect.andThen(
    told,
    Effect.catch(
      Effect.uninterruptible(learn(server, pace, error)),
      (failure) => Effect.logWarning(`${name}: a failed attempt could not be counted`, failure)
    )
  )
}

const giveUp = (server: Server): Effect.Effect<void> =>
  Effect.logError(`${server.definition.name}: the restart schedule has ended, the consumer stops`).pipe(
    Effect.andThen(Effect.sync(() => {
      record(server, server.metrics.ended, 1)
      stop(server, "the consumer crashed and its restart schedule has ended")
    }))
  )

/** Waits for the key to change, for the time that is due, or for the handle's end. */
const waitFor = (server: Server, { dueMillis, watch }: Idle): Effect.Effect<void> => {
  if (isEnded(server)) return Effect.void
  server.wakeIdle = watch.wake
  return Effect.catch(
    awaitWatch(server.tenant, watch, dueMillis),
    (error) =>
      Effect.andThen(
        Effect.logWarning(`${server.definition.name}: watching the store failed, looking again`, error),
        Effect.sleep(LOOK_AGAIN_MILLIS)
      )
  )
}
