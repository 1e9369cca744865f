/** What a server shows of itself: spans that belong together across the queue, and metrics. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Metric, References, Schedule, Schema, Tracer } from "effect"
import { DgenServer, Jobs, MemoryBackend, Tenant } from "effect-dgen"

class Watched extends DgenServer.Service<Watched>()("Watched", {
  state: Schema.Int,
  messages: {
    Add: DgenServer.call({ payload: Schema.Int, success: Schema.Int }),
    Slow: DgenServer.call({ locks: true }),
    Refuse: DgenServer.call({ error: Schema.String }),
    Poison: DgenServer.call(),
    Note: DgenServer.cast()
  },
  actions: { Done: Schema.Int }
}) {}

const watched = Watched.behaviour({
  init: Effect.succeed(0),
  handlers: {
    Add: (by, state) =>
      Effect.as(
        Effect.withSpan(Effect.void, "inside"),
        DgenServer.reply(state + by, state + by, [Watched.action("Done", state + by)])
      ),
    Slow: (_, state) => DgenServer.lock(state),
    Refuse: () => Effect.fail("no"),
    Poison: () => Effect.die("poison"),
    Note: (_, state) => DgenServer.noReply(state)
  }
})

const setup = (options: DgenServer.Options) =>
  Effect.gen(function*() {
    const done = yield* Deferred.make<void>()
    const died = yield* Deferred.make<void>()
    const server = yield* Watched.start(watched, { tuid: ["Watched"], restart: Schedule.forever, ...options }).pipe(
      Effect.provide([
        Watched.actionsLayer({ Done: () => Effect.sync(() => void Deferred.doneUnsafe(done, Exit.void)) }),
        Watched.deadLetterLayer(() => Effect.sync(() => void Deferred.doneUnsafe(died, Exit.void))),
        Watched.lockedLayer({ Slow: (_, state) => DgenServer.reply(undefined, state) })
      ])
    )
    return { server, acted: Deferred.await(done), buried: Deferred.await(died) }
  })

const inMemory = Effect.provide(Tenant.layer(["observed"]).pipe(Layer.provide(MemoryBackend.layer)))

/** Runs with a tracer that keeps all spans. */
const traced = <A, E, R>(effect: (spans: Array<Tracer.Span>) => Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const spans: Array<Tracer.Span> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    return Effect.provideService(effect(spans), Tracer.Tracer, tracer)
  })

const parentOf = (span: Tracer.Span | undefined): string | undefined =>
  span?.parent._tag === "Some" ? span.parent.value.spanId : undefined

