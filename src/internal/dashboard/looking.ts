/** What the page shows, from what `Inspect` says: bounded pages, values as texts. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Inspect from "../../Inspect.ts"
import { Tenant, transact } from "../../Tenant.ts"
import type * as Tuple from "../../Tuple.ts"
import { walked } from "../inspect/servers.ts"
import { type Bounds, gathered, Pace, type Page } from "../inspect/walking.ts"
import { isState } from "../jobs/definition/layout.ts"
import type { Asked } from "./asking.ts"
import type { Failure } from "./failing.ts"
import { Refused } from "./gate.ts"
import type {
  DeadLetter,
  JobRow,
  JobsPage,
  JobTypeRow,
  Message,
  SchedulesPage,
  ServerList,
  ServerPage,
  ServerRow,
  ServersPage
} from "./wire.ts"

/** Rows of one page, messages of a server's page. */
const PAGE = { limit: 50, look: 1_000, millis: 2_000 }
const MESSAGES_LIMIT = 25
const TIMERS_LIMIT = 100
const JOBS_LIMIT = 50
const TYPES_LIMIT = 200

/** Whether values are shown of which nothing in the tenant says what is redacted. */
export interface Showing {
  readonly values: boolean
}

const WORDS: { readonly [reason in Inspect.StuckReason]: string } = {
  oldQueue: "old messages",
  longLock: "locked for long",
  crashing: "crashing",
  unreadable: "unreadable message",
  deadLetters: "dead letters",
  damaged: "damaged"
}

export const rowOf = (row: Inspect.ServerRow): ServerRow => ({
  tuid: row.tuid.text,
  definition: row.server ?? "",
  waiting: row.queueLength,
  oldestAt: row.oldestAt,
  attempts: row.attempts,
  lockedAt: row.lock?.since,
  dead: row.deadLetters,
  timers: row.timers,
  problems: row.stuck.map((reason) => WORDS[reason])
})

const jsonOf = (value: unknown): string =>
  JSON.stringify(value, (_key, one) => typeof one === "bigint" ? String(one) : one, 2) ?? "undefined"

/** A stored value as a text; what is hidden says why. */
const textOf = (value: Inspect.Value): string => {
  switch (value._tag) {
    case "Shown":
      return `${jsonOf(value.value)}${value.isCut ? `\n… the whole has ${value.bytes} bytes` : ""}`
    case "Hidden":
      return `hidden, ${value.bytes} bytes: ${value.reason}`
    case "Unreadable":
      return `unreadable, ${value.bytes} bytes: ${value.problem}`
    case "TooLarge":
      return `too large to be shown: ${value.bytes} bytes`
  }
}

const messageOf = (row: Inspect.MessageRow): Message => ({
  id: row.id,
  tag: row.tag,
  attempts: row.attempts,
  at: row.sentAt,
  payload: textOf(row.payload)
})

const letterOf = (row: Inspect.DeadLetterRow): DeadLetter => ({ ...messageOf(row), at: row.diedAt, cause: row.cause })

const SECOND_MILLIS = 1000

const againOf = (recurrence: Inspect.TimerRow["recurrence"]): string =>
  recurrence === undefined
    ? ""
    : "cron" in recurrence
    ? `${recurrence.cron} ${recurrence.timeZone}`
    : `every ${recurrence.everyMillis / SECOND_MILLIS} s`

/** The first elements of tuids, of what somebody typed: a tuple, one element, or a word without its quotes. */
const prefixOf = (text: string | undefined): Tuple.Tuple | undefined => {
  if (text === undefined || text.trim() === "") return undefined
  // an array that is not closed yet
  const parsed = [text, `${text}]`].map(Inspect.parseElement).find(Result.isSuccess)
  if (parsed === undefined) return [text]
  return Array.isArray(parsed.success) ? parsed.success : [parsed.success]
}

/** A page of servers, in transactions as short as the store needs them. */
export const serversIn = Effect.fnUntraced(function*(
  options: Inspect.ServerOptions,
  bounds: Bounds,
  pace = new Pace(TOGETHER)
): Effect.fn.Return<Page<Inspect.ServerRow>, Failure, Tenant> {
  const tenant = yield* Tenant
  return yield* gathered(tenant, pace, walked(options), { ...bounds, after: options.after })
})

/** So many servers one transaction looks at, where nobody else writes. */
export const TOGETHER = 50

