/**
 * One batch: the transaction in which a consumer takes messages and runs their handlers.
 *
 * 1. A batch takes the first messages in order; state, answers and taken messages commit together (rule R2).
 * 2. While the lock is held no message is taken. A lock that is over its time is broken, its message kept, and put back
 *    after as much time again, if its holder does not come back for it (rules R18, R19).
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
import type { Fenced, Head } from "../kept/head.ts"
import { headOf, writeHead } from "../kept/state.ts"
import type { Died } from "../mending/requeue.ts"
import { answerCaller } from "../sending/answering.ts"
import { acquire, type Acquired, requeueFenced } from "./locked.ts"

/** More broken locks than this wait for their holders at no time: the oldest message is put back at once. */
const FENCED_LIMIT = 16

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
  /** When this consumer first saw a lock, or a message of a broken one, on its own clock (2). */
  readonly sightings: Map<string, number>
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
  const held = head.lock !== undefined || head.fenced.length > 0 ? yield* watchLocks(server, state, pace, head) : 0
  if (typeof held !== "number") return held
  if (peeked.length === 0) {
    return { _tag: "Idle", watch: watchKey(state, server.keys.push), dueMillis: held || Infinity }
  }
  return yield* runItems(server, state, pace, head, untilFailed(peeked))
})

/** Measures the queue's length. */
const measure = (server: Server, state: TransactionState, pace: Pace): Effect.Effect<void> =>
  Effect.map(Queue.length(state, server.keys), (length) => {
    pace.measuredMillis = state.timeMillis
    record(server, server.metrics.queueLength, length)
  })

/** Looks after locks (2). Succeeds with what there is to do about them, or with when there will be something. */
const watchLocks = (
  server: Server,
  state: TransactionState,
  pace: Pace,
  head: Head
): Effect.Effect<Batch | number> =>
  Effect.flatMap(Clock.monotonicTimeNanos, (nanos): Effect.Effect<Batch | number> => {
    const left = leftMillis(server, pace, head, Number(nanos / 1_000_000n), state.timeMillis)
    if (head.lock !== undefined) {
      const wait = left(head.lock)
      if (wait > 0) {
        return Effect.succeed({ _tag: "Idle", watch: watchKey(state, server.keys.head), dueMillis: wait })
      }
      const { attempts, token } = head.lock
      const fenced = attempts === undefined
        ? head.fenced
        : [...head.fenced, { token, millis: state.timeMillis, attempts }]
      writeHead(state, server.keys, { ...head, lock: undefined, fenced })
      signalKey(server.tenant, state, server.keys.head)
      return Effect.succeed({ _tag: "Again", died: undefined })
    }
    const due = head.fenced.find((entry) => left(entry) <= 0) ??
      (head.fenced.length > FENCED_LIMIT ? head.fenced[0] : undefined)
    if (due === undefined) return Effect.succeed(Math.min(...head.fenced.map(left)))
    return Effect.map(requeueFenced(server, state, head, due), (died): Batch => ({ _tag: "Again", died }))
  })

/** How long a lock, or the message of a broken one, may still be left alone: by its own time, or by our own clock. */
const leftMillis = (server: Server, pace: Pace, head: Head, monotonicMillis: number, nowMillis: number) => {
  const names = new Set<string>()
  const nameOf = (entry: Pick<Fenced, "token" | "millis">) =>
    `${Buffer.from(entry.token).toString("hex")} ${entry.millis}`
  for (const entry of head.lock === undefined ? head.fenced : [head.lock, ...head.fenced]) names.add(nameOf(entry))
  for (const name of pace.sightings.keys()) if (!names.has(name)) pace.sightings.delete(name)
  return (entry: Pick<Fenced, "token" | "millis">): number => {
    const name = nameOf(entry)
    const seen = pace.sightings.get(name) ?? monotonicMillis
    pace.sightings.set(name, seen)
    const { lockTimeoutMillis } = server.options
    return Math.min(entry.millis + lockTimeoutMillis - nowMillis, seen + lockTimeoutMillis - monotonicMillis)
  }
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
  const runner = yield* PureRunner.make(server, state, logs)
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
      (defect) => Effect.fail(new Crash(tagsOf(envelopeOf(index)), Cause.die(defect), logs, index))
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
    (error) => {
      const tags = items.slice(0, taken).flatMap((_, index) => tagsOf(envelopeOf(index)))
      return new Crash(tags, Cause.die(error), logs, taken === 1 ? 0 : undefined)
    }
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

const tagsOf = (envelope: Result.Result<Envelopes.Envelope, string>): ReadonlyArray<string> =>
  Result.isSuccess(envelope) ? [envelope.success.tag] : []

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
    return yield* Effect.fail(new Crash(tagsOf(envelope), Cause.die(new Error(message.failure)), logs, index))
  }
  const input = message.success
  const handled = yield* handle(server, runner, logs, input, current, index)
  const answer = answerOf(input.message, handled)
  if (answer !== undefined && input.caller !== undefined) yield* answerCaller(server.keys, state, input.caller, answer)
  return { handled, input }
})
