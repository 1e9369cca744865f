/**
 * The durable actions of a server: rows, one behind the other, of which the first is a job.
 *
 * ```
 * <library> "a" <name> "front" (<tuid>)               which job is the server's first action: its tag and its id
 *                      "next" (<tuid>)                the number of the server's next row; there is one while there is a front
 *                      "row" (<tuid>) <n> <i> <of>    what waits behind it, in pieces: id, tag, the job's data, the trace
 *                      "rows"                         the counter of rows
 *                      "tag" <tag>                    the tags of which there were jobs
 * ```
 *
 * 1. Of each server at most one action is a job: the one that its front names. So they run one after the other, in the order
 *    of their numbers, which is that of the commits that asked for them.
 * 2. The transaction in which that job ends (finished, dead or removed) makes a job of the first row, or takes front and
 *    number away. It reads up to that row: who writes rows behind it does not conflict.
 * 3. Who asks for actions reads the number for conflict. None is there: the first becomes a job at once.
 * 4. They lie beside their server, and not under it: its end by its own will, or by a kill, leaves them.
 * 5. A row that cannot be read becomes a job of the tag "", which no action has: nobody takes that, and it is dead in the end
 *    (`keeper.ts`). What waits behind it goes on then.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import { packValue, unpackOwn } from "../../data/codec.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { plainTrace, readTrace, type Trace } from "../../data/trace.ts"
import { bareModel, keysOf, type Place } from "../../jobs/definition/model.ts"
import { addStored } from "../../jobs/operations/operations.ts"
import { libraryPrefix } from "../../tenant/layout.ts"
import { isCount, PIECE_BYTES } from "../../tenant/limits.ts"
import type { TransactionState } from "../../transactions/state.ts"

/** The tag of rows that cannot be read. */
export const DAMAGED = ""

const JOBS = "effect-dgen/durable"

/** The type of the jobs that the actions of a tag are. */
export const typeOf = (name: string, tag: string): Tuple.Element => [JOBS, name, tag]

/** Whose action a job of a type is; `undefined` for a type that is none of ours. */
export const ownerOf = (type: Tuple.Element): { readonly name: string; readonly tag: string } | undefined => {
  if (!Array.isArray(type) || type.length !== 3 || type[0] !== JOBS) return undefined
  const [, name, tag] = type as Array<unknown>
  return typeof name === "string" && typeof tag === "string" ? { name, tag } : undefined
}

/** What is kept of an action; `data` is its job's. */
export interface Entry {
  readonly id: string
  readonly tag: string
  readonly data: Uint8Array
  readonly trace: Trace | undefined
}

/** The keys of a definition's durable actions. */
export class ChainKeys {
  readonly prefix: Uint8Array
  readonly fronts: Uint8Array
  readonly rows: Uint8Array
  readonly count: Uint8Array
  readonly tags: Uint8Array

  constructor(tenantPrefix: Uint8Array, name: string) {
    this.prefix = Tuple.pack(["a", name], libraryPrefix(tenantPrefix))
    this.fronts = Tuple.pack(["front"], this.prefix)
    this.rows = Tuple.pack(["row"], this.prefix)
    this.count = Tuple.pack(["rows"], this.prefix)
    this.tags = Tuple.pack(["tag"], this.prefix)
  }

  front(tuid: Tuple.Tuple): Uint8Array {
    return Tuple.pack([tuid], this.fronts)
  }

  next(tuid: Tuple.Tuple): Uint8Array {
    return Tuple.pack(["next", tuid], this.prefix)
  }

  rowsOf(tuid: Tuple.Tuple): Uint8Array {
    return Tuple.pack([tuid], this.rows)
  }
}

const FORMAT = 1

const EMPTY = new Uint8Array(0)

const encode = ({ data, id, tag, trace }: Entry): Uint8Array =>
  packValue([FORMAT, id, tag, data, trace === undefined ? null : plainTrace(trace)])

