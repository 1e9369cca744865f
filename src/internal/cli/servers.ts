/** The commands that look at servers, and mend them. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { BackendError } from "../../BackendError.ts"
import * as Inspect from "../../Inspect.ts"
import * as Tenant from "../../Tenant.ts"
import type { Transaction } from "../../Transaction.ts"
import { walked } from "../inspect/servers.ts"
import { gathered, Pace, type Page, type PageAfter } from "../inspect/walking.ts"
import * as Arguments from "./arguments.ts"
import { usage, type UsageError } from "./errors.ts"
import {
  ageText,
  type Column,
  confirm,
  jsonText,
  type Output,
  progress,
  remark,
  say,
  timeText,
  write,
  writeJson,
  writeRows
} from "./output.ts"
import { inTenant } from "./stores.ts"
import { longValue, shortValue } from "./values.ts"

const PAGE_DEFAULT = 100

/** What was found in this time is shown: nobody looks at an empty screen for longer. */
const TABLE_MILLIS = 1_000

const MESSAGES_DEFAULT = 50
const MESSAGES_PAGE = 200

/** A list, page by page: as many rows as are wanted. Says where to go on. */
export const listed = Effect.fnUntraced(function*<Row, E>(options: {
  readonly limit: number
  readonly after: string | undefined
  readonly json: boolean
  readonly columns: ReadonlyArray<Column<Row>>
  readonly page: PageAfter<Row, E>
  readonly pageLimit: number
}): Effect.fn.Return<void, E | BackendError, Tenant.Tenant | Output> {
  const tenant = yield* Tenant.Tenant
  const bar = yield* progress
  const pace = new Pace(options.pageLimit)
  let left = options.limit
  let after = options.after
  let looked = 0
  let shown = 0
  do {
    const bounds = { limit: Math.min(left, options.pageLimit), look: Infinity, millis: TABLE_MILLIS, after }
    const table: Page<Row> = yield* gathered(tenant, pace, options.page, bounds)
    looked += table.looked
    left -= table.rows.length
    after = table.next
    if (table.rows.length > 0) yield* bar.end
    yield* writeRows(table.rows, options.columns, options.json)
    shown += table.rows.length
    bar.show(`looked at ${looked.toLocaleString("en")}, found ${shown.toLocaleString("en")}`)
  } while (after !== undefined && left > 0)
  yield* bar.end
  if (options.json) {
    yield* writeJson({ looked, next: after ?? null })
  } else {
    const more = after === undefined ? "" : ` There may be more: --after ${after}`
    yield* remark(`${shown.toLocaleString("en")} shown, ${looked.toLocaleString("en")} looked at.${more}`)
  }
})

/** How many rows are wanted. */
export const wanted = (
  { all, limit }: { readonly all: boolean; readonly limit: number | undefined },
  fallback: number
): Effect.Effect<number, UsageError> =>
  limit !== undefined && limit < 1
    ? usage("--limit must be 1 or more")
    : Effect.succeed(all ? Infinity : limit ?? fallback)

const serverColumns = (now: number): ReadonlyArray<Column<Inspect.ServerRow>> => [
  ["TUID", ({ tuid }) => tuid.text],
  ["SERVER", ({ server }) => server ?? "?"],
  ["QUEUE", ({ queueLength }) => queueLength],
  ["OLDEST", ({ oldestAt }) => ageText(oldestAt, now)],
  ["LOCK", ({ lock }) => lock === undefined ? "" : `${lock.tag} ${ageText(lock.since, now)}`],
  ["DEAD", ({ deadLetters }) => deadLetters],
  ["TIMERS", ({ timers }) => timers],
  ["STUCK", ({ problems, stuck }) => [...stuck, ...problems].join(", ")]
]

const servers = Command.make(
  "servers",
  {
    ...Arguments.where,
    ...Arguments.paging,
    name: Arguments.text("name", "NAME", "those of one definition"),
    prefix: Arguments.text("prefix", "TUID", "those whose tuids begin so: [\"cart\"]"),
    stuck: Arguments.flag("stuck", "those with old messages, long locks, crashes, dead letters, damage"),
    olderThan: Arguments.text("older-than", "DURATION", "from when on it is old: \"5 minutes\", a minute if absent")
  },
  Effect.fnUntraced(function*(options) {
    const { json, name, olderThan, stuck } = options
    const prefix = options.prefix === undefined ? undefined : yield* Arguments.tuidOf(options.prefix)
    const columns = serverColumns(yield* Clock.currentTimeMillis)
    const limit = yield* wanted(options, PAGE_DEFAULT)
    yield* inTenant(
      options,
      listed({
        json,
        columns,
        limit,
        after: options.after,
        pageLimit: 200,
        page: walked({ server: name, prefix, stuck, olderThan: olderThan as never })
      })
    )
  })
).pipe(Command.withDescription("List servers, and what each has to do"))

