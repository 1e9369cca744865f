/** What is simulated: each scenario runs from a seed and says what does not hold. */
import { Clock, Effect, Stream } from "effect"
import { type Backend, Inspect, Tenant } from "effect-dgen"
import type * as Scope from "effect/Scope"
import { allFaults, type Faults, run, type SimulationStuck, type World } from "../../src/testing/Simulation.ts"
import * as Callers from "./callers.ts"
import * as Contention from "./contention.ts"
import * as Hosting from "./hosting.ts"
import * as Jobs from "./jobs.ts"
import * as Journal from "./journal.ts"
import * as Kill from "./kill.ts"
import * as Linear from "./linear.ts"
import * as Poison from "./poison.ts"
import * as Tills from "./tills.ts"

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

/** What does not belong in a tenant, when all is over. */
const foreign = (tenant: string) =>
  Stream.runCollect(Inspect.check()).pipe(
    Effect.map((found) => Array.from(found, ({ kind, problem, subject }) => `${subject}, ${kind}: ${problem}`)),
    Effect.provide(Tenant.layer([tenant]))
  )

/** A scenario: each seed has what it is told anew, a program, and what must hold of both. */
const scenario = <Told, A, E>(options: {
  readonly name: string
  readonly tenant: string
  readonly faults: Faults
  readonly told: () => Told
  readonly program: (world: World, told: Told) => Effect.Effect<A, E, Backend.Backend | Scope.Scope>
  readonly check: (told: Told, found: A, died: boolean) => ReadonlyArray<string>
}): Scenario => ({
  name: options.name,
  run: (seed) => {
    const told = options.told()
    const program = (world: World) =>
      Effect.gen(function*() {
        const found = yield* options.program(world, told)
        yield* world.calm
        return { found, foreign: yield* foreign(options.tenant) }
      })
    return run({ seed, faults: options.faults }, program).pipe(
      Effect.mapError((error) => error as SimulationStuck | Error),
      Effect.map((result) => ({
        ...result,
        problems: [...options.check(told, result.value.found, died(result.history)), ...result.value.foreign]
      }))
    )
  }
})

/** Deaths come with an end to some checks: scenarios without them hold actions to exactly once. */
const { death: _death, ...survivable } = allFaults

/** The store fails, and all processes go on in time. */
const { pause: _pause, ...lively } = survivable

/** Every commit's fate is known, and everybody goes on in time. */
const { commitUnknown: _unknown, ...known } = lively

const RESTART = { restart: true }

const awaitAll = (world: World, programs: Record<string, Parameters<World["spawn"]>[1]>, restart = false) =>
  Effect.gen(function*() {
    const processes = yield* Effect.forEach(
      Object.entries(programs),
      ([name, program]) => world.spawn(name, program, { restart })
    )
    yield* Effect.forEach(processes, (process) => process.exit)
    return processes
  })

const journal = (name: string, faults: Faults): Scenario =>
  scenario({
    name,
    tenant: "journal",
    faults,
    told: Journal.makeTold,
    check: Journal.check,
    program: Effect.fnUntraced(function*(world, told) {
      const lockTimeout = "5 seconds"
      yield* world.spawn("server one", Journal.serve(told, { lockTimeout, consumeK: 1 }), RESTART)
      yield* world.spawn("server two", Journal.serve(told, { lockTimeout, consumeK: 7 }), RESTART)
      yield* awaitAll(world, {
        a: Journal.send(told, "a", 18),
        b: Journal.send(told, "b", 18),
        c: Journal.send(told, "c", 18)
      })
      return yield* Journal.settle(world, told)
    })
  })

const poison = (name: string, faults: Faults): Scenario =>
  scenario({
    name,
    tenant: "sieve",
    faults,
    told: Poison.makeTold,
    check: Poison.check,
    program: Effect.fnUntraced(function*(world, told) {
      yield* world.spawn("server one", Poison.serve(told, 1), RESTART)
      yield* world.spawn("server two", Poison.serve(told, 7), RESTART)
      yield* awaitAll(world, { a: Poison.send(told, "a", 12), b: Poison.send(told, "b", 12) })
      return yield* Poison.settle(world, told)
    })
  })

