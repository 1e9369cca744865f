/**
 * Work in another process on the same file: calls that it answers and jobs that it picks up, as multiples of two bare
 * commits (the caller's and the other's), and what both processes compute while nothing happens.
 */
import { Effect, Fiber } from "effect"
import { Tenant } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as path from "node:path"
import { nowMillis, Pickups, Tally } from "./processesChild.ts"
import { bareCommit, folder, head, type Measured, row, times } from "./support.ts"

const CALLS = 200
const WARM_UP = 20
const IDLE_MILLIS = 3_000
/** The caller is somewhere else in its own work when it calls. */
const PAUSE_MOST_MILLIS = 20

const said = <A>(child: ChildProcess, word?: string) =>
  Effect.callback<A>((resume) => {
    child.once("message", (message) => resume(Effect.succeed(message as A)))
    if (word !== undefined) child.send(word)
  })

const measured = (millis: number): Measured => ({ millis, cpuMillis: NaN, flushMillis: NaN, perFlush: NaN })

const sorted = (values: ReadonlyArray<number>) => values.toSorted((a, b) => a - b)

const report = (name: string, all: ReadonlyArray<number>, two: Measured) => {
  const values = sorted(all.slice(WARM_UP))
  for (const [which, part] of [["p50", 0.5], ["p99", 0.99]] as const) {
    const millis = values[Math.floor(values.length * part)]!
    const over = (millis - two.millis).toFixed(1)
    const aim = which === "p50" ? " (aim: + 5)" : ""
    row(
      `${name}, ${which}: two commits + ${over} ms${aim}`,
      measured(millis),
      `${(millis / two.millis).toFixed(2)} x two`
    )
  }
}

const pause = Effect.suspend(() => Effect.sleep(Math.random() * PAUSE_MOST_MILLIS))

const cpuOf = ({ system, user }: NodeJS.CpuUsage) => (system + user) / 1_000

/** What both processes compute in a second in which nothing happens. */
const idle = (child: ChildProcess) =>
  Effect.gen(function*() {
    const [before, own] = [yield* said<NodeJS.CpuUsage>(child, "cpu"), process.cpuUsage()]
    yield* Effect.sleep(IDLE_MILLIS)
    const [after, ownCpu] = [yield* said<NodeJS.CpuUsage>(child, "cpu"), process.cpuUsage(own)]
    return [cpuOf(after) - cpuOf(before), cpuOf(ownCpu)].map((millis) => (1_000 * millis) / IDLE_MILLIS)
  })

export const processes = Effect.gen(function*() {
  head("Two processes on one file")
  const bare = bareCommit()
  const two = measured(2 * bare.millis)
  row("two bare commits", two, "")
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => fork(path.join(import.meta.dirname, "processesChild.ts"), [path.join(folder, "bench.db")])),
    (running) => Effect.sync(() => running.kill())
  )
  yield* said(child)
  const tally = yield* Tally.client({ tuid: ["processes"] })
  const calls: Array<number> = []
  yield* times(
    CALLS + WARM_UP,
    Effect.gen(function*() {
      yield* pause
      const start = performance.now()
      yield* tally.call("Add", { by: 1 })
      calls.push(performance.now() - start)
    })
  )
  report("a call to the other process", calls, two)
  const pickups: Array<number> = []
  for (let i = 0; i < CALLS + WARM_UP; i++) {
    yield* pause
    const picked = yield* Effect.forkChild(said<number>(child), { startImmediately: true })
    yield* Tenant.transact(Pickups.add(`job ${i}`, { at: nowMillis() }))
    pickups.push(yield* Fiber.join(picked))
  }
  report("a job's pickup in the other process", pickups, two)
  const [theirs, ours] = yield* idle(child)
  row("idle, the other process: cpu ms a second", { ...measured(NaN), cpuMillis: theirs! }, "")
  row("idle, this process: cpu ms a second", { ...measured(NaN), cpuMillis: ours! }, "")
})
