/** What a handler may see and wait for (rule R23). */
import { assert, describe } from "@effect/vitest"
import { Clock, Context, DateTime, Deferred, Effect, Fiber, Layer, Option, Random, Schema } from "effect"
import { DgenServer, Tenant, Transaction, type Tuple } from "effect-dgen"
import { conflict, fast, inside, keptLogs, keysOf, type Store, tapped, testsOf, touches, until } from "./support.ts"

type Body = Effect.Effect<unknown, never, Transaction.Transaction>

/** A server whose messages name what their handlers do. */
class Monk extends DgenServer.Service<Monk>()("Monk", {
  state: Schema.Struct({ done: Schema.Array(Schema.String) }),
  messages: {
    Do: DgenServer.call({ payload: { what: Schema.String } }),
    DoCast: DgenServer.cast({ payload: { what: Schema.String } }),
    Work: DgenServer.call({ payload: { what: Schema.String }, locks: true })
  }
}) {}

type Options = DgenServer.Options & { readonly tuid?: Tuple.Tuple }

const start = (bodies: { readonly [what: string]: Body }, options: Options = {}, init?: Body) => {
  const run = ({ what }: { readonly what: string }, { done }: { readonly done: ReadonlyArray<string> }) =>
    Effect.as(bodies[what]!, { done: [...done, what] })
  const behaviour = Monk.behaviour({
    init: Effect.as(init ?? Effect.void, { done: [] }),
    handlers: {
      Do: (payload, state) => Effect.map(run(payload, state), (after) => DgenServer.reply(undefined, after)),
      DoCast: (payload, state) => Effect.map(run(payload, state), (after) => DgenServer.noReply(after)),
      Work: (_, state) => DgenServer.lock(state)
    }
  })
  const locked = Monk.lockedLayer({
    Work: (payload) =>
      Effect.succeed(
        DgenServer.update((fresh: { readonly done: ReadonlyArray<string> }) =>
          Effect.map(run(payload, fresh), (after) => DgenServer.reply(undefined, after))
        )
      )
  })
  return Monk.start(behaviour, { ...fast, tuid: ["Monk"], deadLetterThreshold: 2, ...options }).pipe(
    Effect.provide(locked)
  )
}

class Outside extends Context.Service<Outside, { readonly value: number }>()("Outside") {}

/** What no handler may wait for. */
const impure: { readonly [what: string]: Body } = {
  never: Effect.never,
  promise: Effect.promise(() => new Promise(() => {})),
  resolved: Effect.promise(() => Promise.resolve(1)),
  fetch: Effect.ignore(Effect.tryPromise(() => fetch("http://127.0.0.1:9/"))),
  sleep: Effect.sleep("1 millis"),
  "long sleep": Effect.sleep("1 hour"),
  timeout: Effect.ignore(Effect.timeout(Effect.never, "1 millis")),
  callback: Effect.callback((resume) => queueMicrotask(() => resume(Effect.void))),
  immediate: Effect.callback((resume) => void setImmediate(() => resume(Effect.void))),
  "after a read": Effect.andThen(Transaction.get(["k"]), Effect.promise(() => Promise.resolve(1))),
  "after a yield": Effect.andThen(Effect.yieldNow, Effect.promise(() => Promise.resolve(1))),
  "in a child": Effect.flatMap(Effect.forkChild(Effect.promise(() => Promise.resolve(1))), Fiber.join),
  "a deferred": Effect.flatMap(Deferred.make<void>(), Deferred.await)
}

/** What every handler may do. */
const pure: { readonly [what: string]: Body } = {
  nothing: Effect.void,
  reads: Effect.forEach(["a", "b", "c"], (key) => Transaction.get([key]), { concurrency: "unbounded" }),
  ranges: Effect.all([Transaction.getRange(["a"]), Transaction.get(["b"])], { concurrency: "unbounded" }),
  yields: Effect.repeat(Effect.yieldNow, { times: 5 }),
  children: Effect.flatMap(Effect.forkChild(Effect.andThen(Effect.yieldNow, Transaction.get(["a"]))), Fiber.join),
  races: Effect.raceFirst(Transaction.get(["a"]), Transaction.get(["b"])),
  deferred: Effect.gen(function*() {
    const deferred = yield* Deferred.make<Uint8Array | undefined>()
    yield* Effect.forkChild(Effect.flatMap(Transaction.get(["a"]), (value) => Deferred.succeed(deferred, value)))
    yield* Deferred.await(deferred)
  }),
  "sync waiting": Effect.callback((resume) => resume(Effect.void)),
  writes: Effect.andThen(Transaction.set(["a"], Uint8Array.of(1)), Transaction.get(["a"]))
}

