/** The commands that look at jobs and schedules, and mend them. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Inspect from "../../Inspect.ts"
import * as Tenant from "../../Tenant.ts"
import type * as Tuple from "../../Tuple.ts"
import { walkedJobs } from "../inspect/jobs.ts"
import * as Arguments from "./arguments.ts"
import { usage, type UsageError } from "./errors.ts"
import { ageText, type Column, confirm, progress, say, timeText, write, writeJson, writeRows } from "./output.ts"
import { done, listed, wanted } from "./servers.ts"
import { inTenant } from "./stores.ts"
import { longValue, shortValue } from "./values.ts"

const STATES = ["pending", "running", "finished", "dead"] as const

const PAGE_DEFAULT = 100
const JOBS_PAGE = 500

const state = Flag.Literals("state", STATES).pipe(
  Flag.withDescription("those in one state"),
  Flag.optional,
  Flag.map(Option.getOrUndefined)
)

const typeColumns = (now: number): ReadonlyArray<Column<Inspect.JobTypeRow>> => [
  ["TYPE", ({ type }) => type.text],
  ["PENDING", ({ counts }) => counts.pending],
  ["RUNNING", ({ counts }) => counts.running],
  ["FINISHED", ({ counts }) => counts.finished],
  ["DEAD", ({ counts }) => counts.dead],
  ["OVERDUE", ({ oldestDueAt }) => oldestDueAt === undefined || oldestDueAt > now ? "" : ageText(oldestDueAt, now)],
  ["SCHEDULES", ({ schedules }) => schedules],
  ["", ({ isPaused }) => isPaused ? "paused" : ""]
]

const jobColumns = (now: number): ReadonlyArray<Column<Inspect.JobRow>> => [
  ["ID", ({ id }) => id.text],
  ["STATE", ({ state }) => state],
  ["TRIED", ({ attempts }) => attempts],
  ["DUE", ({ scheduledAt }) => timeText(scheduledAt)],
  ["ENDED", ({ endedAt }) => endedAt === undefined ? "" : `${ageText(endedAt, now)} ago`],
  ["ERROR", ({ error }) => error.split("\n")[0]],
  ["DATA", ({ data }) => shortValue(data)]
]

const optionalType = Argument.String("type").pipe(
  Argument.withDescription("a type of jobs: mail, 7, [\"mail\",\"de\"]"),
  Argument.optional
)

const jobs = Command.make(
  "jobs",
  { ...Arguments.where, ...Arguments.paging, state, values: Arguments.values, type: optionalType },
  Effect.fnUntraced(function*(options) {
    const { after, json, state, values } = options
    const now = yield* Clock.currentTimeMillis
    const limit = yield* wanted(options, PAGE_DEFAULT)
    if (Option.isNone(options.type)) {
      return yield* inTenant(
        options,
        listed({
          json,
          limit,
          after,
          columns: typeColumns(now),
          pageLimit: PAGE_DEFAULT,
          page: (limit, after) =>
            Effect.map(
              Inspect.jobTypes({ limit, after }),
              ({ next, types }) => ({ rows: types, looked: types.length, next })
            )
        })
      )
    }
    const type = Arguments.elementOf(options.type.value)
    yield* inTenant(
      options,
      listed({
        json,
        limit,
        after,
        columns: jobColumns(now),
        pageLimit: JOBS_PAGE,
        page: walkedJobs(type, { state, values })
      })
    )
  })
).pipe(Command.withDescription("List the types of jobs, or the jobs of a type"))

const job = Command.make(
  "job",
  { ...Arguments.where, type: Arguments.type, id: Arguments.id("a job"), values: Arguments.values },
  Effect.fnUntraced(function*(options) {
    const { values } = options
    const found = yield* inTenant(
      options,
      Tenant.transact(Inspect.job(Arguments.elementOf(options.type), Arguments.elementOf(options.id), { values }))
    )
    if (options.json) return yield* writeJson(found)
    const lines: ReadonlyArray<readonly [string, string]> = [
      ["type", found.type.text],
      ["id", found.id.text],
      ["state", `${found.state}${found.isResubmitted ? ", and runs once more" : ""}`],
      ["attempts", String(found.attempts)],
      ["priority", String(found.priority)],
      ["key", found.key?.text ?? ""],
      ["added", timeText(found.addedAt)],
      ["due", timeText(found.scheduledAt)],
      ["ended", timeText(found.endedAt)],
      ["waits for", String(found.waitsFor)],
      ["error", found.error]
    ]
    for (const [title, text] of lines) yield* say(`${title.padEnd(10)} ${text}`)
    yield* write(`${longValue(found.data)}\n`)
  })
).pipe(Command.withDescription("Show one job"))

const many = {
  ...Arguments.where,
  type: Arguments.type,
  id: Argument.String("id").pipe(Argument.withDescription("the id of a job"), Argument.optional),
  all: Arguments.flag("all", "all of the type, or of a state"),
  state
}

/** The job that is meant; `undefined` for all. */
const chosen = (options: {
  readonly id: Option.Option<string>
  readonly all: boolean
  readonly state: string | undefined
}): Effect.Effect<Tuple.Element | undefined, UsageError> => {
  const isMany = options.all || options.state !== undefined
  return Option.isSome(options.id) === isMany
    ? usage("name the id of one, or say --all or --state, and not both")
    : Effect.succeed(Option.isSome(options.id) ? Arguments.elementOf(options.id.value) : undefined)
}

