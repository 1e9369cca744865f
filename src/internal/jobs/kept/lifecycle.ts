/**
 * The states of a job and the changes between them, as steps of a transaction. An operation that fails has written nothing,
 * so that a transaction may go on after it.
 */
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import { unpackValue } from "../../data/codec.ts"
import type { Trace } from "../../data/trace.ts"
import type { State } from "../definition/layout.ts"
import type { Place } from "../definition/model.ts"
import { touchedOf } from "./lateWrites.ts"
import { countOnCommit } from "./metrics.ts"
import { change, changeAndUnpark, orderNow } from "./places.ts"
import { reportFailure } from "./reports.ts"
import { bodyOf, type Parents, readData, type Row } from "./row.ts"
import { forget, rejoin, tellOfEnd } from "./telling.ts"

const next = (row: Row): Pick<Row, "revision"> => ({ revision: row.revision + 1 })

/** A row in which nobody holds the job. */
const released = (row: Row, state: State): Row => ({ ...row, ...next(row), state, lock: undefined, isParked: false })

/** What a new job's row says. */
export const newRow = (options: {
  readonly data: Uint8Array
  readonly priority: number
  readonly scheduledAt: number
  readonly key: Tuple.Element | undefined
  readonly addedAt: number
  readonly order: number | undefined
  readonly trace: Trace | undefined
}): Row => ({
  state: "pending",
  lock: undefined,
  priority: options.priority,
  scheduledAt: options.scheduledAt,
  isParked: false,
  resubmit: undefined,
  attempts: 0,
  key: options.key,
  addedAt: options.addedAt,
  endedAt: 0,
  revision: 0,
  error: "",
  order: options.order,
  trace: options.trace,
  unreadableSince: undefined,
  silentEnds: 0,
  hasSlot: false,
  parents: undefined,
  family: undefined,
  body: bodyOf(options.data)
})

/** A job begins to run. */
export const start = (place: Place, id: Tuple.Element, row: Row, lock: Uint8Array): Row => {
  const attempts = row.attempts + 1
  const running: Row = {
    ...row,
    ...next(row),
    state: "running",
    lock,
    attempts,
    unreadableSince: undefined,
    hasSlot: false
  }
  change(place, id, row, running)
  return running
}

/** A sign of life, with or without new data for this run. */
export const renew = (
  place: Place,
  id: Tuple.Element,
  row: Row,
  data: Uint8Array | undefined
): Effect.Effect<Row> => {
  touchedOf(place.state).mark(place.keys, id, true)
  if (data === undefined) return Effect.succeed(row)
  return Effect.map(row.body.nextBytes === -1 ? NO_NEXT : readData(place.state, place.keys, id, row), (stored) => {
    const after = { ...row, ...next(row), body: bodyOf(data, stored.next) }
    change(place, id, row, after)
    return after
  })
}

const NO_NEXT = Effect.succeed({ next: undefined as Uint8Array | undefined })

/** The run that a resubmission asked for while the job ran, with its data and its time. */
const nextRun = (place: Place, id: Tuple.Element, row: Row, data: Uint8Array | undefined): Effect.Effect<Row> =>
  Effect.zipWith(
    data !== undefined && row.body.nextBytes === -1 ? NO_NEXT : readData(place.state, place.keys, id, row),
    row.resubmit?.scheduledAt === undefined ? orderNow(place) : Effect.undefined,
    (stored, order) => ({
      ...released(row, "pending"),
      scheduledAt: row.resubmit?.scheduledAt ?? row.scheduledAt,
      order,
      resubmit: undefined,
      attempts: 0,
      error: "",
      silentEnds: 0,
      body: stored.next !== undefined ? bodyOf(stored.next) : data !== undefined ? bodyOf(data) : row.body
    })
  )

