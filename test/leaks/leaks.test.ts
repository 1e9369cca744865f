/** What long lives leave behind in a process and in the store: nothing that grows with the messages that were handled. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Logger, Schema } from "effect"
import { Backend, DgenServer, MemoryBackend, Tenant, Tuple } from "effect-dgen"
import { TestClock } from "effect/testing"
import { processPrefix } from "../../src/internal/tenant/layout.ts"
import { elsewhere, inside, rowsUnder, scan, until, waitingCalls } from "../suites/server/support.ts"
import { countedBackend, countingFibers, heldBytes, type Open } from "./measure.ts"

class Gate extends DgenServer.Service<Gate>()("Gate", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: {
    Pass: DgenServer.call({ payload: Schema.Int, success: Schema.Int }),
    Wait: DgenServer.call({ payload: Schema.Int, success: Schema.Int }),
    Note: DgenServer.cast({ payload: Schema.Int })
  }
}) {}

/** The callers that wait, outside of the state: it must not grow. */
const gate = (waiting: Array<DgenServer.From>) =>
  Gate.behaviour({
    init: Effect.succeed({ count: 0 }),
    handlers: {
      Pass: (by, state) => DgenServer.reply(by, { count: state.count + 1 }),
      Wait: (_, state, { from }) => {
        waiting.push(from!)
        return DgenServer.noReply({ count: state.count + 1 })
      },
      Note: (_, state) => DgenServer.noReply({ count: state.count + 1 })
    }
  })

const at = (index: number, way: number): boolean => index % 3 === way

/** Lets all fibers go on until they wait for the clock. */
const settled = Effect.repeat(Effect.yieldNow, { times: 500 })

const makeOpen = (): Open => ({ fibers: 0, watches: 0, listeners: 0 })

const counted = (open: Open) => {
  const backend = Layer.effect(
    Backend.Backend,
    Effect.map(
      Layer.build(MemoryBackend.layer),
      (context) => countedBackend(open, Context.get(context, Backend.Backend))
    )
  )
  return <A, E>(test: Effect.Effect<A, E, any>) =>
    test.pipe(
      Effect.provide(Tenant.layer(["leaks"]).pipe(Layer.provideMerge(backend))),
      Effect.provide(Logger.layer([])),
      countingFibers(open)
    ) as Effect.Effect<A, E>
}

/** The calls of a tenant layer that wait, of all that it can have made. */
const waitingHere = Effect.map(
  Tenant.Tenant,
  ({ calls, instance }) => Array.from({ length: 30_000 }, (_, id) => calls.has(instance, id)).filter(Boolean).length
)

const answersHere = Effect.flatMap(
  Tenant.Tenant,
  ({ instance, prefix }) => rowsUnder(Tuple.pack(["answer"], processPrefix(prefix, instance)))
)

/**
 * Calls of which a third each is answered, interrupted, and comes to its time limit; what they leave is counted after
 * each step. Of those that wait for an answer of a later handler, or of a consumer that begins later.
 */