const lines = (found: Inspect.ServerDetail, now: number): ReadonlyArray<readonly [string, string]> => [
  ["tuid", found.tuid.text],
  [
    "server",
    `${found.server ?? "unknown"}${found.hosted === undefined ? " (no record)" : found.hosted ? " (hosted)" : ""}`
  ],
  [
    "queue",
    `${found.queueLength}${
      found.oldestAt === undefined ? "" : `, the first one sent ${ageText(found.oldestAt, now)} ago`
    }`
  ],
  ...(found.attempts > 0 ? [["crashed", `the first message failed ${found.attempts} times`] as const] : []),
  ...(found.unreadableSince === undefined
    ? []
    : [["unreadable", `the first message, since ${timeText(found.unreadableSince)}`] as const]),
  [
    "lock",
    found.lock === undefined
      ? "free"
      : `${found.lock.tag} (${found.lock.kind}), for ${ageText(found.lock.since, now)}, failed before: ${
        found.lock.attempts ?? 0
      }`
  ],
  ...(found.locked === undefined
    ? []
    : [["locked", `${found.locked.tag} ${shortValue(found.locked.payload)}`] as const]),
  ["dead", String(found.deadLetters)],
  ["timers", `${found.timers}${found.wakeAt === undefined ? "" : `, woken at ${timeText(found.wakeAt)}`}`],
  ["keys", String(found.keys)],
  ["calls", `${found.waitingCalls} wait for an answer`],
  ["stuck", found.stuck.join(", ") || "no"],
  ...found.problems.map((problem) => ["problem", problem] as const),
  ...(found.stateVersion === undefined
    ? [["state", "none"] as const]
    : [["state", `version ${found.stateVersion}`] as const])
]

const server = Command.make(
  "server",
  { ...Arguments.where, tuid: Arguments.tuid, values: Arguments.values },
  Effect.fnUntraced(function*(options) {
    const tuid = yield* Arguments.tuidOf(options.tuid)
    const found = yield* inTenant(options, Tenant.transact(Inspect.server(tuid, { values: options.values })))
    if (options.json) return yield* writeJson(found)
    for (const [title, text] of lines(found, yield* Clock.currentTimeMillis)) yield* say(`${title.padEnd(10)} ${text}`)
    // its own text has no characters that a terminal obeys
    if (found.state !== undefined) yield* write(`${longValue(found.state)}\n`)
  })
).pipe(Command.withDescription("Show one server: its lock, its state, what waits"))

const messageColumns = (now: number): ReadonlyArray<Column<Inspect.MessageRow>> => [
  ["ID", ({ id }) => id],
  ["MESSAGE", ({ tag }) => tag ?? "?"],
  ["SENT", ({ sentAt }) => sentAt === undefined ? "" : `${ageText(sentAt, now)} ago`],
  ["TRIED", ({ attempts }) => attempts],
  ["KEY", ({ key }) => key],
  ["PAYLOAD", ({ payload }) => shortValue(payload)]
]

const deadColumns = (now: number): ReadonlyArray<Column<Inspect.DeadLetterRow>> => [
  ["ID", ({ id }) => id],
  ["MESSAGE", ({ tag }) => tag ?? "?"],
  ["DIED", ({ diedAt }) => diedAt === 0 ? "" : `${ageText(diedAt, now)} ago`],
  ["TRIED", ({ attempts }) => attempts],
  ["CAUSE", ({ cause }) => cause.split("\n")[0]],
  ["PAYLOAD", ({ payload }) => shortValue(payload)]
]