/** A run has ended well. Succeeds with the state that the job is in now; without one, it is gone. */
export const complete = (
  place: Place,
  id: Tuple.Element,
  row: Row,
  data: Uint8Array | undefined
): Effect.Effect<State | undefined> => {
  const { model, state } = place
  const counted = countOnCommit(state, model.type, "finished")
  if (row.resubmit !== undefined) {
    return Effect.flatMap(
      Effect.andThen(counted, nextRun(place, id, row, data)),
      (after) => Effect.as(changeAndUnpark(place, id, row, after), "pending" as const)
    )
  }
  const body = data === undefined ? row.body : bodyOf(data)
  const after: Row | undefined = model.retentionMillis === 0 ? undefined : {
    ...released(row, "finished"),
    order: undefined,
    endedAt: state.timeMillis,
    error: "",
    silentEnds: 0,
    family: undefined,
    body
  }
  const told = tellOfEnd(place, id, row, { state: "finished", error: "", body })
  const forgot = after === undefined && row.parents !== undefined ? forget(place, id) : Effect.void
  return Effect.as(
    Effect.andThen(Effect.andThen(counted, told), Effect.andThen(forgot, changeAndUnpark(place, id, row, after))),
    after?.state
  )
}

/** How a run ended that did not end well. */
export interface Failed {
  readonly error: string
  /** When the next attempt is; there is none without it. */
  readonly nextAt: number | undefined
  /** Nobody ended the run: its holder went silent. */
  readonly isSilent?: boolean
}

/** A run has failed: the job waits for its next attempt, or is dead when there is none. */
export const failRun = (place: Place, id: Tuple.Element, row: Row, failed: Failed): Effect.Effect<State> => {
  const { error, isSilent = false, nextAt } = failed
  const silentEnds = isSilent ? row.silentEnds + 1 : 0
  const ended: Effect.Effect<Row> = nextAt !== undefined
    ? Effect.map(
      // a silent end leaves the job where it stood
      isSilent ? Effect.succeed(row.order) : nextAt <= place.state.timeMillis ? orderNow(place) : Effect.undefined,
      (order) => ({ ...released(row, "pending"), scheduledAt: nextAt, order, error, silentEnds })
    )
    // whoever resubmitted it asked for another run, however this one ended
    : row.resubmit !== undefined
    ? nextRun(place, id, row, undefined)
    : Effect.succeed({
      ...released(row, "dead"),
      order: undefined,
      endedAt: place.state.timeMillis,
      error,
      silentEnds,
      family: undefined
    })
  return Effect.flatMap(ended, (after) =>
    Effect.as(
      Effect.andThen(
        Effect.andThen(reportFailure(place, id, row, after, error), changeAndUnpark(place, id, row, after)),
        after.state === "dead" ? tellOfEnd(place, id, row, { state: "dead", error, body: row.body }) : Effect.void
      ),
      after.state
    ))
}

/** The first and the longest pause before a job with data that could not be read is looked at again. */
const UNREAD_PAUSE_MIN_MILLIS = 1_000
const UNREAD_PAUSE_MAX_MILLIS = 30_000

/**
 * The data of a pending job cannot be read by the version at hand. Another one may be able to: the job waits for it, with
 * growing pauses, until the grace of its type is over since the first meeting, and is dead then.
 */
export const putOff = (place: Place, id: Tuple.Element, row: Row, error: string): Effect.Effect<unknown> => {
  const { model, state: { timeMillis } } = place
  const since = row.unreadableSince ?? timeMillis
  const waited = timeMillis - since
  if (waited >= model.unreadableGraceMillis) {
    return failRun(place, id, { ...row, unreadableSince: undefined }, { error, nextAt: undefined })
  }
  const pause = Math.min(UNREAD_PAUSE_MAX_MILLIS, Math.max(UNREAD_PAUSE_MIN_MILLIS, waited))
  const scheduledAt = timeMillis + Math.min(pause, Math.ceil(model.unreadableGraceMillis - waited))
  change(place, id, row, { ...row, scheduledAt, order: undefined, unreadableSince: since, error })
  return Effect.void
}

/** A holder gives its job back: it is pending at once, where it stood, and the attempt does not count. */
export const handBack = (place: Place, id: Tuple.Element, row: Row): Effect.Effect<void> =>
  changeAndUnpark(place, id, row, {
    ...released(row, "pending"),
    attempts: Math.max(0, row.attempts - 1),
    hasSlot: row.key !== undefined && place.model.rateLimitPerKey !== undefined
  })

/** A holder was silent for too long: the attempt counts, the job is pending at once if it has another one. */
export const expire = (place: Place, id: Tuple.Element, row: Row, hasNext: boolean): Effect.Effect<State> => {
  touchedOf(place.state).ring(place.keys.revokedBell)
  const error = `its holder gave no sign of life for the type's timeout (attempt ${row.attempts})`
  return failRun(place, id, row, { error, nextAt: hasNext ? row.scheduledAt : undefined, isSilent: true })
}

