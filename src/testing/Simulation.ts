/**
 * Several processes on one store, in one test, with time and failures from a seed.
 *
 * `run` makes a world: a store in memory, and a clock that moves on by itself when everybody waits. Its processes run
 * programs that need a `Backend`, as real ones do: servers, clients, jobs. They fail where the seed says: commits
 * conflict, or lose their answers, watches are lost, the store goes away for a while, processes stand still or die
 * between any two steps, and their clocks differ. One seed gives one history, on any machine, in milliseconds for what
 * would take minutes.
 *
 * What you owe: programs must take time, random numbers and services from Effect. What waits for the real world (timers
 * of your own, files, sockets) makes the simulation stand still, and it fails with `SimulationStuck`.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Random from "effect/Random"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { Backend } from "../Backend.ts"
import { messageOfThrown } from "../internal/data/thrown.ts"
import { type Faults as StoreFaults, withFaults } from "../internal/simulation/faults.ts"
import { SeededRandom } from "../internal/simulation/random.ts"
import { Turns, VirtualTime } from "../internal/simulation/virtualTime.ts"
import { make as makeBackend, makeStore } from "../internal/stores/memory.ts"

/**
 * How often things go wrong, as probabilities from 0 to 1, of a step of a process unless it says otherwise.
 *
 * @since 0.1.0
 * @category models
 */
export interface Faults extends StoreFaults {
  /** A process dies: its fibers stop where they are, and no finalizer runs. */
  readonly death?: number | undefined
  /** A process stands still for up to a minute, and then goes on as if nothing had happened. */
  readonly pause?: number | undefined
  /** By how many milliseconds clocks of processes may differ from the store's, at the most. */
  readonly clockSkewMillis?: number | undefined
}

/**
 * Faults of all kinds, as often as a test of some hundred messages can bear.
 *
 * @since 0.1.0
 * @category models
 */
export const allFaults: Faults = {
  conflict: 0.03,
  commitUnknown: 0.04,
  tooOld: 0.01,
  unavailable: 0.003,
  slowCommit: 0.03,
  slowRead: 0.01,
  lostWatch: 0.1,
  spuriousWatch: 0.1,
  death: 0.001,
  pause: 0.001,
  clockSkewMillis: 2_000
}

const PAUSE_MILLIS = 60_000

/** A process that died comes back after at most so long. */
const RESTART_MILLIS = 5_000

/** More turns than any test of a few thousand messages needs: what goes on for longer goes on for ever. */
const ROUNDS_LIMIT = 5_000_000

/** How often the machine gets a turn of its own, so that a test runner stays alive. */
const ROUNDS_A_BREATH = 256

/**
 * Nothing happens any more, and the program has not ended; or it does not end.
 *
 * @since 0.1.0
 * @category errors
 */
export class SimulationStuck extends Schema.TaggedError<SimulationStuck>("effect-dgen/testing/SimulationStuck")(
  "SimulationStuck",
  { seed: Schema.Number, problem: Schema.String }
) {
  override get message(): string {
    return `simulation with seed ${this.seed}: ${this.problem}`
  }
}

/**
 * A process of a simulation.
 *
 * @since 0.1.0
 * @category models
 */
export interface Process {
  readonly name: string
  /** Ends it here and now, and for good: its fibers stop where they are, and no finalizer runs. */
  readonly kill: Effect.Effect<void>
  /** Lets it stand still for a while. */
  readonly pause: (millis: number) => Effect.Effect<void>
  /** How its program ended; of one that dies and comes back, how its last life ended. */
  readonly exit: Effect.Effect<Exit.Exit<unknown, unknown>>
}

/**
 * A simulated world.
 *
 * @since 0.1.0
 * @category models
 */
export interface World {
  readonly seed: number
  /**
   * Starts a process that runs a program. With `restart`, one that dies by a fault comes back with a new life of the
   * program a little later. Its clock and its random numbers are its own.
   */
  readonly spawn: <A, E>(
    name: string,
    program: Effect.Effect<A, E, Backend | Scope.Scope>,
    options?: { readonly restart?: boolean | undefined }
  ) => Effect.Effect<Process>
  /** From now on nothing fails any more, nobody dies, and who stands still goes on. */
  readonly calm: Effect.Effect<void>
  /** Adds a line to the history. */
  readonly record: (line: string) => Effect.Effect<void>
  /** The history so far: what processes recorded, and what befell them. */
  readonly history: Effect.Effect<ReadonlyArray<string>>
}

