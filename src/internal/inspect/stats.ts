/**
 * A tenant at a glance, by bounded reads: its definitions with how many servers they have and how many of these have
 * something to do, and who hosts them. Counts that would need longer reads say that they are at least so much.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Transaction } from "../../Transaction.ts"
import * as Tuple from "../../Tuple.ts"
import { unpackValue } from "../data/codec.ts"
import * as Counters from "../data/counters.ts"
import * as Keys from "../data/keys.ts"
import { printable } from "../data/text.ts"
import { BELLS, indexesOf } from "../server/kept/indexes.ts"
import { libraryPrefix } from "../tenant/layout.ts"
import * as Listed from "../tenant/listed.ts"
import type { TransactionState } from "../transactions/state.ts"
import type { InvalidOption } from "./errors.ts"
import * as Paging from "./paging.ts"
import { type DefinitionInfo, infoOf } from "./server.ts"
import { recordOf } from "./servers.ts"

/** So many are counted of each kind. */
const COUNT_LIMIT = 1_000

/** Definitions and hosts of one look. */
const NAMES_LIMIT = 200
const HOSTS_LIMIT = 1_000

/**
 * How many there are; with `isAtLeast` there may be more.
 *
 * @since 0.2.0
 * @category models
 */
export interface Count {
  readonly count: number
  readonly isAtLeast: boolean
}

/**
 * A definition of servers.
 *
 * @since 0.2.0
 * @category models
 */
export interface DefinitionRow {
  readonly name: string
  /** `undefined` without a record. */
  readonly definition: DefinitionInfo | undefined
  /** Servers that have a state. */
  readonly servers: Count
  /** Hosted servers that have something to do. */
  readonly working: Count
  /** How often hosted servers were given something to do: of two looks, the difference is how fast. */
  readonly rings: number
  /** Hosted servers that wait for a time, and the first of these times. */
  readonly sleeping: Count
  readonly nextWakeAt: number | undefined
  /** The processes that host it. */
  readonly hosts: number
}

/**
 * A tenant at a glance.
 *
 * @since 0.2.0
 * @category models
 */
export interface Stats {
  readonly at: number
  readonly definitions: ReadonlyArray<DefinitionRow>
  /** Where the definitions go on, if there are more. */
  readonly next: string | undefined
  /** Whether all servers stand in the lists of their definitions. */
  readonly isListComplete: boolean
  readonly hosts: ReadonlyArray<HostRow>
}

/**
 * A process that hosts servers, by the row that it renews every few seconds.
 *
 * @since 0.2.0
 * @category models
 */
export interface HostRow {
  readonly id: string
  /** Counts up while the process lives: one that does not is dead, or stands still. */
  readonly beat: number
  readonly definitions: ReadonlyArray<string>
}

const countOf = (state: TransactionState, prefix: Uint8Array): Effect.Effect<Count> => {
  const { begin, end } = Tuple.range([], prefix)
  return Effect.map(state.getRange(begin, end, { limit: COUNT_LIMIT + 1, snapshot: true }), (rows) => ({
    count: Math.min(COUNT_LIMIT, rows.length),
    isAtLeast: rows.length > COUNT_LIMIT
  }))
}

const hostsOf = (state: TransactionState): Effect.Effect<ReadonlyArray<HostRow>> => {
  const prefix = Tuple.pack(["h"], libraryPrefix(state.prefix))
  const { begin, end } = Tuple.range([], prefix)
  return Effect.map(
    state.getRange(begin, end, { limit: HOSTS_LIMIT, snapshot: true }),
    (rows) =>
      rows.flatMap(({ key, value }): ReadonlyArray<HostRow> => {
        const data = Result.getOrUndefined(unpackValue(value))
        if (!Array.isArray(data) || typeof data[0] !== "number" || !Array.isArray(data[1])) return []
        const names = (data[1] as Array<unknown>).filter((name): name is string => typeof name === "string")
        return [{
          id: Buffer.from(key.subarray(prefix.length)).toString("hex"),
          beat: data[0],
          definitions: names.map((name) => printable(name))
        }]
      })
  )
}

const namesPrefix = (tenant: Uint8Array): Uint8Array => Tuple.pack(["d"], libraryPrefix(tenant))

/** The names of the definitions that have anything, from a key on. */
const namesFrom = Effect.fnUntraced(function*(state: TransactionState, from: Uint8Array) {
  const prefix = namesPrefix(state.prefix)
  const { end } = Tuple.range([], prefix)
  const names: Array<string> = []
  let at = from
  for (let looked = 0; looked < NAMES_LIMIT; looked++) {
    const [row] = yield* state.getRange(at, end, { limit: 1, snapshot: true })
    if (row === undefined) return { names, next: undefined }
    const [name] = Result.getOrElse(Tuple.unpackResult(row.key, prefix.length), (): Tuple.Tuple => [])
    if (typeof name !== "string") at = Keys.next(row.key)
    else {
      names.push(name)
      at = Tuple.strinc(Tuple.pack([name], prefix))
    }
  }
  return { names, next: Paging.cursorAt(at, prefix) }
})

const rowOf = Effect.fnUntraced(function*(
  state: TransactionState,
  name: string,
  hosts: ReadonlyArray<HostRow>
): Effect.fn.Return<DefinitionRow> {
  const indexes = indexesOf(state.prefix, name)
  const bells = Tuple.range([], indexes.bells)
  const wakes = Tuple.range([], indexes.wakes)
  const [record, servers, working, sleeping, rung, [wake]] = yield* Effect.all([
    recordOf(state, name),
    countOf(state, indexes.list),
    countOf(state, indexes.work),
    countOf(state, indexes.wakes),
    state.getRange(bells.begin, bells.end, { limit: BELLS, snapshot: true }),
    state.getRange(wakes.begin, wakes.end, { limit: 1, snapshot: true })
  ], { concurrency: "unbounded" })
  const next = wake && Result.getOrUndefined(Tuple.unpackResult(wake.key, indexes.wakes.length))?.[0]
  const shown = printable(name)
  return {
    name: shown,
    definition: record && infoOf(name, record),
    servers,
    working,
    sleeping,
    rings: rung.reduce((sum, { value }) => sum + Counters.read(value), 0),
    nextWakeAt: typeof next === "number" ? next : undefined,
    hosts: hosts.filter(({ definitions }) => definitions.includes(shown)).length
  }
})

/** A tenant at a glance. */
export const stats = Effect.fnUntraced(function*(
  input?: { readonly after?: string | undefined }
): Effect.fn.Return<Stats, InvalidOption, Transaction> {
  const { after } = yield* Paging.optionsOf(input)
  const state = yield* Transaction
  const prefix = namesPrefix(state.prefix)
  const from = yield* Paging.beginOf(Tuple.range([], prefix), prefix, after)
  const [hosts, isListComplete, { names, next }] = yield* Effect.all([
    hostsOf(state),
    Listed.isComplete(state),
    namesFrom(state, from)
  ], { concurrency: "unbounded" })
  return {
    at: state.timeMillis,
    definitions: yield* Effect.forEach(names, (name) => rowOf(state, name, hosts), { concurrency: 8 }),
    next,
    isListComplete,
    hosts
  }
})
