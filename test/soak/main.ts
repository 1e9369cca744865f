/**
 * Processes on a SQLite file, killed with SIGKILL every few hundred milliseconds, or stopped for a while, for as long as you
 * like: in rounds, each with a file of its own that is checked at the end.
 *
 *   npm run soak -- --seconds 120
 */
import { Effect, Logger } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { parseArgs } from "node:util"
import { type Report, soak } from "./soak.ts"

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    /** The file system to use. */
    folder: { type: "string", default: os.tmpdir() }
  }
})

/** A state that grows for longer takes longer to read than a process lives. */
const ROUND_MILLIS = 20_000

const CHECKED =
  "what was acknowledged is in the state once, in its senders' order, with the answers that were given; " +
  "no refused message was applied; actions ran at most once; the queue and the lock are empty; no key is left over; " +
  "the accounts hold what was put in, each message of theirs was applied once, no two callers have one ticket; what " +
  "processes beside them counted is stored"

const rounds = Math.max(1, Math.round(Number(values.seconds) * 1_000 / ROUND_MILLIS))
const millis = Number(values.seconds) * 1_000 / rounds
const totals = { kills: 0, stops: 0, lives: 0, acknowledged: 0, applied: 0, actions: 0, fragile: 0, tickets: 0 }
const started = performance.now()

const show = (round: number, { acknowledged, kills }: { readonly kills: number; readonly acknowledged: number }) => {
  const seconds = ((performance.now() - started) / 1_000).toFixed(0)
  process.stderr.write(
    `\r${seconds} s of ${values.seconds}, round ${round + 1} of ${rounds}: ` +
      `${totals.kills + kills} kills, ${totals.acknowledged + acknowledged} messages acknowledged `
  )
}

const problems: Array<string> = []
console.log(`seed ${values.seed}`)
for (let round = 0; round < rounds && problems.length === 0; round++) {
  const folder = fs.mkdtempSync(path.join(values.folder, "effect-dgen-soak-"))
  const store = path.join(folder, "soak.db")
  const run = soak({
    store,
    folder,
    millis,
    seed: Number(values.seed) + round,
    progress: (progress) => process.stderr.isTTY && show(round, progress)
  })
  const report: Report = await Effect.runPromise(Effect.provide(run, Logger.layer([])))
  for (const name of Object.keys(totals) as Array<keyof typeof totals>) totals[name] += report[name]
  show(round, { kills: 0, acknowledged: 0 })
  problems.push(...report.problems)
  if (report.problems.length === 0) fs.rmSync(folder, { recursive: true })
  else console.log(`\nthe file is kept: ${store}`)
}

const { acknowledged, actions, applied, fragile, kills, lives, stops, tickets } = totals
console.log(
  `\n${lives} processes, ${kills} killed in their work, ${stops} times one stood still; ${acknowledged} messages ` +
    `acknowledged, ${applied} applied, ${actions} actions heard of; ${fragile} messages to accounts, ${tickets} tickets`
)
console.log(problems.length === 0 ? `All holds: ${CHECKED}.` : problems.slice(0, 20).join("\n"))
process.exitCode = problems.length === 0 ? 0 : 1
