/** How servers begin and end: init, tuids, reset, scopes, kill (rules R9, R24 to R26). */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Option, Schema, Scope } from "effect"
import { DgenServer, DurableQueue, Tenant, Transaction, Tuple } from "effect-dgen"
import { libraryPrefix } from "../../../src/internal/tenant/layout.ts"
import { Desk, held, startDesk } from "./desk.ts"
import { grains, Mill, type Run, startMill } from "./mill.ts"
import {
  defectOf,
  elsewhere,
  failureOf,
  inside,
  keysOf,
  rowsUnder,
  scan,
  type Store,
  tapped,
  testsOf,
  touches,
  until
} from "./support.ts"

class Room extends DgenServer.Service<Room>()("Room", {
  state: Schema.Struct({ name: Schema.String }),
  messages: { Name: DgenServer.call({ success: Schema.String }) }
}) {}

const handlers = {
  Name: (_: void, state: { readonly name: string }) => DgenServer.reply(state.name, state)
}

/** Everything that the store has of the test's tenant but answers on their way. */
/** All that is in the tenant, but what its layers keep there for themselves. */
const written = Effect.gen(function*() {
  const { prefix } = yield* Tenant.Tenant
  const own = Tuple.pack(["p"], libraryPrefix(prefix))
  const rows = yield* rowsUnder(prefix)
  return rows.filter((row) => Buffer.compare(row.key.subarray(0, own.length), own) !== 0)
})