/** `undefined` for bytes that are no row of this version. */
const decode = (bytes: Uint8Array): Entry | undefined => {
  const fields = Result.getOrUndefined(unpackOwn(bytes))
  if (!Array.isArray(fields) || fields.length !== 5 || fields[0] !== FORMAT) return undefined
  const [, id, tag, data, trace] = fields as Array<unknown>
  const isEntry = typeof id === "string" && id !== "" && typeof tag === "string" && data instanceof Uint8Array
  return isEntry ? { id, tag, data, trace: readTrace(trace) } : undefined
}

/** Which job a front names; `undefined` for what is no front. */
export const readFront = (bytes: Uint8Array | undefined): { readonly tag: string; readonly id: string } | undefined => {
  const front = bytes && Result.getOrUndefined(unpackOwn(bytes))
  if (!Array.isArray(front) || front.length !== 2) return undefined
  const [tag, id] = front as Array<unknown>
  return typeof tag === "string" && typeof id === "string" ? { tag, id } : undefined
}

/** What is stored of a server's action as a job: whose it is, and its payload as plain data. */
export const dataOf = (tuid: Tuple.Tuple, payload: unknown): readonly [tuid: Uint8Array, payload: unknown] => [
  Tuple.pack(tuid),
  payload
]

/** Whose action a job's data is; `undefined` for what is none. */
export const tuidOf = (data: unknown): Tuple.Tuple | undefined =>
  Array.isArray(data) && data.length === 2 && data[0] instanceof Uint8Array
    ? Result.getOrUndefined(Tuple.unpackResult(data[0]))
    : undefined

/** A row as the store has it, with the keys of its pieces. */
interface Row {
  readonly keys: ReadonlyArray<Uint8Array>
  readonly bytes: Uint8Array
}

const write = (state: TransactionState, prefix: Uint8Array, number: number, bytes: Uint8Array): void => {
  const pieces = Math.max(1, Math.ceil(bytes.length / PIECE_BYTES))
  for (let i = 0; i < pieces; i++) {
    state.set(Tuple.pack([number, i, pieces], prefix), bytes.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES))
  }
}

/** How many pieces the row has that a key is the first of; 1 for a key that is none of ours. */
const piecesOf = (prefix: Uint8Array, key: Uint8Array): number => {
  const [number, index, pieces] = Result.getOrElse(Tuple.unpackResult(key, prefix.length), () => [])
  return isCount(number) && index === 0 && isCount(pieces) ? pieces : 1
}

/** The first row of a server. What is not whole counts as it is: bytes that say nothing. */
const first = Effect.fnUntraced(
  function*(state: TransactionState, prefix: Uint8Array): Effect.fn.Return<Row | undefined> {
    const { begin, end } = Tuple.range([], prefix)
    const [found] = yield* state.getRange(begin, end, { limit: 1 })
    if (found === undefined) return undefined
    const pieces = piecesOf(prefix, found.key)
    if (pieces === 1) return { keys: [found.key], bytes: found.value }
    const [number] = Tuple.unpack(found.key, prefix.length)
    const own = Tuple.range([number!], prefix)
    const rows = yield* state.getRange(own.begin, own.end, { limit: pieces })
    return { keys: rows.map(({ key }) => key), bytes: Keys.concatAll(rows.map(({ value }) => value)) }
  }
)

/**
 * The rows of all servers as a list shows them, from the first key on. `isEnd` says that no others follow: what is not whole
 * then never will be, and counts as it is.
 */
export const rowsIn = (
  keys: ChainKeys,
  rows: ReadonlyArray<{ readonly key: Uint8Array; readonly value: Uint8Array }>,
  isEnd: boolean
): ReadonlyArray<{ readonly tuid: Tuple.Tuple; readonly entry: Entry | undefined; readonly last: Uint8Array }> => {
  const found: Array<{ tuid: Tuple.Tuple; entry: Entry | undefined; last: Uint8Array }> = []
  for (let at = 0; at < rows.length;) {
    const { key } = rows[at]!
    const [tuid, , index, pieces] = Result.getOrElse(Tuple.unpackResult(key, keys.rows.length), () => [])
    const whole = index === 0 && isCount(pieces) ? Math.max(1, pieces) : 1
    if (at + whole > rows.length && !isEnd) break
    const count = Math.min(whole, rows.length - at)
    const own = rows.slice(at, at + count)
    found.push({
      tuid: Array.isArray(tuid) ? tuid : [],
      entry: decode(Keys.concatAll(own.map(({ value }) => value))),
      last: own.at(-1)!.key
    })
    at += count
  }
  return found
}

