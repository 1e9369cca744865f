/**
 * Background jobs next to those of other libraries: adding, and adding to finished, in jobs a second and as ratios
 * within one run. All of them keep what they have answered when the power fails, and do the same work: a payload of
 * some hundred bytes, and a handler that does nothing.
 *
 *   npm run bench:jobs
 *   npm run bench:jobs -- --only "16 workers" --against bullmq
 *
 * `--only` measures the rows whose title has these words, `--against` next to one contender: bullmq, pgBoss or graphileWorker.
 * PostgreSQL and Redis are started in a temporary folder and ended again; where one is missing, its line says so.
 */
import { parseArgs } from "node:util"
import { bullmq, type Contender, effectDgen, graphileWorker, onSqlite, pgBoss } from "./jobsContenders.ts"
import { compare } from "./jobsMeasures.ts"
import { startPostgres } from "./jobsServers.ts"

const { against, only } = parseArgs({ options: { only: { type: "string" }, against: { type: "string" } } }).values

const started = {
  effectDgen: () => Promise.resolve(effectDgen("SQLite, synchronous=FULL", onSqlite)),
  pgBoss: async () => pgBoss(await startPostgres()),
  graphileWorker: async () => graphileWorker(await startPostgres()),
  bullmq
}

const contenders: Array<Contender> = []
for (const [name, start] of Object.entries(started)) {
  if (against !== undefined && name !== "effectDgen" && name !== against) continue
  try {
    contenders.push(await start())
  } catch (cause) {
    console.log(`${name} is left out: ${cause instanceof Error ? cause.message : String(cause)}`)
  }
}
await compare(contenders, only)