describe("spans", () => {
  it.live("of a job's run has what its handler does under it", () =>
    traced((spans) =>
      Effect.gen(function*() {
        const Work = Jobs.make("work", { data: Schema.Int })
        yield* Layer.build(Work.workerLayer(() => Effect.withSpan(Effect.void, "inside")))
        yield* Tenant.transact(Work.add("one", 1))
        yield* Jobs.wait(yield* Work.subscribe("one"), { state: "finished" })
        const run = spans.find((span) => span.name === "Jobs/run")
        assert.deepStrictEqual(
          [...run!.attributes],
          [["type", "\"work\""], ["id", "\"one\""], ["attempt", 1]]
        )
        assert.strictEqual(parentOf(spans.find((span) => span.name === "inside")), run!.spanId)
      })
    ).pipe(Effect.scoped, inMemory))

  it.live("of each run of a job is linked to the one that the job was added in, in whatever process it runs", () =>
    traced((spans) =>
      Effect.gen(function*() {
        const Work = Jobs.make("linked", { data: Schema.Int, retry: Schedule.spaced("1 milli") })
        yield* Effect.withSpan(Tenant.transact(Work.add("one", 1)), "adding")
        yield* Tenant.transact(Work.add("alone", 1, { scheduledAt: 1 }))
        const { path } = yield* Tenant.Tenant
        const worker = Work.workerLayer((job) => job.attempt < 3 && job.id === "one" ? Effect.fail("no") : Effect.void)
        yield* Effect.withSpan(Layer.build(Layer.provide(worker, Layer.fresh(Tenant.layer(path)))), "building")
        for (const id of ["one", "alone"]) yield* Jobs.wait(yield* Work.subscribe(id), { state: "finished" })
        const runs = (id: string) =>
          spans.filter(({ attributes, name }) => name === "Jobs/run" && attributes.get("id") === JSON.stringify(id))
        const adding = spans.find(({ name }) => name === "adding")!
        assert.deepStrictEqual(runs("one").map(({ attributes }) => attributes.get("attempt")), [1, 2, 3])
        for (const run of runs("one")) {
          assert.deepStrictEqual(run.links.map(({ span }) => [span.traceId, span.spanId]), [[
            adding.traceId,
            adding.spanId
          ]])
          assert.isUndefined(parentOf(run))
          assert.notStrictEqual(run.traceId, adding.traceId)
        }
        assert.deepStrictEqual(runs("alone").map(({ links }) => links), [[]])
      })
    ).pipe(Effect.scoped, Effect.provide(Tenant.layer(["observed"]).pipe(Layer.provideMerge(MemoryBackend.layer)))))

  for (const consumeK of [1, 5]) {
    it.live(`of a call, its callback and its actions belong together with consumeK ${consumeK}`, () =>
      traced((spans) =>
        Effect.gen(function*() {
          const { acted, server } = yield* setup({ consumeK })
          yield* Effect.withSpan(server.call("Add", 2), "program")
          yield* acted
          const named = (name: string) => spans.find((span) => span.name === name)
          const call = named("DgenServer.call")
          assert.strictEqual(parentOf(call), named("program")?.spanId)
          assert.strictEqual(call?.attributes.get("tag"), "Add")
          const callback = spans.find((span) =>
            span.name === "DgenServer.callback" && span.attributes.get("tag") === "Add"
          )
          assert.strictEqual(parentOf(callback), call?.spanId)
          assert.strictEqual(callback?.traceId, call?.traceId)
          assert.strictEqual(parentOf(named("inside")), callback?.spanId)
          assert.isDefined(named("DgenServer.actions"))
          if (consumeK > 1) assert.isDefined(named("DgenServer.consume"))
        }).pipe(Effect.scoped, inMemory)
      ))
  }

  it.live("of a locked section say which server and message", () =>
    traced((spans) =>
      Effect.gen(function*() {
        const { server } = yield* setup({})
        yield* server.call("Slow")
        const locked = spans.find((span) => span.name === "DgenServer.locked")
        assert.deepInclude(Object.fromEntries(locked!.attributes), { server: "Watched", tag: "Slow" })
      }).pipe(Effect.scoped, inMemory)
    ))
})

describe("spans of what follows a message", () => {
  for (const consumeK of [1, 5]) {
    it.live(`lie under the run of its handler, not under the start of the server (consumeK ${consumeK})`, () =>
      traced((spans) =>
        Effect.gen(function*() {
          const inside = (what: string) => Effect.withSpan(Effect.void, `inside ${what}`)
          const acted = yield* Deferred.make<void>()
          const died = yield* Deferred.make<void>()
          const server = yield* Watched.start(watched, {
            tuid: ["Watched", 7],
            restart: Schedule.forever,
            consumeK,
            deadLetterThreshold: 1
          }).pipe(
            Effect.provide([
              Watched.actionsLayer({
                Done: () =>
                  Effect.andThen(inside("action"), Effect.sync(() => void Deferred.doneUnsafe(acted, Exit.void)))
              }),
              Watched.lockedLayer({
                Slow: (_, state) => Effect.as(inside("locked"), DgenServer.reply(undefined, state))
              }),
              Watched.deadLetterLayer(() =>
                Effect.andThen(inside("dead letter"), Effect.sync(() => void Deferred.doneUnsafe(died, Exit.void)))
              )
            ]),
            Effect.withSpan("start")
          )
          yield* Effect.withSpan(server.call("Add", 2), "adding")
          yield* Deferred.await(acted)
          yield* Effect.withSpan(server.call("Slow"), "locking")
          yield* Effect.exit(Effect.withSpan(server.call("Poison"), "poisoning"))
          yield* Deferred.await(died)
          const byId = new Map(spans.map((span) => [span.spanId, span]))
          /** The names from a span up to its root. */
          const line = (name: string) => {
            const names: Array<string> = []
            for (
              let span = spans.find((one) => one.name === name);
              span !== undefined;
              span = byId.get(parentOf(span) ?? "")
            ) names.push(span.name)
            return names
          }
          const above = ["DgenServer.callback", "DgenServer.call"]
          assert.deepStrictEqual(line("inside action"), ["inside action", "DgenServer.actions", ...above, "adding"])
          assert.deepStrictEqual(line("inside locked"), ["inside locked", "DgenServer.locked", ...above, "locking"])
          assert.deepStrictEqual(line("inside dead letter").at(-1), "poisoning")
          for (const { attributes, name } of spans) {
            if (name.startsWith("DgenServer.")) assert.strictEqual(attributes.get("tuid"), "[\"Watched\",7]", name)
          }
        }).pipe(Effect.scoped, inMemory, Effect.provideService(Metric.MetricRegistry, new Map()))
      ))
  }
})

