/**
 * How late timers are while 64 callers call in a loop, where each sync of the disk takes 5 ms. A C compiler makes what slows
 * the syncs down (`slowSync.c`); without one they take what they take.
 */
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import * as path from "node:path"
import { createHistogram } from "node:perf_hooks"
import { behaviour, Counter, folder, head, measure, options, row, times, together } from "./support.ts"

const CALLERS = 64
const CALLS_EACH = 300
const SYNC_MICROS = 5_000

const percent = [50, 99, 100] as const

/** How late a timer of a millisecond is, again and again. */
const lateness = () => {
  const late = createHistogram()
  let last = performance.now()
  const record = () => {
    const now = performance.now()
    late.record(Math.max(1, Math.round(1_000 * (now - last - 1))))
    last = now
  }
  const timer = setInterval(record, 1)
  return () => {
    clearInterval(timer)
    return percent.map((part) => late.percentile(part) / 1_000)
  }
}

const measured = (name: string, callOf: (caller: number) => Effect.Effect<unknown, unknown>) =>
  Effect.gen(function*() {
    const calls = (count: number) => together(Array.from({ length: CALLERS }, (_, i) => times(count, callOf(i))))
    yield* calls(CALLS_EACH / 3)
    const end = lateness()
    const result = yield* measure(CALLERS * CALLS_EACH, calls(CALLS_EACH))
    const [p50, p99, most] = end()
    row(`${name}: ${(1_000 / result.millis).toFixed(0)} calls a second`, result, "")
    console.log(`  timers are late by ${p50} ms (p50), ${p99} ms (p99; aim: 5), ${most} ms at the most`)
  })

/** Runs this part again, in a process whose syncs are slow; whether it could. */
const ranSlowly = (): boolean => {
  if (process.platform !== "linux" || process.env.SLOW_SYNC_MICROS !== undefined) return false
  const library = path.join(folder, "slowSync.so")
  try {
    execFileSync("cc", ["-shared", "-fPIC", "-o", library, path.join(import.meta.dirname, "slowSync.c"), "-ldl"])
  } catch {
    console.log("\nthere is no C compiler: syncs take what they take")
    return false
  }
  const own = [...process.execArgv, process.argv[1]!, "--only", "loop", "--folder", options.folder]
  const env = { ...process.env, LD_PRELOAD: path.resolve(library), SLOW_SYNC_MICROS: `${SYNC_MICROS}` }
  return spawnSync(process.execPath, own, { env, stdio: "inherit" }).status === 0
}

export const loop = Effect.gen(function*() {
  if (ranSlowly()) return
  const micros = process.env.SLOW_SYNC_MICROS
  head(`The event loop under ${CALLERS} callers${micros === undefined ? "" : `, each sync slower by ${micros} us`}`)
  const one = yield* Counter.start(behaviour, { tuid: ["loop"] })
  yield* measured("on one server", () => one.call("Add", { by: 1 }))
  const servers = yield* Effect.forEach(
    Array.from({ length: CALLERS }, (_, i) => i),
    (i) => Counter.start(behaviour, { tuid: ["loop", i] })
  )
  yield* measured(`on ${CALLERS} servers`, (i) => servers[i]!.call("Add", { by: 1 }))
})
