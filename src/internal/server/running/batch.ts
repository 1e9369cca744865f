/**
 * One batch: the transaction in which a consumer takes messages and runs their handlers.
 *
 * 1. A batch takes the first messages in order; state, answers and taken messages commit together (rule R2).
 * 2. While the lock is held no message is taken. A lock that is over its time is broken, and its message put back in the
 *    same commit (rules R18, R19). So are messages whose locks an earlier version of this library broke.
 * 3. A message that has failed before runs alone, and a batch ends before it, so that those in front of it are not held
 *    up (rule R12).
 * 4. A message that asks for the lock ends its batch.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Transaction } from "../../../Transaction.ts"
import { show } from "../../data/show.ts"
import * as Envelopes from "../../queue/envelope.ts"
import { stampText } from "../../queue/pieces.ts"
import * as Queue from "../../queue/queue.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { yieldTurn } from "../../transactions/turns.ts"
import { type Armed, signalKey, watchKey } from "../../transactions/watching.ts"
import type { ActionRequest } from "../definition/model.ts"
import { answerOf, Crash, handle, type Handled, incoming } from "../handling/handlers.ts"
import { record } from "../handling/metrics.ts"
import { type Held, type HeldLogs, holdLogs, PureRunner } from "../handling/purity.ts"
import { loadState, save, type Server, stop, Unreadable } from "../handling/server.ts"
import type { Head, Lock } from "../kept/head.ts"
import { headOf, writeHead } from "../kept/state.ts"
import { BROKEN, type Died, requeue } from "../mending/requeue.ts"
import { answerCaller } from "../sending/answering.ts"
import { acquire, type Acquired } from "./locked.ts"

/** The queue's length costs two reads: a measurement once a second is enough for any dashboard. */
const MEASURE_MILLIS = 1_000

/** What a batch came to. */
export type Batch =
  /** There is nothing to do until the key changes, or `dueMillis` have passed. */
  | { readonly _tag: "Idle"; readonly watch: Armed; readonly dueMillis: number }
  /** Something was put in order: look again. */
  | { readonly _tag: "Again"; readonly died: Died | undefined }
  | { readonly _tag: "Gone" }
  | {
    readonly _tag: "Done"
    readonly state: unknown
    readonly actions: ReadonlyArray<ReadonlyArray<ActionRequest>>
    readonly acquired: Acquired | undefined
    readonly count: number
  }

/** How much the next batches take, and what this consumer has seen of locks; kept from batch to batch. */
export interface Pace extends Held {
  /** The most messages that the next batch takes. */
  limit: number
  /** The messages of the batch that runs. */
  seen: ReadonlyArray<Queue.Item>
  /** Which of them is being handled. */
  at: number
  /** When the queue was last measured. */
  measuredMillis: number
  /** When this consumer first saw the lock that is held, on its own clock (2). */
  sighting: { readonly lock: string; readonly millis: number } | undefined
}

/** The body of a batch. */
export const batchBody = Effect.fnUntraced(function*(
  server: Server,
  pace: Pace
): Effect.fn.Return<Batch, Crash | Unreadable, Transaction> {
  const state = yield* Transaction
  const [bytes, peeked] = yield* Effect.all([
    state.get(server.keys.head),
    Queue.peek(state, server.keys, pace.limit)
  ], { concurrency: "unbounded" })
  if (bytes === undefined) return { _tag: "Gone" }
  if (state.timeMillis - pace.measuredMillis >= MEASURE_MILLIS) yield* measure(server, state, pace)
  const head = yield* Effect.mapError(headOf(bytes), (error) => new Unreadable(error))
  if (head.fenced.length > 0) {
    const [broken] = head.fenced
    return { _tag: "Again", died: yield* putBack(server, state, { ...head, fenced: head.fenced.slice(1) }, broken!) }
  }
  if (head.lock !== undefined) return yield* watchLock(server, state, pace, head, head.lock)
  if (peeked.length === 0) return { _tag: "Idle", watch: watchKey(state, server.keys.push), dueMillis: Infinity }
  return yield* runItems(server, state, pace, head, untilFailed(peeked))
})

/** Measures the queue's length. */
const measure = (server: Server, state: TransactionState, pace: Pace): Effect.Effect<void> =>
  Effect.map(Queue.length(state, server.keys), (length) => {
    pace.measuredMillis = state.timeMillis
    record(server, server.metrics.queueLength, length)
  })

/** Breaks the lock if it is over its time (2); else there is nothing to do until it ends, or until then. */
const watchLock = (
  server: Server,
  state: TransactionState,
  pace: Pace,
  head: Head,
  lock: Lock
): Effect.Effect<Batch> =>
  Effect.flatMap(Clock.monotonicTimeNanos, (nanos): Effect.Effect<Batch> => {
    const wait = leftMillis(server, pace, lock, Number(nanos / 1_000_000n), state.timeMillis)
    if (wait > 0) {
      return Effect.succeed({ _tag: "Idle", watch: watchKey(state, server.keys.head), dueMillis: wait })
    }
    signalKey(server.tenant, state, server.keys.head)
    return Effect.map(putBack(server, state, { ...head, lock: undefined }, lock), (died) => ({ _tag: "Again", died }))
  })

/** Writes the head without a lock that is broken, and puts its message back, if it has one. */
const putBack = (
  server: Server,
  state: TransactionState,
  head: Head,
  { attempts, token }: Pick<Lock, "token" | "attempts">
): Effect.Effect<Died | undefined> => {
  writeHead(state, server.keys, head)
  if (attempts === undefined) return Effect.undefined
  const threshold = server.options.deadLetterThreshold
  return requeue(state, server.keys, token, { attempts: attempts + 1, threshold, cause: BROKEN })
}

