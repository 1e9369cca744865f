/** One type with several definitions in a process, and jobs that a server's handler touches, under a clock of the test. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Option, Schema, type Scope } from "effect"
import { type Backend, DgenServer, Jobs, MemoryBackend, Tenant } from "effect-dgen"
import { opened, pass, settle } from "../suites/jobs/support.ts"
import { committing } from "../support/driver.ts"

const { transact } = Tenant
const Data = Schema.Struct({ n: Schema.Number })

const timed = (
  title: string,
  test: Effect.Effect<void, unknown, Tenant.Tenant | Scope.Scope>,
  backend: Layer.Layer<Backend.Backend> = MemoryBackend.layer
) =>
  it.effect(title, () =>
    test.pipe(
      Effect.scoped,
      Effect.provide(Tenant.layer(["definitions"]).pipe(Layer.provide(backend))),
      Effect.provide(Logger.layer([]))
    ))

/** A backend with something that happens before the next commit that writes. */
const interrupting = () => {
  const next: { happens: Effect.Effect<void> | undefined } = { happens: undefined }
  const backend = committing((_, commit) => {
    const { happens = Effect.void } = next
    next.happens = undefined
    return Effect.andThen(happens, commit)
  })
  return { backend, next }
}

describe("several definitions of one type", () => {
  const { backend, next } = interrupting()
  timed(
    "a worker without a retention that opens in the middle of a sweep does not make it take all finished jobs",
    Effect.gen(function*() {
      const Kept = Jobs.make("kept", { data: Data, retention: "1 hour" })
      const Forever = Jobs.make("kept", { data: Data })
      yield* opened(Kept.workerLayer(() => Effect.void))
      yield* transact(Kept.add("old", { n: 0 }))
      yield* pass("59 minutes")
      yield* transact(Effect.forEach([1, 2, 3], (n) => Kept.add(`young ${n}`, { n })))
      yield* settle
      assert.strictEqual((yield* transact(Kept.counts)).finished, 4)
      const context = yield* Effect.context<Tenant.Tenant | Scope.Scope>()
      let hasOpened = false
      next.happens = Effect.suspend(() => {
        hasOpened = true
        return Effect.asVoid(Effect.orDie(Effect.provide(opened(Forever.workerLayer(() => Effect.void)), context)))
      })
      for (let i = 0; i < 8; i++) yield* pass("20 seconds")
      assert.isTrue(hasOpened)
      assert.strictEqual((yield* transact(Kept.counts)).finished, 3)
    }),
    backend
  )

  timed(
    "a worker with a shorter timeout that opens is followed at once",
    Effect.gen(function*() {
      const Slow = Jobs.make("work", { data: Data, timeout: "10 hours" })
      const Quick = Jobs.make("work", { data: Data, timeout: "10 seconds" })
      yield* transact(Slow.add("x", { n: 1 }))
      // whoever took it is never heard of again
      yield* Slow.accept()
      yield* pass("2 seconds")
      yield* opened(Quick.workerLayer(() => Effect.never, { grace: 0 }))
      for (let i = 0; i < 4; i++) yield* pass("5 seconds")
      assert.strictEqual((yield* transact(Quick.list())).jobs[0]!.attempts, 2)
    })
  )

  timed(
    "when one of three workers closes, the one that was opened last goes on to be followed",
    Effect.gen(function*() {
      const Work = Jobs.make("work", { data: Data, timeout: "10 seconds" })
      yield* transact(Work.add("x", { n: 1 }))
      yield* Work.accept()
      const plain = Work.workerLayer(() => Effect.never, { grace: 0 })
      const closeFirst = yield* opened(plain)
      yield* opened(Work.workerLayer(() => Effect.never, { grace: 0, maxAttempts: 1 }))
      yield* opened(plain)
      yield* closeFirst
      for (let i = 0; i < 6; i++) yield* pass("5 seconds")
      // its first holder was silent: by the second worker's options it would be dead
      assert.strictEqual((yield* transact(Work.counts)).dead, 0)
      assert.strictEqual((yield* transact(Work.list())).jobs[0]!.attempts, 2)
    })
  )
})

class Desk extends DgenServer.Service<Desk>()("Desk", {
  state: Schema.Struct({}),
  messages: { Drop: DgenServer.call({ error: Schema.String }) }
}) {}

describe("a handler that fails after it touched a running job", () => {
  timed(
    "leaves the job's lease as it was: it is found when its holder is silent",
    Effect.gen(function*() {
      const Work = Jobs.make("work", { data: Data, timeout: "10 seconds" })
      const desk = Desk.behaviour({
        init: Effect.succeed({}),
        handlers: {
          Drop: () => Effect.andThen(Effect.orDie(Work.remove("one")), Effect.fail("refused"))
        }
      })
      const server = yield* Desk.start(desk, { tuid: ["Desk"] })
      yield* transact(Work.add("one", { n: 1 }))
      assert.isTrue(Option.isSome(yield* Work.accept()))
      assert.strictEqual(yield* Effect.flip(server.call("Drop")), "refused")
      for (let i = 0; i < 6; i++) yield* pass("5 seconds")
      assert.deepStrictEqual(yield* transact(Work.counts), { pending: 1, running: 0, finished: 0, dead: 0 })
    })
  )
})
