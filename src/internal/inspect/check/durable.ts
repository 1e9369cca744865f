/**
 * Whether the durable actions of servers fit each other, as `server/durable/chain.ts` says it: of each server the first is a
 * job, which its front names; what waits behind it are whole rows with numbers below the next one; and nothing waits behind
 * nothing, since nobody would ever come for it. Page by page, each a transaction of its own.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import { unpackOwn } from "../../data/codec.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { keysOf } from "../../jobs/definition/model.ts"
import { hasEnded } from "../../jobs/kept/parents.ts"
import { decode, readData, type Row } from "../../jobs/kept/row.ts"
import { ChainKeys, ownerOf, readFront, rowsIn, tuidOf, typeOf } from "../../server/durable/chain.ts"
import { libraryPrefix } from "../../tenant/layout.ts"
import { isCount } from "../../tenant/limits.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { textOf } from "../texts.ts"
import type { Paged } from "./definitions.ts"
import { type Finding, Findings } from "./finding.ts"

/** Rows that are counted in one transaction. */
const COUNT_LIMIT = 100_000

/** Longer than the pieces of any action. */
const PIECES_LIMIT = 1_000

/** A definition's durable actions that are looked at. */
interface Look {
  readonly state: TransactionState
  readonly name: string
  readonly keys: ChainKeys
}

const chainsPrefix = (state: TransactionState): Uint8Array => Tuple.pack(["a"], libraryPrefix(state.prefix))

/** Looks at rows of the durable actions of all definitions, from a key on. */
export const checkDurable = Effect.fnUntraced(function*(
  state: TransactionState,
  from: Uint8Array | undefined,
  limit: number
): Effect.fn.Return<Paged> {
  const prefix = chainsPrefix(state)
  const { begin, end } = Tuple.range([], prefix)
  const rows = yield* state.getRange(from ?? begin, end, { limit, snapshot: true })
  const found = yield* Effect.forEach(
    rows,
    ({ key, value }) => {
      const [name, kind, ...rest] = Result.getOrElse(Tuple.unpackResult(key, prefix.length), (): Tuple.Tuple => [])
      if (typeof name !== "string") return Effect.succeed([unknown(textOf(new Uint8Array(key)))])
      return checkRow({ state, name, keys: new ChainKeys(state.prefix, name) }, String(kind), rest, value)
    },
    { concurrency: 16 }
  )
  return {
    findings: found.flat(),
    looked: rows.length,
    next: rows.length < limit ? undefined : Keys.next(rows.at(-1)!.key)
  }
})

const unknown = (subject: string): Finding => ({
  kind: "unknown",
  of: "definition",
  subject,
  problem: "a key that no durable actions have"
})

const checkRow = (
  look: Look,
  kind: string,
  [first, ...rest]: Tuple.Tuple,
  value: Uint8Array
): Effect.Effect<ReadonlyArray<Finding>> => {
  if (kind === "rows" && first === undefined || kind === "tag" && typeof first === "string") return Effect.succeed([])
  if (!Array.isArray(first)) return Effect.succeed([unknown(look.name)])
  const tuid = first as Tuple.Tuple
  const findings = new Findings("server", textOf(tuid))
  const check = kind === "front" && rest.length === 0
    ? checkFront(look, tuid, value, findings)
    : kind === "next" && rest.length === 0
    ? checkNext(look, tuid, value, findings)
    : kind === "row" && rest.length === 3
    ? checkWaiting(look, tuid, rest, findings)
    : Effect.sync(() => findings.add("unknown", "a key that no durable actions have"))
  return Effect.as(check, findings.all)
}

const jobOf = ({ state }: Look, name: string, tag: string, id: string): Effect.Effect<Row | "unreadable" | undefined> =>
  Effect.map(
    state.get(keysOf(state.prefix, typeOf(name, tag)).job(id), true),
    (bytes) => bytes === undefined ? undefined : decode(bytes) ?? "unreadable"
  )

const checkFront = Effect.fnUntraced(function*(
  look: Look,
  tuid: Tuple.Tuple,
  value: Uint8Array,
  findings: Findings
): Effect.fn.Return<void> {
  const { keys, name, state } = look
  const front = readFront(value)
  if (front === undefined) return findings.add("unreadable", "which of its durable actions is the first")
  const [job, number, tag] = yield* Effect.all([
    jobOf(look, name, front.tag, front.id),
    state.get(keys.next(tuid), true),
    state.get(Tuple.pack([front.tag], keys.tags), true)
  ], { concurrency: "unbounded" })
  const action = `its durable action ${JSON.stringify(front.tag)}`
  if (job === undefined) findings.add("missing", `${action} has no job: what waits behind it stands`)
  else if (job !== "unreadable") {
    if (hasEnded(job.state)) findings.add("owner", `${action} has ended, and what waits behind it stands`)
    const data = yield* readData(state, keysOf(state.prefix, typeOf(name, front.tag)), front.id, job)
    const owner = tuidOf(Result.getOrUndefined(unpackOwn(data.data)))
    if (owner === undefined || !isSame(owner, tuid)) findings.add("owner", `${action} is of another server, or of none`)
  }
  if (number === undefined) findings.add("missing", `${action} has nothing that says where the next one goes`)
  if (tag === undefined) findings.add("missing", `${action} is of a tag that its definition is not known to have`)
})

const isSame = (one: Tuple.Tuple, other: Tuple.Tuple): boolean => Tuple.equalsBytes(Tuple.pack(one), Tuple.pack(other))

