/**
 * A check of a tenant: its servers one by one, each in a transaction of its own, then the indexes of its definitions, its jobs
 * and durable actions, page by page. It reads by snapshot and writes nothing, so it disturbs nobody.
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
import { isTooOld, Pace, paced } from "../walking.ts"
import { checkDefinitions, type Paged } from "./definitions.ts"
import { atNextDurable, checkDurable, checkDurableCount } from "./durable.ts"
import { type CheckProgress, type Finding, Findings } from "./finding.ts"
import { checkCounts, checkJobs } from "./jobs.ts"
import { checkServer } from "./server.ts"

/** What the library's keys begin with. */
const HEADS: ReadonlySet<unknown> = new Set(["p", "format", "copy", "h", "d", "listed", "repair", "s", "j", "a"])

/** Layers that one transaction looks at. */
const LAYERS = 100

/** Foreign keys that one transaction passes over. */
const FOREIGN_ROWS = 100

type Step = (
  state: TransactionState,
  from: Uint8Array | undefined,
  limit: number
) => Effect.Effect<Paged, never, Transaction>

/** Rows of one transaction: some have long data. */
const PAGE_ROWS = 200

/**
 * So often something is looked at that must be seen as a whole, and is written to meanwhile: with the pauses between the
 * tries some seconds.
 */
const WHOLE_TRIES = 40

/** A part of a check. What it looks at as a whole, and what is never at rest, is passed over. */
interface Part {
  readonly step: Step
  readonly passOver?: Step
  /** What of its progress it counts. */
  readonly counts?: keyof CheckProgress
}

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

const restless = (of: Finding["of"], subject: string): ReadonlyArray<Finding> => [
  { kind: "skipped", of, subject, problem: "it is written to all the time: look again when it rests" }
]

/** Looks at the next server from a key on. */
const atNextServer = (look: (state: TransactionState, tuid: Tuple.Tuple) => Effect.Effect<ReadonlyArray<Finding>>) =>
  Effect.fnUntraced(
    function*(state: TransactionState, from: Uint8Array | undefined): Effect.fn.Return<Paged> {
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
      const findings = yield* look(state, tuid)
      return { findings, looked: 1, next: Tuple.strinc(Tuple.pack([tuid], prefix)) }
    }
  )

/** Looks at the counters of the next type from a key on. */
const atNextType = (look: (type: Tuple.Element) => Effect.Effect<ReadonlyArray<Finding>, never, Transaction>) =>
  Effect.fnUntraced(
    function*(state: TransactionState, from: Uint8Array | undefined): Effect.fn.Return<Paged, never, Transaction> {
      const { begin } = Tuple.range([], Tuple.pack(["j"], libraryPrefix(state.prefix)))
      const { next, types } = yield* typesFrom(state, from ?? begin, 1)
      const [type] = types
      return { findings: type === undefined ? [] : yield* look(type), looked: 0, next }
    }
  )

/** The parts of a check in their order. */
const PARTS: ReadonlyArray<Part> = [
  { step: checkHeads },
  { step: checkLayers },
  {
    step: atNextServer(checkServer),
    passOver: atNextServer((_, tuid) => Effect.succeed(restless("server", textOf(tuid)))),
    counts: "servers"
  },
  { step: checkDefinitions, counts: "definitions" },
  { step: checkJobs, counts: "jobs" },
  {
    step: atNextType(checkCounts),
    passOver: atNextType((type) => Effect.succeed(restless("jobs", textOf(type))))
  },
  { step: checkDurable, counts: "definitions" },
  {
    step: atNextDurable(checkDurableCount),
    passOver: atNextDurable((_, name) => Effect.succeed(restless("definition", name)))
  }
]

/** Runs a step of a part, with a page that is short enough. */
const run = (tenant: Tenant["Service"], pace: Pace, { passOver, step }: Part, from: Uint8Array | undefined) => {
  const page = (rows: number, it: Step) => Effect.flatMap(Transaction, (state) => it(state, from, rows))
  if (passOver === undefined) return paced(tenant, pace, (rows) => page(rows, step))
  return Effect.catchIf(
    transact(tenant, page(1, step), { tries: WHOLE_TRIES }),
    isTooOld,
    () => transact(tenant, page(1, passOver))
  )
}

/** Everything that does not belong, as it is found. */
export const check = (
  options: { readonly onProgress?: ((progress: CheckProgress) => void) | undefined } = {}
): Stream.Stream<Finding, BackendError, Tenant> =>
  Stream.unwrap(Effect.map(Tenant, (tenant) => {
    const progress = { servers: 0, definitions: 0, jobs: 0 }
    const pace = new Pace(PAGE_ROWS)
    return Stream.paginate({ at: 0, from: undefined as Uint8Array | undefined }, ({ at, from }) => {
      const part = PARTS[at]!
      return Effect.map(run(tenant, pace, part, from), ({ findings, looked, next }) => {
        if (part.counts !== undefined) progress[part.counts] += looked
        options.onProgress?.({ ...progress })
        const isLast = next === undefined && at === PARTS.length - 1
        const on = next === undefined ? { at: at + 1, from: undefined } : { at, from: next }
        return [findings, isLast ? Option.none() : Option.some(on)] as const
      })
    })
  }))
