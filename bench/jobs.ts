/**
 * Background jobs next to those of other libraries: adding, and adding to finished, in jobs a second and as ratios
 * within one run. All of them keep what they have answered when the power fails, and do the same work: a payload of
 * some hundred bytes, and a handler that does nothing.
 *
 *   npm run bench:jobs
 *
 * PostgreSQL and Redis are started in a temporary folder and ended again; where one is missing, its line says so.
 */
import { bullmq, type Contender, effectDgen, graphileWorker, onSqlite, pgBoss } from "./jobsContenders.ts"
import { compare } from "./jobsMeasures.ts"
import { startPostgres } from "./jobsServers.ts"

const started = {
  effectDgen: () => Promise.resolve(effectDgen("SQLite, synchronous=FULL", onSqlite)),
  pgBoss: async () => pgBoss(await startPostgres()),
  graphileWorker: async () => graphileWorker(await startPostgres()),
  bullmq
}

const contenders: Array<Contender> = []
for (const [name, start] of Object.entries(started)) {
  try {
    contenders.push(await start())
  } catch (cause) {
    console.log(`${name} is left out: ${cause instanceof Error ? cause.message : String(cause)}`)
  }
}
await compare(contenders)