/**
 * What a simulation came to.
 *
 * @since 0.1.0
 * @category models
 */
export interface Result<A> {
  readonly value: A
  readonly history: ReadonlyArray<string>
  readonly simulatedMillis: number
}

/** The state of a world. */
class Simulated {
  readonly time = new VirtualTime()
  readonly store = makeStore()
  readonly lines: Array<string> = []
  readonly random: SeededRandom
  readonly seed: number
  readonly turns: Array<Turns> = []
  readonly context: Context.Context<never>
  readonly begunMillis: number
  faults: Faults
  streams = 0

  constructor(seed: number, faults: Faults, context: Context.Context<never>) {
    this.seed = seed
    this.random = new SeededRandom(seed)
    this.faults = faults
    this.context = context
    this.begunMillis = this.time.nowMillis
  }

  record(line: string): void {
    this.lines.push(`${(this.time.nowMillis - this.begunMillis).toFixed(3).padStart(12)} ${line}`)
  }

  /** What a process runs in: its own clock, scheduler and random numbers, and nothing of the real world's. */
  contextOf(turns: Turns, random: SeededRandom): Context.Context<never> {
    return this.context.pipe(
      Context.add(Clock.Clock, turns.clock),
      Context.add(Scheduler.Scheduler, turns.scheduler),
      Context.add(Random.Random, {
        nextDoubleUnsafe: () => random.next(),
        nextIntUnsafe: () => random.between(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
      })
    ) as Context.Context<never>
  }

  /** Runs what goes on whoever dies. */
  detach(effect: Effect.Effect<void>): void {
    const turns = new Turns(this.time, 0)
    Effect.runForkWith(this.contextOf(turns, this.random))(effect)
  }
}

/** One life of a process. */
const live = <A, E>(
  world: Simulated,
  name: string,
  program: Effect.Effect<A, E, Backend | Scope.Scope>,
  ended: (exit: Exit.Exit<A, E>) => void,
  died: () => void
): Turns => {
  const stream = ++world.streams
  const random = new SeededRandom(world.seed, stream)
  const skew = world.faults.clockSkewMillis ?? 0
  const turns = new Turns(world.time, skew === 0 ? 0 : random.between(-skew, skew))
  world.turns.push(turns)
  const step = (what: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (turns.state === "dead") return Effect.never
      if (turns.state === "paused") return Effect.callback<void>((resume) => turns.call(() => resume(Effect.void)))
      if (random.happens(world.faults.death)) {
        world.record(`${name} dies at ${what}`)
        turns.die()
        died()
        return Effect.never
      }
      if (!random.happens(world.faults.pause)) return Effect.void
      const millis = random.between(1, PAUSE_MILLIS)
      world.record(`${name} stands still for ${millis} ms at ${what}`)
      return Effect.callback<void>((resume) => {
        turns.pause()
        turns.call(() => resume(Effect.void))
        world.time.later(millis, () => turns.goOn())
      })
    })
  const backend = Effect.map(makeBackend(world.store), (made) =>
    withFaults(made, {
      random,
      // read anew at each step: a world can be calmed
      get faults() {
        return world.faults
      },
      nowMillis: () => world.time.nowMillis,
      step,
      detach: (effect) => world.detach(effect),
      callback: (run) => turns.call(run)
    }, random.bytes(16)))
  const run = Effect.scoped(
    Effect.flatMap(backend, (made) => Effect.provideService(program, Backend, made))
  )
  const fiber: Fiber.Fiber<A, E> = Effect.runForkWith(world.contextOf(turns, random))(run)
  fiber.addObserver((exit) => {
    if (turns.state === "dead") return
    world.record(`${name} ends: ${Exit.isSuccess(exit) ? "well" : messageOfThrown(Cause.squash(exit.cause))}`)
    ended(exit)
  })
  return turns
}

