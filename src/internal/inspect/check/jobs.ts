/**
 * Whether the jobs of a tenant and their indexes fit each other: each row has its entry and its data, each entry its row,
 * and the counters say how many entries there are. Page by page, each a transaction of its own; the counters of a type in one.
 */
import * as Effect from "effect/Effect"
import type { KeyValue } from "../../../Backend.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { STAMP_BYTES } from "../../jobs/definition/layout.ts"
import { bareModel, elementText, keysOf } from "../../jobs/definition/model.ts"
import { entryOf, isEntryOf } from "../../jobs/kept/places.ts"
import { decode, readData, remainsOf, type Row } from "../../jobs/kept/row.ts"
import { counts } from "../../jobs/operations/listing.ts"
import { decode as decodeSchedule } from "../../jobs/schedules/row.ts"
import { libraryPrefix } from "../../tenant/layout.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { typeOfKey } from "../jobs.ts"
import { textOf } from "../texts.ts"
import type { Paged } from "./definitions.ts"
import { checkFirst } from "./durable.ts"
import { type Finding, Findings } from "./finding.ts"

/** Entries of a type that are counted in one transaction. */
const COUNT_LIMIT = 100_000

/** Running jobs whose rows are read to see by which key they count. */
const RUNNING_LIMIT = 2_000

/** Kinds of keys that need no look: counters, bells, settings, what is cleared by its time. */
const PLAIN: ReadonlySet<unknown> = new Set([
  "moves",
  "bell",
  "settings",
  "timeout-changed",
  "record",
  "rate",
  "rate-end",
  "held",
  "ends"
])

/** Kinds of keys that stand beside the row of the job whose id they name first. */
const BESIDE: ReadonlySet<unknown> = new Set(["parent", "parent-data", "family"])

const ENTRIES: ReadonlySet<unknown> = new Set([
  "now",
  "pending",
  "pending-parked",
  "pending-parked-now",
  "pending-waits",
  "ended"
])

/** Looks at rows of all types, from a key on. */
export const checkJobs = Effect.fnUntraced(function*(
  state: TransactionState,
  from: Uint8Array | undefined,
  limit: number
): Effect.fn.Return<Paged> {
  const prefix = Tuple.pack(["j"], libraryPrefix(state.prefix))
  const { begin, end } = Tuple.range([], prefix)
  const rows = yield* state.getRange(from ?? begin, end, { limit, snapshot: true })
  const found = yield* Effect.forEach(rows, (row) => checkRow(state, row, prefix), { concurrency: 16 })
  return {
    findings: found.flat(),
    looked: rows.length,
    next: rows.length < limit ? undefined : Keys.next(rows.at(-1)!.key)
  }
})

const checkRow = Effect.fnUntraced(function*(
  state: TransactionState,
  row: KeyValue,
  prefix: Uint8Array
): Effect.fn.Return<ReadonlyArray<Finding>> {
  const found = typeOfKey(row.key, prefix)
  if (found === undefined) {
    const findings = new Findings("jobs", textOf(new Uint8Array(row.key.subarray(prefix.length))))
    findings.add("unknown", "a key that no type of jobs has")
    return findings.all
  }
  const { rest, type } = found
  const look = { state, type, keys: keysOf(state.prefix, type), findings: new Findings("jobs", textOf(type)) }
  const activity = look.keys.activity
  // what follows the prefix of activity entries can look like an element
  const isActivity = row.key.length === activity.length + STAMP_BYTES &&
    Tuple.equalsBytes(row.key.subarray(0, activity.length), activity)
  if (isActivity) yield* checkActivity(look, row)
  else yield* checkKind(look, row, rest ?? [])
  return look.findings.all
})

/** A type that is looked at. */
interface Look {
  readonly state: TransactionState
  readonly type: Tuple.Element
  readonly keys: ReturnType<typeof keysOf>
  readonly findings: Findings
}

