/**
 * What belongs to one server, looked at in one snapshot: whether its parts fit each other. The rules are those of the rooms
 * that write them: `queue/pieces.ts`, `server/kept/head.ts`, `server/kept/keyed.ts`, `server/timers/rows.ts`.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { messageOfThrown } from "../../data/thrown.ts"
import * as DeadLetters from "../../queue/deadLetters.ts"
import * as Envelopes from "../../queue/envelope.ts"
import * as Pieces from "../../queue/pieces.ts"
import * as Queue from "../../queue/queue.ts"
import * as Heads from "../../server/kept/head.ts"
import { isListed, readWake } from "../../server/kept/indexes.ts"
import { ServerKeys } from "../../server/kept/layout.ts"
import { parseRows, plainOf } from "../../state/stored.ts"
import * as Listed from "../../tenant/listed.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { recordOf } from "../servers.ts"
import { textOf } from "../texts.ts"
import type { Checked, Message } from "./checked.ts"
import { type Finding, Findings } from "./finding.ts"
import { checkKeyed } from "./keyed.ts"
import { byKind, type Row, rowsOf } from "./rows.ts"
import { checkTimers } from "./timers.ts"

/** What a server's keys begin with. */
const KINDS: ReadonlySet<unknown> = new Set([
  "name",
  "head",
  "state",
  "item",
  "push",
  "pop",
  "wait",
  "lock",
  "dead",
  "deads",
  "key",
  "keyRest",
  "keyEnd",
  "keyOpen",
  "keys",
  "timer",
  "timerId",
  "timers",
  "wake"
])

/** Checks a server in the transaction at hand. */
export const checkServer = Effect.fnUntraced(function*(
  state: TransactionState,
  tuid: Tuple.Tuple
): Effect.fn.Return<ReadonlyArray<Finding>> {
  const findings = new Findings("server", textOf(tuid))
  const keys = new ServerKeys(state.prefix, tuid, { name: "", hosted: false })
  const rows = yield* rowsOf(state, keys.prefix)
  if (rows === undefined) {
    findings.add("skipped", "it has too many rows to be looked at in one transaction")
    return findings.all
  }
  const kinds = byKind(rows)
  const of = (kind: string) => kinds.get(kind) ?? []
  for (const [kind, some] of kinds) {
    if (!KINDS.has(kind)) findings.add("unknown", `${some.length} rows with keys that no server has`)
  }
  const head = headOf(of("head")[0], findings)
  const messages = [
    ...checkPieces(of("item"), keys.items, "message", findings, (whole) => Queue.messageOf(whole.bytes)),
    ...checkPieces(of("dead"), keys.dead, "dead letter", findings, (whole) => DeadLetters.decode(whole.bytes)?.message),
    ...checkLock(of("lock"), head, findings)
  ]
  const checked: Checked = { keys, of, findings, head, messages }
  checkCounters(checked)
  checkState(checked)
  checkWaiting(checked)
  checkKeyed(checked)
  checkTimers(checked)
  yield* checkPlaces(state, checked)
  return findings.all
})

const headOf = (row: Row | undefined, findings: Findings): Heads.Head | undefined => {
  if (row === undefined) return undefined
  const head = Heads.decode(row.value)
  if (Result.isFailure(head)) findings.add("unreadable", head.failure)
  return Result.getOrUndefined(head)
}

/** Byte strings in pieces: each whole, and a message. */
const checkPieces = (
  rows: ReadonlyArray<Row>,
  prefix: Uint8Array,
  what: string,
  findings: Findings,
  messageOf: (whole: Pieces.Whole) => Uint8Array | undefined
): ReadonlyArray<Message> =>
  Pieces.assemble(prefix, rows, Infinity, true).flatMap((whole) => {
    const name = Pieces.nameOf(prefix, whole)
    const problem = Pieces.problemOf(prefix, whole)
    if (problem !== undefined) {
      findings.add("pieces", `${what} ${name}: ${problem}`)
      return []
    }
    const bytes = messageOf(whole)
    const envelope = bytes === undefined ? Result.fail("its row cannot be read") : Envelopes.decode(bytes)
    if (Result.isSuccess(envelope)) return [{ id: envelope.success.id ?? name, envelope: envelope.success }]
    if (bytes === undefined || !Envelopes.isNewer(bytes)) {
      findings.add("unreadable", `${what} ${name}: ${envelope.failure}`)
    }
    return []
  })

