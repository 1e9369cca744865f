/** The tools for tests: checks, strict mode, and a store that fails. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, DateTime, Effect, Exit, Layer, Logger, Random, Schedule, Schema, type Scope } from "effect"
import { DgenServer, MemoryBackend, Tenant, Transaction } from "effect-dgen"
import { Check, Simulation, StrictMode } from "effect-dgen/testing"
import { until } from "../suites/server/support.ts"

describe("Check.exactlyOnce", () => {
  const sent = { acknowledged: new Map([["a", ["a1", "a2"]], ["b", ["b1"]]]), refused: ["a3"] }
  it("finds nothing where all holds, also with messages whose fate nobody knows", () => {
    assert.deepStrictEqual(Check.exactlyOnce(sent, ["b1", "a1", "x9", "a2"]), [])
  })
  it("finds what is lost, doubled, swapped, and applied though it was refused", () => {
    assert.lengthOf(Check.exactlyOnce(sent, ["a1", "b1"]), 1)
    assert.lengthOf(Check.exactlyOnce(sent, ["a1", "a1", "a2", "b1"]), 1)
    assert.lengthOf(Check.exactlyOnce(sent, ["a2", "a1", "b1"]), 1)
    assert.lengthOf(Check.exactlyOnce(sent, ["a1", "a2", "a3", "b1"]), 1)
  })
})

describe("Check.keys", () => {
  it("allows one effect and one answer, and finds two of either, and an answer without an effect", () => {
    const found = (answers: ReadonlyArray<string>, effects: ReadonlyArray<string>) =>
      Check.keys({ answers: new Map([["k", answers]]), effects }).length
    assert.strictEqual(found(["1", "1"], ["k", "other"]), 0)
    assert.strictEqual(found([], []), 0)
    assert.strictEqual(found(["1", "2"], ["k"]), 1)
    assert.strictEqual(found(["1"], ["k", "k"]), 1)
    assert.strictEqual(found(["1"], []), 1)
  })
})

describe("Check.durable", () => {
  it("allows runs again, and finds those out of their order, lost, invented, or with another id", () => {
    const run = (number: number, id = `${number}`) => ({ server: "s", number, id })
    const found = (runs: ReadonlyArray<Check.DurableRun>, count: number) =>
      Check.durable(runs, new Map([["s", count]])).length
    // a process that stood still runs its action once more, late
    assert.strictEqual(found([run(1), run(1), run(2), run(1), run(3)], 3), 0)
    assert.strictEqual(found([run(2), run(1)], 2), 1)
    assert.strictEqual(found([run(1)], 2), 1)
    assert.strictEqual(found([run(1), run(2)], 1), 1)
    assert.strictEqual(found([run(1), run(1, "x")], 1), 1)
  })
})

describe("Check.linearizable", () => {
  const queue: Check.Model<ReadonlyArray<number>, number | undefined, number | null> = {
    initial: [],
    apply: (state, push) =>
      push === undefined
        ? { state: state.slice(1), answer: state[0] ?? null }
        : { state: [...state, push], answer: null }
  }
  const put = (begin: number, end: number, value: number, known = true) => ({
    begin,
    end,
    input: value,
    answer: known ? { value: null } : undefined
  })
  const take = (begin: number, end: number, value: number | null) => ({
    begin,
    end,
    input: undefined,
    answer: { value }
  })
  it("accepts what some order explains", () => {
    assert.isTrue(Check.linearizable(queue, [put(0, 1, 1), put(0, 1, 2), take(2, 3, 2), take(4, 5, 1)]))
    assert.isTrue(Check.linearizable(queue, [put(0, 1, 1, false), take(9, 10, 1)]))
    assert.isTrue(Check.linearizable(queue, [put(0, 1, 1, false), take(9, 10, null)]))
  })
  it("refuses what no order explains", () => {
    assert.isFalse(Check.linearizable(queue, [put(0, 1, 1), put(2, 3, 2), take(4, 5, 2)]))
    assert.isFalse(Check.linearizable(queue, [put(0, 1, 1), take(2, 3, null)]))
    assert.isFalse(Check.linearizable(queue, [put(0, 1, 1), take(2, 3, 1), take(4, 5, 1)]))
    assert.isFalse(Check.linearizable(queue, [take(0, 1, 1), put(2, 3, 1, false)]))
  })
  it("refuses histories that are too long", () => {
    assert.throws(() => Check.linearizable(queue, Array.from({ length: 25 }, (_, i) => put(i, i + 1, i))), /24/)
  })
})

const store = Tenant.layer(["testing"]).pipe(Layer.provide(MemoryBackend.layer))

class Point extends Schema.Class<Point>("Point")({ x: Schema.Int }) {}

class Shelf extends DgenServer.Service<Shelf>()("Shelf", {
  state: Schema.Struct({
    n: Schema.Int,
    list: Schema.Array(Schema.Struct({ id: Schema.String })),
    point: Point,
    map: Schema.ReadonlyMap(Schema.String, Schema.Int),
    at: Schema.DateTimeUtc
  }),
  messages: {
    Do: DgenServer.call({ payload: Schema.String }),
    DoCast: DgenServer.cast({ payload: Schema.String }),
    Work: DgenServer.call({ payload: Schema.String, locks: true }),
    Update: DgenServer.call({ payload: Schema.String, locks: true }),
    Act: DgenServer.cast({ payload: Schema.String })
  },
  actions: { Act: Schema.String }
}) {}

/** What changes a state in place, though its type says that nobody can. */
const changes: { readonly [what: string]: (state: any) => unknown } = {
  "a field": (state) => state.n++,
  "a new field": (state) => {
    state.more = 1
  },
  "a deletion": (state) => delete state.n,
  "a push": (state) => state.list.push({ id: "b" }),
  "a field of an item": (state) => {
    state.list[0].id = "c"
  },
  "a field of an instance": (state) => {
    state.point.x = 7
  },
  "an entry of a map": (state) => state.map.set("a", 7)
}

