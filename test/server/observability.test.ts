/** What a server shows of itself: spans that belong together across the queue, and metrics. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Layer, Logger, Metric, Schedule, Schema, Tracer } from "effect"
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

/** The state of a metric with some attributes. */
const metric = (name: string, attributes: Record<string, string>) =>
  Effect.map(Metric.snapshot, (metrics) =>
    metrics.find((one) =>
      one.id === name &&
      Object.entries({ server: "Watched", ...attributes }).every(([key, value]) =>
        (one.attributes as any)?.[key] === value
      )
    )?.state as any)

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
