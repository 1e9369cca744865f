/** Handlers die of things that throw when they are read: what is counted, logged, answered and kept all the same. */
import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Exit, Logger, Metric, Schedule, Schema } from "effect"
import { DgenServer, DurableQueue, Tenant, Transaction } from "effect-dgen"
import { hostileNames, hostileValues, isPresentable } from "../../support/hostileValues.ts"
import { Bomb, startBomb } from "./bomb.ts"
import { fast, type Store, testsOf, until, waitingCalls } from "./support.ts"

class Odd extends DgenServer.Service<Odd>()("Odd", {
  state: Schema.Int,
  messages: { Fine: DgenServer.cast(), BadState: DgenServer.cast(), Log: DgenServer.call({ success: Schema.Int }) }
}) {}

const oddHandlers = {
  Fine: (_: void, n: number) => DgenServer.noReply(n + 1),
  BadState: () => DgenServer.noReply("none" as unknown as number),
  Log: (_: void, n: number) => DgenServer.reply(n, n)
}

type BombServer = Effect.Success<ReturnType<typeof startBomb>>

const odd = Odd.behaviour({ init: Effect.succeed(0), handlers: oddHandlers })

const letters = Tenant.transact(DurableQueue.peekDeadLetters(Bomb.queue()))

/** A log whose loggers look at everything that they are given. */
const curious = () => {
  const lines: Array<string> = []
  const layer = Logger.layer([
    Logger.make(({ cause, message }) => void lines.push(JSON.stringify([message, cause]) + Cause.pretty(cause))),
    Logger.formatJson
  ])
  return { layer, count: (part: string) => lines.filter((line) => line.includes(part)).length }
}

