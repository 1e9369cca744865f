/**
 * Sending the messages of timers that are due, within a transaction of who runs the server.
 *
 * 1. The transaction that sends a timer's message takes the timer away, or writes its next time: each firing is sent once,
 *    whoever dies when (rule T1).
 * 2. Timers are sent in the order of their times, behind what the queue has already, so many in one transaction (rule T4).
 * 3. Of missed ticks the latest one is sent, or none (rule T5). A timer that comes again and lies further ahead than it can
 *    reach was set by a wrong clock: it begins anew.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import { logWarning } from "../../observing/logging.ts"
import * as Envelopes from "../../queue/envelope.ts"
import * as Queue from "../../queue/queue.ts"
import { isBeyondReach, latestTick, type Ticks } from "../../schedules/ticks.ts"
import type { TransactionState } from "../../transactions/state.ts"
import type { Server } from "../handling/server.ts"
import { moveWake, readWake } from "../kept/indexes.ts"
import { sweep } from "../kept/keyed.ts"
import type { ServerKeys } from "../kept/layout.ts"
import { ticksOf } from "./options.ts"
import * as Rows from "./rows.ts"

/** Timers that one transaction sends, and the bytes of their messages: what a batch has room for beside a state. */
const SENT_LIMIT = 500
const SENT_LIMIT_BYTES = 1_000_000

/** What a key that is taken away counts in its transaction. */
const SWEPT_BYTES = 2_000

/** Rows that the first read of a look asks for: most servers have fewer, and need no other. */
const FIRST_ROWS = 4

/** Rows that a look reads where there are more. */
const PAGE_ROWS = 600

/** A tick that is later than this is a missed one, for timers that skip those. */
const LATE_MILLIS = 60_000

/** Rows at the far end that are looked at for times of wrong clocks. */
const FAR_ROWS = 20

/** What a look at the timers came to. */
export interface Looked {
  /** How many it sent, or took away. */
  readonly done: number
  /** About how many bytes it writes. */
  readonly bytes: number
  /** When there will be something to send; `Infinity` when there is no timer. */
  readonly dueMillis: number
  /** When there will be a key to take away. */
  readonly keysDueMillis: number
}

/** The first timer of a server, as far as one row says what it is. */
export const firstTimer = (state: TransactionState, keys: ServerKeys): Effect.Effect<Rows.Row | undefined> => {
  const { begin, end } = Tuple.range([], keys.timers)
  return Effect.map(state.getRange(begin, end, { limit: 1 }), (rows) => Rows.assemble(keys, rows, true)[0])
}

const firstDue = (state: TransactionState, keys: ServerKeys): Effect.Effect<number> =>
  Effect.map(firstTimer(state, keys), (row) => row === undefined ? Infinity : row.due)

/** The first timers of a server; all of them where they are few. */
interface First {
  readonly rows: ReadonlyArray<Rows.Row>
  readonly areAll: boolean
}

const firstTimers = (state: TransactionState, keys: ServerKeys): Effect.Effect<First> => {
  const { begin, end } = Tuple.range([], keys.timers)
  return Effect.map(
    state.getRange(begin, end, { limit: FIRST_ROWS }),
    (rows) => ({ rows: Rows.assemble(keys, rows, true), areAll: rows.length < FIRST_ROWS })
  )
}

/**
 * Sends what is due, and says when there will be something. Keys of messages whose time is over go at the same look: of a
 * started server when its head says that it has met some (`isKeyed`), of a hosted one when the index wakes it for more than
 * its timers.
 */
