/**
 * The consumer: takes batches off the queue, runs their handlers, commits, then runs their actions.
 *
 * Owner: one fiber a running server, in the server's scope. Only its waiting can be interrupted, so that a batch that
 * began is committed and its actions run before the scope closes (rule R25).
 *
 * 1. A batch takes the first messages in order; state, answers and taken messages commit together (rule R2).
 * 2. A crash writes nothing. The next batch ends before the message that crashed, which then runs alone, so that those
 *    in front of it are not held up (rule R12).
 * 3. A batch that is too large or too slow to commit is halved, down to one message.
 * 4. A crash restarts the consumer under its schedule, which starts over after each commit; when the schedule ends,
 *    the handle stops and says so (rule R13).
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type { BackendError } from "../../BackendError.ts"
import * as DurableQueue from "../../DurableQueue.ts"
import { Transaction } from "../../Transaction.ts"
import * as Keys from "../keys.ts"
import { transact } from "../transact.ts"
import type { TransactionState } from "../transactionState.ts"
import { type Armed, raceWatch } from "../watching.ts"
import { runActions } from "./actions.ts"
import * as Envelopes from "./envelope.ts"
import { answerCaller, answerOf, Crash, handle, incoming } from "./handle.ts"
import type { ActionRequest } from "./model.ts"
import { type HeldLogs, holdLogs, PureRunner } from "./purity.ts"
import { isStopped, load, save, type Server, stop } from "./server.ts"

/** How the consumer comes back after a crash: quickly at first, never more often than every 30 seconds in the end. */
export const defaultRestart: Schedule.Schedule<unknown, unknown> = Schedule.min([
  Schedule.exponential("50 millis"),
  Schedule.spaced("30 seconds")
])

type Batch =
  | { readonly _tag: "Idle"; readonly watch: Armed }
  | { readonly _tag: "Gone" }
  | {
    readonly _tag: "Done"
    readonly state: unknown
    readonly actions: ReadonlyArray<ReadonlyArray<ActionRequest>>
  }

/** How many messages the next batches take, and which message runs alone (2, 3). */
interface Pace {
  limit: number
  suspect: { readonly stamp: string; attempt: number } | undefined
}

const stampOf = (item: DurableQueue.Item): string => Keys.toText(item.keys[0]!)

const batchBody = (server: Server, pace: Pace, seen: Array<DurableQueue.Item>) =>
  Effect.gen(function*() {
    const state = yield* Transaction
    const logs = yield* holdLogs
    const runner = yield* PureRunner.make(server.definition.name, state, logs)
    const [head, peeked] = yield* Effect.all([
      state.get(server.keys.head),
      DurableQueue.peek(server.queue, pace.limit)
    ], { concurrency: "unbounded" })
    if (head === undefined) return { _tag: "Gone" } as Batch
    if (peeked.length === 0) return { _tag: "Idle", watch: yield* DurableQueue.watchPush(server.queue) } as Batch
    const items = untilSuspect(peeked, pace)
    seen.length = 0
    seen.push(...items)
    const loaded = yield* Effect.mapError(load(server, head), (error) => crashOf("state", error, logs))
    const taken: Array<DurableQueue.Item> = []
    const actions: Array<ReadonlyArray<ActionRequest>> = []
    let current = loaded!.state
    let stopReason: string | undefined
    for (const [index, item] of items.entries()) {
      const done = yield* runItem(server, state, runner, logs, pace, item, index, current)
      taken.push(item)
      current = done.state
      actions.push(done.actions)
      if (done.stopped) {
        stopReason = String(done.stop)
        break
      }
    }
    yield* DurableQueue.take(server.queue, taken)
    yield* Effect.mapError(
      save(server, state, loaded, current),
      (error) => crashOf("state", error, logs, taken.length === 1 ? 0 : undefined)
    )
    state.onCommit.push(() => logs.release())
    // before the answers: who has one finds the handle stopped
    if (stopReason !== undefined) state.onCommit.unshift(() => stop(server, stopReason))
    return { _tag: "Done", state: current, actions } as Batch
  })

const crashOf = (tag: string, error: unknown, logs: HeldLogs, index?: number): Crash =>
  new Crash(tag, Cause.die(error), logs, index)

/** The first items up to the suspect, or the suspect alone (2). */
const untilSuspect = (items: ReadonlyArray<DurableQueue.Item>, pace: Pace): ReadonlyArray<DurableQueue.Item> => {
  const at = pace.suspect === undefined ? -1 : items.findIndex((item) => stampOf(item) === pace.suspect!.stamp)
  return at === -1 ? items : at === 0 ? items.slice(0, 1) : items.slice(0, at)
}