const timerColumns: ReadonlyArray<Column<Inspect.TimerRow>> = [
  ["ID", ({ id, problem }) => id ?? problem],
  ["DUE", ({ due }) => timeText(due)],
  ["MESSAGE", ({ tag }) => tag ?? "?"],
  [
    "AGAIN",
    ({ recurrence }) =>
      recurrence === undefined
        ? ""
        : "cron" in recurrence
        ? `${recurrence.cron} ${recurrence.timeZone}`
        : `every ${ageText(0, recurrence.everyMillis)}`
  ],
  ["PAYLOAD", ({ payload }) => shortValue(payload)]
]

const keyColumns: ReadonlyArray<Column<Inspect.KeyRow>> = [
  ["KEY", ({ key }) => key],
  ["STATE", ({ state }) => state],
  ["MESSAGE", ({ tag }) => tag],
  ["UNTIL", ({ until }) => timeText(until)]
]

/** A command that lists something of one server. */
const ofServer = <const Name extends string, Row>(
  name: Name,
  description: string,
  columns: (now: number) => ReadonlyArray<Column<Row>>,
  page: (
    tuid: Parameters<typeof Inspect.queue>[0],
    options: Inspect.PageOptions
  ) => Effect.Effect<
    { readonly rows: ReadonlyArray<Row>; readonly next: string | undefined },
    Inspect.InvalidOption,
    Transaction
  >
) =>
  Command.make(
    name,
    { ...Arguments.where, ...Arguments.paging, tuid: Arguments.tuid, values: Arguments.values },
    Effect.fnUntraced(function*(options) {
      const tuid = yield* Arguments.tuidOf(options.tuid)
      const limit = yield* wanted(options, MESSAGES_DEFAULT)
      const { values } = options
      yield* inTenant(
        options,
        listed({
          json: options.json,
          columns: columns(yield* Clock.currentTimeMillis),
          limit,
          after: options.after,
          pageLimit: MESSAGES_PAGE,
          page: (limit, after) =>
            Effect.map(page(tuid, { limit, after, values }), (found) => ({ ...found, looked: found.rows.length }))
        })
      )
    })
  ).pipe(Command.withDescription(description))

const queue = ofServer(
  "queue",
  "List the messages that wait in a server's queue",
  messageColumns,
  (tuid, options) => Effect.map(Inspect.queue(tuid, options), ({ messages, next }) => ({ rows: messages, next }))
)

const dead = ofServer(
  "dead",
  "List the dead letters of a server",
  deadColumns,
  (tuid, options) => Effect.map(Inspect.deadLetters(tuid, options), ({ letters, next }) => ({ rows: letters, next }))
)

const timers = ofServer(
  "timers",
  "List the timers of a server",
  () => timerColumns,
  (tuid, options) => Effect.map(Inspect.timers(tuid, options), ({ next, timers }) => ({ rows: timers, next }))
)

const keys = ofServer(
  "keys",
  "List the keys of a server's messages",
  () => keyColumns,
  (tuid, options) => Effect.map(Inspect.keys(tuid, options), ({ keys, next }) => ({ rows: keys, next }))
)

/** Says what was done: to people in words, to programs as an object. */
export const done = (json: boolean, text: string, result: object): Effect.Effect<void, never, Output> =>
  json ? writeJson(result) : say(text)

const letterId = Argument.String("id").pipe(
  Argument.withDescription("the id of a dead letter, as `dead` shows it"),
  Argument.optional
)

const one = (id: Option.Option<string>, all: boolean): Effect.Effect<string | undefined, UsageError> =>
  Option.isSome(id) === all
    ? usage("name the id of one, or say --all, and not both")
    : Effect.succeed(Option.getOrUndefined(id))

const requeue = Command.make(
  "requeue",
  { ...Arguments.where, tuid: Arguments.tuid, id: letterId, all: Arguments.flag("all", "all of the server") },
  Effect.fnUntraced(function*(options) {
    const tuid = yield* Arguments.tuidOf(options.tuid)
    const id = yield* one(options.id, options.all)
    const count = yield* inTenant(
      options,
      id === undefined ? Inspect.requeueAll(tuid) : Effect.as(Tenant.transact(Inspect.requeue(tuid, id)), 1)
    )
    yield* done(options.json, `${count} put back into the queue`, { requeued: count })
  })
).pipe(Command.withDescription("Put dead letters back into the queue of their server"))