/** A test of each kind of value, with a server of its own in its own log. */
export const hostileErrorsSuite = (name: string, backend: Store): void => {
  const live = testsOf(backend, "hostile errors")
  const each = (
    title: string,
    options: DgenServer.Options,
    test: (
      kind: string,
      server: BombServer,
      count: (part: string) => number
    ) => Effect.Effect<void, any, any>
  ) =>
    live(
      title,
      Effect.gen(function*() {
        const log = curious()
        const server = yield* startBomb(options).pipe(Effect.provide(log.layer))
        for (const [index, kind] of hostileNames.entries()) {
          yield* Effect.provide(test(kind, server, log.count), log.layer)
          assert.strictEqual(yield* server.call("Ping"), index + 1, kind)
          assert.strictEqual(yield* server.queueLength, 0)
        }
        assert.deepStrictEqual(yield* waitingCalls(["Bomb"]), [])
      }) as Effect.Effect<void, any, any>
    )

  describe(`${name}: a handler that dies of what cannot be read`, () => {
    for (const consumeK of [1, 5]) {
      each(
        `is counted, buried and told to its caller (consumeK ${consumeK})`,
        { consumeK, deadLetterThreshold: 2 },
        Effect.fnUntraced(function*(kind, server, count) {
          const before = { crash: count("handling \\\"Boom\\\""), dead: count("now a dead letter") }
          const error: any = yield* Effect.flip(server.call("Boom", kind))
          assert.deepStrictEqual([error._tag, error.attempts], ["DeadLettered", 2], kind)
          assert.isTrue(isPresentable(error.cause), kind)
          const letter = (yield* letters).at(-1)!
          assert.strictEqual(letter.payload, kind)
          assert.isTrue(isPresentable(letter.cause), kind)
          assert.strictEqual(count("handling \\\"Boom\\\"") - before.crash, 2, kind)
          yield* until(Effect.sync(() => count("now a dead letter")), (told) => told === before.dead + 1)
        })
      )
    }
    each(
      "inline, at a threshold of one, is buried at once",
      { deadLetterThreshold: 1 },
      Effect.fnUntraced(function*(kind, server) {
        assert.strictEqual((yield* Effect.flip(server.call("Boom", kind)))._tag, "DeadLettered", kind)
      })
    )
    each(
      "in a cast is buried, and the handler of dead letters may die of it, too",
      { consumeK: 3, deadLetterThreshold: 2 },
      Effect.fnUntraced(function*(kind, server, count) {
        const before = count("the dead-letter handler crashed")
        const known = (yield* letters).length
        yield* server.cast("Drop", kind)
        yield* until(letters, (all) => all.length === known + 1)
        yield* until(Effect.sync(() => count("the dead-letter handler crashed")), (told) => told === before + 1)
      })
    )
    for (
      const [way, send] of [
        ["priority", (server: BombServer, kind: string) => server.priorityCall("Boom", kind)],
        ["priority cast", (server: BombServer, kind: string) => server.priorityCast("Drop", kind)],
        ["info", (server: BombServer, kind: string) => server.info("Hint", kind)],
        ["locked", (server: BombServer, kind: string) => server.call("Hold", kind)],
        ["queued locked", (server: BombServer, kind: string) => server.call("Hold", kind)]
      ] as const
    ) {
      each(
        `past the queue is told to the sender and logged (${way})`,
        way === "queued locked" ? { consumeK: 5 } : {},
        Effect.fnUntraced(function*(kind, server, count) {
          const before = count("crashed")
          const error: any = yield* Effect.flip(send(server, kind) as Effect.Effect<unknown, unknown>)
          assert.strictEqual(error._tag, "HandlerCrashed", kind)
          assert.isTrue(isPresentable(error.cause), kind)
          assert.strictEqual(count("crashed") - before, 1, kind)
          assert.isFalse(yield* server.locked, kind)
        })
      )
    }
    live(
      "in an action is logged; later actions run",
      Effect.gen(function*() {
        const log = curious()
        const acted: Array<string> = []
        const server = yield* startBomb({ consumeK: 2 }, { done: (kind) => void acted.push(kind) }).pipe(
          Effect.provide(log.layer)
        )
        for (const kind of hostileNames) yield* server.call("Act", kind)
        yield* until(Effect.sync(() => log.count("\\\"Burst\\\" crashed")), (told) => told === hostileNames.length)
        assert.deepStrictEqual(acted, hostileNames)
      })
    )
    live(
      "of init fails its start alone",
      Effect.gen(function*() {
        for (const kind of hostileNames) {
          const quiet = Odd.behaviour({
            init: Effect.suspend((): never => {
              throw hostileValues[kind]!()
            }),
            handlers: oddHandlers
          })
          assert.isTrue(Exit.isFailure(yield* Effect.exit(Effect.scoped(Odd.start(quiet, { tuid: ["Odd"] })))), kind)
        }
        const server = yield* Odd.start(odd, { tuid: ["Odd"] })
        assert.strictEqual(yield* server.call("Log"), 0)
      })
    )
    live(
      "a reason to stop is told as text",
      Effect.gen(function*() {
        for (const kind of hostileNames) {
          const server = yield* startBomb()
          const error: any = yield* Effect.flip(server.call("Leave", kind))
          assert.strictEqual(error._tag, "ServerStopped", kind)
          assert.isTrue(isPresentable(error.reason), kind)
        }
      })
    )
    live(
      "an unforeseen end of a consumer ends the handle, is logged and counted",
      Effect.gen(function*() {
        const log = curious()
        const ends = Effect.map(Metric.snapshot, (metrics): number => {
          const found = metrics.find(({ attributes, id }) =>
            id === "effect_dgen_unforeseen" && (attributes as any)?.where === "consumer"
          )
          return (found?.state as any)?.count ?? 0
        })
        const before = yield* ends
        const restart = Object.defineProperty(Object.create(Schedule.forever), "step", {
          get() {
            throw new Error("no schedule")
          }
        })
        const server = yield* startBomb({ restart, consumeK: 2 }).pipe(Effect.provide(log.layer))
        const error: any = yield* Effect.flip(server.call("Ping"))
        assert.strictEqual(error._tag, "ServerStopped")
        assert.include(error.reason, "no schedule")
        assert.strictEqual(log.count("Bomb [\\\"Bomb\\\"]: the consumer ended unexpectedly"), 1)
        assert.strictEqual((yield* ends) - before, 1)
      })
    )
    live(
      "a hook of a commit keeps no other from running, and fails nothing",
      Effect.gen(function*() {
        const log = curious()
        for (const kind of hostileNames) {
          const ran: Array<string> = []
          const dies = (): never => {
            throw hostileValues[kind]!()
          }
          yield* Tenant.transact(Effect.flatMap(Transaction.Transaction, (state) => {
            state.onAccepted.push(dies, () => ran.push("accepted"))
            state.onCommit.push(dies, () => ran.push("committed"))
            return Transaction.set(["hooks"], Uint8Array.of(1))
          })).pipe(Effect.provide(log.layer))
          assert.deepStrictEqual(ran, ["accepted", "committed"], kind)
        }
        assert.strictEqual(log.count("a hook of a commit threw"), 2 * hostileNames.length)
      })
    )
  })

  describe(`${name}: a handler that leaves or returns what cannot be read`, () => {
    class Sheet extends DgenServer.Service<Sheet>()("Sheet", {
      state: Schema.Struct({ rows: Schema.Array(Schema.Struct({ id: Schema.String })) }),
      messages: {
        Keep: DgenServer.call({ payload: Schema.String }),
        Return: DgenServer.call({ payload: Schema.String }),
        Fail: DgenServer.call({ payload: Schema.String, error: Schema.Struct({ n: Schema.Int }) }),
        Lock: DgenServer.call({ payload: Schema.String, locks: true }),
        Ask: DgenServer.call({ payload: Schema.String }),
        Ping: DgenServer.call()
      },
      actions: { Print: Schema.Struct({ n: Schema.Int }) }
    }) {}
    const hostile = (kind: string): any => hostileValues[kind]!()
    const sheet = Sheet.behaviour({
      init: Effect.succeed({ rows: [] }),
      handlers: {
        Keep: (kind) => DgenServer.reply(undefined, hostile(kind)),
        Return: hostile,
        Fail: (kind) => Effect.fail(hostile(kind)),
        Lock: (_, state) => DgenServer.lock(state),
        Ask: (kind, state) => DgenServer.reply(undefined, state, [Sheet.action("Print", hostile(kind))]),
        Ping: (_, state) => DgenServer.reply(undefined, state)
      }
    })
    for (const consumeK of [1, 5]) {
      live(
        `dies of it like any other, and what is behind it is handled (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const options = {
            ...fast,
            tuid: ["Sheet"],
            consumeK,
            deadLetterThreshold: 2,
            lockTimeout: "1 minute"
          } as const
          const server = yield* Sheet.start(sheet, options).pipe(Effect.provide([
            Sheet.actionsLayer({ Print: () => Effect.void }),
            Sheet.lockedLayer({
              Lock: (kind) => DgenServer.reply(undefined, { rows: [{ id: "a" }, hostile(kind)] })
            })
          ]))
          for (const kind of hostileNames) {
            for (const tag of ["Keep", "Return", "Fail", "Lock", "Ask"] as const) {
              const error: any = yield* Effect.flip(server.call(tag, kind) as Effect.Effect<void, unknown>)
              assert.include(["DeadLettered", "HandlerCrashed"], error._tag, `${tag}: ${kind}`)
              assert.isTrue(isPresentable(error.cause), `${tag}: ${kind}`)
            }
            for (const tag of ["Keep", "Return", "Ask"] as const) {
              const error: any = yield* Effect.flip(server.priorityCall(tag, kind) as Effect.Effect<void, unknown>)
              assert.strictEqual(error._tag, "HandlerCrashed", `${tag}: ${kind}`)
            }
            yield* server.call("Ping")
          }
          assert.deepStrictEqual(yield* server.state, { rows: [] })
          assert.strictEqual(yield* server.queueLength, 0)
        })
      )
    }
  })

  describe(`${name}: the log names what was handled`, () => {
    for (const consumeK of [1, 5]) {
      live(
        `when the state that a message leaves cannot be kept (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const log = curious()
          const sender = yield* Odd.start(odd, { tuid: ["Odd", 7], consume: false })
          yield* sender.castAll([["Fine"], ["BadState"], ["Fine"]])
          const server = yield* Odd.start(odd, { tuid: ["Odd", 7], consumeK, deadLetterThreshold: 2, ...fast })
            .pipe(Effect.provide(log.layer))
          assert.strictEqual(yield* server.call("Log"), 2)
          assert.strictEqual(log.count("handling \\\"BadState\\\" crashed"), 2)
          assert.strictEqual(log.count("handling \\\"state\\\""), 0)
          assert.isAtLeast(log.count("Odd [\\\"Odd\\\",7]: "), 3)
        })
      )
    }
    live(
      "when a message cannot be read",
      Effect.gen(function*() {
        const log = curious()
        yield* Odd.start(odd, { tuid: ["Odd"], deadLetterThreshold: 1, ...fast }).pipe(Effect.provide(log.layer))
        yield* Tenant.transact(DurableQueue.pushAll(Odd.queue(), [Uint8Array.of(0xc1)]))
        yield* until(
          Effect.sync(() => log.count("handling a message that cannot be read crashed")),
          (told) => told === 1
        )
      })
    )
  })
}
