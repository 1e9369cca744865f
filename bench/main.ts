/**
 * Durable servers against bare SQLite commits of the same bytes in the same file system, as ratios within one run.
 *
 *   npm run bench
 *   npm run bench -- --only calls --folder /dev/shm
 *   npm run bench -- --only backlog --backlog 1000000
 *   npm run bench -- --only idle --servers 10000
 *   npm run bench -- --only hosting --existing 1000000
 *   npm run bench -- --only hosting --part timers
 *   npm run bench -- --only clearing --messages 1000000
 *   npm run bench -- --only keys
 *   npm run bench -- --only dashboard
 *
 * `flush ms` is what one commit of SQLite took, its sync included: on a disk mostly that, so that ratios of different disks
 * can be told apart. `per flush` is how many runs shared one sync.
 */
import { Effect } from "effect"
import * as fs from "node:fs"
import { backlog } from "./backlog.ts"
import { calls, throughput } from "./calls.ts"
import { clearing } from "./clearing.ts"
import { dashboard } from "./dashboard.ts"
import { hosting } from "./hosting.ts"
import { idle } from "./idle.ts"
import { keys } from "./keys.ts"
import { loop } from "./loop.ts"
import { memory } from "./memory.ts"
import { processes } from "./processes.ts"
import { states } from "./state.ts"
import { folder, options, store, warmUp } from "./support.ts"

const parts = { calls, throughput, keys, loop, backlog, states, memory, processes, idle, hosting, clearing, dashboard }

const program = Effect.gen(function*() {
  yield* warmUp
  for (const [name, part] of Object.entries(parts)) {
    if (options.only === undefined || options.only === name) yield* Effect.scoped(part as typeof calls)
  }
})

await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(store)))
fs.rmSync(folder, { recursive: true })
