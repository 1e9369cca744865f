/** What actions, locked handlers and dead-letter handlers may ask of their own server. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { Desk, deskHandlers, done, type Locked, logged } from "./desk.ts"
import { fast, type Store, testsOf, until } from "./support.ts"

const behaviour = Desk.behaviour({
  init: Effect.succeed({ log: [], count: 0 }),
  handlers: {
    Work: (_, state) => DgenServer.lock(state),
    WorkCast: (_, state) => DgenServer.lock(state),
    WorkInfo: (_, state) => DgenServer.lock(state),
    Note: ({ item }, state) =>
      DgenServer.noReply(logged(state, item), item.startsWith("tell") ? [Desk.action("Told", { item })] : []),
    NoteInfo: (_, state) => DgenServer.noReply(state, [Desk.action("Told", { item: "tell" })]),
    Count: ({ by }, state) => DgenServer.reply(by, state, by > 1 ? [Desk.action("Told", { item: "tell" })] : []),
    Log: (_, state) => DgenServer.reply(state.log, state)
  }
})

type Server = Desk["Service"]
type Ask = (server: Server) => Effect.Effect<unknown, unknown, Tenant.Tenant>

/** A server, and how what it runs learns to know it. */
const make = (ask: Ask, options: DgenServer.Options = {}) =>
  Effect.gen(function*() {
    const handle = yield* Deferred.make<Server>()
    const asked = yield* Deferred.make<Exit.Exit<unknown, unknown>>()
    const tenant = yield* Tenant.Tenant
    const tell = Effect.flatMap(Deferred.await(handle), (server) =>
      Effect.flatMap(
        Effect.exit(Effect.provideService(ask(server), Tenant.Tenant, tenant)),
        (exit) => Deferred.succeed(asked, exit)
      ))
    const locked: Locked = (item, state, context) => Effect.as(tell, done(item, state, context))
    const server = yield* Desk.start(behaviour, { ...fast, tuid: ["Desk"], ...options }).pipe(
      Effect.provide([deskHandlers(locked, () => Effect.asVoid(tell)), Desk.deadLetterLayer(() => Effect.asVoid(tell))])
    )
    yield* Deferred.succeed(handle, server)
    return { server, asked: Deferred.await(asked) }
  })

/** Long: who waits for itself is found out by the test's own time limit. */
const patient = { timeout: "5 minutes" } as const

const viaClient: Ask = () => Effect.flatMap(Desk.client(), (client) => client.call("Log", undefined, patient))

/** The ways to the own queue. */
const ways: { readonly [way: string]: Ask } = {
  "a client": viaClient,
  "a fiber of its own": (server) => Effect.flatMap(Effect.forkChild(viaClient(server)), Fiber.join),
  "a detached fiber that it waits for": (server) => Effect.flatMap(Effect.forkDetach(viaClient(server)), Fiber.join),
  "the handle": (server) => server.call("Log", undefined, patient)
}

const errorOf = (exit: Exit.Exit<unknown, unknown>): any =>
  Exit.isFailure(exit) ? (exit.cause.reasons[0] as any).error : undefined

export const ownCallsSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "own calls")

  describe(`${name}: calls to the own server`, () => {
    for (const [way, ask] of Object.entries(ways)) {
      for (
        const from of ["an action", "a locked handler", "a locked handler of an inline call", "a dead-letter handler"]
      ) {
        live(
          `through the queue, from ${from} by ${way}, are refused at once`,
          Effect.gen(function*() {
            const inline = from.endsWith("inline call")
            const { asked, server } = yield* make(ask, { consumeK: inline ? 1 : 3, deadLetterThreshold: 1 })
            const client = yield* Desk.client()
            if (from === "an action") yield* client.cast("Note", { item: "tell" })
            if (from === "a locked handler") yield* client.cast("WorkCast", { item: "a" })
            if (inline) assert.strictEqual(yield* server.call("Work", { item: "a" }), "a 1")
            if (from === "a dead-letter handler") {
              yield* Tenant.transact(DurableQueue.pushAll(Desk.queue(), [Uint8Array.of(0xc1)]))
            }
            const error = errorOf(yield* asked)
            assert.deepStrictEqual([error?._tag, error?.server, error?.tag], ["WouldDeadlock", "Desk", "Log"])
            yield* until(client.queueLength, (length) => length === 0)
            // the server goes on
            assert.strictEqual(yield* client.call("Count", { by: 1 }), 1)
          })
        )
      }
    }
    live(
      "that need not wait are answered: of an action whose message did not come through the queue",
      Effect.gen(function*() {
        for (const send of ["call", "priorityCall", "info"] as const) {
          const { asked, server } = yield* make(viaClient)
          if (send === "info") yield* server.info("NoteInfo", { item: "a" })
          else yield* server[send]("Count", { by: 2 })
          assert.isTrue(Exit.isSuccess(yield* asked), send)
          yield* server.stop()
        }
      })
    )
    live(
      "that need not wait are answered: inline, and past the queue",
      Effect.gen(function*() {
        const asks: ReadonlyArray<Ask> = [
          (server) => server.call("Log", undefined, patient),
          (server) => server.priorityCall("Log", undefined, patient)
        ]
        for (const ask of asks) {
          const { asked, server } = yield* make(ask)
          yield* server.cast("Note", { item: "tell" })
          assert.isTrue(Exit.isSuccess(yield* asked))
          yield* server.stop()
        }
      })
    )
    live(
      "of a fiber that an action left behind are answered: nothing waits for it",
      Effect.gen(function*() {
        const result = yield* Deferred.make<Exit.Exit<unknown, unknown>>()
        const go = yield* Deferred.make<void>()
        const { asked } = yield* make((server) =>
          Effect.forkDetach(
            Effect.flatMap(
              Effect.exit(Effect.andThen(Deferred.await(go), viaClient(server))),
              (exit) => Deferred.succeed(result, exit)
            )
          ), { consumeK: 3 })
        const client = yield* Desk.client()
        yield* client.cast("Note", { item: "tell" })
        yield* asked
        assert.strictEqual(yield* client.call("Count", { by: 1 }), 1)
        yield* Deferred.succeed(go, undefined)
        assert.isTrue(Exit.isSuccess(yield* Deferred.await(result)))
      })
    )
    live(
      "are not confused with calls to others of the same definition, nor with casts",
      Effect.gen(function*() {
        const { asked, server } = yield* make((own) =>
          Effect.gen(function*() {
            yield* own.cast("Note", { item: "to itself" })
            const other = yield* Desk.client({ tuid: ["another desk"] })
            return yield* other.call("Count", { by: 1 }, patient)
          }), { consumeK: 3 })
        yield* Desk.start(behaviour, { ...fast, tuid: ["another desk"] }).pipe(
          Effect.provide(deskHandlers(() => Effect.never))
        )
        yield* server.cast("Note", { item: "tell" })
        assert.deepStrictEqual(yield* asked, Exit.succeed(1))
        yield* until(server.state, (state) => state!.log.includes("to itself"))
      })
    )
  })
}
