/**
 * One batch: the transaction in which a consumer takes messages and runs their handlers.
 *
 * 1. A batch takes the first messages in order; state, answers and taken messages commit together (rule R2).
 * 2. While the lock is held no message is taken. A lock that is over its time is broken, and its message put back in the
 *    same commit (rules R18, R19). So are messages whose locks an earlier version of this library broke.
 * 3. A message that has failed before runs alone, and a batch ends before it, so that those in front of it are not held
 *    up (rule R12).
 * 4. A message that asks for the lock ends its batch.
 * 5. A message that this version cannot read, or that is for another definition, comes alone too (`unreadable.ts`). While
 *    it is left alone, nothing behind it is handled.
 * 6. A batch ends before a message whose handler met a full queue: that one alone waits for room.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { show } from "../../data/show.ts"
import * as Envelopes from "../../queue/envelope.ts"
import { stampText } from "../../queue/pieces.ts"
import * as Queue from "../../queue/queue.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { yieldTurn } from "../../transactions/turns.ts"
import { type Armed, signalKey, watchKey } from "../../transactions/watching.ts"
import { keep, passing, prepare, type Prepared } from "../durable/asking.ts"
import type { Asked } from "../handling/actions.ts"
import { atRest, measured, type Measures } from "../handling/gauges.ts"
import { answerOf, Crash, handle, type Handled, type Incoming, type Unread } from "../handling/handlers.ts"
import { record } from "../handling/metrics.ts"
import { type Held, type HeldLogs, holdLogs, PureRunner } from "../handling/purity.ts"
import {
  gone,
  type HeadChange,
  isEnded,
  loadState,
  newborn,
  otherOwner,
  save,
  type Server,
  stop,
  Unreadable
} from "../handling/server.ts"
import type { Head, Lock } from "../kept/head.ts"
import { giveWork, indexesOf, Place, readWake, takeWork } from "../kept/indexes.ts"
import { headOf, writeHead } from "../kept/state.ts"
import { conclude, keyedChange, meet, rowsOf } from "../keys/meeting.ts"
import { end } from "../mending/ending.ts"
import { BROKEN, bury, type Died, requeue } from "../mending/requeue.ts"
import * as Answers from "../sending/answerCodec.ts"
import { answerCaller, leaveOpen } from "../sending/answering.ts"
import { runsFor } from "../sending/messages.ts"
import { counts, fire } from "../timers/firing.ts"
import { acquire, type Acquired } from "./locked.ts"
import { buryMisdirected, graceLeft, isMisdirected, type Met, pauseOf, read } from "./unreadable.ts"

/** The queue's length costs two reads: a measurement once a second is enough for any dashboard. */
const MEASURE_MILLIS = 1_000

/** A busy consumer looks for timers that others have set so often. */
const TIMERS_MILLIS = 1_000

/** An idle consumer looks so often for keys that others have settled. */
const KEYS_LOOK_MILLIS = 60 * 60_000

/** Who waits for a time looks at the clock at least so often: it can be set, and machines sleep. */
export const CLOCK_LOOK_MILLIS = 60_000

/** What a batch came to. */
export type Batch =
  /** There is nothing to do until the key changes, or `dueMillis` have passed. */
  | {
    readonly _tag: "Idle"
    readonly watch: Armed
    /** Another key whose change matters. */
    readonly also?: Armed
    readonly dueMillis: number
    /** Why the first message is left alone, if that is why (5). */
    readonly unread?: Unread
  }
  /** A hosted server's queue is empty; `rests` says that its entry is gone. */
  | { readonly _tag: "Empty"; readonly rests: boolean }
  /** The first message may lock, and there is no place for another lock. */
  | { readonly _tag: "Full" }
  /** The tuid is another definition's server: its entry is handed over. */
  | { readonly _tag: "Foreign" }
  /** Something was put in order: look again. */
  | { readonly _tag: "Again"; readonly died: Died | undefined }
  | { readonly _tag: "Gone" }
  | {
    readonly _tag: "Done"
    readonly state: unknown
    readonly actions: ReadonlyArray<Asked>
    readonly acquired: Acquired | undefined
    readonly count: number
    /** Whether the server has nothing else to do, and its entry is gone. */
    readonly rests: boolean
  }