const requeueJob = Command.make(
  "requeue-job",
  many,
  Effect.fnUntraced(function*(options) {
    const id = yield* chosen(options)
    const type = Arguments.elementOf(options.type)
    const bar = yield* progress
    const onProgress = (count: number) => bar.show(`${count.toLocaleString("en")} jobs run again`)
    const count = yield* Effect.ensuring(
      inTenant(
        options,
        id === undefined
          ? Inspect.requeueJobs(type, { state: options.state, onProgress })
          : Effect.as(Tenant.transact(Inspect.requeueJob(type, id)), 1)
      ),
      bar.end
    )
    yield* done(options.json, `${count} run again`, { requeued: count })
  })
).pipe(Command.withDescription("Run dead or finished jobs again"))

const removeJob = Command.make(
  "remove-job",
  { ...many, yes: Arguments.yes },
  Effect.fnUntraced(function*(options) {
    const id = yield* chosen(options)
    const type = Arguments.elementOf(options.type)
    const bar = yield* progress
    const onProgress = (count: number) => bar.show(`${count.toLocaleString("en")} jobs removed`)
    const what = id === undefined ? `all ${options.state ?? ""} jobs`.replace("  ", " ") : "the job"
    const count = yield* Effect.ensuring(
      inTenant(
        options,
        Effect.andThen(
          confirm(`Remove ${what} of the type ${options.type} for good?`, options.yes),
          id === undefined
            ? Inspect.removeJobs(type, { state: options.state, onProgress })
            : Effect.as(Tenant.transact(Inspect.removeJob(type, id)), 1)
        )
      ),
      bar.end
    )
    yield* done(options.json, `${count} removed`, { removed: count })
  })
).pipe(Command.withDescription("Remove jobs, whatever they do"))

const scheduleColumns: ReadonlyArray<Column<Inspect.ScheduleRow>> = [
  ["TYPE", ({ type }) => type.text],
  ["NAME", ({ name }) => name],
  ["CRON", ({ cron }) => cron],
  ["ZONE", ({ timeZone }) => timeZone],
  ["LAST", ({ lastTick }) => timeText(lastTick)],
  ["NEXT", ({ isPaused, nextTick }) => isPaused ? "paused" : timeText(nextTick)]
]

/** The schedules of all types, or of one. */
const allSchedules = (type: Tuple.Element | undefined) =>
  Effect.gen(function*() {
    if (type !== undefined) return yield* Tenant.transact(Inspect.schedules(type))
    const rows: Array<Inspect.ScheduleRow> = []
    let after: string | undefined
    do {
      const page: Inspect.JobTypePage = yield* Tenant.transact(Inspect.jobTypes({ after }))
      for (const { schedules, type } of page.types) {
        if (schedules > 0) rows.push(...(yield* Tenant.transact(Inspect.schedules(Arguments.elementOf(type.text)))))
      }
      after = page.next
    } while (after !== undefined)
    return rows
  })

const CHANGES = {
  reset: Inspect.resetSchedule,
  pause: Inspect.pauseSchedule,
  resume: Inspect.resumeSchedule,
  run: Inspect.runSchedule,
  remove: Inspect.removeSchedule
} as const

const isChange = (word: string): word is keyof typeof CHANGES => Object.hasOwn(CHANGES, word)

const schedules = Command.make(
  "schedules",
  {
    ...Arguments.where,
    yes: Arguments.yes,
    words: Argument.String("what").pipe(
      Argument.withDescription("[list] [TYPE], or reset, pause, resume, run or remove with TYPE and NAME"),
      Argument.variadic()
    )
  },
  Effect.fnUntraced(function*(options) {
    const [word = "list", type, name, ...more] = options.words
    if (isChange(word) && options.words.length > 1) {
      if (type === undefined || name === undefined || more.length > 0) {
        return yield* usage(`schedules ${word} takes the type and the name of a schedule`)
      }
      yield* inTenant(
        options,
        Effect.andThen(
          word === "remove" ? confirm(`Forget the schedule ${name} of the type ${type}?`, options.yes) : Effect.void,
          Tenant.transact<unknown, Effect.Error<ReturnType<typeof Inspect.resetSchedule>>>(
            CHANGES[word](Arguments.elementOf(type), name)
          )
        )
      )
      return yield* done(options.json, `${word}: ${name}`, { [word]: name })
    }
    const of = word === "list" ? type : word
    if (options.words.length > (word === "list" ? 2 : 1)) return yield* usage("schedules takes a type, or none")
    const found = yield* inTenant(options, allSchedules(of === undefined ? undefined : Arguments.elementOf(of)))
    yield* writeRows(found, scheduleColumns, options.json)
  })
).pipe(Command.withDescription("List schedules; reset, pause, resume, run or remove one"))

const ofType = <const Name extends string>(
  name: Name,
  description: string,
  change: typeof Inspect.pause
) =>
  Command.make(
    name,
    { ...Arguments.where, type: Arguments.type },
    Effect.fnUntraced(function*(options) {
      yield* inTenant(options, Tenant.transact(change(Arguments.elementOf(options.type))))
      yield* done(options.json, `${name}d`, { [`${name}d`]: options.type })
    })
  ).pipe(Command.withDescription(description))

export const jobCommands = [
  jobs,
  job,
  requeueJob,
  removeJob,
  schedules,
  ofType("pause", "Let nobody take jobs of a type any more", Inspect.pause),
  ofType("resume", "Let jobs of a type be taken again", Inspect.resume)
] as const