export const fire = Effect.fnUntraced(function*(
  server: Pick<Server, "definition" | "keys" | "name">,
  state: TransactionState,
  isKeyed: boolean
): Effect.fn.Return<Looked> {
  const { keys } = server
  const problems: Array<string> = []
  const found = yield* firstTimers(state, keys)
  const first = found.rows[0]?.due ?? Infinity
  const { bytes, done, dueMillis: left } = first <= state.timeMillis
    ? yield* sendDue(state, keys, found, problems)
    : { bytes: 0, done: 0, dueMillis: first }
  const isOther = done === 0 && first < Infinity && (yield* farOnes(server, state, problems))
  const dueMillis = isOther || left === undefined ? yield* firstDue(state, keys) : left
  const { hosted } = server.definition
  const known = hosted ? readWake(yield* state.get(keys.wake)) : undefined
  const looks = hosted ? known !== undefined && (known !== dueMillis || done > 0) : isKeyed
  const swept = looks ? yield* sweep(state, keys) : { done: 0, dueMillis: Infinity }
  if (hosted) wake(state, keys, known, Math.min(dueMillis, swept.dueMillis))
  for (const problem of problems) {
    yield* logWarning(`${server.name}: ${problem}`)
  }
  return {
    bytes: bytes + swept.done * SWEPT_BYTES,
    done: done + swept.done,
    dueMillis,
    keysDueMillis: swept.dueMillis
  }
})

/** The timers that are due, as many as one look reads. */
const dueTimers = (state: TransactionState, keys: ServerKeys, { areAll, rows }: First) => {
  const now = state.timeMillis
  if (areAll) return Effect.succeed(rows.filter(({ due }) => due <= now))
  const { begin } = Tuple.range([], keys.timers)
  const until = Tuple.pack([Math.floor(now) + 1], keys.timers)
  return Effect.map(
    state.getRange(begin, until, { limit: PAGE_ROWS }),
    (found) => Rows.assemble(keys, found, found.length < PAGE_ROWS)
  )
}

/** What was sent, and when the next timer is due; `undefined` where that has to be read. */
type Sent = Pick<Looked, "bytes" | "done"> & { readonly dueMillis: number | undefined }

/** Sends the first of the timers that are due. */
const sendDue = Effect.fnUntraced(function*(
  state: TransactionState,
  keys: ServerKeys,
  first: First,
  problems: Array<string>
): Effect.fn.Return<Sent> {
  const now = state.timeMillis
  let bytes = 0
  let sent = 0
  let done = 0
  let dueMillis = first.rows.find(({ due }) => due > now)?.due ?? Infinity
  let isAll = first.areAll
  for (const { keys: pieces, timer } of yield* dueTimers(state, keys, first)) {
    if (done >= SENT_LIMIT || bytes > SENT_LIMIT_BYTES) {
      isAll = false
      break
    }
    done++
    for (const key of pieces) state.clear(key)
    if (timer === undefined) {
      problems.push("a timer could not be read and was taken away")
      continue
    }
    const held = Rows.decodeHeld(yield* state.get(Rows.idKey(keys, timer.id)))
    if (held?.place === undefined || !Tuple.equalsBytes(held.mark, timer.mark)) continue
    bytes += timer.message.length
    const ticks = timer.recurrence && ticksOf(timer.recurrence)
    if (timer.recurrence !== undefined && ticks === undefined) {
      problems.push(`the schedule of the timer "${timer.id}" cannot be followed, it is sent for the last time`)
    }
    const tick = tickOf(timer, ticks, now)
    if (tick !== undefined) {
      sent++
      send(state, keys, timer, tick)
    }
    const next = ticks?.next(now)
    if (next === undefined) {
      finish(state, keys, timer, tick !== undefined)
      continue
    }
    yield* again(state, keys, timer, next, done)
    dueMillis = Math.min(dueMillis, next)
  }
  if (sent > 0) keys.ring(state)
  return { bytes, done, dueMillis: isAll ? dueMillis : undefined }
})

/** The tick that a due timer is sent for; `undefined` when all that it missed are skipped. */
const tickOf = (timer: Rows.Timer, ticks: Ticks | undefined, now: number): number | undefined => {
  if (timer.recurrence === undefined || ticks === undefined) return timer.due
  const latest = Math.max(timer.due, latestTick(ticks, now, Math.max(1_000, now - timer.due)) ?? timer.due)
  return timer.recurrence.missed === "skip" && now - latest > LATE_MILLIS ? undefined : latest
}

/** Puts the message of a timer into the queue. */
const send = (state: TransactionState, keys: ServerKeys, timer: Rows.Timer, due: number): void => {
  const sent = { timer: { id: timer.id, due, mark: timer.mark }, millis: state.timeMillis }
  const message = Result.match(Envelopes.decode(timer.message), {
    // nobody can read it: it ends like any such message
    onFailure: () => timer.message,
    onSuccess: (envelope) => Envelopes.encode({ ...envelope, ...sent })
  })
  Queue.push(state, keys, message)
}