/** How much the next batches take, and what this consumer has seen of locks; kept from batch to batch. */
export interface Pace extends Held {
  /** The most messages that the next batch takes. */
  limit: number
  /** Whether a batch that sees the end of a hosted server's queue takes its entry away. */
  mayRest: boolean
  /** Whether a message that may lock can be handled. */
  mayLock: boolean
  /** When the server's timers have to be looked at, and when they were. */
  timers: { readonly dueMillis: number; readonly lookedMillis: number }
  /** The messages of the batch that runs. */
  seen: ReadonlyArray<Queue.Item>
  /** Which of them is being handled. */
  at: number
  /** When the queue was last measured. */
  measuredMillis: number
  /** The message that this consumer steps back from (5). */
  met: Met | undefined
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
    // one more than it takes shows whether these are the last ones
    Queue.peek(state, server.keys, server.isHosted ? pace.limit + 1 : pace.limit)
  ], { concurrency: "unbounded" })
  if (bytes === undefined && !server.isHosted) return { _tag: "Gone" }
  // it was told to end while this was read: what waits is for the next one who runs it
  if (isEnded(server)) return { _tag: "Again", died: undefined }
  if (state.timeMillis - pace.measuredMillis >= MEASURE_MILLIS) yield* measure(server, state, pace)
  const head = bytes === undefined
    ? undefined
    : yield* Effect.mapError(headOf(bytes), (error) => new Unreadable(error))
  const owner = head && (yield* otherOwner(server, state, head))
  if (head !== undefined && owner !== undefined) return yield* handOver(server, state, head, owner)
  const isWaiting = head?.lock !== undefined || peeked.length === 0
  if (isWaiting || isTimeForTimers(pace, state.timeMillis)) {
    const { done, dueMillis, keysDueMillis } = yield* fire(server, state, head?.isKeyed === true)
    pace.timers = { dueMillis: done > 0 ? 0 : dueMillis, lookedMillis: state.timeMillis }
    server.keysDueMillis = keysDueMillis
    if (done > 0) return { _tag: "Again", died: undefined }
  }
  if (head !== undefined && head.fenced.length > 0) {
    const [broken] = head.fenced
    return { _tag: "Again", died: yield* putBack(server, state, { ...head, fenced: head.fenced.slice(1) }, broken!) }
  }
  if (head?.lock !== undefined) return yield* watchLock(server, state, pace, head, head.lock)
  if (peeked.length === 0) atRest(server)
  if (peeked.length === 0 && server.isHosted) {
    return { _tag: "Empty", rests: yield* rest(server, state, pace, undefined) }
  }
  if (peeked.length === 0) {
    const dueMillis = Math.min(untilTimer(pace, state.timeMillis), untilKeys(server, head, state.timeMillis))
    return { _tag: "Idle", watch: watchKey(state, server.keys.push), dueMillis }
  }
  const items = untilFailed(peeked.slice(0, pace.limit))
  return yield* Effect.catchDefect(
    runItems(server, state, pace, head, items, peeked.length),
    // whatever it was of: one message alone is charged, and a batch comes down to that
    (defect) => {
      const tags = items.flatMap((item) => tagsOf(Envelopes.decode(item.message)))
      return Effect.fail(new Crash(tags, Cause.die(defect), pace.logs, undefined))
    }
  )
})

/** Whether timers are due as far as is known, or an earlier one may have been set. */
const isTimeForTimers = ({ timers }: Pace, nowMillis: number): boolean =>
  nowMillis >= timers.dueMillis || Math.abs(nowMillis - timers.lookedMillis) >= TIMERS_MILLIS

/** How long to wait for the next timer: not longer than a clock can be trusted. */
const untilTimer = ({ timers }: Pace, nowMillis: number): number =>
  timers.dueMillis === Infinity ? Infinity : Math.min(CLOCK_LOOK_MILLIS, Math.max(1, timers.dueMillis - nowMillis))

/** How long to wait for the end of the next key: nothing depends on its minute, and others settle keys too. */
const untilKeys = ({ keysDueMillis }: Server, head: Head | undefined, nowMillis: number): number => {
  if (keysDueMillis === Infinity) return head?.isKeyed === true ? KEYS_LOOK_MILLIS : Infinity
  return Math.min(KEYS_LOOK_MILLIS, Math.max(1, keysDueMillis - nowMillis))
}