/** The messages of locks lie under the tokens that the head names, and nothing else does. */
const checkLock = (
  rows: ReadonlyArray<Row>,
  head: Heads.Head | undefined,
  findings: Findings
): ReadonlyArray<Message> => {
  const byToken = new Map<string, Array<Row>>()
  for (const row of rows) {
    const token = row.elements?.[1]
    const text = token instanceof Uint8Array ? Keys.toText(token) : ""
    byToken.set(text, [...byToken.get(text) ?? [], row])
  }
  // one that came past the queue leaves no message
  const lock = head?.lock?.attempts === undefined ? undefined : head.lock
  const tokens = new Set(
    [...(lock === undefined ? [] : [lock]), ...head?.fenced ?? []].map(({ token }) => Keys.toText(token))
  )
  for (const token of tokens) {
    if (!byToken.has(token)) findings.add("missing", "the message of its lock is not there: it is lost")
  }
  return Array.from(byToken, ([token, pieces]): ReadonlyArray<Message> => {
    if (!tokens.has(token)) findings.add("owner", "a message of a lock that nobody holds")
    if (!pieces.every(({ elements }, at) => elements?.[2] === at)) {
      findings.add("pieces", "the message of a lock: not all of its pieces are there")
      return []
    }
    const envelope = Envelopes.decode(Keys.concatAll(pieces.map(({ value }) => value)))
    if (Result.isFailure(envelope)) {
      findings.add("unreadable", `the message of a lock: ${envelope.failure}`)
      return []
    }
    return [{ id: envelope.success.id ?? "", envelope: envelope.success }]
  }).flat()
}

const checkCounters = ({ findings, keys, of }: Checked): void => {
  const counter = (kind: string): bigint => {
    const [row] = of(kind)
    if (row !== undefined && row.value.length !== 8) findings.add("counter", `the counter "${kind}" is none`)
    return Counters.readBigint(row?.value)
  }
  const is = (what: string, said: bigint, found: number) => {
    if (said !== BigInt(found)) findings.add("counter", `its counter says ${said} ${what}, and there are ${found}`)
  }
  const wholes = (rows: ReadonlyArray<Row>, prefix: Uint8Array) => Pieces.assemble(prefix, rows, Infinity, true).length
  is("messages", counter("push") - counter("pop"), wholes(of("item"), keys.items))
  is("dead letters", counter("deads"), wholes(of("dead"), keys.dead))
}

const checkState = ({ findings, head, keys, of }: Checked): void => {
  const rows = of("state")
  const hasHead = of("head").length > 0
  if (hasHead && of("name").length === 0) {
    findings.add("missing", "it has a state, and nothing says of which definition")
  }
  if (!hasHead && rows.length > 0) findings.add("owner", "rows of a state without a head")
  if (head === undefined) return
  if (rows.length === 0) return findings.add("missing", "its state is not there")
  const read = Result.try({
    try: () => plainOf(parseRows(rows, keys.state), []),
    catch: (thrown) => (thrown as { readonly problem?: string }).problem ?? messageOfThrown(thrown)
  })
  if (Result.isFailure(read)) findings.add("unreadable", `its state: ${read.failure}`)
}

/** Keys of calls that wait name the layer that waits. */
const checkWaiting = ({ findings, of }: Checked): void => {
  const isCall = ({ elements }: Row) =>
    elements?.length === 4 && typeof elements[1] === "number" && elements[2] instanceof Uint8Array &&
    typeof elements[3] === "number"
  const others = of("wait").filter((row) => !isCall(row)).length
  if (others > 0) findings.add("unknown", `${others} rows among the calls that wait that are none`)
}

/** Its places in the indexes of its definition. */
const checkPlaces = Effect.fnUntraced(function*(
  state: TransactionState,
  { findings, head, keys: { tuid }, messages, of }: Checked
): Effect.fn.Return<void> {
  const [stored] = of("name")
  const name = stored === undefined ? messages[0]?.envelope.server : Buffer.from(stored.value).toString()
  if (name === undefined || !isListed(name)) return
  const keys = new ServerKeys(state.prefix, tuid, { name, hosted: true })
  const { indexes } = keys.place
  const has = (key: Uint8Array) => Effect.map(state.get(key, true), (value) => value !== undefined)
  if (of("head").length > 0 && (yield* Listed.isComplete(state)) && !(yield* has(keys.place.listed))) {
    findings.add("missing", "it does not stand in the list of its definition")
  }
  if ((yield* recordOf(state, name))?.hosted !== true) return
  const hasEntry = yield* has(keys.place.entry)
  const isWaiting = of("item").length > 0 || (head !== undefined && Heads.kept(head) > 0)
  if (isWaiting && !hasEntry) findings.add("missing", "it has messages, and no entry that leads a host to it")
  const [wake] = of("wake")
  const millis = readWake(wake?.value)
  if (wake !== undefined && millis === undefined) findings.add("unreadable", "the time of its wake-up")
  if (hasEntry) return
  const due = of("timer")[0]?.elements?.[1]
  if (typeof due === "number" && (millis === undefined || millis > due)) {
    findings.add("missing", "it has timers, and nothing that wakes it for the first one")
  } else if (millis !== undefined && !(yield* has(indexes.wake(millis, tuid)))) {
    findings.add("missing", "its wake-up does not stand in the index of its definition")
  }
})
