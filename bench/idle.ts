/** Servers that have nothing to do: what they cost alone, and beside a process that commits to another tenant. */
import { Effect } from "effect"
import { spawn } from "node:child_process"
import * as path from "node:path"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { behaviour, Counter, folder, head, measure, options, row } from "./support.ts"

const SERVERS = Number(options.servers)

/** Longer than any timer that all servers could share. */
const WATCH_MILLIS = 35_000

const CALLS = 500
const FOREIGN_COMMITS_A_SECOND = 50

const collect = Effect.promise(async () => {
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return process.memoryUsage().heapUsed
})

/** Watches the event loop while an effect runs: the longest pause, and how much of a core was used. */
export const watched = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const delays = monitorEventLoopDelay({ resolution: 5 })
    delays.enable()
    const cpu = process.cpuUsage()
    const start = performance.now()
    return Effect.map(effect, (value) => {
      delays.disable()
      const { system, user } = process.cpuUsage(cpu)
      const millis = performance.now() - start
      return { value, millis, pauseMillis: delays.max / 1e6, core: (system + user) / 1_000 / millis }
    })
  })

/**
 * Watches the event loop of a process that rests for some time, and then what it takes of a core for as long: who measures
 * delays wakes it two hundred times a second, and would be most of that.
 */
export const rested = (millis: number) =>
  Effect.gen(function*() {
    const { pauseMillis } = yield* watched(Effect.sleep(millis))
    const cpu = process.cpuUsage()
    yield* Effect.sleep(millis)
    const { system, user } = process.cpuUsage(cpu)
    return { pauseMillis, core: (system + user) / 1_000 / millis }
  })

/** One line for what was seen of the event loop. */
export const pauses = (name: string, seen: { readonly pauseMillis: number; readonly core: number }) =>
  console.log(
    `${name.padEnd(56)}longest pause ${seen.pauseMillis.toFixed(1)} ms, ${(100 * seen.core).toFixed(2)} % of a core`
  )

/** The times of calls with pauses between them, in order. */
const callTimes = (server: Effect.Success<ReturnType<typeof Counter.start>>) =>
  Effect.map(
    Effect.replicateEffect(
      Effect.andThen(
        Effect.sleep(4),
        Effect.suspend(() => {
          const start = performance.now()
          return Effect.map(server.call("Add", { by: 1 }), () => performance.now() - start)
        })
      ),
      CALLS
    ),
    (times) => times.sort((a, b) => a - b)
  )

const at = (times: ReadonlyArray<number>, part: number) => times[Math.floor(part * (times.length - 1))]!

const foreign = Effect.acquireRelease(
  Effect.callback<ReturnType<typeof spawn>>((resume) => {
    const script = path.join(import.meta.dirname, "foreignChild.ts")
    const child = spawn(
      process.execPath,
      ["--conditions=effect-dgen-source", script, path.join(folder, "bench.db"), String(FOREIGN_COMMITS_A_SECOND)],
      { stdio: ["ignore", "pipe", "inherit"] }
    )
    child.stdout!.once("data", () => resume(Effect.succeed(child)))
  }),
  (child) => Effect.sync(() => child.kill("SIGKILL"))
)

export const idle = Effect.gen(function*() {
  head(`${SERVERS} idle servers`)
  const start = (name: string, count: number) =>
    Effect.forEach(
      Array.from({ length: count }, (_, i) => i),
      (i) => Counter.start(behaviour, { tuid: [name, i] }),
      { concurrency: 32 }
    )
  yield* start("warm idle", 1_000)
  const own = yield* Counter.start(behaviour, { tuid: ["own"] })
  yield* callTimes(own)
  const alone = yield* callTimes(own)
  const before = yield* collect
  const started = yield* watched(measure(SERVERS, start("idle", SERVERS)))
  const after = yield* collect
  row("a start", started.value, `${((after - before) / SERVERS).toFixed(0)} B each`)
  const quiet = yield* rested(WATCH_MILLIS)
  pauses("alone", quiet)
  const among = yield* callTimes(own)
  yield* Effect.scoped(Effect.gen(function*() {
    yield* foreign
    yield* Effect.sleep(1_000)
    const beside = yield* rested(WATCH_MILLIS)
    pauses(`beside ${FOREIGN_COMMITS_A_SECOND} commits a second by another process`, beside)
    const calls = yield* callTimes(own)
    for (const part of [0.5, 0.99]) {
      const ratios = [at(among, part) / at(alone, part), at(calls, part) / at(among, part)]
      console.log(
        `an own call, p${100 * part}`.padEnd(56) +
          `${at(calls, part).toFixed(2)} ms: ${ratios[1]!.toFixed(2)} x without the other process, ` +
          `without it ${ratios[0]!.toFixed(2)} x without the servers`
      )
    }
  }))
})