/** Takes the entry away that leads to another definition's server, and lets who hosts that one know. */
const handOver = (server: Server, state: TransactionState, head: Head, owner: string): Effect.Effect<Batch> => {
  const { place } = server.keys
  return Effect.map(state.get(place.entry), (): Batch => {
    state.clear(place.entry)
    if (head.format === 2) giveWork(state, new Place(indexesOf(state.prefix, owner), owner, server.tuid))
    return { _tag: "Foreign" }
  })
}

/** Notes what is seen of a server that this process still runs. */
const note = (server: Server, measures: Partial<Measures>): void => {
  if (!isEnded(server)) measured(server, measures)
}

/** Measures the queue's length. */
const measure = (server: Server, state: TransactionState, pace: Pace): Effect.Effect<void> =>
  Effect.map(Queue.length(state, server.keys), (length) => {
    pace.measuredMillis = state.timeMillis
    note(server, { queueLength: length })
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
      // an earlier timer is told of by the bell of pushes: it is sent although the server is locked
      const also = watchKey(state, server.keys.push)
      const dueMillis = Math.min(wait, untilTimer(pace, state.timeMillis))
      return Effect.succeed({ _tag: "Idle", watch: watchKey(state, server.keys.head), also, dueMillis })
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
  head: Head | undefined,
  items: ReadonlyArray<Queue.Item>,
  /** How many messages it saw: the items are all that there are when it took as many. */
  seen: number
): Effect.fn.Return<Batch, Crash | Unreadable, Transaction> {
  const logs = yield* holdLogs
  const runner = yield* PureRunner.make(server, state, logs)
  runsFor(state, server.definition, server.tuid)
  pace.seen = items
  pace.logs = logs
  const loaded = head === undefined
    ? yield* newborn(server, runner)
    : yield* Effect.mapError(loadState(server, head), (error) => new Unreadable(error))
  const decoded: Array<Result.Result<Envelopes.Envelope, string>> = []
  // once each, and only those that the batch comes to: it may end at its first message
  const envelopeOf = (index: number) => decoded[index] ??= Envelopes.decode(items[index]!.message)
  yield* state.prefetch(() => keysToRead(server, items.length, envelopeOf))
  const actions: Array<Asked> = []
  const durable: Array<Prepared> = []
  const outcomes: Array<Handled["outcome"] | "void" | "repeated"> = []
  let current = loaded.state
  let taken = 0
  let hasKeys = false
  // a call that will be answered later: its server must be there then
  let isLeftOpen = false
  let last: { readonly handled: Handled; readonly item: Queue.Item; readonly input: Acquired["input"] } | undefined
  for (const [index, item] of items.entries()) {
    pace.at = index
    const envelope = envelopeOf(index)
    const message = isMisdirected(server, envelope) ? undefined : read(server, item, envelope)
    if (message === undefined || Result.isFailure(message) && message.failure.isForeign) {
      if (index > 0) break
      const back = yield* stepBack(server, state, pace, item, envelope, message?.failure)
      if (back !== undefined) return back
    }
    if (!pace.mayLock && mayLock(server, envelope)) {
      if (index === 0) return { _tag: "Full" }
      break
    }
    const { timer } = Result.getOrElse(envelope, () => ({ timer: undefined }))
    const key = Result.isSuccess(message!) ? message.success.key : undefined
    const takeBack = timer === undefined && key === undefined ? undefined : runner.mark()
    if (timer !== undefined && !(yield* counts(state, server.keys, timer))) {
      taken++
      outcomes.push("void")
      continue
    }
    if (key !== undefined && Result.isSuccess(message!)) {
      const met = yield* meetItem(server, state, message.success, envelope)
      if (met === "bury" && index > 0) {
        takeBack?.()
        break
      }
      if (met === "bury") return yield* buryKeyed(server, state, item, envelope)
      if (met === "known") {
        taken++
        outcomes.push("repeated")
        continue
      }
      hasKeys = true
    }
    if (index > 0) yield* yieldTurn
    const ran = yield* Effect.catch(
      Effect.catchDefect(
        runItem(server, state, runner, logs, envelope, message!, index, current),
        (defect) => Effect.fail(new Crash(tagsOf(envelope), Cause.die(defect), logs, index))
      ),
      (error) => error.full !== undefined && index > 0 ? Effect.undefined : Effect.fail(error)
    )
    if (ran === undefined) {
      // the mark of its timer too, and its key
      takeBack?.()
      break
    }
    const { handled, input, prepared } = ran
    taken++
    isLeftOpen ||= input.caller !== undefined && handled.answer === undefined && !handled.stopped
    current = handled.state
    actions.push({ id: input.id, span: handled.span, requests: passing(server.definition, handled.actions) })
    durable.push(...prepared)
    outcomes.push(handled.outcome)
    if (handled.stopped || handled.locks || handled.isGone) {
      last = { handled, item, input }
      break
    }
  }
  Queue.take(state, server.keys, items.slice(0, taken))
  const lock = last?.handled.locks ? acquire(server, state, last.input, last.item) : undefined
  const saved = last?.handled.isGone === true
    ? yield* end(server, state, loaded.head, current)
    : yield* Effect.mapError(
      save(
        server,
        state,
        loaded,
        current,
        changeOf(lock, keyedChange(server, loaded.head, hasKeys)),
        lock !== undefined || isLeftOpen
      ),
      (error) => {
        if (error instanceof Unreadable) return error
        const tags = items.slice(0, taken).flatMap((_, index) => tagsOf(envelopeOf(index)))
        return new Crash(tags, Cause.die(error), logs, taken === 1 ? 0 : undefined)
      }
    )
  yield* keep(server, state, durable)
  const rests = lock === undefined && taken === seen &&
    (yield* rest(server, state, pace, items[taken - 1]))
  state.onCommit.push(() => {
    for (const outcome of outcomes) record(server, server.metrics.outcome(outcome), 1)
  })
  // before the answers: who has one finds the lines written, and the handle stopped
  state.onCommit.unshift(() => logs.release())
  if (last?.handled.isGone === true && !server.isHosted) state.onCommit.unshift(() => gone(server))
  if (last?.handled.stopped) state.onCommit.unshift(() => stop(server, show(last.handled.stop)))
  return {
    _tag: "Done",
    state: saved.state,
    actions,
    acquired: lock && { lock, input: last!.input, span: last!.handled.span, ...saved },
    count: taken,
    rests
  }
})