const checkKind = (look: Look, row: KeyValue, [kind, ...rest]: Tuple.Tuple): Effect.Effect<void> => {
  if (kind === "job" && rest.length === 1) return checkJob(look, rest[0]!, row.value)
  if (kind === "piece" && rest.length === 2) return checkPiece(look, rest[0]!)
  if (kind === "seq" && rest.length === 1) return checkSeq(look, rest[0]!, row.value)
  if (ENTRIES.has(kind) && rest.length > 0) return checkEntry(look, rest.at(-1)!, row.key)
  if (BESIDE.has(kind) && rest.length > 0) return checkBeside(look, String(kind), rest[0]!)
  if (kind === "children" && rest.length === 4) return checkChild(look, rest[2]!, rest[3]!)
  return Effect.sync(() => {
    if (kind === "cron") {
      if (decodeSchedule(row.value) === "damaged") {
        look.findings.add("unreadable", `the schedule ${textOf(rest[0] ?? null)}`)
      }
    } else if (!PLAIN.has(kind)) look.findings.add("unknown", "a key that no type of jobs has")
  })
}

const load = ({ keys, state }: Look, id: Tuple.Element): Effect.Effect<Row | undefined | "unreadable"> =>
  Effect.map(
    state.get(keys.job(id), true),
    (bytes) => bytes === undefined ? undefined : decode(bytes) ?? "unreadable"
  )

const checkJob = Effect.fnUntraced(function*(look: Look, id: Tuple.Element, bytes: Uint8Array): Effect.fn.Return<void> {
  const { findings, keys, state } = look
  const row = decode(bytes)
  const name = `the job ${textOf(id)}`
  if (row === undefined) {
    if (!remainsOf(bytes).isNewer) findings.add("unreadable", name)
    return
  }
  const { dataBytes, nextBytes } = row.body
  if (row.body.bytes === undefined) {
    const { data, next } = yield* readData(state, keys, id, row)
    const isWhole = data.length === dataBytes && (next?.length ?? -1) === nextBytes
    if (!isWhole) findings.add("pieces", `${name}: pieces of its data are missing`)
  }
  yield* checkFirst(state, look.type, id, row, findings)
  const entry = entryOf(keys, id, row)
  if (entry !== undefined) {
    if ((yield* state.get(entry, true)) === undefined) {
      findings.add("missing", `${name} is ${row.state}, and does not stand among those`)
    }
    return
  }
  const stamp = yield* state.get(keys.seq(id), true)
  const activity = stamp && (yield* state.get(keys.activityEntry(stamp), true))
  if (activity === undefined) findings.add("missing", `${name} runs, and nobody can notice when its holder is silent`)
})

const checkPiece = (look: Look, id: Tuple.Element) =>
  Effect.map(load(look, id), (row) => {
    if (row === undefined || (row !== "unreadable" && row.body.bytes !== undefined)) {
      look.findings.add("owner", `a piece of data of the job ${textOf(id)}, which has none`)
    }
  })

const checkSeq = (look: Look, id: Tuple.Element, stamp: Uint8Array) =>
  Effect.map(load(look, id), (row) => {
    if (stamp.length !== STAMP_BYTES) look.findings.add("unreadable", `the sign of life of the job ${textOf(id)}`)
    else if (row === undefined || (row !== "unreadable" && row.state !== "running")) {
      look.findings.add("owner", `a sign of life of the job ${textOf(id)}, which does not run`)
    }
  })

const checkActivity = (look: Look, { key, value }: KeyValue) => {
  const { findings, keys, state } = look
  const id = keys.unpackId(value)
  const stamp = key.subarray(keys.activity.length)
  const seq = id === undefined ? Effect.undefined : state.get(keys.seq(id), true)
  return Effect.map(seq, (found) => {
    if (found === undefined || !Tuple.equalsBytes(found, stamp)) {
      findings.add(
        "owner",
        `a sign of life of the job ${id === undefined ? "of no id" : textOf(id)}, which has another one`
      )
    }
  })
}

