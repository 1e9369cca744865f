/**
 * One server, looked at closely: its state, its lock, what waits, its dead letters, timers and keys. By snapshot, in pages.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { KeyValue } from "../../Backend.ts"
import { Transaction } from "../../Transaction.ts"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import { reading } from "../data/show.ts"
import { printable } from "../data/text.ts"
import * as DeadLetters from "../queue/deadLetters.ts"
import * as Envelopes from "../queue/envelope.ts"
import * as Pieces from "../queue/pieces.ts"
import * as Queue from "../queue/queue.ts"
import * as Heads from "../server/kept/head.ts"
import { readWake } from "../server/kept/indexes.ts"
import * as Keyed from "../server/kept/keyed.ts"
import type { ServerKeys } from "../server/kept/layout.ts"
import type { DefinitionRecord } from "../server/kept/record.ts"
import type { Recurrence } from "../server/timers/rows.ts"
import * as TimerRows from "../server/timers/rows.ts"
import { parseRows, plainOf } from "../state/stored.ts"
import type { TransactionState } from "../transactions/state.ts"
import { type InvalidOption, ServerNotFound } from "./errors.ts"
import * as Paging from "./paging.ts"
import { bareKeys, checkTuid, lookAt, nameOf, recordOf, type ServerRow } from "./servers.ts"
import { textOf } from "./texts.ts"
import { NO_RECORD, type Value, valueOf } from "./values.ts"

/** The most messages, timers or keys of one page: each can be long. */
export const MESSAGES_LIMIT = 200

const MESSAGES_DEFAULT = 50

/** A state is read so far to be shown. */
const STATE_BYTES = 2_000_000
const STATE_ROWS = 200

/**
 * How values are shown: `values` shows those of which nothing says what of them is redacted.
 *
 * @since 0.2.0
 * @category models
 */
export interface LookOptions {
  readonly values?: boolean | undefined
}

/**
 * Which page of a list: 1 to 200 rows, 50 if `limit` is absent; `after` is the `next` of the page before.
 *
 * @since 0.2.0
 * @category models
 */
export interface PageOptions extends LookOptions {
  readonly limit?: number | undefined
  readonly after?: string | undefined
}

/**
 * A message, as it waits. Times are milliseconds since 1970.
 *
 * @since 0.2.0
 * @category models
 */
export interface MessageRow {
  readonly id: string
  /** `undefined` where the message cannot be read. */
  readonly tag: string | undefined
  readonly payload: Value
  readonly attempts: number
  /** When it was sent, by its sender's clock. */
  readonly sentAt: number | undefined
  /** Whether somebody waits for its answer. */
  readonly isCall: boolean
  readonly key: string | undefined
  /** The timer that sent it. */
  readonly timer: string | undefined
  readonly unreadableSince: number | undefined
  readonly bytes: number
  readonly problem: string | undefined
}

/**
 * A page of messages that wait, the first one first.
 *
 * @since 0.2.0
 * @category models
 */
export interface QueuePage {
  readonly messages: ReadonlyArray<MessageRow>
  readonly next: string | undefined
}

/**
 * A dead letter.
 *
 * @since 0.2.0
 * @category models
 */
export interface DeadLetterRow extends MessageRow {
  readonly diedAt: number
  readonly cause: string
}

/**
 * A page of dead letters, in the order in which they died.
 *
 * @since 0.2.0
 * @category models
 */
export interface DeadLetterPage {
  readonly letters: ReadonlyArray<DeadLetterRow>
  readonly next: string | undefined
}

/**
 * A timer.
 *
 * @since 0.2.0
 * @category models
 */
export interface TimerRow {
  readonly id: string | undefined
  readonly due: number
  readonly tag: string | undefined
  readonly payload: Value
  /** How it comes again; `undefined` of one that comes once. */
  readonly recurrence:
    | { readonly everyMillis: number }
    | { readonly cron: string; readonly timeZone: string }
    | undefined
  readonly problem: string | undefined
}

/**
 * A page of timers, in the order of their times.
 *
 * @since 0.2.0
 * @category models
 */
export interface TimerPage {
  readonly timers: ReadonlyArray<TimerRow>
  readonly next: string | undefined
}

/**
 * The key of a message, and what became of that.
 *
 * @since 0.2.0
 * @category models
 */
export interface KeyRow {
  readonly key: string
  readonly state: "open" | "done" | "free" | "damaged"
  readonly tag: string | undefined
  /** The message that it was opened for. */
  readonly message: string | undefined
  /** Until when it is kept. */
  readonly until: number | undefined
}

