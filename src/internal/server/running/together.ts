/**
 * Inline calls that share a transaction. On a store across a network every commit is a way there and back, and calls to one
 * server go one after another: those that wait while one commits are handled together, each on the state that the one
 * before left, and committed once.
 *
 * Owner: a server's inline calls. They stand in line in the order of the server's permit; who gets it handles the calls behind
 * it too, and those find what they came to when it is their turn.
 *
 * 1. Calls go together only where nothing sets one apart: each is answered by its handler, without key, lock or end of the
 *    server. Else the transaction writes nothing, and each of them runs by itself, as if they had never met.
 * 2. A call is handled once: what comes to those of a commit is written down before the permit is given on, and so is that
 *    their commit is unknown. One that runs by itself is set apart before it begins, and leaves the line with its permit.
 * 3. What is found before a handler runs, a queue with messages or a lock, is found for all of them.
 * 4. A handler that takes its time is the last of its transaction: those behind it go with the next.
 * 5. A handler runs in the context of its own call, below that one's span, and has random numbers of its own.
 * 6. A store that lets later transactions read a commit before it is durable gathers commits itself: calls go one by one.
 */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { BackendError } from "../../../BackendError.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Queue from "../../queue/queue.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { yieldTurn } from "../../transactions/turns.ts"
import { keep, prepare, type Prepared } from "../durable/asking.ts"
import { answerOf, handle } from "../handling/handlers.ts"
import { record, retried } from "../handling/metrics.ts"
import { type HeldLogs, holdLogs, PureRunner } from "../handling/purity.ts"
import { isEnded, loadState, otherOwner, save, type Server } from "../handling/server.ts"
import { headOf } from "../kept/state.ts"
import { inlineAnswer, openInline } from "../sending/answering.ts"
import { runsFor } from "../sending/messages.ts"
import { type Direct, type Progress, type Ran, TO_QUEUE } from "./direct.ts"

/** So many calls at the most: what one of them breaks is done again for all. */
const CALLS_LIMIT = 100

/** After so long, 20 ms, no further handler begins (4): nobody waits for long for the first one's answer. */
const HANDLING_NANOS = 20_000_000n

/** A call in line, and what it came to. */
export interface Waiting {
  readonly direct: Direct
  /** What its handler runs in (5). */
  readonly context: Context.Context<never>
  /** It was set apart (1). */
  isAlone: boolean
  ran: Ran | Progress | undefined
  /** Its commit is unknown (2). */
  failure: BackendError | undefined
}

/** The calls in line of each server, the one that has the permit first. */
const lines = new WeakMap<Server, Array<Waiting>>()

/** Puts a call in line. */
export const enter = (server: Server, direct: Direct, context: Context.Context<never>): Waiting => {
  const { key, message } = direct
  const isPlain = key === undefined && !message.locks && server.tenant.backend.commitCanBeUnknown
  const waiting: Waiting = { direct, context, isAlone: !isPlain, ran: undefined, failure: undefined }
  const line = lines.get(server)
  if (line === undefined) lines.set(server, [waiting])
  else line.push(waiting)
  return waiting
}

/** Takes a call out of the line. */
export const leave = (server: Server, waiting: Waiting): void => {
  const line = lines.get(server)!
  line.splice(line.indexOf(waiting), 1)
}

/** Something sets a call apart (1). */
class Apart {
  readonly _tag = "Apart"
}

const APART = new Apart()

const apart = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Apart, R> =>
  Effect.mapError(effect, () => APART)

/** What the calls of a transaction came to: the first ones, as many as there was time for. */
type Outcomes = ReadonlyArray<Ran> | undefined