/** Makes a job of an action, and the front of it (1). */
const begin = (
  state: TransactionState,
  name: string,
  keys: ChainKeys,
  tuid: Tuple.Tuple,
  { data, id, tag, trace }: Entry
): Effect.Effect<void> => {
  const type = typeOf(name, tag)
  const place: Place = { model: bareModel(type), state, keys: keysOf(state.prefix, type) }
  state.set(keys.front(tuid), packValue([tag, id]))
  state.set(Tuple.pack([tag], keys.tags), EMPTY)
  return addStored(place, id, data, trace)
}

/** The number of the next row: one that cannot be read is that behind the last row. */
const nextOf = (
  state: TransactionState,
  prefix: Uint8Array,
  bytes: Uint8Array
): Effect.Effect<number> => {
  const next = Result.getOrUndefined(unpackOwn(bytes))
  if (isCount(next)) return Effect.succeed(next)
  const { begin, end } = Tuple.range([], prefix)
  return Effect.map(state.getRange(begin, end, { limit: 1, reverse: true }), ([last]) => {
    const [number] = last === undefined ? [] : Result.getOrElse(Tuple.unpackResult(last.key, prefix.length), () => [])
    return isCount(number) ? number + 1 : 0
  })
}

/** Puts actions behind those of a server that wait, in their order (3). */
export const append = Effect.fnUntraced(function*(
  state: TransactionState,
  name: string,
  tuid: Tuple.Tuple,
  entries: ReadonlyArray<Entry>
): Effect.fn.Return<void> {
  const keys = new ChainKeys(state.prefix, name)
  const rows = keys.rowsOf(tuid)
  const bytes = yield* state.get(keys.next(tuid))
  let next = bytes === undefined ? undefined : yield* nextOf(state, rows, bytes)
  for (const entry of entries) {
    if (next === undefined) {
      yield* begin(state, name, keys, tuid, entry)
      next = 0
    } else {
      write(state, rows, next++, encode(entry))
      state.add(keys.count, Counters.PLUS_ONE)
    }
  }
  state.set(keys.next(tuid), packValue(next))
})

/** Makes a job of a server's first row, or takes away what there is no use for any more (2). */
export const step = Effect.fnUntraced(function*(
  state: TransactionState,
  name: string,
  tuid: Tuple.Tuple
): Effect.fn.Return<void> {
  const keys = new ChainKeys(state.prefix, name)
  const prefix = keys.rowsOf(tuid)
  const row = yield* first(state, prefix)
  if (row === undefined) {
    state.clear(keys.front(tuid))
    state.clear(keys.next(tuid))
    return
  }
  for (const key of row.keys) state.clear(key)
  state.add(keys.count, Counters.MINUS_ONE)
  const place = Buffer.from(row.keys[0]!.subarray(keys.prefix.length)).toString("hex")
  const damaged: Entry = {
    id: `damaged-${Keys.hash(place).toString(16)}-${Buffer.from(state.operationId.subarray(0, 20)).toString("hex")}`,
    tag: DAMAGED,
    data: packValue(dataOf(tuid, row.bytes)),
    trace: undefined
  }
  yield* begin(state, name, keys, tuid, decode(row.bytes) ?? damaged)
})

/** What follows from the end of a job: its server's next action (2). One that is no front any more has nothing to follow. */
export const advance =
  (name: string, tag: string) => (place: Place, id: Tuple.Element, data: Uint8Array): Effect.Effect<void> => {
    const { state } = place
    const tuid = tuidOf(Result.getOrUndefined(unpackOwn(data)))
    // whose it was is not known: the keeper finds the front that leads nowhere
    if (tuid === undefined) return Effect.void
    return Effect.flatMap(state.get(new ChainKeys(state.prefix, name).front(tuid)), (bytes) => {
      const front = readFront(bytes)
      return front?.id === id && front.tag === tag ? step(state, name, tuid) : Effect.void
    })
  }
