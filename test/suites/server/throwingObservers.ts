/** Loggers, tracers and metrics of users that throw: everything goes on as if they did not. */
import { assert, describe } from "@effect/vitest"
import { Context, Effect, Layer, Logger, Metric, Schema, Tracer } from "effect"
import { DgenServer, DurableQueue, Jobs, Tenant } from "effect-dgen"
import { type Needs, type Store, testsOf, until } from "./support.ts"
import { fast } from "./support.ts"

const fails = (): never => {
  throw new Error("the observer failed")
}

/** What users do in their code that others look at. */
const observed = Effect.withSpan(
  Effect.andThen(Effect.logInfo({ total: 1n }), Effect.logError("a line")),
  "of a user",
  {
    attributes: { a: 1 }
  }
)

class Seen extends DgenServer.Service<Seen>()("Seen", {
  state: Schema.Int,
  messages: {
    Add: DgenServer.call({ success: Schema.Int }),
    Hold: DgenServer.call({ success: Schema.Int, locks: true }),
    Poison: DgenServer.call(),
    Note: DgenServer.info()
  },
  actions: { Tell: Schema.Int }
}) {}

const seen = Seen.behaviour({
  init: Effect.as(observed, 0),
  handlers: {
    Add: (_, n) => Effect.as(observed, DgenServer.reply(n + 1, n + 1, [Seen.action("Tell", n + 1)])),
    Hold: (_, n) => Effect.as(observed, DgenServer.lock(n)),
    Poison: () => Effect.andThen(observed, Effect.die(new Error("poison"))),
    Note: (_, n) => Effect.as(observed, DgenServer.noReply(n + 1))
  }
})

/** Every way through a server: each must end as it does where nobody looks. */
const everyWay = Effect.fnUntraced(function*(consumeK: number) {
  const told: Array<number> = []
  const buried: Array<string | undefined> = []
  const server = yield* Seen.start(seen, { ...fast, tuid: ["Seen"], consumeK, deadLetterThreshold: 2 }).pipe(
    Effect.provide([
      Seen.actionsLayer({ Tell: (n) => Effect.andThen(observed, Effect.sync(() => void told.push(n))) }),
      Seen.lockedLayer({ Hold: (_, n) => Effect.as(observed, DgenServer.reply(n + 1, n + 1)) }),
      Seen.deadLetterLayer(({ tag }) => Effect.andThen(observed, Effect.sync(() => void buried.push(tag))))
    ])
  )
  assert.strictEqual(yield* server.call("Add"), 1)
  assert.strictEqual(yield* server.call("Hold"), 2)
  assert.strictEqual((yield* Effect.flip(server.call("Poison")))._tag, "DeadLettered")
  assert.strictEqual((yield* Effect.flip(server.priorityCall("Poison")))._tag, "HandlerCrashed")
  yield* server.info("Note")
  assert.strictEqual(yield* server.priorityCall("Hold"), 4)
  assert.strictEqual(yield* server.call("Add"), 5)
  yield* until(Effect.sync(() => [told.length, buried.length]), ([acts, deaths]) => acts === 2 && deaths === 1)
  assert.deepStrictEqual(told, [1, 5])
  assert.isFalse(yield* server.locked)
  assert.strictEqual(yield* server.queueLength, 0)
  assert.strictEqual(yield* Tenant.transact(DurableQueue.deadLetterCount(Seen.queue())), 1)
  yield* server.stop()
})

const everyJob = Effect.gen(function*() {
  const Work = Jobs.make("work", { data: Schema.Int, maxAttempts: 2, retry: fast.restart })
  yield* Layer.build(
    Work.workerLayer(({ attempt, data }) =>
      Effect.andThen(observed, data === 1 && attempt === 1 ? Effect.die(new Error("first")) : Effect.void)
    )
  )
  yield* Layer.build(Work.cronLayer("tick", { cron: "* * * * * *", data: () => fails() }))
  for (const n of [1, 2]) yield* Tenant.transact(Work.add(n, n))
  for (const n of [1, 2]) {
    const ended = yield* Jobs.wait(yield* Work.subscribe(n), { state: "finished", timeout: "20 seconds" })
    assert.strictEqual(ended._tag, "Some")
  }
})

const loggers: Readonly<Record<string, Logger.Logger<unknown, unknown>>> = {
  "that throws": Logger.make(fails),
  "that makes JSON of what it gets": Logger.make(({ message }) => JSON.stringify(message)),
  "whose promise is rejected": Logger.make(() => Promise.reject(new Error("the observer failed")))
}

const spansWith = (change: (span: Tracer.Span) => object): Tracer.Tracer =>
  Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      return Object.defineProperties(span, Object.getOwnPropertyDescriptors(change(span)))
    }
  })

const tracers: Readonly<Record<string, Tracer.Tracer>> = {
  "that makes no span": Tracer.make({ span: fails }),
  "whose spans do not end": spansWith(() => ({ end: fails })),
  "whose spans take no attribute": spansWith(() => ({ attribute: fails })),
  "whose spans take no event": spansWith(() => ({ event: fails })),
  "whose spans cannot be read": spansWith(() => ({
    get traceId() {
      return fails()
    },
    get sampled() {
      return fails()
    },
    get attributes() {
      return fails()
    }
  })),
  "whose spans have names that are none": spansWith(() => ({ traceId: "\ud800", spanId: 7n }))
}

export const throwingObserversSuite = (name: string, backend: Store): void => {
  const live = testsOf(backend, "observers")
  const both = (what: string, observers: Layer.Layer<never>) => {
    for (const consumeK of [1, 5]) {
      live(
        `${what} fails no message, action, lock or dead letter (consumeK ${consumeK})`,
        everyWay(consumeK).pipe(Effect.provide(observers)) as Effect.Effect<void, unknown, Needs>
      )
    }
    live(`${what} fails no job, and no schedule`, Effect.provide(everyJob, observers))
  }
  describe(`${name}: a user's`, () => {
    for (const [what, logger] of Object.entries(loggers)) both(`logger ${what}`, Logger.layer([logger]))
    for (const [what, tracer] of Object.entries(tracers)) {
      both(`tracer ${what}`, Layer.merge(Layer.succeed(Tracer.Tracer, tracer), Logger.layer([Logger.tracerLogger])))
    }
    both(
      "registry of metrics that throws",
      Layer.succeedContext(Context.make(Metric.MetricRegistry, new Proxy(new Map(), { get: () => fails })))
    )
    live(
      "line that its logger cannot take is offered once more as text",
      Effect.gen(function*() {
        const lines: Array<string> = []
        const logger = Logger.make(({ message }) => void lines.push(JSON.stringify(message)))
        yield* Effect.provide(everyWay(1), Logger.layer([logger]))
        assert.isAbove(lines.filter((line) => line.includes("total") && line.includes("1n")).length, 5)
      })
    )
  })
}