const runItem = Effect.fnUntraced(function*(
  server: Server,
  state: TransactionState,
  runner: PureRunner,
  logs: HeldLogs,
  pace: Pace,
  item: DurableQueue.Item,
  index: number,
  current: unknown
) {
  const id = Buffer.from(item.stamp.bytes).toString("hex") + "-" + item.stamp.userVersion
  const attempt = pace.suspect?.stamp === stampOf(item) ? pace.suspect.attempt + 1 : 1
  const message = Result.flatMap(Envelopes.decode(item.bytes), (envelope) => incoming(server, envelope, attempt, id))
  if (Result.isFailure(message)) return yield* Effect.fail(crashOf("message", new Error(message.failure), logs, index))
  const input = message.success
  const handled = yield* handle(server, runner, logs, input, current, index)
  const answer = answerOf(input.message, handled)
  if (answer !== undefined && input.caller !== undefined) yield* answerCaller(server, state, input.caller, answer)
  return handled
})

/** One turn: a batch and its actions. Succeeds with what to wait for, if there is nothing to do. */
const turn = (server: Server, pace: Pace): Effect.Effect<Armed | undefined, Crash | BackendError> => {
  const seen: Array<DurableQueue.Item> = []
  const run = transact(server.tenant, batchBody(server, pace, seen), {
    retried: (error) => {
      if (error.reason._tag === "TransactionTooOld") pace.limit = halved(seen.length)
    }
  })
  return Effect.flatMap(
    Effect.tapError(run, (error) => Effect.sync(() => learn(pace, seen, error))),
    (batch) => {
      switch (batch._tag) {
        case "Idle":
          return Effect.succeed(batch.watch)
        case "Gone":
          stop(server, "its state is gone")
          return Effect.undefined
        case "Done": {
          pace.limit = Math.min(server.options.consumeK, pace.limit * 2)
          if (pace.suspect !== undefined && seen.some((item) => stampOf(item) === pace.suspect!.stamp)) {
            pace.suspect = undefined
          }
          return Effect.as(runActions(server, batch.actions, batch.state), undefined)
        }
      }
    }
  )
}

const halved = (count: number): number => Math.max(1, Math.floor(count / 2))

/** What a failed batch says about the next one (2, 3). */
const learn = (
  pace: Pace,
  seen: ReadonlyArray<DurableQueue.Item>,
  error: Crash | BackendError
): void => {
  if (error._tag === "BackendError") {
    if (error.reason._tag === "TransactionTooLarge") pace.limit = halved(seen.length)
    return
  }
  error.logs.release()
  const culprit = error.index === undefined ? undefined : seen[error.index]
  if (culprit === undefined) {
    pace.limit = halved(seen.length)
    return
  }
  const stamp = stampOf(culprit)
  pace.suspect = { stamp, attempt: pace.suspect?.stamp === stamp ? pace.suspect.attempt + 1 : 1 }
}

/** The consumer's life: turns, and its restarts (4). Ends when the handle stops. */
export const consume = Effect.fnUntraced(function*(server: Server) {
  const pace: Pace = { limit: server.options.consumeK, suspect: undefined }
  const restart = server.options.restart ?? defaultRestart
  let step = yield* Schedule.toStepWithSleep(restart)
  while (!isStopped(server)) {
    const exit = yield* Effect.exit(Effect.uninterruptible(turn(server, pace)))
    if (Exit.isSuccess(exit)) {
      step = yield* Schedule.toStepWithSleep(restart)
      if (exit.value !== undefined) yield* waitFor(server, exit.value)
      continue
    }
    const crash = exit.cause.reasons.find((reason) => reason._tag === "Fail")?.error
    const cause = crash instanceof Crash ? crash.cause : exit.cause
    const what = crash instanceof Crash ? `handling ${crash.messageTag}` : "consuming"
    yield* Effect.logError(`${server.definition.name}: ${what} crashed, the consumer restarts`, cause)
    const again = yield* Effect.exit(step(Cause.squash(cause)))
    if (Exit.isFailure(again)) {
      yield* Effect.logError(`${server.definition.name}: the restart schedule has ended, the consumer stops`)
      stop(server, "the consumer crashed and its restart schedule has ended")
    }
  }
})

/** Waits for a push, or for the handle's end; a store that cannot watch is looked at again after a pause. */
const waitFor = (server: Server, watch: Armed): Effect.Effect<void> =>
  Effect.catch(
    raceWatch(server.tenant, watch, [Effect.asVoid(Deferred.await(server.stopped))]),
    (error) =>
      Effect.andThen(
        Effect.logWarning(`${server.definition.name}: watching the queue failed, looking again`, error),
        Effect.sleep(Duration.millis(500))
      )
  )