const numberIn = (value: Uint8Array | undefined): number | undefined => {
  const number = value && Result.getOrUndefined(unpackOwn(value))
  return isCount(number) ? number : undefined
}

const checkNext = Effect.fnUntraced(function*(
  { keys, state }: Look,
  tuid: Tuple.Tuple,
  value: Uint8Array,
  findings: Findings
): Effect.fn.Return<void> {
  if (numberIn(value) === undefined) findings.add("unreadable", "where its next durable action goes")
  if ((yield* state.get(keys.front(tuid), true)) === undefined) {
    findings.add("owner", "where its next durable action goes is said, and none is the first: none will run")
  }
})

/** A piece of an action that waits. The first piece is looked at for all of them. */
const checkWaiting = Effect.fnUntraced(function*(
  { keys, state }: Look,
  tuid: Tuple.Tuple,
  [number, index, pieces]: Tuple.Tuple,
  findings: Findings
): Effect.fn.Return<void> {
  if (!isCount(number) || !isCount(index) || !isCount(pieces)) {
    return findings.add("unknown", "a key that no durable actions have")
  }
  const action = `its durable action ${number}`
  const prefix = keys.rowsOf(tuid)
  if (index > 0) {
    const first = yield* state.get(Tuple.pack([number, 0, pieces], prefix), true)
    if (first === undefined) findings.add("pieces", `${action} has no beginning`)
    return
  }
  const { begin, end } = Tuple.range([number], prefix)
  const [rows, front, next] = yield* Effect.all([
    state.getRange(begin, end, { limit: PIECES_LIMIT, snapshot: true }),
    state.get(keys.front(tuid), true),
    state.get(keys.next(tuid), true)
  ], { concurrency: "unbounded" })
  if (rows.length !== pieces) findings.add("pieces", `${action} has ${rows.length} of ${pieces} pieces`)
  else {
    const [whole] = rowsIn(keys, rows, true)
    const owner = whole?.entry && tuidOf(Result.getOrUndefined(unpackOwn(whole.entry.data)))
    if (whole?.entry === undefined) findings.add("unreadable", action)
    else if (owner === undefined || !isSame(owner, tuid)) {
      findings.add("owner", `${action} is of another server, or of none`)
    }
  }
  if (front === undefined) findings.add("owner", `${action} waits, and none is the first: it will not run`)
  const above = numberIn(next)
  if (above !== undefined && number >= above) findings.add("counter", `${action} stands where ${above} goes next`)
})

/** What the jobs that durable actions are have beside other jobs: one that has not ended is the first of its server. */
export const checkFirst = Effect.fnUntraced(function*(
  state: TransactionState,
  type: Tuple.Element,
  id: Tuple.Element,
  row: Row,
  findings: Findings
): Effect.fn.Return<void> {
  const owner = ownerOf(type)
  if (owner === undefined || hasEnded(row.state)) return
  const { data } = yield* readData(state, keysOf(state.prefix, type), id, row)
  const tuid = tuidOf(Result.getOrUndefined(unpackOwn(data)))
  if (tuid === undefined) return findings.add("unreadable", `the job ${textOf(id)}: whose durable action it is`)
  const front = readFront(yield* state.get(new ChainKeys(state.prefix, owner.name).front(tuid), true))
  if (front?.id !== id || front.tag !== owner.tag) {
    findings.add("owner", `the job ${textOf(id)} is a durable action of ${textOf(tuid)}, and not its first one`)
  }
})

/** Looks at the durable actions of the next definition from a key on. */
export const atNextDurable = (
  look: (state: TransactionState, name: string) => Effect.Effect<ReadonlyArray<Finding>>
) =>
  Effect.fnUntraced(
    function*(state: TransactionState, from: Uint8Array | undefined): Effect.fn.Return<Paged> {
      const prefix = chainsPrefix(state)
      const { begin, end } = Tuple.range([], prefix)
      const [row] = yield* state.getRange(from ?? begin, end, { limit: 1, snapshot: true })
      if (row === undefined) return { findings: [], looked: 0, next: undefined }
      const [name] = Result.getOrElse(Tuple.unpackResult(row.key, prefix.length), (): Tuple.Tuple => [])
      // what has no name was found with the rows
      if (typeof name !== "string") return { findings: [], looked: 0, next: Keys.next(row.key) }
      return { findings: yield* look(state, name), looked: 0, next: Tuple.strinc(Tuple.pack([name], prefix)) }
    }
  )

/** Whether the counter of a definition says how many durable actions wait. */
export const checkDurableCount = Effect.fnUntraced(
  function*(state: TransactionState, name: string): Effect.fn.Return<ReadonlyArray<Finding>> {
    const keys = new ChainKeys(state.prefix, name)
    const findings = new Findings("definition", name)
    const { begin, end } = Tuple.range([], keys.rows)
    const [said, rows] = yield* Effect.all([
      state.get(keys.count, true),
      state.getRange(begin, end, { limit: COUNT_LIMIT, snapshot: true })
    ], { concurrency: "unbounded" })
    if (rows.length === COUNT_LIMIT) findings.add("skipped", "it has too many durable actions that wait to count them")
    else {
      const [counted, found] = [Counters.read(said), rowsIn(keys, rows, true).length]
      if (counted !== found) {
        findings.add("counter", `its counter says ${counted} durable actions that wait, and there are ${found}`)
      }
    }
    return findings.all
  }
)