const shelf = Shelf.behaviour({
  init: Effect.sync(() => ({
    n: 0,
    list: [{ id: "a" }],
    point: new Point({ x: 1 }),
    map: new Map([["a", 1]]),
    at: DateTime.makeUnsafe(0)
  })),
  handlers: {
    Do: (what, state) => {
      // what is lazy in a value may be made: that changes nothing
      DateTime.toPartsUtc(state.at)
      changes[what]?.(state)
      return DgenServer.reply(undefined, { ...state, n: state.n + 1 })
    },
    DoCast: (what, state) => {
      changes[what]?.(state)
      return DgenServer.noReply(state)
    },
    Work: (_, state) => DgenServer.lock(state),
    Update: (_, state) => DgenServer.lock(state),
    Act: (what, state) => DgenServer.noReply(state, [Shelf.action("Act", what)])
  }
})

const startShelf = Shelf.start(shelf, { tuid: ["shelf"], deadLetterThreshold: 1, lockTimeout: "1 minute" }).pipe(
  Effect.provide(Layer.merge(
    Shelf.actionsLayer({ Act: (what, state) => Effect.sync(() => void changes[what]?.(state)) }),
    Shelf.lockedLayer({
      Work: (what, state) => {
        changes[what]?.(state)
        return DgenServer.reply(undefined, state)
      },
      Update: (what) =>
        DgenServer.update((fresh) => {
          changes[what]?.(fresh)
          return DgenServer.reply(undefined, fresh)
        })
    })
  ))
)

