/**
 * Jobs that are added at the ticks of a cron expression.
 *
 * Owner: one fiber a layer; any number of processes can run the same schedule. A row of the store (row.ts) keeps what the
 * schedule has seen to.
 *
 * 1. Who handles ticks reads the row and writes it in the transaction that adds the jobs: a tick is handled at most once,
 *    in whatever process.
 * 2. A schedule begins now, and nothing before is missed, when the store does not know it, when another expression or
 *    zone wrote the row, when nobody ran it for its `restLimit`, and when the row's next tick lies further ahead than the
 *    schedule can reach: then a clock was wrong.
 * 3. A process that has run the schedule goes on from what it has seen to itself where another expression has written the
 *    row, or a clock that was wrong, or where the row is damaged: while a deploy replaces one process after the other, both
 *    expressions have their ticks, and one process with a wrong clock takes none from the others. A tick that the row says
 *    is seen to has no second job for it.
 * 4. A tick is missed when nobody handled it before the next one, or within `LATE_LIMIT_MILLIS`. The schedule's policy
 *    says what happens then.
 * 5. A tick whose data cannot be had gets no job, and is told of in the log. It keeps no other tick from its job.
 * 6. A row that was removed under a process that runs the schedule is not written again by it: the schedule rests until
 *    a layer of its name is started.
 */
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import { logError, logWarning } from "../../observing/logging.ts"
import { keepRunning } from "../../observing/unforeseen.ts"
import {
  CLOCK_DIFFERENCE_MILLIS,
  isBeyondReach,
  latestTick,
  startOfLatest,
  ticksBetween
} from "../../schedules/ticks.ts"
import { transact } from "../../transactions/loop.ts"
import { type Hub, usedHub } from "../background/hub.ts"
import { Bell, type Seen } from "../background/sharedWatch.ts"
import { clockShows } from "../background/time.ts"
import { type InvalidOption, render } from "../definition/errors.ts"
import { type Model, optionsOf, type Place } from "../definition/model.ts"
import { addTo } from "../operations/operations.ts"
import { type CronOptions, type Plan, planOf } from "./plan.ts"
import * as Row from "./row.ts"

/** A tick that is handled so late counts as missed: longer than a restart takes, shorter than most schedules' steps. */
const LATE_LIMIT_MILLIS = 60_000

/** Ticks that one transaction handles; the next one goes on. */
const TICKS_LIMIT = 100

const PAUSE_MILLIS = 1_000

/** So often the row says that a process runs the schedule, and more often where little rest makes it begin anew. */
const SEEN_MILLIS = 12 * 3_600_000
const SEEN_PER_REST = 4
const SEEN_LEAST_MILLIS = 60_000
/** Who runs it and has not said so for so many times as long has not run it. */
const SEEN_TOLERANCE = 2

const seenEvery = ({ restLimitMillis }: Plan): number =>
  Math.max(SEEN_LEAST_MILLIS, Math.min(SEEN_MILLIS, restLimitMillis / SEEN_PER_REST))

/** What a fiber remembers of its last turn. */
interface Memory {
  /** What it has seen to; `undefined` before its first turn. */
  readonly handledMillis: number | undefined
  /** The last turn left ticks for the next one: they are not missed anew. */
  readonly isCatchingUp: boolean
}

/** Something that the log is told of once the turn is committed. */
interface Note {
  readonly text: string
  readonly cause?: Cause.Cause<unknown> | undefined
  readonly isError?: boolean
}

interface Turn extends Memory {
  /** When the fiber has something to do. */
  readonly wakeAtMillis: number
  readonly notes: ReadonlyArray<Note>
  readonly seen: Seen
}

const iso = (millis: number): string => DateTime.formatIso(DateTime.makeUnsafe(millis))

