/**
 * The indexes of a definition: what stands there of servers that are not, or of times that they do not wait for. Page by
 * page, each a transaction of its own.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { indexesOf, readWake, tuidOfKey } from "../../server/kept/indexes.ts"
import { ServerKeys } from "../../server/kept/layout.ts"
import { decode, recordKey } from "../../server/kept/record.ts"
import { libraryPrefix } from "../../tenant/layout.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { textOf } from "../texts.ts"
import { type Finding, Findings } from "./finding.ts"

const KINDS: ReadonlySet<unknown> = new Set(["list", "work", "bell", "wake", "record"])

/** What a page of entries came to, and where the next one begins. */
export interface Paged {
  readonly findings: ReadonlyArray<Finding>
  readonly looked: number
  readonly next: Uint8Array | undefined
}

/** Looks at entries of all definitions, from a key on. */
export const checkDefinitions = Effect.fnUntraced(function*(
  state: TransactionState,
  from: Uint8Array | undefined,
  limit: number
): Effect.fn.Return<Paged> {
  const prefix = Tuple.pack(["d"], libraryPrefix(state.prefix))
  const { begin, end } = Tuple.range([], prefix)
  const rows = yield* state.getRange(from ?? begin, end, { limit, snapshot: true })
  const found = yield* Effect.forEach(rows, ({ key }) => checkEntry(state, key, prefix), { concurrency: 16 })
  return {
    findings: found.flat(),
    looked: rows.length,
    next: rows.length < limit ? undefined : Keys.next(rows.at(-1)!.key)
  }
})

const checkEntry = Effect.fnUntraced(function*(
  state: TransactionState,
  key: Uint8Array,
  prefix: Uint8Array
): Effect.fn.Return<ReadonlyArray<Finding>> {
  const [name, kind] = Result.getOrElse(Tuple.unpackResult(key, prefix.length), (): Tuple.Tuple => [])
  const findings = new Findings("definition", typeof name === "string" ? name : textOf(new Uint8Array(key)))
  if (typeof name !== "string" || !KINDS.has(kind)) {
    findings.add("unknown", "a key that no index has")
    return findings.all
  }
  const indexes = indexesOf(state.prefix, name)
  if (kind === "list") {
    const tuid = tuidOfKey(key, indexes.list, 0)
    const head = tuid && (yield* state.get(new ServerKeys(state.prefix, tuid, { name, hosted: true }).head, true))
    if (head === undefined) {
      findings.add(
        "owner",
        `its list has ${tuid === undefined ? "what is no server" : textOf(tuid)}, which has no state`
      )
    }
  } else if (kind === "wake") {
    const [millis, tuid] = [
      Result.getOrUndefined(Tuple.unpackResult(key, indexes.wakes.length))?.[0],
      tuidOfKey(key, indexes.wakes, 1)
    ]
    const wake = tuid && (yield* state.get(new ServerKeys(state.prefix, tuid, { name, hosted: true }).wake, true))
    const known = readWake(wake)
    if (known === undefined || Math.floor(known) !== millis) {
      findings.add(
        "owner",
        `a wake-up of ${tuid === undefined ? "no server" : textOf(tuid)}, which waits for another time`
      )
    }
  } else if (kind === "record") {
    const bytes = yield* state.get(recordKey(state.prefix, name), true)
    if (decode(bytes) === undefined) findings.add("unreadable", "its record: tools hide values of its servers")
  }
  return findings.all
})
