/** What handlers of programs without types return: a crash of their own message, which is counted, and of no other. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { fast, type Store, testsOf, until } from "./support.ts"

class Press extends DgenServer.Service<Press>()("Press", {
  state: Schema.Struct({ printed: Schema.Int }),
  messages: {
    Print: DgenServer.cast(),
    Bind: DgenServer.cast({ locks: true }),
    Count: DgenServer.call({ success: Schema.Int })
  },
  actions: { Ship: { copies: Schema.Int } }
}) {}

/** What a handler should return: the types are told that it does. */
type Proper = DgenServer.NoReply<{ readonly printed: number }>

type Returns = (state: { readonly printed: number }) => any

const startPress = (print: Returns, bind: Returns = print) =>
  Press.start(
    Press.behaviour({
      init: Effect.succeed({ printed: 0 }),
      handlers: {
        Print: (_, state) => print(state),
        Bind: (_, state) => DgenServer.lock(state),
        Count: (_, state) => DgenServer.reply(state.printed, state)
      }
    }),
    { tuid: ["Press"], deadLetterThreshold: 2, ...fast }
  ).pipe(
    Effect.provide(Layer.mergeAll(
      Press.actionsLayer({ Ship: () => Effect.void }),
      Press.lockedLayer({ Bind: (_, state) => bind(state) as Proper })
    ))
  )

const action = (tag: any, ...payload: ReadonlyArray<any>) => (Press.action as any)(tag, ...payload)

const throwing = () => {
  throw new Error("it does not want to be seen")
}

/** What is returned, and what the error says about it. */
const outcomes: { readonly [name: string]: readonly [Returns, string] } = {
  "nothing": [() => undefined, "must return an outcome"],
  "a promise": [async (state) => DgenServer.noReply(state), "must return an outcome"],
  "no actions": [(state) => ({ _tag: "NoReply", state }), "actions as an array"],
  "actions that are no list": [(state) => DgenServer.noReply(state, "Ship" as any), "actions as an array"],
  "an action that is none": [(state) => DgenServer.noReply(state, [null as any]), "is not its own"],
  "an unknown action": [(state) => DgenServer.noReply(state, [action("Burn")]), "\"Burn\""],
  "an action's wrong payload": [
    (state) => DgenServer.noReply(state, [action("Ship", { copies: "2" })]),
    "at \"copies\""
  ],
  "an action's missing payload": [(state) => DgenServer.noReply(state, [action("Ship")]), "\"Ship\""],
  "what throws when it is read": [() => Object.defineProperty({}, "_tag", { get: throwing }), "cannot be read"],
  "an undeclared failure": [() => Effect.fail("torn"), "torn"]
}

const letters = Tenant.transact(DurableQueue.peekDeadLetters(Press.queue({ tuid: ["Press"] })))

export const wrongOutcomesSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "outcomes")

  describe(`${name}: outcomes that are none`, () => {
    for (const [what, [returns, says]] of Object.entries(outcomes)) {
      live(
        `${what}: the message dies at its threshold, and the queue goes on`,
        Effect.gen(function*() {
          const server = yield* startPress(returns)
          yield* server.cast("Print")
          assert.strictEqual(yield* server.call("Count", undefined, { timeout: "20 seconds" }), 0)
          const [letter, ...others] = yield* letters
          assert.deepStrictEqual([letter?.tag, letter?.attempts, others], ["Print", 2, []])
          assert.include(letter!.cause, says)
          const error: any = yield* Effect.flip(server.priorityCast("Print"))
          assert.deepStrictEqual([error._tag, error.server, error.tag], ["HandlerCrashed", "Press", "Print"])
          assert.include(error.message, says)
        })
      )
      live(
        `${what}, of a locked handler: the lock ends`,
        Effect.gen(function*() {
          const server = yield* startPress(returns)
          yield* server.cast("Bind")
          yield* until(server.queueLength, (length) => length === 0)
          assert.strictEqual(yield* server.call("Count", undefined, { timeout: "20 seconds" }), 0)
          assert.isFalse(yield* server.locked)
          const error: any = yield* Effect.flip(server.priorityCast("Bind"))
          assert.strictEqual(error._tag, "HandlerCrashed")
          assert.include(error.message, says)
        })
      )
    }
    for (const reason of [Object.create(null), Symbol("because"), { toString: throwing }]) {
      live(
        `a reason to stop that is no text (${typeof reason}): the handle stops all the same`,
        Effect.gen(function*() {
          const server = yield* startPress((state) => DgenServer.stop(reason, state))
          yield* server.cast("Print")
          yield* until(Effect.exit(server.priorityCast("Print")), (exit) => exit._tag === "Failure")
          const error: any = yield* Effect.flip(server.call("Count"))
          assert.deepStrictEqual([error._tag, typeof error.reason], ["ServerStopped", "string"])
          const again = yield* startPress((state) => DgenServer.noReply(state))
          yield* again.stop(reason)
          assert.strictEqual((yield* Effect.flip(again.call("Count")))._tag, "ServerStopped")
        })
      )
    }
  })
}