/**
 * A page of keys.
 *
 * @since 0.2.0
 * @category models
 */
export interface KeyPage {
  readonly keys: ReadonlyArray<KeyRow>
  readonly next: string | undefined
}

/**
 * A server, looked at closely. `definition` is what its definition's record says, and `undefined` without one.
 *
 * @since 0.2.0
 * @category models
 */
export interface ServerDetail extends ServerRow {
  readonly state: Value | undefined
  /** Which version of its schema the state has. */
  readonly stateVersion: number | undefined
  /** The message under the lock. */
  readonly locked: MessageRow | undefined
  /** Calls that wait for an answer: at most 1,000 are counted. */
  readonly waitingCalls: number
  /** When the index of its definition wakes it next, of a hosted server. */
  readonly wakeAt: number | undefined
  readonly definition: DefinitionInfo | undefined
}

/**
 * What the record of a definition says.
 *
 * @since 0.2.0
 * @category models
 */
export interface DefinitionInfo {
  readonly name: string
  readonly hosted: boolean
  readonly messages: ReadonlyArray<{
    readonly tag: string
    readonly kind: "call" | "cast" | "info"
    readonly locks: boolean
    readonly hasPayload: boolean
  }>
}

const WAITING_LIMIT = 1_000

export const infoOf = (name: string, { hosted, messages }: DefinitionRecord): DefinitionInfo => ({
  name: printable(name),
  hosted,
  messages: messages.map(({ hasPayload, kind, locks, tag }) => ({ tag: printable(tag), kind, locks, hasPayload }))
})

/** A server that is looked at. */
interface Seen {
  readonly state: TransactionState
  readonly keys: ServerKeys
  readonly record: DefinitionRecord | undefined
  readonly name: string | undefined
  readonly values: boolean
}

const see = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple,
  options: LookOptions
): Effect.fn.Return<Seen, InvalidOption, Transaction> {
  const state = yield* Transaction
  const keys = bareKeys(state, yield* checkTuid(tuid))
  const [first] = yield* Queue.peek(state, keys, 1)
  const name = yield* nameOf(state, keys, first)
  return { state, keys, name, record: yield* recordOf(state, name), values: options.values === true }
})

/** What is redacted of a message: one that the record does not know can hide as much as any that it knows. */
const hiddenOf = (record: DefinitionRecord | undefined, tag: string | undefined) => {
  if (record === undefined) return undefined
  const message = record.messages.find((one) => one.tag === tag)
  return message?.hidden ?? record.messages.some(({ hidden }) => hidden !== false)
}

const messageRow = ({ record, values }: Pick<Seen, "record" | "values">, bytes: Uint8Array) =>
  Result.match(Envelopes.decode(bytes), {
    onFailure: (problem) => ({
      ...UNREADABLE,
      payload: { _tag: "Unreadable", problem, bytes: bytes.length } as Value,
      bytes: bytes.length,
      problem
    }),
    onSuccess: ({ caller, key, millis, payload, tag, timer }) => ({
      tag: printable(tag),
      payload: valueOf(payload, bytes.length, { hidden: hiddenOf(record, tag), values }),
      sentAt: millis === 0 ? undefined : millis,
      isCall: caller !== undefined,
      key,
      timer: timer?.id,
      bytes: bytes.length,
      problem: undefined
    })
  })

const UNREADABLE = { tag: undefined, sentAt: undefined, isCall: false, key: undefined, timer: undefined }

const itemRow = (seen: Seen, item: Queue.Item): MessageRow => ({
  id: Pieces.nameOf(seen.keys.items, item),
  ...messageRow(seen, item.message),
  attempts: item.attempts,
  unreadableSince: item.metMillis
})

/** Whether anything lies behind a key of a range. */
const hasMore = (state: TransactionState, last: Uint8Array, end: Uint8Array): Effect.Effect<boolean> =>
  Effect.map(state.getRange(Keys.next(last), end, { limit: 1, snapshot: true }), (rows) => rows.length > 0)

const pageOptions = Effect.fnUntraced(function*(input: PageOptions | undefined) {
  const options = yield* Paging.optionsOf(input)
  return { ...options, limit: yield* Paging.limitOf(options.limit, MESSAGES_DEFAULT, MESSAGES_LIMIT) }
})

