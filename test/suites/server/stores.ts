/** What a server keeps of its promises when its store fails it at the worst moment, or others write beside it. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Schema, Scope } from "effect"
import { BackendError, DgenServer, Jobs, Tenant } from "effect-dgen"
import { Desk, held, startDesk } from "./desk.ts"
import { grains, type Run, startMill } from "./mill.ts"
import {
  conflict,
  elsewhere,
  fast,
  inside,
  keysOf,
  overwrite,
  scan,
  type Store,
  tapped,
  testsOf,
  touches,
  until
} from "./support.ts"

const full = new BackendError.BackendError({ reason: new BackendError.DiskFull({ message: "no room, says a test" }) })

const Work = Jobs.make("work", { data: Schema.String })

class Refused extends Schema.TaggedError<Refused>()("Refused", {}) {}

class Giver extends DgenServer.Service<Giver>()("Giver", {
  state: Schema.Int,
  messages: {
    Give: DgenServer.call({ payload: Schema.Boolean, error: Refused }),
    GiveLater: DgenServer.cast({ payload: Schema.Boolean })
  }
}) {}

const giver = Giver.behaviour({
  init: Effect.succeed(0),
  handlers: {
    Give: Effect.fnUntraced(function*(refuse, state) {
      yield* Effect.orDie(Work.add(`given ${refuse}`, "data"))
      if (refuse) return yield* new Refused()
      return DgenServer.reply(undefined, state + 1)
    }),
    GiveLater: (_, state) => DgenServer.noReply(state)
  }
})

export const storesSuite = (name: string, backend: Store): void => {
  const live = testsOf(backend, "stores")
  describe(`${name}: a store that fails`, () => {
    live(
      "with a full disk when a lock ends holds it up, and it ends when there is room",
      Effect.gen(function*() {
        const { head } = yield* keysOf(["Desk"])
        let refused = 0
        let isFull = false
        const tenant = yield* tapped({
          before: ({ mutations }) => {
            if (!isFull || !mutations.some(touches(head))) return Effect.void
            if (++refused >= 2) isFull = false
            return Effect.fail(full)
          }
        })
        const { begun, go, locked } = yield* held
        const server = yield* inside(tenant)(startDesk(locked, { consumeK: 5 }))
        const call = yield* Effect.forkChild(server.call("Work", { item: "a" }, { timeout: "10 seconds" }))
        yield* begun
        isFull = true
        yield* go
        assert.strictEqual(yield* Fiber.join(call), "a 1")
        assert.isFalse(yield* server.locked)
        assert.strictEqual(refused, 2)
      })
    )
    live(
      "to give a state that can be read when a lock ends: the message is back in the queue, the lock is free",
      Effect.gen(function*() {
        const { begun, go, locked } = yield* held
        const server = yield* startDesk(locked, { consumeK: 5, cache: false })
        const call = yield* Effect.forkChild(Effect.exit(server.call("Work", { item: "a" }, { timeout: "3 seconds" })))
        yield* begun
        const { state } = yield* keysOf(["Desk"])
        yield* overwrite([{
          op: "set",
          key: Buffer.concat([state, Buffer.from("\x15\x01\x02count\x00\x14\x14", "latin1")]),
          value: Uint8Array.of(0xc1)
        }])
        yield* go
        const exit = yield* Fiber.join(call)
        assert.strictEqual(JSON.stringify(exit).match(/ServerStopped|CallTimeout|HandlerCrashed/)?.[0], "ServerStopped")
        const again = yield* Desk.client()
        assert.isFalse(yield* again.locked)
        assert.strictEqual(yield* again.queueLength, 1)
      })
    )
    live(
      "an inline call that conflicts with a kill is not queued: nothing stays",
      Effect.gen(function*() {
        const committing = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const { head } = yield* keysOf(["Mill"])
        let hold = false
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            hold && mutations.some(touches(head))
              ? Effect.andThen(Deferred.succeed(committing, undefined), Deferred.await(commit))
              : Effect.void
        })
        const other = yield* startMill({ consume: false })
        const server = yield* inside(tenant)(startMill())
        hold = true
        const call = yield* Effect.forkChild(Effect.flip(server.call("Ask", { item: "a", does: "" })))
        yield* Deferred.await(committing)
        yield* other.kill()
        assert.deepStrictEqual(yield* scan(["Mill"]), [])
        hold = false
        yield* Deferred.succeed(commit, undefined)
        assert.strictEqual((yield* Fiber.join(call))._tag, "ServerKilled")
        assert.deepStrictEqual(yield* scan(["Mill"]), [])
      })
    )
    live(
      "a batch that conflicts again and again is halved until it gets through, and nobody is charged",
      Effect.gen(function*() {
        const { items } = yield* keysOf(["Mill"])
        // as messages past the queue do that change the state more often than a long batch takes
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            mutations.filter((mutation) => mutation.op === "clear" && touches(items)(mutation)).length > 4
              ? Effect.fail(conflict)
              : Effect.void
        })
        const runs: Array<Run> = []
        const sender = yield* startMill({ consume: false })
        const names = Array.from({ length: 100 }, (_, i) => `${i}`)
        yield* sender.castAll(grains(...names))
        yield* inside(tenant)(startMill({ consumeK: 100, deadLetterThreshold: 1 }, runs))
        yield* until(sender.queueLength, (length) => length === 0)
        assert.deepStrictEqual((yield* sender.state)!.log, names)
        assert.isTrue(runs.every((run) => run.attempt === 1))
      })
    )
    for (const consumeK of [1, 3]) {
      live(
        `a job that a handler added which failed with its error is not there (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const server = yield* Giver.start(giver, { ...fast, tuid: ["Giver"], consumeK })
          assert.strictEqual((yield* Effect.flip(server.call("Give", true)))._tag, "Refused")
          yield* server.call("Give", false)
          assert.strictEqual(yield* Tenant.transact(Work.getState("given false")), "pending")
          assert.strictEqual((yield* Effect.flip(Tenant.transact(Work.getState("given true"))))._tag, "JobNotFound")
        })
      )
    }
    live(
      "a scope that closes between a look and its wait leaves no watch",
      Effect.gen(function*() {
        const looking = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        const watches = { armed: 0, cancelled: 0 }
        const tenant = yield* tapped({
          watched: (requests) => {
            for (const request of requests) {
              const cancel = request.onCancel
              watches.armed++
              request.onCancel = () => {
                watches.cancelled++
                cancel?.()
              }
            }
            return Effect.andThen(Deferred.succeed(looking, undefined), Deferred.await(go))
          }
        })
        const scope = yield* Scope.fork(yield* Effect.scope)
        yield* inside(tenant)(startMill()).pipe(Effect.provideService(Scope.Scope, scope))
        yield* Deferred.await(looking)
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        yield* Deferred.succeed(go, undefined)
        yield* Fiber.join(closing)
        assert.deepStrictEqual(watches, { armed: 1, cancelled: 1 })
      })
    )
    live(
      "kill ends under the fire of two handles, and all their calls with it",
      Effect.gen(function*() {
        const server = yield* startMill({ consumeK: 10 })
        const other = yield* Effect.flatMap(elsewhere, (context) => inside(context)(startMill({ consumeK: 3 })))
        const fire = yield* Effect.forEach(
          Array.from({ length: 64 }, (_, i) => i),
          (i) =>
            Effect.forkChild(
              Effect.flip(Effect.forever((i % 2 === 0 ? server : other).call("Ask", { item: `${i}`, does: "" })))
            )
        )
        yield* until(server.state, (state) => (state?.log.length ?? 0) > 200)
        yield* server.kill()
        for (const fiber of fire) assert.strictEqual((yield* Fiber.join(fiber))._tag, "ServerKilled")
        assert.isUndefined(yield* server.state)
      })
    )
  })
}
