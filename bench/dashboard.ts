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

const ROUNDS = 10
const ROUND_MILLIS = 3_000
const CALLERS = 64
const BEGIN_MILLIS = 500

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

/** How a dashboard is open, for as long as a scope is. */
type Way = Effect.Effect<unknown, unknown, Scope.Scope | Tenant.Tenant>

/** How much of a core a dashboard's own process has used, in each round: steady on a busy machine, too. */
const cores: Array<number> = []

const told = (child: ChildProcess, word: object) =>
  Effect.map(said(child, word), (usage) => {
    const { system, user } = usage as NodeJS.CpuUsage
    return { cpuMillis: (system + user) / 1_000, at: performance.now() }
  })

/** A process that serves and asks; between rounds it does neither. */
const elsewhere = Effect.map(
  childOf("serve", path.join(folder, "bench.db")),
  (child): Way =>
    Effect.acquireRelease(
      told(child, { address: "its own" }),
      (before) =>
        Effect.map(told(child, {}), ({ at, cpuMillis }) => {
          cores.push((cpuMillis - before.cpuMillis) / (at - before.at))
        })
    )
)

/** Served by this process, and asked by another one. */
const here = Effect.map(
  childOf("ask", path.join(folder, "bench.db")),
  (child): Way =>
    Effect.gen(function*() {
      const source = yield* Source.make({ values: false, store: "" })
      const { url } = yield* serve({ port: 0, readOnly: true, source })
      yield* Effect.acquireRelease(told(child, { address: url }), () => told(child, {}))
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

/** The middle of what each round with it came to against the one beside it, and how far the middle half of them lies. */
const ratios = (withIt: ReadonlyArray<Measured>, without: ReadonlyArray<Measured>, of: "millis" | "cpuMillis") => {
  const all = withIt.map((one, round) => without[round]![of] / one[of]).toSorted((a, b) => a - b)
  const at = (part: number) => all[Math.floor(part * (all.length - 1))]!.toFixed(2)
  return `${median(all).toFixed(2)} (${at(0.25)}-${at(0.75)})`
}

/** By time, and by what this process computed: where others use the machine, the second is the steadier one. */
const report = (name: string, withIt: ReadonlyArray<Measured>, without: ReadonlyArray<Measured>) => {
  row("calls, 64 at a time", middle(without), "")
  row(`the same, dashboard ${name}`, middle(withIt), "")
  const [time, computed] = [ratios(withIt, without, "millis"), ratios(withIt, without, "cpuMillis")]
  console.log(`  of the rate without it (aim: 0.95) ${time}, by what this process computed ${computed}`)
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
  const ways = [["in another process", yield* elsewhere], ["in this process", yield* here]] as const
  for (const [name, open] of ways) {
    // a dashboard that begins is no dashboard that is open
    const withIt = Effect.scoped(open.pipe(Effect.andThen(Effect.sleep(BEGIN_MILLIS)), Effect.andThen(busy(server))))
    const without = Effect.andThen(Effect.sleep(BEGIN_MILLIS), busy(server))
    yield* withIt
    const rounds = { with: [] as Array<Measured>, without: [] as Array<Measured> }
    for (let round = 0; round < ROUNDS; round++) {
      // who comes first takes turns, so that a machine that becomes slower or faster does so for both
      if (round % 2 === 0) rounds.without.push(yield* without)
      rounds.with.push(yield* withIt)
      if (round % 2 === 1) rounds.without.push(yield* without)
    }
    report(name, rounds.with, rounds.without)
  }
  console.log(`the dashboard's own process: ${(100 * median(cores)).toFixed(1)} % of a core`)
})