/** How long a lock may still be left alone: by its own time, or by our own clock. */
const leftMillis = (server: Server, pace: Pace, lock: Lock, monotonicMillis: number, nowMillis: number): number => {
  const name = `${Buffer.from(lock.token).toString("hex")} ${lock.millis}`
  if (pace.sighting?.lock !== name) pace.sighting = { lock: name, millis: monotonicMillis }
  const { lockTimeoutMillis } = server.options
  return Math.min(
    lock.millis + lockTimeoutMillis - nowMillis,
    pace.sighting.millis + lockTimeoutMillis - monotonicMillis
  )
}

/** The first items up to one that has failed, or that one alone (3). */
const untilFailed = (items: ReadonlyArray<Queue.Item>): ReadonlyArray<Queue.Item> => {
  const at = items.findIndex((item) => item.attempts > 0)
  return at === -1 ? items : items.slice(0, Math.max(1, at))
}

const runItems = Effect.fnUntraced(function*(
  server: Server,
  state: TransactionState,
  pace: Pace,
  head: Head,
  items: ReadonlyArray<Queue.Item>
): Effect.fn.Return<Batch, Crash | Unreadable, Transaction> {
  const logs = yield* holdLogs
  const runner = yield* PureRunner.make(server.definition.name, state, logs)
  pace.seen = items
  pace.logs = logs
  const loaded = yield* Effect.mapError(loadState(server, head), (error) => new Unreadable(error))
  const decoded: Array<Result.Result<Envelopes.Envelope, string>> = []
  // once each, and only those that the batch comes to: it may end at its first message
  const envelopeOf = (index: number) => decoded[index] ??= Envelopes.decode(items[index]!.message)
  yield* state.prefetch(() => waitingKeys(server, items.length, envelopeOf))
  const actions: Array<ReadonlyArray<ActionRequest>> = []
  const outcomes: Array<Handled["outcome"]> = []
  let current = loaded.state
  let taken = 0
  let last: { readonly handled: Handled; readonly item: Queue.Item; readonly input: Acquired["input"] } | undefined
  for (const [index, item] of items.entries()) {
    pace.at = index
    if (index > 0) yield* yieldTurn
    const { handled, input } = yield* Effect.catchDefect(
      runItem(server, state, runner, logs, envelopeOf(index), item, index, current),
      (defect) => Effect.fail(new Crash("message", Cause.die(defect), logs, index))
    )
    taken++
    current = handled.state
    actions.push(handled.actions)
    outcomes.push(handled.outcome)
    if (handled.stopped || handled.locks) {
      last = { handled, item, input }
      break
    }
  }
  Queue.take(state, server.keys, items.slice(0, taken))
  const lock = last?.handled.locks ? acquire(server, state, last.input, last.item) : undefined
  const saved = yield* Effect.mapError(
    save(server, state, loaded, current, lock && { lock }),
    (error) => new Crash("state", Cause.die(error), logs, taken === 1 ? 0 : undefined)
  )
  state.onCommit.push(() => {
    for (const outcome of outcomes) record(server, server.metrics.outcome(outcome), 1)
  })
  // before the answers: who has one finds the lines written, and the handle stopped
  state.onCommit.unshift(() => logs.release())
  if (last?.handled.stopped) state.onCommit.unshift(() => stop(server, show(last.handled.stop)))
  return {
    _tag: "Done",
    state: saved.state,
    actions,
    acquired: lock && { lock, input: last!.input, ...saved },
    count: taken
  }
})

/** What says of the calls of a batch that they wait, up to the message that must be its last. */
const waitingKeys = (
  server: Server,
  count: number,
  envelopeOf: (index: number) => Result.Result<Envelopes.Envelope, string>
): ReadonlyArray<Uint8Array> => {
  const keys: Array<Uint8Array> = []
  for (let index = 0; index < count; index++) {
    const envelope = envelopeOf(index)
    if (Result.isFailure(envelope)) break
    const { caller, tag } = envelope.success
    if (caller !== undefined) keys.push(server.keys.waitingKey(caller.millis, caller.instance, caller.id))
    if (server.definition.messages.get(tag)?.locks !== false) break
  }
  return keys
}

const runItem = Effect.fnUntraced(function*(
  server: Server,
  state: TransactionState,
  runner: PureRunner,
  logs: HeldLogs,
  envelope: Result.Result<Envelopes.Envelope, string>,
  item: Queue.Item,
  index: number,
  current: unknown
) {
  if (index === 0 && Result.isSuccess(envelope)) {
    record(server, server.metrics.oldestMillis, Math.max(0, state.timeMillis - envelope.success.millis))
  }
  const message = Result.flatMap(
    envelope,
    (decoded) => incoming(server, decoded, item.attempts + 1, decoded.id ?? stampText(item.stamp))
  )
  if (Result.isFailure(message)) {
    const tag = Result.isSuccess(envelope) ? envelope.success.tag : "message"
    return yield* Effect.fail(new Crash(tag, Cause.die(new Error(message.failure)), logs, index))
  }
  const input = message.success
  const handled = yield* handle(server, runner, logs, input, current, index)
  const answer = answerOf(input.message, handled)
  if (answer !== undefined && input.caller !== undefined) yield* answerCaller(server.keys, state, input.caller, answer)
  return { handled, input }
})