describe("which server", () => {
  it.live("handlers of actions are told the tuid, and the id of the message", () =>
    Effect.gen(function*() {
      const told: Array<DgenServer.ActionContext> = []
      const ids: Array<string> = []
      const behaviour = Watched.behaviour({
        init: Effect.succeed(0),
        handlers: {
          Add: (by, state, { id }) => {
            ids.push(id)
            return DgenServer.reply(state + by, state + by, [Watched.action("Done", by), Watched.action("Done", by)])
          },
          Slow: (_, state) => DgenServer.lock(state),
          Refuse: () => Effect.fail("no"),
          Poison: () => Effect.die("poison"),
          Note: (_, state) => DgenServer.noReply(state)
        }
      })
      const server = yield* Watched.start(behaviour, { tuid: ["Watched", 7], consumeK: 3 }).pipe(
        Effect.provide([
          Watched.actionsLayer({ Done: (_, _state, context) => Effect.sync(() => void told.push(context)) }),
          Watched.lockedLayer({ Slow: (_, state) => DgenServer.reply(undefined, state) })
        ])
      )
      yield* server.call("Add", 1)
      yield* server.call("Add", 2)
      yield* Effect.repeat(Effect.yieldNow, { until: () => told.length === 4 })
      assert.deepStrictEqual(told.map(({ id }) => id), [ids[0], ids[0], ids[1], ids[1]])
      assert.notStrictEqual(ids[0], ids[1])
      assert.deepStrictEqual(told[0]!.tuid, ["Watched", 7])
    }).pipe(Effect.scoped, inMemory))

  it.live("errors and the lines of handlers and actions say", () =>
    Effect.gen(function*() {
      const lines: Array<Record<string, unknown>> = []
      const logger = Logger.make(({ fiber }) => void lines.push(fiber.getRef(References.CurrentLogAnnotations)))
      const client = yield* Watched.client({ tuid: ["Watched", Uint8Array.of(255), 8n] })
      const timeout: any = yield* Effect.flip(client.call("Add", 1, { timeout: 1 }))
      assert.strictEqual(timeout._tag, "CallTimeout")
      assert.strictEqual(timeout.tuid, "[\"Watched\",0xff,8]")
      assert.include(timeout.message, "0xff")
      assert.notInclude(timeout.message, "still handled")
      const { acted, server } = yield* setup({ consumeK: 2 })
      yield* server.call("Add", 1)
      yield* acted
      const error: any = yield* Effect.flip(Effect.provide(server.priorityCall("Poison"), Logger.layer([logger])))
      assert.deepStrictEqual([error.server, error.tuid], ["Watched", "[\"Watched\"]"])
      assert.deepInclude(lines[0]!, { server: "Watched", tuid: "[\"Watched\"]" })
    }).pipe(Effect.scoped, inMemory, Effect.provide(Logger.layer([]))))
})

/** The state of a metric with some attributes. */
const metric = (name: string, attributes: Record<string, string>) =>
  Effect.map(Metric.snapshot, (metrics) =>
    metrics.find((one) =>
      one.id === name &&
      Object.entries({ server: "Watched", ...attributes }).every(([key, value]) =>
        (one.attributes as any)?.[key] === value
      )
    )?.state as any)