const spawn = <A, E>(
  world: Simulated,
  name: string,
  program: Effect.Effect<A, E, Backend | Scope.Scope>,
  restart: boolean
): Process => {
  let exit: Exit.Exit<A, E> | undefined
  const waiting: Array<() => void> = []
  const end = (ended: Exit.Exit<A, E>) => {
    exit = ended
    for (const tell of waiting.splice(0)) tell()
  }
  let lives = 0
  const begin = (): Turns => {
    world.record(`${name} begins${lives++ === 0 ? "" : " again"}`)
    return live(world, name, program, end, () => {
      if (!restart) return end(Exit.die("the process died"))
      world.time.later(world.random.between(1, RESTART_MILLIS), () => {
        turns = begin()
      })
    })
  }
  let turns = begin()
  return {
    name,
    kill: Effect.sync(() => {
      world.record(`${name} is killed`)
      turns.die()
      end(Exit.die("the process was killed"))
    }),
    pause: (millis) =>
      Effect.sync(() => {
        const paused = turns
        paused.pause()
        world.time.later(millis, () => paused.goOn())
      }),
    exit: Effect.callback((resume) => {
      if (exit !== undefined) resume(Effect.succeed(exit))
      else waiting.push(() => resume(Effect.succeed(exit!)))
    })
  }
}

/**
 * Runs a simulation: the program gets the world, and starts processes in it. It runs beside them and never fails itself;
 * the `Backend` that it may use itself is one without faults. Fails with what the program fails with, or with
 * `SimulationStuck`.
 *
 * @since 0.1.0
 * @category running
 */
export const run = <A, E>(
  options: { readonly seed: number; readonly faults?: Faults | undefined },
  program: (world: World) => Effect.Effect<A, E, Backend | Scope.Scope>
): Effect.Effect<Result<A>, E | SimulationStuck> =>
  Effect.contextWith((outer: Context.Context<never>) => {
    const loggers = Context.get(outer, Logger.CurrentLoggers)
    const context = Context.make(Logger.CurrentLoggers, loggers) as unknown as Context.Context<never>
    const simulated = new Simulated(options.seed, options.faults ?? {}, context)
    const turns = new Turns(simulated.time, 0)
    const world: World = {
      seed: options.seed,
      spawn: (name, body, spawned) => Effect.sync(() => spawn(simulated, name, body, spawned?.restart ?? false)),
      calm: Effect.sync(() => {
        simulated.record("the world is calm")
        simulated.faults = {}
        for (const one of simulated.turns) one.goOn()
      }),
      record: (line) => Effect.sync(() => simulated.record(line)),
      history: Effect.sync(() => [...simulated.lines])
    }
    const main = Effect.scoped(
      Effect.flatMap(makeBackend(simulated.store), (backend) => Effect.provideService(program(world), Backend, backend))
    )
    return drive(simulated, Effect.runForkWith(simulated.contextOf(turns, simulated.random))(main))
  })

/** Gives out turns until the main program has ended. */
const drive = <A, E>(
  world: Simulated,
  fiber: Fiber.Fiber<A, E>
): Effect.Effect<Result<A>, E | SimulationStuck> =>
  Effect.callback<Result<A>, E | SimulationStuck>((resume) => {
    let rounds = 0
    let isOver = false
    const over = (effect: Effect.Effect<Result<A>, E | SimulationStuck>) => {
      if (isOver) return
      isOver = true
      for (const turns of world.turns) turns.die()
      resume(effect)
    }
    const stuck = (problem: string) => over(Effect.fail(new SimulationStuck({ seed: world.seed, problem })))
    const turn = (): void => {
      if (isOver) return
      const exit = fiber.pollUnsafe()
      if (exit !== undefined) {
        const history = world.lines
        const simulatedMillis = world.time.nowMillis - world.begunMillis
        return over(
          Exit.isSuccess(exit)
            ? Effect.succeed({ value: exit.value, history, simulatedMillis })
            : Effect.failCause(exit.cause)
        )
      }
      if (!world.time.round()) return stuck("nothing happens any more, and the program has not ended")
      if (++rounds > ROUNDS_LIMIT) return stuck(`the program has not ended after ${ROUNDS_LIMIT} turns`)
      if (rounds % ROUNDS_A_BREATH === 0) breathe(turn)
      // microtasks of this round first, and what these leave to others
      else queueMicrotask(() => queueMicrotask(() => queueMicrotask(turn)))
    }
    breathe(turn)
    return Effect.sync(() => {
      isOver = true
      for (const turns of world.turns) turns.die()
    })
  })

const breathe = (run: () => void): void => void setImmediate(run)
