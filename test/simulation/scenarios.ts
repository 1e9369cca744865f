/** What is simulated: each scenario runs from a seed and says what does not hold. */
import { Effect } from "effect"
import { allFaults, type Faults, run, type SimulationStuck } from "../../src/testing/Simulation.ts"
import * as Jobs from "./jobs.ts"
import { check, makeTold, send, serve, settle } from "./journal.ts"

/** How one seed of a scenario went. */
export interface Outcome {
  readonly history: ReadonlyArray<string>
  readonly problems: ReadonlyArray<string>
  readonly value: unknown
  readonly simulatedMillis: number
}

export interface Scenario {
  readonly name: string
  readonly run: (seed: number) => Effect.Effect<Outcome, SimulationStuck | Error>
}

const died = (history: ReadonlyArray<string>): boolean => history.some((line) => / dies | killed/.test(line))

const journal = (name: string, faults: Faults): Scenario => ({
  name,
  run: (seed) => {
    const told = makeTold()
    return run({ seed, faults }, (world) =>
      Effect.gen(function*() {
        yield* world.spawn("server one", serve(told, { lockTimeout: "5 seconds", consumeK: 1 }), { restart: true })
        yield* world.spawn("server two", serve(told, { lockTimeout: "5 seconds", consumeK: 7 }), { restart: true })
        const senders = yield* Effect.forEach(["a", "b", "c"], (sender) => world.spawn(sender, send(told, sender, 20)))
        yield* Effect.forEach(senders, (sender) => sender.exit)
        return yield* settle(world, told)
      })).pipe(
        Effect.mapError((error) => error as SimulationStuck | Error),
        Effect.map((result) => ({ ...result, problems: check(told, result.value, died(result.history)) }))
      )
  }
})

/** Deaths come with an end to some checks: the scenario without them holds actions to exactly once. */
const { death: _, ...survivable } = allFaults

const jobs = (name: string, faults: Faults): Scenario => ({
  name,
  run: (seed) => {
    const known = Jobs.makeKnown()
    return run({ seed, faults }, (world) =>
      Effect.gen(function*() {
        yield* world.spawn("worker one", Jobs.work, { restart: true })
        yield* world.spawn("worker two", Jobs.work, { restart: true })
        const creators = yield* Effect.forEach(
          ["a", "b"],
          (creator) => world.spawn(creator, Jobs.create(known, creator, 15), { restart: true })
        )
        yield* Effect.forEach(creators, (creator) => creator.exit)
        return yield* Jobs.settle(world)
      })).pipe(
        Effect.mapError((error) => error as SimulationStuck | Error),
        Effect.map((result) => ({ ...result, problems: Jobs.check(known, result.value) }))
      )
  }
})

export const scenarios: ReadonlyArray<Scenario> = [
  journal("all", allFaults),
  journal("survivors", survivable),
  jobs("jobs", allFaults)
]