class Pile extends DgenServer.Service<Pile>()("Pile", {
  state: Schema.Int,
  messages: { Put: DgenServer.cast() },
  actions: { Wait: Schema.Int }
}) {}

const pile = Pile.behaviour({
  init: Effect.succeed(0),
  handlers: { Put: (_, n) => DgenServer.noReply(n + 1, [Pile.action("Wait", n)]) }
})

describe("gauges", () => {
  it.live("are of all servers of a name together, and forget what is idle and what has ended", () =>
    Effect.gen(function*() {
      const value = (id: string) =>
        Effect.map(metric(id, { server: "Pile" }), (state): number | undefined => state?.value)
      const length = value("effect_dgen_queue_length")
      const start = Effect.fnUntraced(function*(tuid: number, messages: number) {
        const go = yield* Deferred.make<void>()
        const acting = yield* Deferred.make<void>()
        const client = yield* Pile.client({ tuid: ["Pile", tuid] })
        yield* client.castAll(Array.from({ length: messages }, () => ["Put"] as const))
        const server = yield* Pile.start(pile, { tuid: ["Pile", tuid] }).pipe(
          Effect.provide(Pile.actionsLayer({
            Wait: () => Effect.andThen(Deferred.succeed(acting, undefined), Deferred.await(go))
          }))
        )
        yield* Deferred.await(acting)
        return { server, go: Deferred.succeed(go, undefined) }
      })
      const three = yield* start(1, 3)
      const five = yield* start(2, 5)
      // each has seen its queue before it took the first message
      assert.strictEqual(yield* length, 8)
      assert.isAtLeast((yield* value("effect_dgen_oldest_message_age_millis"))!, 0)
      yield* three.go
      yield* Effect.repeat(length, { until: (sum) => sum === 5 })
      const stopping = yield* Effect.forkChild(five.server.stop(), { startImmediately: true })
      assert.strictEqual(yield* length, 0)
      assert.strictEqual(yield* value("effect_dgen_oldest_message_age_millis"), 0)
      yield* five.go
      yield* Fiber.join(stopping)
      assert.strictEqual(yield* length, 0)
    }).pipe(
      Effect.scoped,
      inMemory,
      Effect.provide(Logger.layer([])),
      Effect.provideService(Metric.MetricRegistry, new Map())
    ))
})

describe("metrics", () => {
  it.live("count messages by outcome, dead letters, batches and callbacks", () =>
    Effect.gen(function*() {
      const { buried, server } = yield* setup({ consumeK: 5, deadLetterThreshold: 2 })
      const count = (outcome: string) =>
        Effect.map(metric("effect_dgen_messages", { outcome }), (state): number => state?.count ?? 0)
      const counts = Effect.all({
        reply: count("reply"),
        error: count("error"),
        lock: count("lock"),
        noReply: count("noReply"),
        crash: count("crash")
      })
      // metrics are the process's, and other tests count too
      const before = yield* counts
      yield* server.call("Add", 1)
      yield* Effect.exit(server.call("Refuse"))
      yield* server.call("Slow")
      yield* server.cast("Note")
      assert.strictEqual((yield* Effect.flip(server.call("Poison")))._tag, "DeadLettered")
      yield* buried
      const after = yield* counts
      const added = Object.entries(after).map(([name, value]) => [name, value - before[name as keyof typeof before]])
      // the reply of the locked handler counts, too
      assert.deepStrictEqual(Object.fromEntries(added), { reply: 2, error: 1, lock: 1, noReply: 1, crash: 2 })
      assert.strictEqual((yield* metric("effect_dgen_dead_letters", {})).count, 1)
      assert.isAbove((yield* metric("effect_dgen_batch_size", {})).count, 3)
      assert.isAbove((yield* metric("effect_dgen_callback_millis", {})).count, 3)
      assert.isDefined(yield* metric("effect_dgen_queue_length", {}))
      assert.isDefined(yield* metric("effect_dgen_oldest_message_age_millis", {}))
    }).pipe(Effect.scoped, inMemory, Effect.provide(Logger.layer([]))))
})