describe("StrictMode and states", () => {
  const strictly = <A, E>(
    body: (lines: ReadonlyArray<string>) => Effect.Effect<A, E, Tenant.Tenant | Scope.Scope>
  ) => {
    const lines: Array<string> = []
    const logger = Logger.make<unknown, void>(({ cause, message }) =>
      void lines.push(`${[message].flat().join(" ")} ${Cause.pretty(cause)}`)
    )
    return body(lines).pipe(
      Effect.scoped,
      Effect.provide(store),
      Effect.provide(StrictMode.layer),
      Effect.provide(Logger.layer([logger]))
    )
  }

  for (const [what, _] of Object.entries(changes)) {
    it.live(`a handler, an action or a locked handler that changes one in place is told so: ${what}`, () =>
      strictly((lines) =>
        Effect.gen(function*() {
          const server = yield* startShelf
          const told = (error: { readonly message: string }, who: string) =>
            assert.match(
              error.message,
              new RegExp(`Shelf \\["shelf"\\]: the state that .*${who} got was changed in place`)
            )
          yield* server.priorityCast("Act", what)
          const isTold = () => lines.some((line) => line.includes("that the action \"Act\" got was changed in place"))
          yield* until(Effect.sync(isTold), Boolean)
          told(yield* Effect.flip(server.call("Do", what)), "the handler of \"Do\"")
          told(yield* Effect.flip(server.priorityCall("Do", what)), "the handler of \"Do\"")
          told(yield* Effect.flip(server.priorityCast("DoCast", what)), "the handler of \"DoCast\"")
          told(yield* Effect.flip(server.call("Work", what)), "handler of \"Work\"")
          told(yield* Effect.flip(server.call("Update", what)), "the handler of \"Update\"")
        })
      ))
  }

  it.live("those that are left alone are not told anything", () =>
    strictly((lines) =>
      Effect.gen(function*() {
        const server = yield* startShelf
        yield* server.call("Do", "nothing")
        yield* server.call("Work", "nothing")
        yield* server.call("Update", "nothing")
        yield* server.priorityCast("Act", "nothing")
        yield* server.call("Do", "nothing")
        assert.strictEqual((yield* server.state)!.n, 2)
        assert.deepStrictEqual(lines, [])
      })
    ))
})

describe("StrictMode", () => {
  const run = <A, E>(effect: Effect.Effect<A, E, Tenant.Tenant>) =>
    Effect.exit(effect).pipe(Effect.provide(store), Effect.provide(StrictMode.layer))

  it.live("leaves pure bodies alone, with their clock and random numbers", () =>
    Effect.gen(function*() {
      const pure = Effect.gen(function*() {
        const value = (yield* Transaction.get(["n"]))?.[0] ?? 0
        yield* Transaction.set(["n"], Uint8Array.of(value + 1))
        yield* Transaction.add(["count"], 1)
        return value + 1
      })
      const both = Effect.andThen(Tenant.transact(pure), Tenant.transact(pure))
      assert.deepStrictEqual(yield* run(both), Exit.succeed(2))
    }))

  it.live("ends a body that writes something else the second time, and says what; nothing is written", () =>
    Effect.gen(function*() {
      let runs = 0
      const impure = Effect.suspend(() => Transaction.set(["runs"], Uint8Array.of(++runs)))
      const exit = yield* run(
        Effect.flatMap(
          Effect.exit(Tenant.transact(impure)),
          (failed) => Effect.map(Tenant.transact(Transaction.get(["runs"])), (left) => ({ failed, left }))
        )
      )
      assert.isTrue(Exit.isSuccess(exit))
      const { failed, left } = (exit as any).value
      assert.isUndefined(left)
      const defect: any = Cause.squash(failed.cause)
      assert.strictEqual(defect._tag, "ImpureTransaction")
      assert.include(defect.message, "runs")
    }))

  class Dice extends DgenServer.Service<Dice>()("Dice", {
    state: Schema.Number,
    messages: { Fair: DgenServer.call({ success: Schema.Number }), Loaded: DgenServer.call() }
  }) {}
  const dice = Dice.behaviour({
    init: Effect.succeed(0),
    handlers: {
      Fair: () => Effect.map(Random.next, (n) => DgenServer.reply(n, n)),
      Loaded: () => DgenServer.reply(undefined, Math.random())
    }
  })

  it.live("finds handlers of servers that roll their own dice", () =>
    Effect.gen(function*() {
      const server = yield* Dice.start(dice, { tuid: ["dice"], deadLetterThreshold: 1, restart: Schedule.forever })
      assert.isNumber(yield* server.call("Fair"))
      const exit = yield* Effect.exit(server.call("Loaded"))
      assert.isTrue(Exit.isFailure(exit))
      assert.strictEqual((Cause.squash((exit as Exit.Failure<void, unknown>).cause) as any)._tag, "ImpureTransaction")
    }).pipe(
      Effect.scoped,
      Effect.provide(store),
      Effect.provide(StrictMode.layer),
      Effect.provide(Logger.layer([]))
    ))
})

