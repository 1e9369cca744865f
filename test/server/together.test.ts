/**
 * Inline calls that share a transaction, on a store at the end of a connection: each is answered as if it had run by itself,
 * whatever becomes of the others.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Latch, Layer, Random, Schema } from "effect"
import { Backend, BackendError, DgenServer, MemoryBackend, Tenant } from "effect-dgen"

/** What becomes of a commit that writes. */
type Fate = "answered" | "unanswered" | "conflict"

interface Far {
  commits: number
  /** Commits wait for it. */
  readonly gate: Latch.Latch
  fates: Array<Fate>
}

const failing = (reason: BackendError.Reason) => Effect.fail(new BackendError.BackendError({ reason }))

/** The memory's store as if it were far away: a commit is read by others when it is answered, and not before. */
const far = (memory: Backend.Backend["Service"], told: Far): Backend.Backend["Service"] => ({
  ...memory,
  commitCanBeUnknown: true,
  begin: Effect.map(memory.begin, (driver): Backend.DriverTransaction => ({
    readVersion: driver.readVersion,
    get: (key) => driver.get(key),
    getRange: (begin, end, options) => driver.getRange(begin, end, options),
    commit: (request) => {
      if (request.mutations.length === 0) return driver.commit(request, () => {})
      const commit = Effect.suspend(() => {
        const fate = told.fates.shift() ?? "answered"
        if (fate === "conflict") return failing(new BackendError.Conflict({ message: "another commit came before" }))
        told.commits++
        const applied = driver.commit(request, () => {})
        return fate === "answered"
          ? applied
          : Effect.andThen(applied, failing(new BackendError.CommitUnknown({ message: "the answer was lost" })))
      })
      return Effect.andThen(told.gate.await, commit)
    },
    close: () => driver.close()
  }))
})

class Tally extends DgenServer.Service<Tally>()("TogetherTally", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: {
    Add: DgenServer.call({ payload: Schema.Int, success: Schema.Int, error: Schema.String }),
    Id: DgenServer.call({ success: Schema.String }),
    Draw: DgenServer.call({ success: Schema.Number }),
    Crash: DgenServer.call({ success: Schema.Int }),
    Stop: DgenServer.call({ success: Schema.Int })
  }
}) {}

const counting = Tally.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: {
    Add: (by, { count }) =>
      by === 0 ? Effect.fail("nothing to add") : DgenServer.reply(count + by, { count: count + by }),
    Id: (_, state, { id }) => DgenServer.reply(id, state),
    Draw: (_, state) => Effect.map(Random.next, (drawn) => DgenServer.reply(drawn, state)),
    Crash: () => Effect.die(new Error("crashed on purpose")),
    Stop: (_, state) => DgenServer.stop("asked to", state)
  }
})

/** Starts a server, whose calls wait for the gate once it is closed. */
const scenario = <A, E, R>(
  use: (
    tally: Effect.Success<ReturnType<typeof Tally.start>>,
    /** Begins calls that stand in line behind one whose commit waits, and lets all go on. */
    inLine: <B, E2, R2>(calls: ReadonlyArray<Effect.Effect<B, E2, R2>>) => Effect.Effect<
      ReadonlyArray<Exit.Exit<B, E2>>,
      unknown,
      R2
    >,
    told: Far
  ) => Effect.Effect<A, E, R>
) => {
  const told: Far = { commits: 0, gate: Latch.makeUnsafe(true), fates: [] }
  return Effect.gen(function*() {
    const tally = yield* Tally.start(counting, { tuid: ["together"], deadLetterThreshold: 1 })
    yield* tally.call("Add", 1)
    const inLine = <B, E2, R2>(calls: ReadonlyArray<Effect.Effect<B, E2, R2>>) =>
      Effect.gen(function*() {
        told.gate.closeUnsafe()
        const first = yield* Effect.forkChild(tally.call("Add", 1), { startImmediately: true })
        const fibers = yield* Effect.forEach(calls, (call) => Effect.forkChild(call, { startImmediately: true }))
        yield* Effect.sync(() => {
          told.commits = 0
          told.gate.openUnsafe()
        })
        yield* Fiber.join(first)
        return yield* Effect.forEach(fibers, Fiber.await)
      })
    // what a second transaction beside the first one needs is there from now on
    yield* inLine([tally.call("Add", -1)])
    return yield* use(tally, inLine, told)
  }).pipe(
    Effect.scoped,
    Effect.provide(
      Tenant.layer(["together"]).pipe(Layer.provide(Layer.effect(
        Backend.Backend,
        Effect.map(
          Layer.build(Layer.fresh(MemoryBackend.layer)),
          (context) => far(Context.get(context, Backend.Backend), told)
        )
      )))
    )
  )
}

