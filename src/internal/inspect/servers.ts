/**
 * The servers of a tenant, looked at one by one: what each has to do, whether it is stuck. By snapshot: looking conflicts
 * with nobody. A page is bounded by how many it looks at, whatever it finds, by how many bytes it reads, and by its time.
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Transaction } from "../../Transaction.ts"
import * as Tuple from "../../Tuple.ts"
import * as Counters from "../data/counters.ts"
import * as Keys from "../data/keys.ts"
import { printable } from "../data/text.ts"
import * as DeadLetters from "../queue/deadLetters.ts"
import * as Envelopes from "../queue/envelope.ts"
import * as Queue from "../queue/queue.ts"
import type { Kind } from "../server/definition/model.ts"
import * as Heads from "../server/kept/head.ts"
import { indexesOf, isListed, tuidOfKey } from "../server/kept/indexes.ts"
import { problemOfTuid, ServerKeys } from "../server/kept/layout.ts"
import { decode, type DefinitionRecord, recordKey } from "../server/kept/record.ts"
import * as TimerRows from "../server/timers/rows.ts"
import * as Listed from "../tenant/listed.ts"
import type { TransactionState } from "../transactions/state.ts"
import { InvalidOption } from "./errors.ts"
import * as Paging from "./paging.ts"
import { type Tuid, tuidOf } from "./texts.ts"
import { atMost, type PageAfter, streamOf } from "./walking.ts"

/** The most rows of one page. */
export const PAGE_LIMIT = 1_000

const PAGE_DEFAULT = 100

/** One page looks at so many servers: a transaction ends within its five seconds on a far store, too. */
const LOOK_LIMIT = 1_000

/** And so long: a transaction that begins anew because it was too slow would be so again. */
const LOOK_MILLIS = 2_000

/** Looks at servers that are under way at a time. */
const TOGETHER = 16

/** A page ends early when first messages have so many bytes. */
const PAGE_BYTES = 5_000_000

/** Older than this, a message or a lock is one that somebody should look at. */
const STUCK_MILLIS = 60_000

/**
 * Why a server is stuck: its oldest message is old, its lock is held for long, its first message has crashed, nobody that
 * runs can read its first message, it has dead letters, what is stored of it cannot be read.
 *
 * @since 0.2.0
 * @category models
 */
export type StuckReason = "oldQueue" | "longLock" | "crashing" | "unreadable" | "deadLetters" | "damaged"

/**
 * A server, as a list shows it. Times are milliseconds since 1970.
 *
 * @since 0.2.0
 * @category models
 */
export interface ServerRow {
  readonly tuid: Tuid
  /** The name of its definition; `undefined` where nothing says it yet. */
  readonly server: string | undefined
  /** `undefined` where no record of the definition says so. */
  readonly hosted: boolean | undefined
  /** Whether it has a state: one whose first message has not been handled has none. */
  readonly hasState: boolean
  /** Messages that wait or are under the lock. */
  readonly queueLength: number
  /**
   * Messages that were pushed, and those that were taken off the queue: since the server was made, or, of a hosted one, since
   * it had nothing to do.
   */
  readonly pushed: number
  readonly taken: number
  /** When the first message that waits was sent, by its sender's clock. */
  readonly oldestAt: number | undefined
  /** How often handling the first message failed. */
  readonly attempts: number
  /** Since when nobody can read the first message. */
  readonly unreadableSince: number | undefined
  readonly lock: LockRow | undefined
  readonly deadLetters: number
  readonly timers: number
  readonly keys: number
  readonly stuck: ReadonlyArray<StuckReason>
  /** What cannot be read of it. */
  readonly problems: ReadonlyArray<string>
}

/**
 * A lock that is held.
 *
 * @since 0.2.0
 * @category models
 */
export interface LockRow {
  readonly tag: string
  readonly kind: Kind
  readonly since: number
  /** How often handling its message failed before; `undefined` for one that came past the queue. */
  readonly attempts: number | undefined
}

/**
 * A page of servers. `looked` is how many it looked at; `next` is where the following page begins, `undefined` after the
 * last one. A page can be empty and not be the last one.
 *
 * @since 0.2.0
 * @category models
 */
export interface ServerPage {
  readonly servers: ReadonlyArray<ServerRow>
  readonly looked: number
  readonly next: string | undefined
}