/** A page of servers. */
export const servers = (
  { text }: Asked,
  definitions: ReadonlyArray<string>
): Effect.Effect<ServersPage, Failure, Tenant> =>
  Effect.gen(function*() {
    const page = yield* serversIn({
      server: text("definition"),
      prefix: prefixOf(text("prefix")),
      stuck: text("stuck") === "1",
      after: text("after")
    }, PAGE)
    return {
      now: yield* Clock.currentTimeMillis,
      rows: page.rows.map(rowOf),
      next: page.next,
      looked: page.looked,
      definitions
    }
  })

const NO_RECORD =
  "Values are hidden, and nothing can be cast, requeued or unlocked: the tenant has no record of this " +
  "definition yet. A program with this version of effect-dgen writes one when it starts or hosts a server of it."

/** A server's page. */
export const server = (
  { text, tuid }: Asked,
  showing: Showing
): Effect.Effect<ServerPage, Failure | Refused, Tenant> =>
  Effect.gen(function*() {
    if (tuid === undefined) {
      return yield* new Refused({ status: 400, message: "Which server? Its \"tuid\" is missing." })
    }
    const page = (list: ServerList, limit: number) => ({ ...showing, limit, after: text(list) })
    const [one, queue, letters, timers] = yield* transact(Effect.all([
      Inspect.server(tuid, showing),
      Inspect.queue(tuid, page("queue", MESSAGES_LIMIT)),
      Inspect.deadLetters(tuid, page("dead", MESSAGES_LIMIT)),
      Inspect.timers(tuid, page("timers", TIMERS_LIMIT))
    ]))
    const { definition, lock, locked, state } = one
    return {
      now: yield* Clock.currentTimeMillis,
      server: rowOf(one),
      problems: one.problems,
      exists: one.hasState,
      hosted: one.hosted,
      hint: definition === undefined ? NO_RECORD : undefined,
      state: state && textOf(state),
      stateVersion: one.stateVersion,
      lock: lock && { at: lock.since, tag: lock.tag, kind: lock.kind, message: locked && messageOf(locked) },
      keys: one.keys,
      waitingCalls: one.waitingCalls,
      wakeAt: one.wakeAt,
      queue: queue.messages.map(messageOf),
      deadLetters: letters.letters.map(letterOf),
      timers: timers.timers.map(({ due, id, recurrence, tag }) => ({ id, tag, at: due, again: againOf(recurrence) })),
      next: { queue: queue.next, dead: letters.next, timers: timers.next },
      casts: definition?.messages.filter(({ kind }) => kind === "cast").map(({ tag }) => tag) ?? []
    }
  })

export const typeOf = ({ counts, isPaused, oldestDueAt, type }: Inspect.JobTypeRow): JobTypeRow => ({
  type: type.text,
  counts,
  isPaused,
  oldestDueAt
})

const jobOf = (row: Inspect.JobRow): JobRow => ({
  id: row.id.text,
  state: row.state,
  data: textOf(row.data),
  attempts: row.attempts,
  priority: row.priority,
  scheduledAt: row.scheduledAt,
  addedAt: row.addedAt,
  endedAt: row.endedAt,
  error: row.error,
  waitsFor: row.waitsFor
})

/** The types of jobs, and a page of those of one type. */
export const jobs = ({ text, type }: Asked, { values }: Showing): Effect.Effect<JobsPage, Failure, Tenant> =>
  Effect.gen(function*() {
    const state = text("state")
    const types = yield* transact(Inspect.jobTypes({ limit: TYPES_LIMIT }))
    const page = type === undefined ? undefined : yield* transact(Inspect.jobs(type, {
      values,
      state: isState(state) ? state : undefined,
      limit: JOBS_LIMIT,
      after: text("after")
    }))
    return {
      now: yield* Clock.currentTimeMillis,
      types: types.types.map(typeOf),
      jobs: page?.jobs.map(jobOf) ?? [],
      next: page?.next
    }
  })

/** The schedules of all types. */
export const schedules: Effect.Effect<SchedulesPage, Failure, Tenant> = Effect.gen(function*() {
  const { types } = yield* transact(Inspect.jobTypes({ limit: TYPES_LIMIT }))
  const found = yield* Effect.forEach(types.filter((row) => row.schedules > 0), ({ type }) =>
    Effect.flatMap(
      Effect.fromResult(Inspect.parseElement(type.text)),
      (element) => transact(Inspect.schedules(element))
    ))
  return {
    now: yield* Clock.currentTimeMillis,
    schedules: found.flat().map((row) => ({
      type: row.type.text,
      name: row.name,
      cron: row.cron,
      timeZone: row.timeZone,
      isPaused: row.isPaused,
      lastAt: row.lastTick,
      nextAt: row.nextTick
    }))
  }
})
