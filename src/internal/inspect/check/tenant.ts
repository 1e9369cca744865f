/**
 * A check of a tenant: its servers one by one, each in a transaction of its own, then the indexes of its definitions and its
 * jobs, page by page. It reads by snapshot and writes nothing, so it disturbs nobody.
 *
 * What it says of one server, and of the counters of one type, is of one moment. What of an index and of a row is written
 * together is read together.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { BackendError } from "../../../BackendError.ts"
import { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { tuidOfKey } from "../../server/kept/indexes.ts"
import { libraryPrefix, processesPrefix } from "../../tenant/layout.ts"
import * as Listed from "../../tenant/listed.ts"
import { beatKey } from "../../tenant/presence.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { typesFrom } from "../jobs.ts"
import { textOf } from "../texts.ts"
import { checkDefinitions, type Paged } from "./definitions.ts"
import { type CheckProgress, type Finding, Findings } from "./finding.ts"
import { checkCounts, checkJobs } from "./jobs.ts"
import { checkServer } from "./server.ts"

/** What the library's keys begin with. */
const HEADS: ReadonlySet<unknown> = new Set(["p", "format", "copy", "h", "d", "listed", "repair", "s", "j", "a"])

/** Layers that one transaction looks at. */
const LAYERS = 100

/** Foreign keys that one transaction passes over. */
const FOREIGN_ROWS = 100

type Step = (state: TransactionState, from: Uint8Array | undefined) => Effect.Effect<Paged, never, Transaction>

/** The parts of a check in their order, and what of its progress each counts. */
const STEPS: ReadonlyArray<{ readonly step: Step; readonly counts: keyof CheckProgress | undefined }> = [
  { step: (state) => checkHeads(state), counts: undefined },
  { step: (state, from) => checkLayers(state, from), counts: undefined },
  { step: (state, from) => checkNextServer(state, from), counts: "servers" },
  { step: checkDefinitions, counts: "definitions" },
  { step: checkJobs, counts: "jobs" },
  { step: (state, from) => checkNextCounts(state, from), counts: undefined }
]

/** Keys of the library that are of nothing that this version keeps. */
const checkHeads = Effect.fnUntraced(function*(state: TransactionState): Effect.fn.Return<Paged> {
  const prefix = libraryPrefix(state.prefix)
  const { end } = Tuple.range([], prefix)
  const findings = new Findings("tenant", "")
  let at = prefix
  for (let looked = 0; looked < FOREIGN_ROWS; looked++) {
    const [row] = yield* state.getRange(at, end, { limit: 1, snapshot: true })
    if (row === undefined) break
    const [head] = Result.getOrElse(Tuple.unpackResult(row.key, prefix.length), (): Tuple.Tuple => [])
    // keys that end with bytes that are no element are of jobs
    const known = head === undefined ? knownHead(row.key, prefix) : HEADS.has(head) ? head : undefined
    if (known === undefined) {
      findings.add(
        "unknown",
        `a key that this version does not have: ${textOf(new Uint8Array(row.key.subarray(prefix.length)))}`
      )
    }
    at = known === undefined ? Keys.next(row.key) : Tuple.strinc(Tuple.pack([known], prefix))
  }
  return { findings: findings.all, looked: 0, next: undefined }
})

const knownHead = (key: Uint8Array, prefix: Uint8Array): Tuple.Element | undefined => {
  for (const head of HEADS) {
    const packed = Tuple.pack([head as string], prefix)
    if (Tuple.equalsBytes(key.subarray(0, packed.length), packed)) return head as string
  }
  return undefined
}

/** What processes keep for themselves stands beside their signs of life. */
const checkLayers = Effect.fnUntraced(function*(
  state: TransactionState,
  from: Uint8Array | undefined
): Effect.fn.Return<Paged> {
  const prefix = processesPrefix(state.prefix)
  const { begin, end } = Tuple.range([], prefix)
  const findings = new Findings("tenant", "")
  let at = from ?? begin
  for (let looked = 0; looked < LAYERS; looked++) {
    const [row] = yield* state.getRange(at, end, { limit: 1, snapshot: true })
    if (row === undefined) return { findings: findings.all, looked, next: undefined }
    const [layer] = Result.getOrElse(Tuple.unpackResult(row.key, prefix.length), (): Tuple.Tuple => [])
    if (layer instanceof Uint8Array) {
      if ((yield* state.get(beatKey(state.prefix, layer), true)) === undefined) {
        findings.add("owner", `rows of the process ${textOf(layer)} without a sign of life`)
      }
      at = Tuple.strinc(Tuple.pack([layer], prefix))
    } else {
      findings.add("unknown", "a key among those of processes that none has")
      at = Keys.next(row.key)
    }
  }
  return { findings: findings.all, looked: LAYERS, next: at }
})

/** The next server from a key on. */
const checkNextServer = Effect.fnUntraced(function*(
  state: TransactionState,
  from: Uint8Array | undefined
): Effect.fn.Return<Paged> {
  const prefix = Listed.serversPrefix(state.prefix)
  const { begin, end } = Tuple.range([], prefix)
  const [row] = yield* state.getRange(from ?? begin, end, { limit: 1, snapshot: true })
  if (row === undefined) return { findings: [], looked: 0, next: undefined }
  const tuid = tuidOfKey(row.key, prefix, 0)
  if (tuid === undefined) {
    const findings = new Findings("tenant", "")
    findings.add(
      "unknown",
      `a key among those of servers that none has: ${textOf(new Uint8Array(row.key.subarray(prefix.length)))}`
    )
    return { findings: findings.all, looked: 0, next: Keys.next(row.key) }
  }
  return {
    findings: yield* checkServer(state, tuid),
    looked: 1,
    next: Tuple.strinc(Tuple.pack([tuid], prefix))
  }
})

/** The counters of the next type from a key on. */
const checkNextCounts = Effect.fnUntraced(function*(
  state: TransactionState,
  from: Uint8Array | undefined
): Effect.fn.Return<Paged, never, Transaction> {
  const { begin } = Tuple.range([], Tuple.pack(["j"], libraryPrefix(state.prefix)))
  const { next, types } = yield* typesFrom(state, from ?? begin, 1)
  const [type] = types
  return { findings: type === undefined ? [] : yield* checkCounts(type), looked: 0, next }
})

/** Everything that does not belong, as it is found. */
export const check = (
  options: { readonly onProgress?: ((progress: CheckProgress) => void) | undefined } = {}
): Stream.Stream<Finding, BackendError, Tenant> =>
  Stream.unwrap(Effect.map(Tenant, (tenant) => {
    const progress = { servers: 0, definitions: 0, jobs: 0 }
    return Stream.paginate({ part: 0, from: undefined as Uint8Array | undefined }, ({ from, part }) => {
      const { counts, step } = STEPS[part]!
      const run = transact(tenant, Effect.flatMap(Transaction, (state) => step(state, from)))
      return Effect.map(run, ({ findings, looked, next }) => {
        if (counts !== undefined) progress[counts] += looked
        options.onProgress?.({ ...progress })
        const isLast = next === undefined && part === STEPS.length - 1
        const on = next === undefined ? { part: part + 1, from: undefined } : { part, from: next }
        return [findings, isLast ? Option.none() : Option.some(on)] as const
      })
    })
  }))