const body = Effect.fnUntraced(function*(
  server: Server,
  calls: ReadonlyArray<Waiting>
): Effect.fn.Return<Outcomes, Apart, Transaction> {
  const state = yield* Transaction
  const [bytes, queued] = yield* Effect.all([
    state.get(server.keys.head),
    Queue.peek(state, server.keys, 1)
  ], { concurrency: "unbounded" })
  if (bytes === undefined) return yield* Effect.fail(APART)
  if (queued.length > 0) return undefined
  const head = yield* apart(headOf(bytes))
  if ((yield* otherOwner(server, state, head)) !== undefined) return yield* Effect.fail(APART)
  if (head.lock !== undefined) return undefined
  const loaded = yield* apart(loadState(server, head))
  runsFor(state, server.definition, server.tuid)
  const begunNanos = yield* Clock.monotonicTimeNanos
  const lines: Array<HeldLogs> = []
  const durable: Array<Prepared> = []
  const handled: Array<Ran> = []
  let current = loaded.state
  for (const [index, call] of calls.entries()) {
    if (index > 0) {
      if ((yield* Clock.monotonicTimeNanos) - begunNanos > HANDLING_NANOS) break
      yield* yieldTurn
    }
    const { logs, prepared, ran } = yield* Effect.updateContext<One, Apart, never, never>(
      one(server, state, call, index, current),
      () => call.context
    )
    current = ran.handled.state
    lines.push(logs)
    durable.push(...prepared)
    handled.push(ran)
  }
  const saved = yield* apart(save(server, state, loaded, current))
  yield* keep(server, state, durable)
  state.onCommit.push(() => {
    for (const logs of lines) logs.release()
    for (const ran of handled) record(server, server.metrics.outcome(ran.handled.outcome), 1)
  })
  return handled.map((ran): Ran => ({ ...ran, handled: { ...ran.handled, state: saved.state } }))
})

/** One of the calls, on the state that the one before left. */
const one = Effect.fnUntraced(function*(
  server: Server,
  state: TransactionState,
  { direct }: Waiting,
  index: number,
  current: unknown
): Effect.fn.Return<One, Apart> {
  const { caller, message } = direct
  const bytes = idOf(state.operationId, index)
  const id = bytes.toString("hex")
  const logs = yield* holdLogs
  const runner = yield* PureRunner.make(server, state, logs, bytes)
  openInline(state, caller)
  const handled = yield* apart(handle(server, runner, logs, { ...direct, id }, current, undefined))
  const answer = answerOf(message, handled) ?? inlineAnswer(state)
  if (handled.stopped || handled.locks || handled.isGone === true || answer === undefined) {
    return yield* Effect.fail(APART)
  }
  const prepared = yield* apart(prepare(server, handled, { tag: message.tag, logs, index: undefined }))
  return { logs, prepared, ran: { handled, id, progress: { _tag: "Handled", answer }, acquired: undefined, caller } }
})

interface One {
  readonly logs: HeldLogs
  readonly prepared: ReadonlyArray<Prepared>
  readonly ran: Ran
}

/** No other message has it: one that runs alone has the id of its transaction, which is shorter. */
const idOf = (operationId: Uint8Array, index: number): Buffer => {
  const id = Buffer.alloc(22)
  id.set(operationId.subarray(0, 20))
  id.writeUInt16BE(index, 20)
  return id
}

/** Handles those behind a call with it, if there are some; else, or where one of them is set apart, nothing has happened. */
export const together = (server: Server, first: Waiting): Effect.Effect<void> =>
  Effect.suspend(() => {
    const calls = isEnded(server) ? [] : behind(lines.get(server)!, first)
    if (calls.length < 2) return Effect.void
    const setApart = Effect.sync(() => {
      for (const one of calls) one.isAlone = true
    })
    return Effect.catchDefect(
      Effect.matchEffect(transact(server.tenant, body(server, calls), { tries: 1 }), {
        onSuccess: (outcomes) =>
          Effect.sync(() => calls.forEach((one, at) => one.ran = outcomes === undefined ? TO_QUEUE : outcomes[at])),
        onFailure: (error) => {
          if (error._tag === "Apart") return setApart
          if (error.isMaybeCommitted) return Effect.sync(() => calls.forEach((one) => one.failure = error))
          retried(server, error)
          if (error.reason._tag !== "Conflict") return setApart
          // others wrote meanwhile: the next one tries with those behind it
          first.isAlone = true
          return Effect.void
        }
      }),
      () => setApart
    )
  })

/** A call and those that stand behind it, up to one that is set apart. */
const behind = (line: ReadonlyArray<Waiting>, first: Waiting): ReadonlyArray<Waiting> => {
  const calls: Array<Waiting> = []
  for (const one of line.slice(line.indexOf(first), line.indexOf(first) + CALLS_LIMIT)) {
    if (one.isAlone || (one.ran ?? one.failure) !== undefined) break
    calls.push(one)
  }
  return calls
}