/** A timer has sent its last message: its mark stays until that is handled. */
const finish = (state: TransactionState, keys: ServerKeys, { id, mark }: Rows.Timer, isSent: boolean): void => {
  state.add(keys.timerCount, Counters.MINUS_ONE)
  const key = Rows.idKey(keys, id)
  if (isSent) state.set(key, Rows.encodeHeld({ mark, place: undefined }))
  else state.clear(key)
}

/** Writes the next time of a timer that comes again, with the mark that it has. */
const again = (
  state: TransactionState,
  keys: ServerKeys,
  timer: Rows.Timer,
  due: number,
  index: number
): Effect.Effect<void> =>
  Effect.map(state.readVersion, (version) => {
    const place = { due, version, index }
    Rows.write(state, keys, { ...timer, ...place })
    state.set(Rows.idKey(keys, timer.id), Rows.encodeHeld({ mark: timer.mark, place }))
  })

/** A timer that comes again, and the ticks that it has. */
interface Recurring {
  readonly timer: Rows.Timer
  readonly ticks: Ticks
}

/** The timers at the far end that a wrong clock has put further ahead than they can reach (3). */
export const beyondReach = (
  state: TransactionState,
  keys: ServerKeys
): Effect.Effect<ReadonlyArray<Recurring>> => {
  const { begin, end } = Tuple.range([], keys.timers)
  return Effect.map(
    state.getRange(begin, end, { limit: FAR_ROWS, reverse: true, snapshot: true }),
    (found) =>
      Rows.assemble(keys, found.toReversed(), true).flatMap(({ timer }) => {
        const ticks = timer?.recurrence && ticksOf(timer.recurrence)
        const isBeyond = ticks !== undefined && isBeyondReach(ticks, timer!.due, state.timeMillis)
        return isBeyond ? [{ timer: timer!, ticks }] : []
      })
  )
}

/** Begins timers anew that a wrong clock has put too far ahead (3). Succeeds with whether it did. */
const farOnes = Effect.fnUntraced(function*(
  { keys }: Pick<Server, "keys">,
  state: TransactionState,
  problems: Array<string>
): Effect.fn.Return<boolean> {
  let isOther = false
  for (const [index, { ticks, timer }] of (yield* beyondReach(state, keys)).entries()) {
    const next = ticks.next(state.timeMillis)
    const held = Rows.decodeHeld(yield* state.get(Rows.idKey(keys, timer.id)))
    if (next === undefined || held === undefined || !Tuple.equalsBytes(held.mark, timer.mark)) continue
    Rows.clear(state, keys, timer, timer.mark)
    yield* again(state, keys, timer, next, SENT_LIMIT + index)
    problems.push(`the timer "${timer.id}" was set by a clock that was wrong, it begins anew`)
    isOther = true
  }
  return isOther
})

/** Moves the wake-up of a hosted server to its first timer, or the end of its first key. */
const wake = (state: TransactionState, keys: ServerKeys, known: number | undefined, dueMillis: number): void => {
  const due = dueMillis === Infinity ? undefined : dueMillis
  if (known !== due) moveWake(state, keys, known, due)
}

/**
 * Whether a timer's message still counts: its timer has not been set again or cancelled since it was sent (rule T3). The
 * mark of a timer that comes no more goes with it.
 */
export const counts = (
  state: TransactionState,
  keys: ServerKeys,
  { id, mark }: NonNullable<Envelopes.Envelope["timer"]>
): Effect.Effect<boolean> => {
  // its handling has begun before: what was under a lock is not void
  if (mark === undefined) return Effect.succeed(true)
  const key = Rows.idKey(keys, id)
  return Effect.map(state.get(key), (bytes) => {
    const held = Rows.decodeHeld(bytes)
    if (held === undefined || !Tuple.equalsBytes(held.mark, mark)) return false
    if (held.place === undefined) state.clear(key)
    return true
  })
}
