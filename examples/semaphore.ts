/**
 * A semaphore that survives its process: whoever asks for a permit is answered when there is one. Who waits lies in the
 * state, so a waiting caller is answered even if the server was stopped and started meanwhile.
 */
import { Console, Effect, Exit, Fiber, Schema, Scope } from "effect"
import { DgenServer } from "effect-dgen"
import { temporaryTenant } from "./temporaryStore.ts"

class Semaphore extends DgenServer.Service<Semaphore>()("Semaphore", {
  state: Schema.Struct({
    free: Schema.Int,
    waiting: Schema.Array(DgenServer.From)
  }),
  messages: {
    Acquire: DgenServer.call(),
    Release: DgenServer.cast()
  }
}) {}

const behaviour = Semaphore.behaviour({
  init: Effect.succeed({ free: 1, waiting: [] }),
  handlers: {
    // a free permit is given at once; who finds none is remembered, and answered by a later `Release`
    Acquire: (_, state, { from }) =>
      state.free > 0
        ? DgenServer.reply(undefined, { ...state, free: state.free - 1 })
        : DgenServer.noReply({ ...state, waiting: from === undefined ? state.waiting : [...state.waiting, from] }),
    Release: Effect.fnUntraced(function*(_, state) {
      const [next, ...waiting] = state.waiting
      if (next === undefined) return DgenServer.noReply({ ...state, free: state.free + 1 })
      yield* Semaphore.replyTo(next, Exit.void)
      return DgenServer.noReply({ ...state, waiting })
    })
  }
})

const program = Effect.gen(function*() {
  // the clients of one process, and a server that lives for a while
  const clients = yield* Semaphore.client()
  const serve = Effect.gen(function*() {
    const scope = yield* Scope.make()
    yield* Semaphore.start(behaviour, { tuid: ["Semaphore"] }).pipe(Scope.provide(scope))
    return Scope.close(scope, Exit.void)
  })
  const waitUntil = (waiting: number) =>
    Effect.repeat(clients.state, { until: (state) => state?.waiting.length === waiting })

  const stopFirst = yield* serve
  yield* clients.call("Acquire")
  yield* Console.log("one has the permit")
  const others = yield* Effect.forEach(["two", "three"], (name) =>
    Effect.forkChild(
      clients.call("Acquire", undefined, { timeout: "1 minute" }).pipe(
        Effect.andThen(Console.log(`${name} has the permit`))
      )
    ).pipe(Effect.tap(() => waitUntil(name === "two" ? 1 : 2))))
  yield* Console.log("two and three wait, and the server stops")
  yield* stopFirst

  const stopSecond = yield* serve
  yield* Console.log("the server runs again, and one gives the permit back")
  yield* clients.cast("Release")
  yield* Fiber.join(others[0]!)
  yield* clients.cast("Release")
  yield* Fiber.join(others[1]!)
  yield* stopSecond
})

await Effect.runPromise(program.pipe(Effect.provide(temporaryTenant("semaphore"))))