const callers = (name: string, faults: Faults, all: boolean): Scenario =>
  scenario({
    name,
    tenant: "desk",
    faults,
    told: Callers.makeTold,
    program: Effect.fnUntraced(function*(world, told) {
      const servers = [
        yield* world.spawn("server one", Callers.serve(1), RESTART),
        yield* world.spawn("server two", Callers.serve(7), RESTART)
      ]
      const dying = all ? [] : [yield* world.spawn("dying", Callers.call(told, "dying", 20))]
      const calling = awaitAll(world, { a: Callers.call(told, "a", 15), b: Callers.call(told, "b", 15) })
      const killing = Effect.andThen(Effect.sleep("4 seconds"), Effect.forEach(dying, (process) => process.kill))
      const [ended] = yield* Effect.all([calling, killing], { concurrency: "unbounded" })
      return yield* Callers.settle(world, [...servers, ...ended])
    }),
    check: (told: Callers.Told, found: Effect.Success<ReturnType<typeof Callers.settle>>) =>
      Callers.check(told, found, { all })
  })

const kill = (name: string, faults: Faults): Scenario =>
  scenario({
    name,
    tenant: "doomed",
    faults,
    told: Kill.makeTold,
    check: Kill.check,
    program: Effect.fnUntraced(function*(world, told) {
      yield* world.spawn("server one", Kill.serve(told, { consumeK: 1 }))
      yield* world.spawn("server two", Kill.serve(told, { consumeK: 5 }))
      // whoever starts it later would begin its second life
      while (told.started < 2) yield* Effect.sleep("1 second")
      yield* awaitAll(world, { a: Kill.use(told), b: Kill.use(told), killer: Kill.end(told) })
      return yield* Kill.settle(world)
    })
  })

const linear = (name: string, faults: Faults): Scenario =>
  scenario({
    name,
    tenant: "shelf",
    faults,
    told: Linear.makeTold,
    check: Linear.check,
    program: Effect.fnUntraced(function*(world, told) {
      yield* world.spawn("server one", Linear.serve(told, 1, 1))
      yield* world.spawn("server two", Linear.serve(told, 4, undefined), RESTART)
      yield* awaitAll(world, { a: Linear.send(told, 2), b: Linear.send(told, 3) })
      yield* Effect.sleep("1 minute")
    })
  })

/** Nothing fails, but reads and commits take their time, and overlap. */
const slow: Faults = { slowCommit: 0.3, slowRead: 0.2, lostWatch: 0.1, spuriousWatch: 0.2 }

const contention = (name: string): Scenario =>
  scenario({
    name,
    tenant: "journal",
    faults: slow,
    told: () => ({ conflicts: new Map() as Contention.Conflicts, journal: Journal.makeTold() }),
    check: (told) => Contention.check(told.conflicts),
    program: Effect.fnUntraced(function*(world, told) {
      const { conflicts } = told
      const consumer = Contention.counted(conflicts, "the consumer", Contention.consume(told.journal))
      yield* world.spawn("consumer", consumer)
      // who makes a directory, or a server, has others to conflict with
      yield* Effect.sleep("1 minute")
      conflicts.clear()
      yield* awaitAll(
        world,
        Object.fromEntries(
          ["a", "b", "c"].map((name) => [
            name,
            Contention.counted(conflicts, `sender ${name}`, Contention.push(name, 15))
          ])
        )
      )
      yield* Effect.sleep("1 minute")
    })
  })

/** Two consumers and messages that leave the state as it is: nothing but their own places keeps them from being taken twice. */
const rivals = (name: string): Scenario =>
  scenario({
    name,
    tenant: "journal",
    faults: slow,
    told: Journal.makeTold,
    check: Journal.check,
    program: Effect.fnUntraced(function*(world, told) {
      yield* world.spawn("server one", Journal.serve(told, { consumeK: 1 }, { urges: 0 }))
      yield* world.spawn("server two", Journal.serve(told, { consumeK: 7 }, { urges: 0 }))
      yield* awaitAll(world, {
        a: Journal.send(told, "a", 15, "tally"),
        b: Journal.send(told, "b", 15, "tally")
      })
      return yield* Journal.settle(world, told)
    })
  })