export const puritySuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "purity")

  describe(`${name}: handlers`, () => {
    for (const [what, body] of Object.entries(impure)) {
      live(
        `die with ImpureCallback when they wait for the world: ${what}`,
        Effect.gen(function*() {
          const server = yield* start({ [what]: body })
          const told = (error: { readonly _tag: string; readonly message: string }, tag: string, expected: string) => {
            assert.strictEqual(error._tag, tag)
            assert.include(error.message, "Monk")
            assert.include(error.message, `"${expected}" waits for something outside its transaction`)
          }
          told(yield* Effect.flip(server.call("Do", { what })), "DeadLettered", "Do")
          told(yield* Effect.flip(server.priorityCall("Do", { what })), "HandlerCrashed", "Do")
          told(yield* Effect.flip(server.priorityCast("DoCast", { what })), "HandlerCrashed", "DoCast")
          told(yield* Effect.flip(server.call("Work", { what })), "DeadLettered", "Work")
          told(yield* Effect.flip(server.priorityCall("Work", { what })), "HandlerCrashed", "Work")
          assert.deepStrictEqual(yield* server.state, { done: [] })
        })
      )
    }
    for (
      const operation of ["cast", "castAll", "call", "state", "queueLength", "Tenant.transact", "client.call"] as const
    ) {
      live(
        `may not use what is not part of their transaction: ${operation}, of another server or their own`,
        Effect.gen(function*() {
          const context = yield* Effect.context<Tenant.Tenant>()
          const other = yield* start({ x: Effect.void }, { tuid: ["Other"] })
          const client = yield* Monk.client({ tuid: ["Other"] })
          const uses: { readonly [what: string]: Effect.Effect<unknown, unknown> } = {
            cast: other.cast("DoCast", { what: "x" }),
            castAll: other.castAll([["DoCast", { what: "x" }]]),
            call: other.call("Do", { what: "x" }),
            "client.call": client.call("Do", { what: "x" }),
            state: other.state,
            queueLength: other.queueLength,
            "Tenant.transact": Effect.provideContext(
              Tenant.transact(Transaction.set(["k"], new Uint8Array(1))),
              context
            )
          }
          const named = operation === "client.call" ? "call" : operation
          const sentence = named === "state" || named === "queueLength" ? "a transaction of its own" : named
          const server = yield* start({ [operation]: Effect.orDie(uses[operation]!) })
          for (const call of [server.call, server.priorityCall]) {
            const error = yield* Effect.flip(call("Do", { what: operation }))
            assert.include(error.message, `uses ${sentence}, which is not part of its transaction`)
          }
          assert.deepStrictEqual(yield* other.state, { done: [] })
          assert.isUndefined(yield* Tenant.transact(Transaction.get(["k"])))
        })
      )
    }
    live(
      "of init die so, too, and leave nothing",
      Effect.gen(function*() {
        const exit: any = yield* Effect.exit(start({}, {}, impure["promise"]!))
        assert.strictEqual(exit.cause.reasons[0].defect._tag, "ImpureCallback")
        assert.strictEqual(exit.cause.reasons[0].defect.tag, "init")
        const client = yield* Monk.client()
        assert.isUndefined(yield* client.state)
      })
    )
    for (const consumeK of [1, 4]) {
      live(
        `may wait for their transaction and each other (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const server = yield* start(pure, { consumeK })
          for (const what of Object.keys(pure)) {
            yield* server.call("Do", { what })
            yield* server.priorityCall("Do", { what })
          }
          yield* server.castAll(Object.keys(pure).map((what) => ["DoCast", { what }] as const))
          yield* until(server.state, (state) => state!.done.length === 3 * Object.keys(pure).length)
        })
      )
    }
    live(
      "see their transaction and no service",
      Effect.gen(function*() {
        const seen: Array<unknown> = []
        const look = Effect.gen(function*() {
          seen.push(Option.isSome(yield* Effect.serviceOption(Outside)))
          seen.push(Option.isSome(yield* Effect.serviceOption(Tenant.Tenant)))
          seen.push(Option.isSome(yield* Effect.serviceOption(Transaction.Transaction)))
        })
        const outside = Effect.provideService(Outside, { value: 1 })
        const server = yield* start({ look }).pipe(outside)
        yield* server.call("Do", { what: "look" }).pipe(outside)
        assert.deepStrictEqual(seen, [false, false, true])
      })
    )
    live(
      "see a clock that stands and numbers that are equal on every try, and other ones for other messages",
      Effect.gen(function*() {
        const { head } = yield* keysOf(["Monk"])
        let refusals = 0
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            Effect.suspend(() => mutations.some(touches(head)) && refusals-- > 0 ? Effect.fail(conflict) : Effect.void)
        })
        const tries: Array<ReadonlyArray<number>> = []
        const look = Effect.gen(function*() {
          const start = yield* Clock.currentTimeMillis
          // longer than a millisecond
          for (const begun = performance.now(); performance.now() - begun < 3;) { /* wait */ }
          assert.strictEqual(yield* Clock.currentTimeMillis, start)
          assert.strictEqual(DateTime.toEpochMillis(yield* DateTime.now), start)
          assert.strictEqual(yield* Transaction.currentTimeMillis, start)
          tries.push([yield* Random.next, yield* Random.nextInt, yield* Random.nextIntBetween(0, 1_000_000)])
        })
        const server = yield* inside(tenant)(start({ look }, { consumeK: 4 }))
        refusals = 3
        const before = Date.now()
        yield* server.call("Do", { what: "look" })
        assert.strictEqual(tries.length, 4)
        for (const numbers of tries) assert.deepStrictEqual(numbers, tries[0])
        assert.isAtLeast(Date.now() - before, 12)
        refusals = 1
        yield* server.priorityCall("Do", { what: "look" })
        assert.deepStrictEqual(tries[4], tries[5])
        const sender = yield* start({ look }, { consume: false })
        yield* sender.castAll([["DoCast", { what: "look" }], ["DoCast", { what: "look" }]])
        yield* until(sender.state, (state) => state!.done.length === 4)
        assert.strictEqual(new Set(tries.map(([number]) => number)).size, 4)
      })
    )

    describe("and their logs", () => {
      const say = Effect.andThen(
        Effect.log("line one"),
        Effect.andThen(Effect.logError("line two"), Transaction.get(["k"]))
      )
      const counts = ({ count }: { readonly count: (part: string) => number }) => [count("line one"), count("line two")]

      for (const operation of ["call", "priorityCall"] as const) {
        for (const consumeK of [1, 3]) {
          live(
            `appear once although the handler ran four times (${operation}, consumeK ${consumeK})`,
            Effect.gen(function*() {
              const { head } = yield* keysOf(["Monk"])
              let refusals = 0
              let runs = 0
              const tenant = yield* tapped({
                before: ({ mutations }) =>
                  Effect.suspend(() =>
                    mutations.some(touches(head)) && refusals-- > 0 ? Effect.fail(conflict) : Effect.void
                  )
              })
              const logs = keptLogs()
              const body = Effect.andThen(Effect.sync(() => void runs++), say)
              yield* Effect.gen(function*() {
                const server = yield* inside(tenant)(start({ say: body }, { consumeK }))
                refusals = 3
                yield* server[operation]("Do", { what: "say" })
                assert.strictEqual(runs, 4)
                assert.deepStrictEqual(counts(logs), [1, 1])
              }).pipe(Effect.provide(logs.layer))
            })
          )
        }
      }
      live(
        "appear with each crash, once",
        Effect.gen(function*() {
          const logs = keptLogs()
          const crash = Effect.andThen(say, Effect.die(new Error("crash")))
          const wide = Effect.andThen(say, Transaction.set(["wide"], new Uint8Array(100_001)))
          yield* Effect.gen(function*() {
            const server = yield* start({ crash, wide }, { deadLetterThreshold: 3 })
            yield* Effect.flip(server.call("Do", { what: "crash" }))
            assert.deepStrictEqual(counts(logs), [3, 3])
            yield* Effect.flip(server.priorityCall("Do", { what: "crash" }))
            assert.deepStrictEqual(counts(logs), [4, 4])
            yield* Effect.flip(server.call("Work", { what: "crash" }))
            assert.deepStrictEqual(counts(logs), [7, 7])
            // what the store refuses is a crash like others
            yield* Effect.flip(server.priorityCall("Do", { what: "wide" }))
            assert.deepStrictEqual(counts(logs), [8, 8])
          }).pipe(Effect.provide(logs.layer))
        })
      )
      live(
        "of init appear with its commit, or with its failure",
        Effect.gen(function*() {
          const logs = keptLogs()
          const unused = { Do: Effect.die, DoCast: Effect.die, Work: Effect.die }
          const failing = Monk.behaviour({ init: Effect.andThen(say, Effect.fail("no")), handlers: unused })
          const handlers = Layer.mergeAll(Monk.lockedLayer({ Work: () => Effect.die("unused") }), logs.layer)
          assert.strictEqual(
            yield* Effect.flip(Monk.start(failing, { tuid: ["Monk"] }).pipe(Effect.provide(handlers))),
            "no"
          )
          assert.deepStrictEqual(counts(logs), [1, 1])
          yield* start({}, {}, say).pipe(Effect.provide(logs.layer))
          assert.deepStrictEqual(counts(logs), [2, 2])
        })
      )
    })
  })
}