const checkEntry = (look: Look, id: Tuple.Element, entry: Uint8Array) =>
  Effect.map(load(look, id), (row) => {
    if (row !== "unreadable" && !isEntryOf(look.keys, id, row, entry)) {
      look.findings.add("owner", `an entry of the job ${textOf(id)}, which is elsewhere, or gone`)
    }
  })

const checkBeside = (look: Look, kind: string, id: Tuple.Element) =>
  Effect.map(load(look, id), (row) => {
    if (row === undefined) look.findings.add("owner", `a row "${kind}" of the job ${textOf(id)}, which is gone`)
  })

/** Who waits for a job can be of another type. */
const checkChild = ({ findings, state }: Look, type: Tuple.Element, id: Tuple.Element) =>
  Effect.map(state.get(keysOf(state.prefix, type).job(id), true), (bytes) => {
    if (bytes === undefined) findings.add("owner", `the job ${textOf(id)} of type ${textOf(type)} waits, and is gone`)
  })

// --- counters ---

/** Whether the counters of a type say what there is. */
export const checkCounts = (type: Tuple.Element): Effect.Effect<ReadonlyArray<Finding>, never, Transaction> =>
  Effect.gen(function*() {
    const state = yield* Transaction
    const findings = new Findings("jobs", textOf(type))
    const keys = keysOf(state.prefix, type)
    const whole = (prefix: Uint8Array) => Tuple.range([], prefix)
    const ranges = {
      pending: [whole(keys.now), whole(keys.pending), whole(keys.parked), whole(keys.parkedNow), whole(keys.waits)],
      running: [whole(keys.seqs)],
      finished: [keys.endedOf("finished")],
      dead: [keys.endedOf("dead")]
    }
    const said = yield* Effect.orDie(counts(bareModel(type)))
    for (const [name, some] of Object.entries(ranges) as Array<[keyof typeof ranges, ReadonlyArray<Tuple.KeyRange>]>) {
      let found = 0
      for (const { begin, end } of some) {
        found += (yield* state.getRange(begin, end, { limit: COUNT_LIMIT, snapshot: true })).length
      }
      if (found >= COUNT_LIMIT) findings.add("skipped", `it has too many ${name} jobs to be counted in one transaction`)
      else if (found !== said[name]) {
        findings.add("counter", `its counters say ${said[name]} ${name} jobs, and there are ${found}`)
      }
    }
    yield* checkHeld({ state, type, keys, findings })
    return findings.all
  })

/** How many run of each key. */
const checkHeld = Effect.fnUntraced(function*(look: Look): Effect.fn.Return<void> {
  const { findings, keys, state } = look
  const seqs = Tuple.range([], keys.seqs)
  const running = yield* state.getRange(seqs.begin, seqs.end, { limit: RUNNING_LIMIT, snapshot: true })
  if (running.length === RUNNING_LIMIT) {
    return findings.add("skipped", "it has too many running jobs to be counted by their keys")
  }
  const rows = yield* Effect.forEach(running, ({ key }) => load(look, keys.lastOf(key, keys.seqs) ?? null), {
    concurrency: 16
  })
  const byKey = new Map<string, number>()
  for (const row of rows) {
    if (row === undefined || row === "unreadable" || row.key === undefined) continue
    byKey.set(elementText(row.key), (byKey.get(elementText(row.key)) ?? 0) + 1)
  }
  const prefix = Tuple.pack(["held"], keys.prefix)
  const { begin, end } = Tuple.range([], prefix)
  const held = yield* state.getRange(begin, end, { limit: COUNT_LIMIT, snapshot: true })
  for (const { key, value } of held) {
    const counted = keys.lastOf(key, prefix)
    const found = counted === undefined ? 0 : byKey.get(elementText(counted)) ?? 0
    if (counted !== undefined) byKey.delete(elementText(counted))
    if (Counters.read(value) !== found) {
      findings.add(
        "counter",
        `of the key ${textOf(counted ?? null)} run ${found}, and its counter says ${Counters.read(value)}`
      )
    }
  }
  for (const [, found] of byKey) findings.add("counter", `${found} jobs of a key run, which has no counter`)
})