/** What a batch changes of the head beside the state's version. */
const changeOf = (lock: Lock | undefined, keyed: HeadChange | undefined): HeadChange | undefined =>
  lock === undefined ? keyed : { lock, ...keyed }

/** Looks at the key of a message. A call that is not handled is answered, a cast there is no place for is to be buried. */
const meetItem = Effect.fnUntraced(function*(
  server: Server,
  state: TransactionState,
  input: Incoming,
  envelope: Result.Result<Envelopes.Envelope, string>
): Effect.fn.Return<"fresh" | "known" | "bury"> {
  const sent = Result.getOrUndefined(envelope)?.payload
  const met = yield* meet(server, state, { ...input, key: input.key! }, input.id, sent)
  if (met._tag === "Fresh") return "fresh"
  if (met._tag === "TooMany" && input.message.kind !== "call") return "bury"
  const answer = met._tag === "TooMany" ? Answers.tooManyKeys(server.definition.maxKeys) : met.answer
  if (input.caller !== undefined) yield* answerCaller(server.keys, state, input.caller, answer)
  return "known"
})

/** Makes a dead letter of a cast whose key there is no place for. */
const buryKeyed = (
  server: Server,
  state: TransactionState,
  item: Queue.Item,
  envelope: Result.Result<Envelopes.Envelope, string>
): Effect.Effect<Batch> => {
  const { maxKeys } = server.definition
  const id = Result.getOrUndefined(envelope)?.id ?? stampText(item.stamp)
  const died = {
    id,
    message: Envelopes.withId(item.message, id),
    attempts: item.attempts,
    cause: `its key is new, and the server has ${maxKeys} keys already: send it again later, or shorten keyRetention`
  }
  Queue.take(state, server.keys, [item])
  return Effect.as(bury(state, server.keys, died), { _tag: "Again", died })
}