/** Where a page of byte strings begins: behind the one that a cursor names. */
const behind = (prefix: Uint8Array, after: unknown): Effect.Effect<Uint8Array | undefined, InvalidOption> => {
  if (after === undefined) return Effect.undefined
  const range = typeof after === "string" ? Pieces.rangeOfName(prefix, after) : undefined
  return range === undefined ? Paging.refuse("after", "must be the \"next\" of a page") : Effect.succeed(range.end)
}

/** What a page of byte strings ends with: the name of the last one, if something follows. */
const nextOf = (state: TransactionState, prefix: Uint8Array, last: Pieces.Whole | undefined) =>
  last === undefined
    ? Effect.undefined
    : Effect.map(
      hasMore(state, last.keys.at(-1)!, Tuple.range([], prefix).end),
      (more) => more ? Pieces.nameOf(prefix, last) : undefined
    )

/** A page of the messages that wait. */
export const queue = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple,
  input?: PageOptions
): Effect.fn.Return<QueuePage, InvalidOption, Transaction> {
  const { after, limit, ...options } = yield* pageOptions(input)
  const seen = yield* see(tuid, options)
  const { keys, state } = seen
  const items = yield* Queue.peek(state, keys, limit, yield* behind(keys.items, after))
  return {
    messages: items.map((item) => itemRow(seen, item)),
    next: yield* nextOf(state, keys.items, items.at(-1))
  }
})

/** A page of the dead letters. */
export const deadLetters = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple,
  input?: PageOptions
): Effect.fn.Return<DeadLetterPage, InvalidOption, Transaction> {
  const { after, limit, ...options } = yield* pageOptions(input)
  const seen = yield* see(tuid, options)
  const { keys, state } = seen
  yield* behind(keys.dead, after)
  const rows = yield* DeadLetters.peek(state, keys, limit, after)
  const last = rows.at(-1)
  const isMore = last !== undefined && (yield* DeadLetters.peek(state, keys, 1, last.id)).length > 0
  return {
    letters: rows.map(({ attempts, cause, id, message, millis }) => ({
      id,
      ...messageRow(seen, message),
      attempts,
      unreadableSince: undefined,
      diedAt: millis,
      cause: printable(cause)
    })),
    next: isMore ? last.id : undefined
  }
})

const recurrenceOf = (recurrence: Recurrence | undefined): TimerRow["recurrence"] =>
  recurrence === undefined
    ? undefined
    : "every" in recurrence
    ? { everyMillis: recurrence.every }
    : { cron: printable(recurrence.cron), timeZone: printable(recurrence.timeZone) }

/** A page of the timers. */
export const timers = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple,
  input?: PageOptions
): Effect.fn.Return<TimerPage, InvalidOption, Transaction> {
  const { after, limit, ...options } = yield* pageOptions(input)
  const seen = yield* see(tuid, options)
  const { keys, state } = seen
  const range = Tuple.range([], keys.timers)
  const begin = yield* Paging.beginOf(range, keys.timers, after)
  const found = yield* state.getRange(begin, range.end, { limit: limit + 1, snapshot: true })
  const isEnd = found.length <= limit
  const rows = TimerRows.assemble(keys, isEnd ? found : found.slice(0, limit), isEnd)
  const last = rows.at(-1)?.keys.at(-1)
  return {
    timers: rows.map(({ due, timer }): TimerRow => {
      if (timer === undefined) {
        const bytes = 0
        const payload: Value = { _tag: "Unreadable", problem: "the row cannot be read", bytes }
        return { id: undefined, due, tag: undefined, payload, recurrence: undefined, problem: "the row cannot be read" }
      }
      const { payload, problem, tag } = messageRow(seen, timer.message)
      return { id: timer.id, due, tag, payload, recurrence: recurrenceOf(timer.recurrence), problem }
    }),
    next: isEnd || last === undefined ? undefined : Paging.cursorAt(Keys.next(last), keys.timers)
  }
})

const keyRow = (keys: ServerKeys, { key: at, value }: KeyValue): KeyRow => {
  const key = Result.getOrUndefined(Tuple.unpackResult(at, keys.keyed.rows.length))?.[0]
  const row = Keyed.decode(value)
  if (row === undefined || typeof key !== "string") {
    const text = typeof key === "string" ? key : textOf(new Uint8Array(at.subarray(keys.keyed.rows.length)))
    return { key: text, state: "damaged", tag: undefined, message: undefined, until: undefined }
  }
  if (row._tag === "Open") return { key, state: "open", tag: undefined, message: row.message, until: undefined }
  return {
    key,
    state: row._tag === "Done" ? "done" : "free",
    tag: printable(row.tag),
    message: row.message,
    until: row.endMillis
  }
}