export const lifeSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "life")

  describe(`${name}: the start`, () => {
    live(
      "whose init fails or dies persists nothing; the next one begins anew",
      Effect.gen(function*() {
        const set = Transaction.set(["written by init"], Uint8Array.of(1))
        const inits: ReadonlyArray<readonly [Effect.Effect<any, any, Transaction.Transaction>, string]> = [
          [Effect.andThen(set, Effect.fail("no name")), "no name"],
          [Effect.andThen(set, Effect.die(new Error("no room"))), "no room"],
          [Effect.as(set, { name: 7 }), "name"]
        ]
        for (const [init, problem] of inits) {
          const exit = yield* Effect.exit(Room.start(Room.behaviour({ init, handlers }), { tuid: ["Room"] }))
          assert.include(defectOf(exit), problem)
          assert.deepStrictEqual(yield* written, [])
        }
        let runs = 0
        const init = Effect.sync(() => ({ name: `room ${++runs}` }))
        const room = yield* Room.start(Room.behaviour({ init, handlers }), { tuid: ["Room"] })
        assert.strictEqual(yield* room.call("Name"), "room 1")
      })
    )
    live(
      "runs init although there is a state, and ignores what it gives",
      Effect.gen(function*() {
        let runs = 0
        const behaviour = Room.behaviour({ init: Effect.sync(() => ({ name: `room ${++runs}` })), handlers })
        yield* Effect.scoped(Room.start(behaviour, { tuid: ["Room"] }))
        const room = yield* Room.start(behaviour, { tuid: ["Room"] })
        assert.strictEqual(runs, 2)
        assert.strictEqual(yield* room.call("Name"), "room 1")
      })
    )
    live(
      "gives init the tuid; init can choose another one, which wins over the option",
      Effect.gen(function*() {
        const seen: Array<unknown> = []
        const behaviour = Room.behaviour({
          init: ({ tuid }) =>
            Effect.sync(() => {
              seen.push(tuid)
              return DgenServer.at(["Room", "chosen", 7], { name: String(tuid[1]) })
            }),
          handlers
        })
        const room = yield* Room.start(behaviour, { tuid: ["Room", "optional"] })
        assert.deepStrictEqual(seen, [["Room", "optional"]])
        assert.deepStrictEqual(room.tuid, ["Room", "chosen", 7])
        assert.strictEqual(yield* room.call("Name"), "optional")
        assert.deepStrictEqual(yield* scan(["Room", "optional"]), [])
        const client = yield* Room.client({ tuid: ["Room", "chosen", 7] })
        assert.strictEqual(yield* client.call("Name"), "optional")
        const layered = yield* Effect.scoped(
          Effect.flatMap(Layer.build(Room.layer(behaviour)), (context) => Effect.provideContext(Room, context))
        )
        assert.deepStrictEqual(layered.tuid, ["Room", "chosen", 7])
      })
    )
    live(
      "with a chosen tuid that is none fails, and writes nothing",
      Effect.gen(function*() {
        for (const tuid of [[], ["\ud800"], "text", [{}]] as Array<any>) {
          const behaviour = Room.behaviour({ init: Effect.succeed(DgenServer.at(tuid, { name: "" })), handlers })
          const error: any = yield* Effect.flip(Room.start(behaviour, { tuid: ["Room"] }))
          assert.strictEqual(error._tag, "InvalidTuid")
        }
        assert.deepStrictEqual(yield* written, [])
      })
    )
    live(
      "with reset over a held lock keeps lock and queue; the holder's outcome is laid over the new state",
      Effect.gen(function*() {
        const { begun, go, locked } = yield* held
        const holder = yield* startDesk(locked)
        const client = yield* Desk.client()
        const call = yield* Effect.forkChild(client.call("Work", { item: "a" }))
        yield* begun
        yield* holder.priorityCall("Count", { by: 7 })
        yield* client.cast("Note", { item: "queued" })
        const lock = yield* Tenant.transact(Desk.lock())
        const reset = yield* Effect.flatMap(elsewhere, (context) => inside(context)(startDesk(locked, { reset: true })))
        assert.deepStrictEqual(yield* reset.state, { log: [], count: 0 })
        assert.isTrue(yield* reset.locked)
        assert.deepStrictEqual(yield* Tenant.transact(Desk.lock()), lock)
        assert.isTrue(Option.isSome(lock))
        assert.strictEqual(yield* reset.queueLength, 2)
        yield* go
        assert.strictEqual(yield* Fiber.join(call), "a 1")
        const state = yield* until(reset.state, (state) => state!.log.includes("queued"))
        assert.deepStrictEqual(state, { log: ["done a", "queued"], count: 0 })
      })
    )
  })

  describe(`${name}: the end`, () => {
    live(
      "of a scope waits for the commit in flight, and takes no message after it",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        const { pop } = yield* keysOf(["Mill"])
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            mutations.some(touches(pop))
              ? Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go))
              : Effect.void
        })
        const sender = yield* startMill({ consume: false })
        const scope = yield* Scope.fork(yield* Effect.scope)
        yield* inside(tenant)(startMill({ consumeK: 2 })).pipe(Effect.provideService(Scope.Scope, scope))
        yield* sender.castAll(grains("a", "b", "c"))
        yield* Deferred.await(begun)
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        assert.isUndefined(closing.pollUnsafe())
        yield* Deferred.succeed(go, undefined)
        yield* Fiber.join(closing)
        assert.deepStrictEqual(yield* sender.state, { log: ["a", "b"] })
        assert.strictEqual(yield* sender.queueLength, 1)
      })
    )
    live(
      "of a scope waits for a priority message in flight",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        const { state } = yield* keysOf(["Mill"])
        let hold = false
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            hold && mutations.some(touches(state))
              ? Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go))
              : Effect.void
        })
        const scope = yield* Scope.fork(yield* Effect.scope)
        const server = yield* inside(tenant)(startMill()).pipe(Effect.provideService(Scope.Scope, scope))
        hold = true
        const call = yield* Effect.forkChild(server.priorityCall("Ask", { item: "a", does: "" }))
        yield* Deferred.await(begun)
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        yield* Deferred.succeed(go, undefined)
        yield* Fiber.join(closing)
        assert.strictEqual(yield* Fiber.join(call), 1)
        assert.deepStrictEqual(yield* server.state, { log: ["a"] })
      })
    )
    live(
      "of a tenant's layer settles its open calls",
      Effect.gen(function*() {
        yield* startMill({ consume: false })
        const scope = yield* Scope.fork(yield* Effect.scope)
        const client = yield* Effect.flatMap(elsewhere, (context) => inside(context)(Mill.client())).pipe(
          Effect.provideService(Scope.Scope, scope)
        )
        const call = yield* Effect.forkChild(client.call("Log"))
        yield* until(client.queueLength, (length) => length === 1)
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual((yield* failureOf(call))._tag, "ServerStopped")
      })
    )
    live(
      "by stop comes once, with its reason, and leaves the durable server",
      Effect.gen(function*() {
        const server = yield* startMill()
        yield* server.stop("lunch")
        yield* server.stop("again")
        for (const run of [server.call("Log"), server.priorityCall("Log")]) {
          const error: any = yield* Effect.flip(run)
          assert.deepStrictEqual([error._tag, error.reason], ["ServerStopped", "lunch"])
        }
        const cast = yield* Effect.flip(server.priorityCast("Grind", { item: "a", does: "" }))
        assert.strictEqual(cast._tag, "ServerStopped")
        yield* server.castAll(grains("a"))
        const again = yield* startMill()
        assert.deepStrictEqual(yield* until(again.call("Log"), (log) => log.length > 0), ["a"])
      })
    )
    live(
      "by kill leaves nothing, whatever is under way, and all who wait are told",
      Effect.gen(function*() {
        const { begun, go, locked } = yield* held
        // a dead letter first
        const mortal = yield* startDesk(locked, { deadLetterThreshold: 1 })
        yield* Tenant.transact(DurableQueue.pushAll(Desk.queue(), [Uint8Array.of(0xc1)]))
        yield* until(Tenant.transact(DurableQueue.deadLetterCount(Desk.queue())), (count) => count === 1)
        yield* mortal.stop()
        // a lock that is held elsewhere
        const holder = yield* Effect.flatMap(elsewhere, (context) => inside(context)(startDesk(locked)))
        const there = yield* Effect.flatMap(elsewhere, (context) => inside(context)(Desk.client()))
        const here = yield* Desk.client()
        const working = yield* Effect.forkChild(here.call("Work", { item: "x".repeat(300_000) }))
        yield* begun
        // transactions in flight
        const { head } = yield* keysOf(["Desk"])
        const committing = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        let hold = false
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            hold && mutations.some(touches(head))
              ? Effect.andThen(Deferred.succeed(committing, undefined), Deferred.await(commit))
              : Effect.void
        })
        const slow = yield* inside(tenant)(startDesk(locked))
        hold = true
        const flying = yield* Effect.forkChild(Effect.flip(slow.info("NoteInfo", { item: "late" })))
        yield* Deferred.await(committing)
        // callers that wait, of this handle, of clients, in other layers
        const server = yield* startDesk(locked, { consumeK: 3 })
        const idle = yield* Effect.flatMap(elsewhere, (context) => inside(context)(startDesk(locked, { consumeK: 2 })))
        const waiting = yield* Effect.forEach(
          [server.call, here.call, there.call, idle.call],
          (call) => Effect.forkChild(call("Count", { by: 1 }))
        )
        yield* server.castAll([["Note", { item: "queued" }], ["Note", { item: "y".repeat(300_000) }]])
        yield* until(server.queueLength, (length) => length === 7)

        yield* server.kill()
        assert.deepStrictEqual(yield* scan(["Desk"]), [])
        assert.strictEqual((yield* failureOf(working))._tag, "ServerKilled")
        for (const call of waiting) assert.strictEqual((yield* failureOf(call))._tag, "ServerKilled")
        for (const run of [server.call("Log"), server.priorityCall("Log")]) {
          assert.strictEqual((yield* Effect.flip(run))._tag, "ServerKilled")
        }
        assert.strictEqual((yield* Effect.flip(server.info("NoteInfo", { item: "a" })))._tag, "ServerKilled")
        // what was under way cannot bring it back
        yield* Deferred.succeed(commit, undefined)
        assert.strictEqual((yield* Fiber.join(flying))._tag, "ServerKilled")
        yield* go
        yield* holder.stop()
        yield* slow.stop()
        assert.deepStrictEqual(yield* scan(["Desk"]), [])
        // a consumer in another layer stops by itself: its handle knows
        yield* until(
          Effect.exit(idle.call("Log", undefined, { timeout: "50 millis" })),
          (exit) =>
            Exit.isFailure(exit) && exit.cause.reasons.some((reason: any) => reason.error._tag === "ServerKilled")
        )
        // a new start initialises again; calls that came too late are in its queue
        const again = yield* startDesk(locked)
        assert.deepStrictEqual(yield* again.state, { log: [], count: 0 })
        assert.strictEqual(yield* again.call("Count", { by: 5 }), 5)
        assert.deepStrictEqual(yield* Tenant.transact(DurableQueue.peekDeadLetters(Desk.queue())), [])
        assert.isFalse(yield* again.locked)
      })
    )
    live(
      "by kill of a batch in flight: it writes nothing",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        const { pop } = yield* keysOf(["Mill"])
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            mutations.some((mutation) => mutation.op === "add" && touches(pop)(mutation))
              ? Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go))
              : Effect.void
        })
        const server = yield* startMill({ consume: false })
        const scope = yield* Scope.fork(yield* Effect.scope)
        yield* inside(tenant)(startMill({ consumeK: 5 })).pipe(Effect.provideService(Scope.Scope, scope))
        yield* server.castAll(grains("a", "b"))
        yield* Deferred.await(begun)
        yield* server.kill()
        yield* Deferred.succeed(go, undefined)
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(yield* scan(["Mill"]), [])
      })
    )
    live(
      "by stop takes nothing more, also in a batch that has begun",
      Effect.gen(function*() {
        const { head } = yield* keysOf(["Mill"])
        let ending: Effect.Effect<void> = Effect.void
        const met = yield* Deferred.make<void>()
        const tenant = yield* tapped({
          gets: (key) => void (Buffer.compare(key, head) === 0 && Effect.runFork(ending))
        })
        const runs: Array<Run> = []
        const server = yield* inside(tenant)(startMill({}, runs))
        const client = yield* Mill.client()
        ending = Effect.andThen(Deferred.succeed(met, undefined), server.stop())
        yield* client.castAll(grains("late"))
        // it is stopped while it reads
        yield* Deferred.await(met)
        yield* server.stop()
        assert.strictEqual(yield* client.queueLength, 1)
        assert.deepStrictEqual(runs, [])
      })
    )
    live(
      "by kill ends a handle that meets it by a message past the queue",
      Effect.gen(function*() {
        const server = yield* startMill({ consume: false })
        const other = yield* Effect.flatMap(elsewhere, (context) => inside(context)(startMill({ consume: false })))
        yield* server.kill()
        yield* server.kill()
        assert.strictEqual((yield* Effect.flip(other.priorityCall("Log")))._tag, "ServerKilled")
        // it knows now: nothing more is sent
        assert.strictEqual((yield* Effect.flip(other.call("Log")))._tag, "ServerKilled")
        assert.deepStrictEqual(yield* scan(["Mill"]), [])
      })
    )
    live(
      "by kill elsewhere ends a handle that only sends, at its next call that is not answered",
      Effect.gen(function*() {
        const server = yield* startMill({ consume: false })
        const sender = yield* Effect.flatMap(elsewhere, (context) => inside(context)(startMill({ consume: false })))
        yield* server.kill()
        const error = yield* Effect.flip(sender.call("Log", undefined, { timeout: "50 millis" }))
        assert.strictEqual(error._tag, "ServerKilled")
        assert.strictEqual((yield* Effect.flip(sender.call("Log")))._tag, "ServerKilled")
      })
    )
    live(
      "by kill of thousands of waiting calls fits transactions",
      Effect.gen(function*() {
        const server = yield* startMill({ consume: false })
        const calls = yield* Effect.forEach(
          Array.from({ length: 2_500 }, (_, i) => i),
          () => Effect.forkChild(Effect.flip(server.call("Log", undefined, { timeout: "1 minute" })))
        )
        yield* until(server.queueLength, (length) => length === 2_500)
        yield* server.kill()
        for (const call of calls) assert.strictEqual((yield* Fiber.join(call))._tag, "ServerKilled")
        assert.deepStrictEqual(yield* scan(["Mill"]), [])
      })
    )
    live(
      "by kill leaves nothing to do for which its process could die too early, however many wait elsewhere",
      Effect.gen(function*() {
        let commits = -Infinity
        // a commit cannot be interrupted: what stands in one goes on when all else has been seen
        const seen = yield* Deferred.make<void>()
        const dying = yield* tapped({ before: () => commits++ < 1 ? Effect.void : Deferred.await(seen) })
        const killer = yield* inside(dying)(startMill({ consume: false }))
        const count = 1_500
        const callings = yield* Effect.forEach([elsewhere, elsewhere], (other) =>
          Effect.gen(function*() {
            const client = yield* inside(yield* other)(Mill.client())
            return yield* Effect.forEach(
              Array.from({ length: count }, (_, i) => i),
              () => Effect.forkChild(Effect.flip(client.call("Log", undefined, { timeout: "1 minute" })))
            )
          }))
        yield* until(killer.queueLength, (length) => length === callings.length * count)
        yield* Effect.addFinalizer(() => Deferred.succeed(seen, undefined))
        commits = 0
        yield* Effect.forkChild(killer.kill())
        for (const call of callings.flat()) assert.strictEqual((yield* Fiber.join(call))._tag, "ServerKilled")
        assert.deepStrictEqual(yield* scan(["Mill"]), [])
      })
    )
  })
}
