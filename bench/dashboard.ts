/**
 * A busy server on a store whose dashboard is open, against the same without: the dashboard in another process on the file,
 * and in this one, beside the server. A view is asked for every two seconds, the overview mostly, by another process again. With and
 * without take turns, so that a machine that changes its mind does so for both.
 */
import { Effect, type Scope } from "effect"
import { Tenant } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as path from "node:path"
import { serve } from "../src/internal/dashboard/serving.ts"
import * as Source from "../src/internal/dashboard/source.ts"
import { behaviour, Counter, folder, head, measure, type Measured, row, together } from "./support.ts"

/** Servers that lie there, each with a message. */
const SERVERS = 10_000
const PART = 1_000

const ROUNDS = 6
const ROUND_MILLIS = 2_500
const CALLERS = 64

const median = (values: ReadonlyArray<number>) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!

const said = (child: ChildProcess, word?: object) =>
  Effect.callback<unknown>((resume) => {
    child.once("message", (message) => resume(Effect.succeed(message)))
    if (word !== undefined) child.send(word)
  })

/** The other process: it asks a dashboard that it is told, or serves one itself. */
const childOf = (...args: ReadonlyArray<string>): Effect.Effect<ChildProcess, never, Scope.Scope> =>
  Effect.tap(
    Effect.acquireRelease(
      Effect.sync(() => fork(path.join(import.meta.dirname, "dashboardChild.ts"), [...args])),
      (running) => Effect.sync(() => running.kill("SIGKILL"))
    ),
    (child) => said(child)
  )

/** How a dashboard comes to be open, for as long as a scope is. */
type Way = Effect.Effect<unknown, unknown, Scope.Scope | Tenant.Tenant>

/** A process that begins is busy with that for a while. */
const WARM_MILLIS = 5_000

/** How much of a core a dashboard's own process has used, in each round: steady on a busy machine, too. */
const cores: Array<number> = []

const used = (child: ChildProcess) =>
  Effect.map(said(child, {}), (usage) => {
    const { system, user } = usage as NodeJS.CpuUsage
    return { cpuMillis: (system + user) / 1_000, at: performance.now() }
  })

/** A process that serves and asks. */
const elsewhere: Way = Effect.gen(function*() {
  const child = yield* childOf("serve", path.join(folder, "bench.db"))
  yield* Effect.sleep(WARM_MILLIS)
  const before = yield* used(child)
  yield* Effect.addFinalizer(() =>
    Effect.map(used(child), ({ at, cpuMillis }) => {
      cores.push((cpuMillis - before.cpuMillis) / (at - before.at))
    })
  )
})

/** Served by this process, and asked by another one. */
const here = Effect.map(
  childOf("ask"),
  (child): Way =>
    Effect.gen(function*() {
      const source = yield* Source.make({ values: false, store: "" })
      const { url } = yield* serve({ port: 0, readOnly: true, source })
      yield* Effect.acquireRelease(said(child, { address: url }), () => said(child, {}))
    })
)

/** One round of calls, by what one of them took. */
const busy = (server: Effect.Success<ReturnType<typeof Counter.start>>) =>
  Effect.suspend(() => {
    const until = performance.now() + ROUND_MILLIS
    let calls = 0
    const caller = Effect.whileLoop({
      while: () => performance.now() < until,
      body: () => server.call("Add", { by: 1 }),
      step: () => calls++
    })
    return Effect.map(
      measure(1, together(Array.from({ length: CALLERS }, () => caller))),
      ({ cpuMillis, millis }): Measured => ({
        millis: millis / calls,
        cpuMillis: cpuMillis / calls,
        flushMillis: NaN,
        perFlush: NaN
      })
    )
  })

const middle = (rounds: ReadonlyArray<Measured>): Measured => ({
  ...rounds[0]!,
  millis: median(rounds.map(({ millis }) => millis)),
  cpuMillis: median(rounds.map(({ cpuMillis }) => cpuMillis))
})

/** By time, and by what this process computed: where others use the machine, the second is the steadier one. */
const report = (name: string, withIt: ReadonlyArray<Measured>, without: ReadonlyArray<Measured>) => {
  const [one, two] = [middle(without), middle(withIt)]
  row("calls, 64 at a time", one, "")
  row(
    `the same, dashboard ${name} (aim: 0.95)`,
    two,
    `${(one.millis / two.millis).toFixed(2)} cpu ${(one.cpuMillis / two.cpuMillis).toFixed(2)}`
  )
}

export const dashboard = Effect.gen(function*() {
  head("A busy server, with the dashboard open")
  for (let from = 0; from < SERVERS; from += PART) {
    yield* Tenant.transact(
      Effect.forEach(
        Array.from({ length: PART }, (_, n) => from + n),
        (n) => Counter.castTx("Note", { by: 1 }, { tuid: ["lies", n] }),
        { discard: true }
      )
    )
  }
  const server = yield* Counter.start(behaviour, { tuid: ["busy"], consumeK: 10 })
  yield* busy(server)
  const ways = [["in another process", elsewhere], ["in this process", yield* here]] as const
  for (const [name, open] of ways) {
    const rounds = { with: [] as Array<Measured>, without: [] as Array<Measured> }
    for (let round = 0; round < ROUNDS; round++) {
      rounds.without.push(yield* busy(server))
      rounds.with.push(yield* Effect.scoped(Effect.andThen(open, busy(server))))
    }
    report(name, rounds.with, rounds.without)
  }
  console.log(`the dashboard's own process: ${(100 * median(cores)).toFixed(1)} % of a core`)
})