/**
 * Which servers a page shows.
 *
 * @since 0.2.0
 * @category models
 */
export interface ServerOptions {
  /** Those of one definition. Those that have a state stand in its list; with `stuck`, all are looked at. */
  readonly server?: string | undefined
  /** Those whose tuids begin with these elements. */
  readonly prefix?: Tuple.Tuple | undefined
  /** Only those that are stuck. */
  readonly stuck?: boolean | undefined
  /** From when on a message or a lock is old: a minute if absent. */
  readonly olderThan?: Duration.Input | undefined
  /** 1 to 1,000; 100 if absent. */
  readonly limit?: number | undefined
  /**
   * How many servers the page looks at, whatever it finds: 1 to 1,000; 1,000 if absent. On a file that another process
   * writes to without a pause, only a short transaction sees one state to its end: give few, and go on with `after`.
   */
  readonly look?: number | undefined
  /** The `next` of the page before. */
  readonly after?: string | undefined
}

const RECORDS = Symbol("effect-dgen/inspect/records")

/** The record of a definition; each is read once in a transaction. */
export const recordOf = (
  state: TransactionState,
  name: string | undefined
): Effect.Effect<DefinitionRecord | undefined> => {
  if (name === undefined || !isListed(name)) return Effect.undefined
  const known = state.kept<Map<string, DefinitionRecord | undefined>>(RECORDS) ?? new Map()
  if (known.has(name)) return Effect.succeed(known.get(name))
  return Effect.map(state.get(recordKey(state.prefix, name), true), (bytes) => {
    const record = decode(bytes)
    known.set(name, record)
    state.keep(RECORDS, known)
    return record
  })
}

/** The keys of a server of which nothing is known but where it lies. */
export const bareKeys = (state: TransactionState, tuid: Tuple.Tuple): ServerKeys =>
  new ServerKeys(state.prefix, tuid, { name: "", hosted: false })

/** Refuses what is no tuid. */
export const checkTuid = (tuid: unknown): Effect.Effect<Tuple.Tuple, InvalidOption> => {
  const problem = problemOfTuid(tuid)
  return problem === undefined
    ? Effect.succeed(tuid as Tuple.Tuple)
    : Effect.fail(new InvalidOption({ option: "tuid", problem: `cannot be used: ${problem}` }))
}

const sentTo = (message: Uint8Array | undefined): string | undefined =>
  message && Result.getOrUndefined(Envelopes.decode(message))?.server

/** More rows than a timer's message can have pieces. */
const TIMER_ROWS = 100

/** What the store says of a server's definition: by its state, or by whom its first message, dead letter or timer is for. */
export const nameOf = Effect.fnUntraced(function*(
  state: TransactionState,
  keys: ServerKeys,
  first: Queue.Item | undefined
): Effect.fn.Return<string | undefined> {
  const bytes = yield* state.get(keys.name, true)
  if (bytes !== undefined) return Buffer.from(bytes).toString()
  const name = sentTo(first?.message)
  if (name !== undefined) return name
  const [letter] = yield* DeadLetters.peek(state, keys, 1, undefined)
  if (letter !== undefined) return sentTo(letter.message)
  const { begin, end } = Tuple.range([], keys.timers)
  const rows = yield* state.getRange(begin, end, { limit: TIMER_ROWS, snapshot: true })
  return sentTo(TimerRows.assemble(keys, rows, true)[0]?.timer?.message)
})

/** A server, and how many bytes were read of it. */
interface Looked {
  readonly row: ServerRow
  readonly bytes: number
}

/** Looks at a server; `undefined` where there is nothing. */
export const lookAt = Effect.fnUntraced(function*(
  state: TransactionState,
  tuid: Tuple.Tuple,
  olderMillis: number = STUCK_MILLIS
): Effect.fn.Return<Looked | undefined> {
  const keys = bareKeys(state, tuid)
  const counter = (key: Uint8Array) => Effect.map(state.get(key, true), Counters.read)
  const [head, [first], pushed, taken, dead, timers, keyed] = yield* Effect.all([
    state.get(keys.head, true),
    Queue.peek(state, keys, 1),
    counter(keys.push),
    counter(keys.pop),
    counter(keys.deadCount),
    counter(keys.timerCount),
    counter(keys.keyed.count)
  ], { concurrency: "unbounded" })
  const name = yield* nameOf(state, keys, first)
  const isThere = head !== undefined || name !== undefined || first !== undefined || dead !== 0 || timers !== 0 ||
    keyed !== 0 || pushed !== taken
  if (!isThere) return undefined
  const record = yield* recordOf(state, name)
  const row = rowOf(
    {
      tuid: tuidOf(tuid),
      server: name === undefined ? undefined : printable(name),
      hosted: record?.hosted,
      hasState: head !== undefined,
      pushed,
      taken,
      deadLetters: dead,
      timers,
      keys: keyed
    },
    head,
    first
  )
  return { row: { ...row, stuck: stuckBy(row, state.timeMillis - olderMillis) }, bytes: first?.bytes.length ?? 0 }
})