const discard = Command.make(
  "discard",
  {
    ...Arguments.where,
    tuid: Arguments.tuid,
    id: letterId,
    all: Arguments.flag("all", "all of the server"),
    yes: Arguments.yes
  },
  Effect.fnUntraced(function*(options) {
    const tuid = yield* Arguments.tuidOf(options.tuid)
    const id = yield* one(options.id, options.all)
    const what = id === undefined ? "all dead letters" : `the dead letter ${id}`
    const count = yield* inTenant(
      options,
      Effect.andThen(
        confirm(`Delete ${what} of ${options.tuid} for good?`, options.yes),
        Tenant.transact(
          Effect.gen(function*() {
            if (id === undefined) return yield* Inspect.discardAll(tuid)
            yield* Inspect.discard(tuid, id)
            return 1
          })
        )
      )
    )
    yield* done(options.json, `${count} deleted`, { discarded: count })
  })
).pipe(Command.withDescription("Delete dead letters for good"))

const unlock = Command.make(
  "unlock",
  { ...Arguments.where, tuid: Arguments.tuid },
  Effect.fnUntraced(function*(options) {
    const tuid = yield* Arguments.tuidOf(options.tuid)
    const wasLocked = yield* inTenant(options, Tenant.transact(Inspect.unlock(tuid)))
    yield* done(
      options.json,
      wasLocked ? "unlocked: the message under the lock is queued again" : "it was not locked",
      { unlocked: wasLocked }
    )
  })
).pipe(Command.withDescription("Break the lock of a server, and queue its message again"))

const kill = Command.make(
  "kill",
  { ...Arguments.where, tuid: Arguments.tuid, yes: Arguments.yes },
  Effect.fnUntraced(function*(options) {
    const tuid = yield* Arguments.tuidOf(options.tuid)
    yield* inTenant(
      options,
      Effect.gen(function*() {
        const found = yield* Tenant.transact(Inspect.server(tuid))
        const has = `${found.queueLength} messages, ${found.deadLetters} dead letters, ${found.timers} timers`
        yield* confirm(
          `End ${found.server ?? "the server"} ${found.tuid.text} for good, with its state, ${has}?`,
          options.yes
        )
        yield* Inspect.kill(tuid)
      })
    )
    yield* done(options.json, "killed", { killed: true })
  })
).pipe(Command.withDescription("End a server for good, with all that is kept of it"))

const cast = Command.make(
  "cast",
  {
    ...Arguments.where,
    tuid: Arguments.tuid,
    tag: Argument.String("message").pipe(Argument.withDescription("the name of the message")),
    payload: Argument.String("payload").pipe(Argument.withDescription("its payload, as JSON"), Argument.optional),
    name: Arguments.text("name", "NAME", "the definition of a server that nothing is stored of yet"),
    key: Arguments.text("key", "KEY", "the key of the message")
  },
  Effect.fnUntraced(function*(options) {
    const tuid = yield* Arguments.tuidOf(options.tuid)
    const payload = yield* payloadOf(Option.getOrUndefined(options.payload))
    const { key, name } = options
    yield* inTenant(options, Tenant.transact(Inspect.cast(tuid, options.tag, payload, { server: name, key })))
    yield* done(options.json, "sent", { sent: true })
  })
).pipe(Command.withDescription("Send a message to a server"))

const payloadOf = (text: string | undefined): Effect.Effect<unknown, UsageError> =>
  text === undefined
    ? Effect.undefined
    : Effect.catch(
      Effect.try({ try: () => JSON.parse(text) as unknown, catch: String }),
      (problem) => usage(`the payload must be JSON, such as '{"sku":"ink"}' or '"text"': ${jsonText(problem)}`)
    )

const cancelTimer = Command.make(
  "cancel-timer",
  { ...Arguments.where, tuid: Arguments.tuid, id: Arguments.id("a timer"), yes: Arguments.yes },
  Effect.fnUntraced(function*(options) {
    const tuid = yield* Arguments.tuidOf(options.tuid)
    const wasThere = yield* inTenant(
      options,
      Effect.andThen(
        confirm(`Take the timer ${options.id} of ${options.tuid} away?`, options.yes),
        Tenant.transact(Inspect.cancelTimer(tuid, options.id))
      )
    )
    yield* done(options.json, wasThere ? "cancelled" : "there is no such timer", { cancelled: wasThere })
  })
).pipe(Command.withDescription("Take a timer of a server away"))

export const serverCommands = [
  servers,
  server,
  queue,
  dead,
  timers,
  keys,
  requeue,
  discard,
  unlock,
  kill,
  cast,
  cancelTimer
] as const