describe("MemoryBackend.layerSimulation", () => {
  const bump = Effect.gen(function*() {
    const value = (yield* Transaction.get(["n"]))?.[0] ?? 0
    yield* Transaction.set(["n"], Uint8Array.of(value + 1))
  })
  for (let seed = 1; seed <= 5; seed++) {
    it.live(`fails as the seed says, and transact applies once all the same (seed ${seed})`, () =>
      Effect.gen(function*() {
        yield* Effect.repeat(Tenant.transact(bump), { times: 49 })
        assert.strictEqual((yield* Tenant.transact(Transaction.get(["n"])))?.[0], 50)
      }).pipe(Effect.provide(
        Tenant.layer(["testing"]).pipe(
          Layer.provide(
            MemoryBackend.layerSimulation({ seed, faults: { conflict: 0.2, commitUnknown: 0.2, tooOld: 0.1 } })
          )
        )
      )))
  }
})

describe("Simulation", () => {
  it.live("says that a program waits for what never comes", () =>
    Effect.gen(function*() {
      const stuck = yield* Effect.flip(Simulation.run({ seed: 1 }, () => Effect.never))
      assert.strictEqual(stuck._tag, "SimulationStuck")
      assert.include(stuck.message, "seed 1")
    }))

  it.live("moves its own clock, and skews that of each process", () =>
    Effect.gen(function*() {
      const { simulatedMillis, value } = yield* Simulation.run(
        { seed: 3, faults: { clockSkewMillis: 60_000 } },
        (world) =>
          Effect.gen(function*() {
            const clocks: Array<number> = []
            const look = Effect.andThen(
              Effect.sleep("1 hour"),
              Effect.clockWith((clock) => Effect.sync(() => void clocks.push(clock.currentTimeMillisUnsafe())))
            )
            const processes = yield* Effect.forEach(["a", "b"], (name) => world.spawn(name, look))
            yield* Effect.forEach(processes, (process) => process.exit)
            return clocks
          })
      )
      assert.strictEqual(simulatedMillis, 3_600_000)
      assert.lengthOf(value, 2)
      assert.notStrictEqual(value[0], value[1])
    }))

  it.live("ends a process where it is: no finalizer runs, and the store has what was committed", () =>
    Effect.gen(function*() {
      const { history, value } = yield* Simulation.run({ seed: 5 }, (world) =>
        Effect.gen(function*() {
          let finalized = false
          const body = Effect.gen(function*() {
            yield* Effect.addFinalizer(() => Effect.sync(() => void (finalized = true)))
            yield* Tenant.transact(Transaction.set(["kept"], Uint8Array.of(1)))
            yield* Effect.never
          }).pipe(Effect.provide(Tenant.layer(["dying"])))
          const process = yield* world.spawn("one", body)
          const kept = Tenant.transact(Transaction.get(["kept"])).pipe(Effect.provide(Tenant.layer(["dying"])))
          yield* Effect.repeat(Effect.andThen(Effect.sleep(10), kept), { until: (value) => value !== undefined })
          yield* process.kill
          yield* Effect.sleep("1 minute")
          return { finalized, exit: (yield* process.exit)._tag }
        }))
      assert.deepStrictEqual(value, { finalized: false, exit: "Failure" })
      assert.isTrue(history.some((line) => line.includes("one is killed")))
    }))
})