/** A page of the keys of messages. */
export const keys = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple,
  input?: PageOptions
): Effect.fn.Return<KeyPage, InvalidOption, Transaction> {
  const { after, limit } = yield* pageOptions(input)
  const state = yield* Transaction
  const keys = bareKeys(state, yield* checkTuid(tuid))
  const prefix = keys.keyed.rows
  const range = Tuple.range([], prefix)
  const begin = yield* Paging.beginOf(range, prefix, after)
  const rows = yield* state.getRange(begin, range.end, { limit: limit + 1, snapshot: true })
  const shown = rows.slice(0, limit)
  return {
    keys: shown.map((row) => keyRow(keys, row)),
    next: rows.length > limit ? Paging.cursorAt(Keys.next(shown.at(-1)!.key), prefix) : undefined
  }
})

/** The state of a server, as far as anybody reads it to look. */
const stateOf = Effect.fnUntraced(function*(
  { keys, record, state, values }: Seen,
  head: Heads.Head
): Effect.fn.Return<Value> {
  const { begin } = Tuple.range([], keys.state)
  const end = Tuple.strinc(keys.state)
  const rows: Array<KeyValue> = []
  let bytes = 0
  for (let at = begin; bytes <= STATE_BYTES;) {
    const found = yield* state.getRange(at, end, { limit: STATE_ROWS, snapshot: true })
    for (const row of found) bytes += row.key.length - keys.state.length + row.value.length
    rows.push(...found)
    if (found.length < STATE_ROWS) break
    at = Keys.next(found.at(-1)!.key)
  }
  if (bytes > STATE_BYTES) return { _tag: "TooLarge", bytes }
  if (rows.length === 0) return { _tag: "Unreadable", problem: "it is missing", bytes }
  const hidden = record && (record.states[head.stateVersion - 1] ?? record.states.some((one) => one !== false))
  if (hidden === undefined && !values) return { _tag: "Hidden", reason: NO_RECORD, bytes }
  const plain = Result.try({
    try: () => plainOf(parseRows(rows, keys.state), []),
    catch: (thrown) =>
      reading(() => printable(String((thrown as { problem?: unknown }).problem ?? thrown)), "it cannot be read")
  })
  return Result.match(plain, {
    onFailure: (problem): Value => ({ _tag: "Unreadable", problem, bytes }),
    onSuccess: (data) => valueOf(data, bytes, { hidden, values })
  })
})

/** The message under a lock. */
const lockedRow = (seen: Seen, { attempts = 0, token }: Heads.Lock): Effect.Effect<MessageRow | undefined> => {
  const { begin, end } = Tuple.range([], seen.keys.lockMessage(token))
  return Effect.map(seen.state.getRange(begin, end, { snapshot: true }), (rows) =>
    rows.length === 0 ? undefined : {
      id: Buffer.from(token).toString("hex"),
      ...messageRow(seen, Keys.concatAll(rows.map(({ value }) => value))),
      attempts,
      unreadableSince: undefined
    })
}

/** A server, closely. */
export const server = Effect.fnUntraced(function*(
  tuid: Tuple.Tuple,
  input?: LookOptions
): Effect.fn.Return<ServerDetail, InvalidOption | ServerNotFound, Transaction> {
  const seen = yield* see(tuid, yield* Paging.optionsOf(input))
  const { keys, name, record, state } = seen
  const looked = yield* lookAt(state, tuid)
  if (looked === undefined) return yield* new ServerNotFound({ tuid: textOf(tuid) })
  const bytes = yield* state.get(keys.head, true)
  const head = bytes && Result.getOrUndefined(Heads.decode(bytes))
  const waiting = Tuple.range([], keys.waiting)
  const calls = yield* state.getRange(waiting.begin, waiting.end, { limit: WAITING_LIMIT, snapshot: true })
  return {
    ...looked.row,
    state: head && (yield* stateOf(seen, head)),
    stateVersion: head?.stateVersion,
    locked: head?.lock && (yield* lockedRow(seen, head.lock)),
    waitingCalls: calls.length,
    wakeAt: readWake(yield* state.get(keys.wake, true)),
    definition: record && infoOf(name!, record)
  }
})