/** What becomes of a first message that is none of this version's (5); `undefined` when it fails like any other. */
const stepBack = (
  server: Server,
  state: TransactionState,
  pace: Pace,
  item: Queue.Item,
  envelope: Result.Result<Envelopes.Envelope, string>,
  unread: Unread | undefined
): Effect.Effect<Batch | undefined> =>
  unread === undefined
    ? Effect.map(
      buryMisdirected(server, state, item, Result.getOrThrow(envelope)),
      (died): Batch => ({ _tag: "Again", died })
    )
    : Effect.map(graceLeft(server, state, pace, item), (left): Batch | undefined =>
      left > 0
        ? { _tag: "Idle", watch: watchKey(state, item.keys[0]!), dueMillis: Math.min(left, pauseOf(pace)), unread }
        : undefined)

/** Whether the handler of a message may ask for the lock. */
const mayLock = (server: Server, envelope: Result.Result<Envelopes.Envelope, string>): boolean =>
  Result.isSuccess(envelope) && server.definition.messages.get(envelope.success.tag)?.locks === true

/**
 * Takes the entry of a hosted server away, whose queue has nothing behind `last`: a push that this transaction does not
 * see makes it conflict. The counters of an empty queue go with the entry. Succeeds with whether the entry is gone.
 */
const rest = (
  server: Server,
  state: TransactionState,
  pace: Pace,
  last: Queue.Item | undefined
): Effect.Effect<boolean> => {
  if (!server.isHosted || !pace.mayRest) return Effect.succeed(false)
  const { keys } = server
  const all = Tuple.range([], keys.items)
  state.addReadConflict({ begin: last === undefined ? all.begin : Keys.next(last.keys.at(-1)!), end: all.end })
  // a timer whose wake-up has come has to be sent first; one that is set meanwhile makes this transaction conflict
  const isDue = Effect.map(state.get(keys.wake), (bytes) => (readWake(bytes) ?? Infinity) <= state.timeMillis)
  return Effect.flatMap(
    isDue,
    (due) =>
      due ? Effect.succeed(false) : Effect.map(takeWork(state, keys.place), (taken) => {
        if (taken) {
          state.clear(keys.push)
          state.clear(keys.pop)
        }
        return taken
      })
  )
}

/** What says of the calls of a batch that they wait, and their keys, up to the message that must be its last. */
const keysToRead = (
  server: Server,
  count: number,
  envelopeOf: (index: number) => Result.Result<Envelopes.Envelope, string>
): ReadonlyArray<Uint8Array> => {
  const keys: Array<Uint8Array> = []
  const envelopes: Array<Envelopes.Envelope> = []
  for (let index = 0; index < count; index++) {
    const envelope = envelopeOf(index)
    if (Result.isFailure(envelope)) break
    envelopes.push(envelope.success)
    const { caller, tag } = envelope.success
    if (caller !== undefined) keys.push(server.keys.waitingKey(caller.millis, caller.instance, caller.id))
    if (server.definition.messages.get(tag)?.locks !== false) break
  }
  return [...keys, ...rowsOf(server, envelopes)]
}

const tagsOf = (envelope: Result.Result<Envelopes.Envelope, string>): ReadonlyArray<string> =>
  Result.isSuccess(envelope) ? [envelope.success.tag] : []

const runItem = Effect.fnUntraced(function*(
  server: Server,
  state: TransactionState,
  runner: PureRunner,
  logs: HeldLogs,
  envelope: Result.Result<Envelopes.Envelope, string>,
  message: Result.Result<Incoming, Unread>,
  index: number,
  current: unknown
) {
  if (index === 0 && Result.isSuccess(envelope)) {
    note(server, { oldestMillis: Math.max(0, state.timeMillis - envelope.success.millis) })
  }
  if (Result.isFailure(message)) {
    return yield* Effect.fail(new Crash(tagsOf(envelope), Cause.die(new Error(message.failure.problem)), logs, index))
  }
  const input = message.success
  const handled = yield* handle(server, runner, logs, input, current, index)
  const prepared = yield* prepare(server, handled, { tag: input.message.tag, logs, index })
  const answer = answerOf(input.message, handled)
  yield* conclude(server, state, input, handled, answer)
  if (input.caller !== undefined && !handled.locks) {
    yield* answer === undefined
      ? leaveOpen(state, server.keys, input.caller)
      : answerCaller(server.keys, state, input.caller, answer)
  }
  return { handled, input, prepared }
})