/** From where the ticks are to be seen to (2, 3), and what is to be told of it. */
const beginning = (
  plan: Plan,
  row: Row.Row | "damaged" | undefined,
  { handledMillis }: Memory,
  now: number
): { readonly from: number; readonly note?: string } => {
  if (row === undefined) return { from: now }
  const own = Math.min(handledMillis ?? now, now)
  if (row === "damaged") return { from: own, note: "begins anew: what was written of it cannot be read" }
  if (row.identity !== plan.identity) {
    return handledMillis === undefined
      ? { from: now, note: `begins now: it was ${row.expression} (${row.timeZone}) before` }
      : { from: own }
  }
  // while a schedule is paused, and after that, its next tick says nothing
  if (row.isPaused) return { from: now }
  const furthest = Math.max(row.handledMillis, row.nextMillis ?? -Infinity)
  if (isBeyondReach(plan.ticks, furthest, now)) {
    const problem = `its next tick was said to be ${iso(furthest)}, which it cannot reach from ${iso(now)}`
    return { from: own, note: `begins now: ${problem}, so a clock was wrong` }
  }
  // also for who ran it all the time, as far as it knows: its machine slept, or its clock was set
  const least = handledMillis === undefined ? 0 : SEEN_TOLERANCE * seenEvery(plan)
  if (now - row.seenMillis > Math.max(least, restLimit(plan, row))) {
    return { from: now, note: `begins now: no process ran it since ${iso(row.seenMillis)}` }
  }
  // somebody whose clock is behind has let it begin now
  const isAnew = row.nextMillis === undefined && handledMillis !== undefined
  return { from: isAnew && now - row.handledMillis > CLOCK_DIFFERENCE_MILLIS ? now : row.handledMillis }
}

const restLimit = ({ restLimitMillis, ticks }: Plan, { handledMillis }: Row.Row): number => {
  const first = ticks.next(handledMillis)
  const second = first === undefined ? undefined : ticks.next(first)
  return Math.max(restLimitMillis, second === undefined ? 0 : 2 * (second - first!))
}

interface Chosen {
  /** The ticks that get a job. */
  readonly ticks: ReadonlyArray<number>
  readonly handledMillis: number
  readonly isCut: boolean
  readonly note?: string
}

/** Which ticks get a job (4), and up to where all are seen to. */
const chosen = Effect.fnUntraced(function*(
  plan: Plan,
  from: number,
  now: number,
  isCatchingUp: boolean
): Effect.fn.Return<Chosen> {
  if (plan.missed === "all") {
    const start = isCatchingUp ? from : yield* startOfLatest(plan.ticks, from, now, plan.missedLimit)
    const ticks = ticksBetween(plan.ticks, start, now, TICKS_LIMIT)
    const left = `ticks up to ${iso(start)} are left out: only the latest ${plan.missedLimit} of those that were missed`
    return {
      ticks,
      handledMillis: ticks.at(-1) ?? start,
      isCut: ticks.length === TICKS_LIMIT,
      ...start === from ? {} : { note: `${left} are made up for` }
    }
  }
  const latest = latestTick(plan.ticks, now)
  if (latest === undefined || latest <= from) return { ticks: [], handledMillis: from, isCut: false }
  const isLate = now - latest > LATE_LIMIT_MILLIS
  return { ticks: isLate && plan.missed === "skip" ? [] : [latest], handledMillis: latest, isCut: false }
})

/** Adds the job of a tick, or tells why there is none (5). */
const addJob = (place: Place, plan: Plan, tick: number): Effect.Effect<Note | undefined> => {
  const failed = (cause: Cause.Cause<unknown>): Note => ({
    text: `has no job for its tick ${tick} (${iso(tick)}): its data could not be had`,
    cause,
    isError: true
  })
  const data = Result.try({ try: () => plan.dataOf(tick), catch: (defect) => defect })
  if (Result.isFailure(data)) return Effect.succeed(failed(Cause.die(data.failure)))
  const added = addTo(place, [plan.name, tick], data.success, { priority: plan.priority, ifExists: "ignore" })
  return Effect.match(added, { onFailure: (error) => failed(Cause.fail(error)), onSuccess: () => undefined })
}