/** A pending job has another priority or key, and its place in the queue follows. */
export const moveTo = (
  place: Place,
  id: Tuple.Element,
  row: Row,
  to: Pick<Row, "priority" | "key">
): Effect.Effect<void> => {
  const isSameKey = to.key === row.key
  const after: Row = {
    ...row,
    ...next(row),
    ...to,
    isParked: row.isParked && isSameKey,
    hasSlot: row.hasSlot && isSameKey
  }
  // a parked job of the old key has no more chance than before: this one held no place
  return Effect.sync(() => change(place, id, row, after))
}

interface Asked {
  readonly scheduledAt: number | undefined
  readonly data: Uint8Array | undefined
}

/** Whether all that is asked for has been asked for before. */
const isAsked = (place: Place, id: Tuple.Element, row: Row, { data, scheduledAt }: Asked): Effect.Effect<boolean> => {
  const isRunning = row.state === "running"
  const asked = isRunning ? row.resubmit : row.state === "pending" ? row : undefined
  if (asked === undefined || (scheduledAt !== undefined && asked.scheduledAt !== scheduledAt)) {
    return Effect.succeed(false)
  }
  if (data === undefined) return Effect.succeed(true)
  if ((isRunning ? row.body.nextBytes : row.body.dataBytes) !== data.length) return Effect.succeed(false)
  return Effect.map(readData(place.state, place.keys, id, row), (stored) => {
    const before = isRunning ? stored.next : stored.data
    return before !== undefined && (Tuple.equalsBytes(before, data) || isSameData(before, data))
  })
}

/** Whether packed data says the same, in whatever order its properties were written. */
const isSameData = (a: Uint8Array, b: Uint8Array): boolean => {
  const [first, second] = [unpackValue(a), unpackValue(b)]
  return Result.isSuccess(first) && Result.isSuccess(second) && Equal.equals(first.success, second.success)
}

/** Another run is asked for: at once or at its time if the job does not run, after this run if it does (rule J5). */
export const askAgain = (place: Place, id: Tuple.Element, row: Row, asked: Asked): Effect.Effect<Row> =>
  Effect.flatMap(
    isAsked(place, id, row, asked),
    (isThere) => isThere ? Effect.succeed(row) : askAnew(place, id, row, asked)
  )

const askAnew = (place: Place, id: Tuple.Element, row: Row, options: Asked): Effect.Effect<Row> => {
  const { data, scheduledAt } = options
  if (row.state === "running") {
    return Effect.map(
      data === undefined ? Effect.undefined : readData(place.state, place.keys, id, row),
      (stored) => {
        const after: Row = {
          ...row,
          resubmit: { scheduledAt: scheduledAt ?? row.resubmit?.scheduledAt },
          body: stored === undefined ? row.body : bodyOf(stored.data, data)
        }
        change(place, id, row, after)
        return after
      }
    )
  }
  const isPending = row.state === "pending"
  // with other data there is no reason any more to wait for who can read it
  const isUnread = data !== undefined && row.unreadableSince !== undefined
  const keepsTime = isPending && !isUnread && (scheduledAt ?? row.scheduledAt) === row.scheduledAt
  const order = keepsTime ? Effect.succeed(row.order) : scheduledAt === undefined ? orderNow(place) : Effect.undefined
  const parents = isPending || row.parents === undefined
    ? Effect.succeed(row.parents)
    : rejoin(place, id, row.parents)
  const asked = (order: number | undefined, parents: Parents | undefined): Row => ({
    ...released(row, "pending"),
    order,
    isParked: keepsTime && row.isParked,
    scheduledAt: scheduledAt ?? (isPending && !isUnread ? row.scheduledAt : place.state.timeMillis),
    attempts: isPending ? row.attempts : 0,
    endedAt: 0,
    error: isPending && !isUnread ? row.error : "",
    unreadableSince: isPending && !isUnread ? row.unreadableSince : undefined,
    silentEnds: isPending ? row.silentEnds : 0,
    hasSlot: isPending && row.hasSlot && scheduledAt === undefined,
    parents,
    body: data === undefined ? row.body : bodyOf(data)
  })
  return Effect.flatMap(Effect.zip(order, parents), ([now, parents]) => {
    const after = asked(now, parents)
    return Effect.as(changeAndUnpark(place, id, row, after), after)
  })
}
