/**
 * Runs the simulations over many seeds, in so many processes as the machine has cores.
 *
 *   npm run simulate -- --seeds 10000
 *   npm run simulate -- --seed 4711        one seed, with its history
 */
import { Effect, Logger } from "effect"
import { fork } from "node:child_process"
import * as os from "node:os"
import { parseArgs } from "node:util"
import { scenarios } from "./scenarios.ts"

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    scenario: { type: "string" },
    worker: { type: "string" }
  }
})

const chosen = scenarios.filter((scenario) => values.scenario === undefined || scenario.name === values.scenario)
const command = (scenario: string, seed: number) => `npm run simulate -- --scenario ${scenario} --seed ${seed}`

const one = (scenario: (typeof scenarios)[number], seed: number) =>
  Effect.runPromise(Effect.result(scenario.run(seed)).pipe(Effect.provide(Logger.layer([]))))

/** One seed, told in full. */
const tell = async (seed: number): Promise<boolean> => {
  let isFine = true
  for (const scenario of chosen) {
    const result = await one(scenario, seed)
    if (result._tag === "Failure") {
      console.log(`${scenario.name}: ${result.failure.message}`)
      isFine = false
      continue
    }
    console.log(result.success.history.join("\n"))
    console.log(`${scenario.name}, seed ${seed}: ${result.success.problems.join("\n") || "all holds"}`)
    isFine &&= result.success.problems.length === 0
  }
  return isFine
}

/** A child: every so-manieth seed. */
const work = async (index: number, step: number, from: number, count: number) => {
  for (let seed = from + index; seed < from + count; seed += step) {
    for (const scenario of chosen) {
      const result = await one(scenario, seed)
      const problems = result._tag === "Failure" ? [result.failure.message] : result.success.problems
      if (problems.length > 0) process.send?.({ seed, scenario: scenario.name, problems })
    }
    process.send?.({ seed })
  }
  process.disconnect()
}

interface Report {
  readonly seed: number
  readonly scenario?: string
  readonly problems?: ReadonlyArray<string>
}

const lead = async (count: number): Promise<boolean> => {
  const workers = Math.max(1, Math.min(os.availableParallelism(), count))
  const started = performance.now()
  const failures: Array<Required<Report>> = []
  let done = 0
  const show = () => {
    const seconds = (performance.now() - started) / 1000
    const filled = Math.round((done / count) * 30)
    const bar = "#".repeat(filled).padEnd(30, ".")
    process.stderr.write(
      `\r[${bar}] ${done}/${count} seeds, ${(done / seconds).toFixed(1)} a second, ${failures.length} failed `
    )
  }
  await Promise.all(Array.from({ length: workers }, (_, index) =>
    new Promise<void>((resolve) => {
      const args = process.argv.slice(2).concat("--worker", `${index}/${workers}`)
      const child = fork(import.meta.filename, args, { execArgv: process.execArgv })
      child.on("message", (report: Report) => {
        if (report.problems === undefined) done++
        else failures.push(report as Required<Report>)
        if (process.stderr.isTTY || done === count) show()
      })
      child.on("exit", () => resolve())
    })))
  failures.sort((a, b) => a.seed - b.seed)
  const seconds = (performance.now() - started) / 1000
  console.log(
    `\n${done} seeds in ${seconds.toFixed(0)} s, ${(done / seconds).toFixed(1)} a second, ${failures.length} failed`
  )
  for (const { problems, scenario, seed } of failures.slice(0, 5)) {
    console.log(`${scenario}, seed ${seed}: ${problems.join("; ")}\n  ${command(scenario, seed)}`)
  }
  if (done < count) console.log(`${count - done} seeds did not run: a worker ended`)
  return failures.length === 0 && done === count
}

const [from, count] = [Number(values.from), Number(values.seeds)]
if (values.worker !== undefined) {
  const [index, step] = values.worker.split("/").map(Number)
  await work(index!, step!, from, count)
} else {
  const isFine = values.seed === undefined ? await lead(count) : await tell(Number(values.seed))
  process.exitCode = isFine ? 0 : 1
}
