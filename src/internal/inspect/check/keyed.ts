/** Whether the keys of a server's messages fit each other: rows, their ends, the rests of answers, the counter. */
import * as Counters from "../../data/counters.ts"
import * as Keyed from "../../server/kept/keyed.ts"
import type { Checked } from "./checked.ts"
import type { Row } from "./rows.ts"

const keyAt = (row: Row, at: number): string => {
  const key = row.elements?.[at]
  return typeof key === "string" ? key : ""
}

/** What lies beside the rows of keys, by key. */
interface Beside {
  readonly ends: ReadonlySet<string>
  readonly open: ReadonlySet<string>
  /** The numbers of the pieces of answers. */
  readonly rests: ReadonlyMap<string, ReadonlyArray<unknown>>
  /** The keys of messages that are somewhere. */
  readonly messages: ReadonlySet<string | undefined>
}

const endText = (millis: unknown, key: string): string => `${String(millis)} ${key}`

/** See `server/kept/keyed.ts`. */
export const checkKeyed = (checked: Checked): void => {
  const { findings, messages, of } = checked
  const rows = new Map(of("key").map((row) => [keyAt(row, 1), Keyed.decode(row.value)]))
  const rests = new Map<string, Array<unknown>>()
  for (const rest of of("keyRest")) {
    const known = rests.get(keyAt(rest, 1))
    if (known === undefined) rests.set(keyAt(rest, 1), [rest.elements?.[2]])
    else known.push(rest.elements?.[2])
  }
  const beside: Beside = {
    ends: new Set(of("keyEnd").map((end) => endText(end.elements?.[1], keyAt(end, 2)))),
    open: new Set(of("keyOpen").map((one) => keyAt(one, 1))),
    rests,
    messages: new Set(messages.map(({ envelope }) => envelope.key))
  }
  for (const [key, row] of rows) {
    if (row === undefined || key === "") findings.add("unreadable", `the row of the key ${JSON.stringify(key)}`)
    else checkRow(checked, key, row, beside)
  }
  checkOwners(checked, rows)
  const counted = Array.from(rows.values()).filter((row) => row?._tag === "Open" || row?._tag === "Done").length
  const said = Counters.read(of("keys")[0]?.value)
  if (said !== counted) findings.add("counter", `its counter says ${said} keys of messages, and there are ${counted}`)
}

const checkRow = ({ findings }: Checked, key: string, row: Keyed.Row, beside: Beside): void => {
  const text = JSON.stringify(key)
  if (row._tag === "Open") {
    if (row.isLeft !== beside.open.has(key)) {
      findings.add("missing", `the key ${text} is open, and does not stand among the open ones`)
    }
    if (!row.isLeft && !beside.messages.has(key)) {
      findings.add("owner", `the key ${text} is open, and its message is not there`)
    }
    return
  }
  if (!beside.ends.has(endText(row.endMillis, key))) {
    findings.add("missing", `the key ${text} has no end: it is kept for ever`)
  }
  const rest = beside.rests.get(key) ?? []
  if (rest.length !== row.rest || !rest.every((index, at) => index === at)) {
    findings.add("pieces", `the answer of the key ${text}: not all of its pieces are there, or too many`)
  }
}

/** What belongs to rows that are not there. */
const checkOwners = ({ findings, of }: Checked, rows: ReadonlyMap<string, Keyed.Row | undefined>): void => {
  for (const one of of("keyEnd")) {
    const row = rows.get(keyAt(one, 2))
    const isOf = row !== undefined && row._tag !== "Open" && row.endMillis === one.elements?.[1]
    if (!isOf) {
      findings.add("owner", `an end of the key ${JSON.stringify(keyAt(one, 2))}, which has another one, or none`)
    }
  }
  for (const [kind, what] of [["keyRest", "a piece of an answer"], ["keyOpen", "an open one"]] as const) {
    for (const one of of(kind)) {
      const row = rows.get(keyAt(one, 1))
      const isOf = row !== undefined && (row._tag === "Open") === (kind === "keyOpen")
      if (!isOf) findings.add("owner", `${what} of the key ${JSON.stringify(keyAt(one, 1))}, which has none`)
    }
  }
}