type Counted = Pick<
  ServerRow,
  "tuid" | "server" | "hosted" | "hasState" | "pushed" | "taken" | "deadLetters" | "timers" | "keys"
>

const rowOf = (counted: Counted, bytes: Uint8Array | undefined, first: Queue.Item | undefined): ServerRow => {
  const problems: Array<string> = []
  const decoded = bytes === undefined ? undefined : Heads.decode(bytes)
  if (decoded !== undefined && Result.isFailure(decoded)) problems.push(decoded.failure)
  const head = decoded && Result.getOrUndefined(decoded)
  const envelope = first && Envelopes.decode(first.message)
  if (envelope !== undefined && Result.isFailure(envelope)) problems.push(`the first message: ${envelope.failure}`)
  const sent = (envelope && Result.getOrUndefined(envelope)?.millis) ?? 0
  const lock = head?.lock
  return {
    ...counted,
    queueLength: counted.pushed - counted.taken + (head === undefined ? 0 : Heads.kept(head)),
    oldestAt: sent === 0 ? undefined : sent,
    attempts: first?.attempts ?? 0,
    unreadableSince: first?.metMillis,
    lock: lock && { tag: printable(lock.tag), kind: lock.kind, since: lock.millis, attempts: lock.attempts },
    stuck: [],
    problems
  }
}

const stuckBy = (row: ServerRow, beforeMillis: number): ReadonlyArray<StuckReason> => {
  const reasons: ReadonlyArray<readonly [StuckReason, boolean]> = [
    ["oldQueue", row.oldestAt !== undefined && row.oldestAt <= beforeMillis],
    ["longLock", row.lock !== undefined && row.lock.since <= beforeMillis],
    ["crashing", row.attempts > 0],
    ["unreadable", row.unreadableSince !== undefined],
    ["deadLetters", row.deadLetters > 0],
    ["damaged", row.problems.length > 0]
  ]
  return reasons.flatMap(([reason, holds]) => holds ? [reason] : [])
}

/** Some tuids, and where to go on. */
interface Found {
  readonly tuids: ReadonlyArray<Tuple.Tuple>
  readonly looked: number
  readonly next: Uint8Array | undefined
}

/** Tuids in the order of their keys, from a key on. */
type Source = (from: Uint8Array, limit: number) => Effect.Effect<Found>

/** The keys of a tuid, and of all that begin with it: a nested tuple without its last byte, which ends it. */
const rangeOf = (prefix: Tuple.Tuple | undefined, under: Uint8Array): Tuple.KeyRange => {
  if (prefix === undefined) return Tuple.range([], under)
  const begin = Tuple.pack([prefix], under).slice(0, -1)
  return { begin, end: Tuple.strinc(begin) }
}

/** All servers: from one to the next, whatever each has. */
export const allServers = (state: TransactionState, end: Uint8Array): Source =>
  Effect.fnUntraced(function*(from, limit) {
    const prefix = Listed.serversPrefix(state.prefix)
    const tuids: Array<Tuple.Tuple> = []
    let at = from
    for (let looked = 0; looked < limit; looked++) {
      const [row] = yield* state.getRange(at, end, { limit: 1, snapshot: true })
      if (row === undefined) return { tuids, looked, next: undefined }
      const tuid = tuidOfKey(row.key, prefix, 0)
      if (tuid !== undefined) tuids.push(tuid)
      // a key that no server has is passed over
      at = tuid === undefined ? Keys.next(row.key) : Tuple.strinc(Tuple.pack([tuid], prefix))
    }
    return { tuids, looked: limit, next: at }
  })