const openCalls = (count: number, way: "queue" | "handle") => {
  const open = makeOpen()
  return Effect.gen(function*() {
    const caller = yield* elsewhere
    const waiting: Array<DgenServer.From> = []
    const start = (consumeK: number) => Gate.start(gate(waiting), { tuid: ["Gate"], consumeK })
    const here = way === "queue" ? caller : yield* Effect.context<Tenant.Tenant>()
    const handle = way === "queue" ? yield* inside(here)(Gate.client()) : yield* start(1)
    yield* settled
    const before = { ...open }
    const calls = yield* Effect.forEach(
      Array.from({ length: count }, (_, i) => i),
      (i) =>
        Effect.forkChild(
          handle.call(way === "queue" ? "Pass" : "Wait", i, { timeout: at(i, 0) ? "1 minute" : "1 hour" })
        )
    )
    yield* until(waitingCalls(["Gate"]), (rows) => rows.length === count)
    // they wait with few watches, however many they are
    assert.isBelow(open.watches - before.watches, 10)
    assert.isBelow(open.listeners - before.listeners, 10)
    yield* TestClock.adjust("61 seconds")
    for (let i = 0; i < count; i += 3) {
      assert.strictEqual((yield* Effect.flip(Fiber.join(calls[i]!)) as any)._tag, "CallTimeout")
    }
    yield* Fiber.interruptAll(calls.filter((_, i) => at(i, 1)))
    assert.strictEqual((yield* waitingCalls(["Gate"])).length, calls.filter((_, i) => at(i, 2)).length)
    if (way === "queue") yield* start(500)
    else {
      for (const from of waiting.splice(0)) yield* Tenant.transact(Gate.replyTo(from, Exit.succeed(1)))
    }
    const answers = yield* Fiber.joinAll(calls.filter((_, i) => at(i, 2)))
    const third = Array.from({ length: count }, (_, i) => i).filter((i) => at(i, 2))
    assert.deepStrictEqual(answers, way === "queue" ? third : third.map(() => 1))
    // those that went were handled too
    yield* until(handle.queueLength, (length) => length === 0)
    yield* settled
    assert.deepStrictEqual(yield* waitingCalls(["Gate"]), [])
    assert.strictEqual(yield* inside(here)(waitingHere), 0)
    assert.deepStrictEqual(yield* inside(here)(answersHere), [])
    assert.sameMembers(
      [...new Set((yield* scan(["Gate"])).map(([what]) => what))],
      way === "queue" ? ["name", "head", "state", "push", "pop"] : ["name", "head", "state", "push"]
    )
    // a consumer more than before, at the most
    assert.isBelow(open.fibers - before.fibers, 10)
    assert.isBelow(open.watches - before.watches, 5)
    assert.isBelow(open.listeners - before.listeners, 5)
  }).pipe(Effect.scoped, counted(open), Effect.andThen(Effect.sync(() => assert.deepStrictEqual(open, makeOpen()))))
}

describe("open calls", () => {
  it.effect(
    "10,000 through the queue leave no fiber, watch, listener or key",
    () => openCalls(10_000, "queue"),
    120_000
  )
  it.effect("1,000 of a handle leave no fiber, watch, listener or key", () => openCalls(1_000, "handle"), 120_000)
})

/** What a reference and the least object behind it take: less for each message more is no leak, but a machine that warms up. */
const LEAK_LEAST_BYTES = 24

describe("memory", () => {
  /** Runs hundreds of messages, and compares what is held after a few of them and after many. */
  const holds = (
    few: number,
    many: number,
    consumeK: number,
    hundred: (server: (typeof Gate)["Service"], from: number) => Effect.Effect<unknown, unknown>
  ) =>
    Effect.gen(function*() {
      const server = yield* Gate.start(gate([]), { tuid: ["Gate"], consumeK })
      const handle = (from: number, to: number) =>
        Effect.andThen(
          Effect.forEach(
            Array.from({ length: (to - from) / 100 }, (_, i) => i),
            (i) => hundred(server, from + i * 100),
            {
              discard: true
            }
          ),
          until(server.queueLength, (length) => length === 0)
        )
      yield* handle(0, few)
      const before = yield* heldBytes
      yield* handle(few, many)
      const after = yield* heldBytes
      assert.strictEqual((yield* server.state)!.count, many)
      assert.isBelow((after - before) / (many - few), LEAK_LEAST_BYTES)
    }).pipe(Effect.scoped, counted(makeOpen()))

  const casts = Array.from({ length: 100 }, () => ["Note", 1] as const)
  it.live(
    "a server holds no more after 50,000 casts than after 5,000",
    () => holds(5_000, 50_000, 50, (server) => server.castAll(casts)),
    120_000
  )
  it.live(
    "a server holds no more after 20,000 calls than after 2,000",
    () =>
      holds(
        2_000,
        20_000,
        1,
        (server, from) => Effect.forEach(casts, (_, i) => server.call("Pass", from + i), { discard: true })
      ),
    120_000
  )
})