const jobs = (name: string, faults: Faults, isSteady: boolean): Scenario =>
  scenario({
    name,
    tenant: "jobs",
    faults,
    told: Jobs.makeKnown,
    program: Effect.fnUntraced(function*(world, told) {
      yield* world.spawn("worker one", Jobs.work(told), RESTART)
      yield* world.spawn("worker two", Jobs.work(told), RESTART)
      yield* awaitAll(world, { a: Jobs.create(told, "a", 10), b: Jobs.create(told, "b", 10) }, true)
      return yield* Jobs.settle(world, told)
    }),
    check: (told: Jobs.Known, found: Effect.Success<ReturnType<typeof Jobs.settle>>) =>
      Jobs.check(told, found, isSteady)
  })

const hosting = (name: string, faults: Faults): Scenario =>
  scenario({
    name,
    tenant: "ward",
    faults,
    told: Hosting.makeTold,
    check: (told: Hosting.Told, found: Effect.Success<ReturnType<typeof Hosting.settle>>) => Hosting.check(told, found),
    program: Effect.fnUntraced(function*(world, told) {
      const clock = yield* Clock.Clock
      told.now = () => clock.currentTimeMillisUnsafe()
      const small = { concurrency: 2, maxResident: 2, idleTimeToLive: "3 seconds" } as const
      yield* world.spawn("host one", Hosting.host(told, { consumeK: 1 }), RESTART)
      yield* world.spawn("host two", Hosting.host(told, { ...small, consumeK: 7 }), RESTART)
      yield* world.spawn("host three", Hosting.host(told, { maxLocked: 1 }), RESTART)
      yield* world.spawn("guest", Hosting.guest(told), RESTART)
      yield* world.spawn("tick", Hosting.setTick, RESTART)
      yield* Effect.forkScoped(Hosting.watch(told))
      yield* awaitAll(world, {
        a: Hosting.send(told, "a", 18),
        b: Hosting.send(told, "b", 18),
        c: Hosting.send(told, "c", 18)
      })
      return yield* Hosting.settle(world, told)
    })
  })

const tills = (name: string, faults: Faults, isHosted: boolean): Scenario =>
  scenario({
    name,
    tenant: "tills",
    faults,
    told: Tills.makeTold,
    check: (told: Tills.Told, found: Effect.Success<ReturnType<typeof Tills.settle>>) => Tills.check(told, found),
    program: Effect.fnUntraced(function*(world, told) {
      yield* world.spawn("server one", Tills.serve(told, isHosted, { consumeK: 1 }), RESTART)
      yield* world.spawn("server two", Tills.serve(told, isHosted, { consumeK: 5 }), RESTART)
      yield* awaitAll(world, {
        a: Tills.send(told, isHosted, 18),
        b: Tills.send(told, isHosted, 18)
      }, true)
      return yield* Tills.settle(world, told, isHosted)
    })
  })

export const scenarios: ReadonlyArray<Scenario> = [
  journal("all", allFaults),
  journal("survivors", survivable),
  poison("poison", allFaults),
  poison("poison-survivors", survivable),
  callers("callers", { ...lively, death: 0.001 }, false),
  callers("patience", known, true),
  kill("kill", lively),
  linear("linear", allFaults),
  contention("contention"),
  rivals("rivals"),
  hosting("hosting", allFaults),
  hosting("hosting-survivors", survivable),
  tills("tills", allFaults, false),
  tills("tills-survivors", survivable, false),
  tills("tills-hosted", allFaults, true),
  tills("tills-hosted-survivors", survivable, true),
  jobs("jobs", allFaults, false),
  jobs("jobs-steady", { conflict: 0.05, commitUnknown: 0.03, lostWatch: 0.1, spuriousWatch: 0.1 }, true)
]