/** Those that stand in the list of a definition. */
const listedServers = (state: TransactionState, list: Uint8Array, end: Uint8Array): Source => (from, limit) =>
  Effect.map(state.getRange(from, end, { limit, snapshot: true }), (rows) => ({
    tuids: rows.flatMap(({ key }) => {
      const tuid = tuidOfKey(key, list, 0)
      return tuid === undefined ? [] : [tuid]
    }),
    looked: rows.length,
    next: rows.length < limit ? undefined : Keys.next(rows.at(-1)!.key)
  }))

interface Checked {
  readonly limit: number
  readonly look: number
  readonly olderMillis: number
  readonly server: string | undefined
  readonly prefix: Tuple.Tuple | undefined
  readonly stuck: boolean
  readonly after: string | undefined
}

const check = Effect.fnUntraced(function*(input: ServerOptions | undefined): Effect.fn.Return<Checked, InvalidOption> {
  const { after, limit, look, olderThan, prefix, server, stuck = false } = yield* Paging.optionsOf(input)
  if (server !== undefined && (typeof server !== "string" || server === "" || !server.isWellFormed())) {
    return yield* Paging.refuse("server", "must be the name of a definition")
  }
  if (prefix !== undefined) {
    const packed = Array.isArray(prefix) ? Tuple.packResult(prefix) : undefined
    if (packed === undefined || Result.isFailure(packed)) {
      return yield* Paging.refuse("prefix", "must be the first elements of tuids, such as [\"cart\"]")
    }
  }
  return {
    limit: yield* Paging.limitOf(limit, PAGE_DEFAULT, PAGE_LIMIT),
    look: yield* Paging.limitOf(look, LOOK_LIMIT, LOOK_LIMIT, "look"),
    olderMillis: yield* Paging.millisOf("olderThan", olderThan, STUCK_MILLIS),
    server,
    prefix,
    stuck: stuck === true,
    after
  }
})

/** A page of servers. */
export const servers = (
  input?: ServerOptions
): Effect.Effect<ServerPage, InvalidOption, Transaction> =>
  Effect.flatMap(Transaction, (state) => Effect.flatMap(check(input), (checked) => pageOf(state, checked)))

const pageOf = Effect.fnUntraced(function*(
  state: TransactionState,
  checked: Checked
): Effect.fn.Return<ServerPage, InvalidOption> {
  const { server, stuck } = checked
  // without its list a definition's servers are found among all
  const isByList = server !== undefined && !stuck && isListed(server) && (yield* Listed.isComplete(state))
  const under = isByList ? indexesOf(state.prefix, server).list : Listed.serversPrefix(state.prefix)
  const range = rangeOf(checked.prefix, under)
  const source = isByList ? listedServers(state, under, range.end) : allServers(state, range.end)
  let at: Uint8Array | undefined = yield* Paging.beginOf(range, under, checked.after)
  const found: Array<ServerRow> = []
  let looked = 0
  let bytes = 0
  const until = (yield* Clock.currentTimeMillis) + LOOK_MILLIS
  while (at !== undefined && found.length < checked.limit && looked < checked.look && bytes < PAGE_BYTES) {
    if ((yield* Clock.currentTimeMillis) > until) break
    const some: Found = yield* source(at, Math.min(TOGETHER, checked.limit - found.length, checked.look - looked))
    const seen = yield* Effect.forEach(some.tuids, (tuid) => lookAt(state, tuid, checked.olderMillis), {
      concurrency: TOGETHER
    })
    for (const one of seen) {
      bytes += one?.bytes ?? 0
      if (one === undefined || (stuck && one.row.stuck.length === 0)) continue
      if (server === undefined || one.row.server === server) found.push(one.row)
    }
    looked += some.looked
    at = some.next
  }
  return { servers: found, looked, next: at === undefined ? undefined : Paging.cursorAt(at, under) }
})

/** A page as a walk needs it. */
export const walked = (input?: ServerOptions): PageAfter<ServerRow, InvalidOption> => (limit, after, look) =>
  Effect.map(
    servers({
      ...input,
      limit: atMost(input?.limit, limit),
      look: atMost(input?.look, look),
      after: after ?? input?.after
    }),
    ({ looked, next, servers }) => ({ rows: servers, looked, next })
  )

/** All servers that are meant, page by page. */
export const allRows = (input?: ServerOptions) => streamOf(PAGE_DEFAULT, walked(input))
