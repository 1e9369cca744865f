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
import * as Keys from "../../data/keys.ts"
import * as Envelopes from "../../queue/envelope.ts"
import * as Queue from "../../queue/queue.ts"
import { isBeyondReach, latestTick, type Ticks } from "../../schedules/ticks.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { nameOf, type Server } from "../handling/server.ts"
import type { ServerKeys } from "../kept/layout.ts"
import { ticksOf } from "./options.ts"
import * as Rows from "./rows.ts"
import { moveWake, readWake } from "./setting.ts"

/** Timers that one transaction sends, and the bytes of their messages: what a batch has room for beside a state. */
const SENT_LIMIT = 500
const SENT_LIMIT_BYTES = 1_000_000

/** Rows that one look reads. */
const PAGE_ROWS = 600

/** A tick that is later than this is a missed one, for timers that skip those. */
const LATE_MILLIS = 60_000

/** Rows at the far end that are looked at for times of wrong clocks. */
const FAR_ROWS = 20

/** What a look at the timers came to. */
export interface Looked {
  readonly sent: number
  /** When there will be something to send; `Infinity` when there is no timer. */
  readonly dueMillis: number
  /** What went wrong, to be told after the commit. */
  readonly problems: ReadonlyArray<string>
}

/** Sends what is due. */
export const fire = Effect.fnUntraced(function*(server: Server, state: TransactionState): Effect.fn.Return<Looked> {
  const { keys } = server
  const { begin, end } = Tuple.range([], keys.timers)
  const now = state.timeMillis
  const until = Tuple.pack([Math.floor(now) + 1], keys.timers)
  const found = yield* state.getRange(begin, until, { limit: PAGE_ROWS })
  const problems: Array<string> = []
  let bytes = 0
  let sent = 0
  let handled = 0
  for (const row of Rows.assemble(keys, found, found.length < PAGE_ROWS)) {
    if (handled >= SENT_LIMIT || bytes > SENT_LIMIT_BYTES) break
    handled++
    for (const key of row.keys) state.clear(key)
    const held = row.timer && Rows.decodeHeld(yield* state.get(Rows.idKey(keys, row.timer.id)))
    if (row.timer === undefined || held?.place === undefined || !Tuple.equalsBytes(held.mark, row.timer.mark)) {
      if (row.timer === undefined) problems.push("a timer could not be read and was taken away")
      continue
    }
    bytes += row.timer.message.length
    const ticks = row.timer.recurrence && ticksOf(row.timer.recurrence)
    const tick = tickOf(row.timer, ticks, now)
    if (tick !== undefined) {
      sent++
      send(state, keys, row.timer, tick)
    }
    const next = ticks?.next(now)
    if (next === undefined) finish(state, keys, row.timer, tick !== undefined)
    else yield* again(state, keys, row.timer, next, handled)
    if (row.timer.recurrence !== undefined && ticks === undefined) {
      problems.push(`the schedule of the timer "${row.timer.id}" cannot be followed, it was sent for the last time`)
    }
  }
  if (handled === 0) yield* farOnes(server, state, begin, end, problems)
  if (sent > 0) keys.ring(state)
  const [first] = yield* state.getRange(begin, end, { limit: 1 })
  const dueMillis = first === undefined ? Infinity : Rows.assemble(keys, [first], true)[0]!.due
  if (server.definition.hosted) yield* wake(state, keys, dueMillis)
  return { sent: handled, dueMillis, problems: problems.map((problem) => `${nameOf(server)}: ${problem}`) }
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

/** Begins timers anew that a wrong clock has put too far ahead (3): they lie at the far end. */
const farOnes = (
  server: Server,
  state: TransactionState,
  begin: Uint8Array,
  end: Uint8Array,
  problems: Array<string>
): Effect.Effect<void> =>
  Effect.flatMap(state.getRange(begin, end, { limit: FAR_ROWS, reverse: true, snapshot: true }), (found) =>
    Effect.forEach(Rows.assemble(server.keys, found.toReversed(), true), ({ timer }, index) => {
      const ticks = timer?.recurrence && ticksOf(timer.recurrence)
      if (timer === undefined || ticks === undefined || !isBeyondReach(ticks, timer.due, state.timeMillis)) {
        return Effect.void
      }
      const next = ticks.next(state.timeMillis)
      if (next === undefined) return Effect.void
      return Effect.flatMap(state.get(Rows.idKey(server.keys, timer.id)), (bytes) => {
        if (!Tuple.equalsBytes(Rows.decodeHeld(bytes)?.mark ?? new Uint8Array(0), timer.mark)) return Effect.void
        Rows.clear(state, server.keys, timer)
        problems.push(`the timer "${timer.id}" was set by a clock that was wrong, it begins anew`)
        return again(state, server.keys, timer, next, SENT_LIMIT + index)
      })
    }, { discard: true }))

/** Moves the wake-up of a hosted server to its first timer. */
const wake = (state: TransactionState, keys: ServerKeys, dueMillis: number): Effect.Effect<void> =>
  Effect.map(state.get(keys.wake), (bytes) => {
    const known = readWake(bytes)
    const due = dueMillis === Infinity ? undefined : dueMillis
    if (known !== due) moveWake(state, keys, known, due)
  })

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
    if (held === undefined || Keys.toText(held.mark) !== Keys.toText(mark)) return false
    if (held.place === undefined) state.clear(key)
    return true
  })
}
