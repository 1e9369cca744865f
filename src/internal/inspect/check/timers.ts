/** Whether the timers of a server fit each other: rows, the rows of their ids, the counter. */
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as TimerRows from "../../server/timers/rows.ts"
import type { Checked } from "./checked.ts"

/** See `server/timers/rows.ts`. */
export const checkTimers = ({ findings, keys, of }: Checked): void => {
  const ids = new Map(of("timerId").map((row) => [row.elements?.[1], row]))
  const timers = TimerRows.assemble(keys, of("timer"), true)
  const found = new Set<unknown>()
  for (const { timer } of timers) {
    if (timer === undefined) {
      findings.add("pieces", "a timer that cannot be read, or of which pieces are missing")
      continue
    }
    found.add(timer.id)
    const held = TimerRows.decodeHeld(ids.get(timer.id)?.value)
    const isHeld = held?.place !== undefined && Tuple.equalsBytes(held.mark, timer.mark) &&
      held.place.due === timer.due && BigInt(held.place.version) === BigInt(timer.version) &&
      held.place.index === timer.index
    if (!isHeld) {
      findings.add("owner", `the timer ${JSON.stringify(timer.id)}: the row of its id names another one, or none`)
    }
  }
  for (const [id, row] of ids) {
    const held = TimerRows.decodeHeld(row.value)
    if (held === undefined) findings.add("unreadable", `the row of the timer ${JSON.stringify(id)}`)
    else if (held.place !== undefined && !found.has(id)) {
      findings.add("missing", `the timer ${JSON.stringify(id)} is not where the row of its id says`)
    }
  }
  const said = Counters.read(of("timers")[0]?.value)
  if (said !== timers.length) findings.add("counter", `its counter says ${said} timers, and there are ${timers.length}`)
}