/** One transaction: handles what is due. */
const turn = Effect.fnUntraced(function*(place: Place, plan: Plan, memory: Memory, seen: Seen) {
  const now = place.state.timeMillis
  const stored = yield* Row.read(place, plan.name)
  const isFirst = memory.handledMillis === undefined
  // a row that is gone was removed (6)
  if (stored === undefined && !isFirst) return { ...memory, wakeAtMillis: now + seenEvery(plan), notes: [], seen }
  const { from, note } = beginning(plan, stored, memory, now)
  const row = stored === "damaged" ? undefined : stored
  const isPaused = row?.isPaused === true
  const due: Chosen = isPaused
    ? { ticks: [], handledMillis: from, isCut: false }
    : yield* chosen(plan, from, now, memory.isCatchingUp)
  const notes: Array<Note> = [note, due.note].flatMap((text) => text === undefined ? [] : [{ text }])
  const requests = row?.requests ?? []
  const isSeenTo = (tick: number) => tick === row?.lastMillis && tick <= row.handledMillis
  for (const tick of [...requests, ...due.ticks.filter((tick) => !isSeenTo(tick))]) {
    const failed = yield* addJob(place, plan, tick)
    if (failed !== undefined) notes.push(failed)
  }
  const nextMillis = plan.ticks.next(due.isCut ? due.handledMillis : Math.max(due.handledMillis, now))
  if (row === undefined || isNews(plan, row, isFirst, due, from, now)) {
    Row.write(place, plan.name, {
      identity: plan.identity,
      expression: plan.text,
      timeZone: plan.timeZone,
      handledMillis: due.handledMillis,
      lastMillis: due.ticks.at(-1) ?? row?.lastMillis,
      nextMillis,
      seenMillis: now,
      isPaused,
      requests: []
    })
  }
  const wakeAtMillis = Math.min(now + seenEvery(plan), isPaused ? Infinity : nextMillis ?? Infinity)
  return { handledMillis: due.handledMillis, isCatchingUp: due.isCut, wakeAtMillis, notes, seen }
})

/** Whether a turn has something to write. What another expression wrote stays until there is something to handle (3). */
const isNews = (plan: Plan, row: Row.Row, isFirst: boolean, due: Chosen, from: number, now: number): boolean => {
  if (row.requests.length > 0) return true
  if (row.identity !== plan.identity) return isFirst || due.handledMillis !== from
  if (Math.abs(now - row.seenMillis) >= seenEvery(plan)) return true
  return !row.isPaused && (due.handledMillis !== row.handledMillis || row.nextMillis === undefined)
}

const bells = new WeakMap<Hub, Bell>()

/** The bell of a type's schedules, made when the first one is run. */
const bellOf = (hub: Hub): Bell => {
  let bell = bells.get(hub)
  if (bell === undefined) {
    bell = new Bell(hub.tenant, hub.tenant.scope, hub.keys.schedulesBell)
    bells.set(hub, bell)
    hub.bells.push(bell)
  }
  return bell
}

/** Runs a schedule for ever. */
const runCron = (hub: Hub, model: Model, plan: Plan): Effect.Effect<never> => {
  const bell = bellOf(hub)
  const named = `jobs of type ${render(model.type)}: the schedule ${render(plan.name)}`
  let memory: Memory = { handledMillis: undefined, isCatchingUp: false }
  const told = ({ cause, isError, text }: Note) => (isError === true ? logError : logWarning)(`${named} ${text}`, cause)
  const step = Effect.suspend(() => {
    const see = bell.see()
    const body = Effect.flatMap(Transaction, (state) =>
      Effect.flatMap(
        state.get(hub.keys.schedulesBell, true),
        (value) => turn({ model, state, keys: hub.keys }, plan, memory, see(value))
      ))
    return transact(hub.tenant, body)
  })
  const rest = ({ isCatchingUp, seen, wakeAtMillis }: Turn) =>
    isCatchingUp ? Effect.void : Effect.raceFirst(clockShows(wakeAtMillis), bell.changed(seen))
  const turned = Effect.flatMap(step, (done: Turn) => {
    memory = done
    return Effect.andThen(Effect.forEach(done.notes, told, { discard: true }), rest(done))
  })
  return Effect.forever(
    Effect.catchCause(
      turned,
      (cause) => Effect.andThen(logError(`${named} failed, trying again`, cause), Effect.sleep(PAUSE_MILLIS))
    )
  )
}

export const cronLayer = (
  model: Model,
  name: string,
  input: CronOptions<any>
): Layer.Layer<never, InvalidOption, Tenant> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const hub = yield* usedHub(model)
    const options = yield* optionsOf(model, input)
    const plan = yield* Effect.fromResult(planOf(model, name, options))
    yield* Effect.forkScoped(Effect.interruptible(
      keepRunning("jobs", `jobs of type ${render(model.type)}: the schedule ${render(name)}`, runCron(hub, model, plan))
    ))
  }))