const values = <A, E>(exits: ReadonlyArray<Exit.Exit<A, E>>): ReadonlyArray<A | undefined> =>
  exits.map((exit) => Exit.isSuccess(exit) ? exit.value : undefined)

const CALLS = 20

const numbers = (from: number, count: number) => Array.from({ length: count }, (_, index) => from + index)

describe("inline calls that wait for one another", () => {
  it.effect("are handled in their order and committed once", () =>
    scenario((tally, inLine, told) =>
      Effect.gen(function*() {
        const exits = yield* inLine(Array.from({ length: CALLS }, () => tally.call("Add", 1)))
        assert.deepStrictEqual(values(exits), numbers(3, CALLS))
        assert.strictEqual(told.commits, 2)
        assert.deepStrictEqual(yield* tally.state, { count: CALLS + 2 })
      })
    ))

  it.effect("have ids of their own", () =>
    scenario((tally, inLine) =>
      Effect.gen(function*() {
        const ids = values(yield* inLine(Array.from({ length: CALLS }, () => tally.call("Id"))))
        assert.strictEqual(new Set(ids).size, CALLS)
      })
    ))

  it.effect("draw random numbers of their own", () =>
    scenario((tally, inLine) =>
      Effect.gen(function*() {
        const drawn = values(yield* inLine(Array.from({ length: CALLS }, () => tally.call("Draw"))))
        assert.strictEqual(new Set(drawn).size, CALLS)
      })
    ))

  it.effect("are answered with an error of their own, beside the others", () =>
    scenario((tally, inLine, told) =>
      Effect.gen(function*() {
        const exits = yield* inLine([1, 0, 1].map((by) => tally.call("Add", by)))
        assert.deepStrictEqual(values(exits), [3, undefined, 4])
        assert.strictEqual(told.commits, 2)
      })
    ))

  it.effect("do not share the crash of one", () =>
    scenario((tally, inLine) =>
      Effect.gen(function*() {
        const exits = yield* inLine([tally.call("Add", 1), tally.call("Crash"), tally.call("Add", 1)])
        assert.deepStrictEqual(values(exits), [3, undefined, 4])
        assert.deepStrictEqual(yield* tally.state, { count: 4 })
      })
    ))

  it.effect("are not handled behind one that stops the server", () =>
    scenario((tally, inLine) =>
      Effect.gen(function*() {
        const exits = yield* inLine([tally.call("Add", 1), tally.call("Stop"), tally.call("Add", 1)])
        assert.deepStrictEqual(values(exits), [3, undefined, undefined])
        assert.deepStrictEqual(yield* tally.state, { count: 3 })
      })
    ))

  it.effect("are handled once when the answer of their commit was lost", () =>
    scenario((tally, inLine, told) =>
      Effect.gen(function*() {
        told.fates = ["answered", "unanswered"]
        const exits = yield* inLine(Array.from({ length: CALLS }, () => tally.call("Add", 1)))
        assert.deepStrictEqual(values(exits), numbers(3, CALLS))
        assert.deepStrictEqual(yield* tally.state, { count: CALLS + 2 })
      })
    ))

  it.effect("are handled once when others wrote meanwhile", () =>
    scenario((tally, inLine, told) =>
      Effect.gen(function*() {
        told.fates = ["answered", "conflict", "conflict"]
        const exits = yield* inLine(Array.from({ length: CALLS }, () => tally.call("Add", 1)))
        assert.deepStrictEqual([...values(exits)].sort((a, b) => a! - b!), numbers(3, CALLS))
        assert.deepStrictEqual(yield* tally.state, { count: CALLS + 2 })
      })
    ))
})
