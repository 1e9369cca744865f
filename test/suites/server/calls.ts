/** Calls, casts and answers: what is one transaction, what is left behind, and what answers a call later (R1 to R11). */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Schema } from "effect"
import { DgenServer, Tenant, Transaction } from "effect-dgen"
import {
  conflict,
  defectOf,
  elsewhere,
  failureOf,
  fast,
  inside,
  keysOf,
  scan,
  type Store,
  tapped,
  testsOf,
  touches,
  until,
  waitingCalls
} from "./support.ts"

class Refused extends Schema.TaggedError<Refused>()("Refused", { why: Schema.String }) {}

/** A counting gate: `Enter` waits until somebody leaves. Its state keeps who waits. */
class Gate extends DgenServer.Service<Gate>()("Gate", {
  state: Schema.Struct({ log: Schema.Array(Schema.String), waiting: Schema.Array(DgenServer.From) }),
  messages: {
    Enter: DgenServer.call({ success: Schema.String, error: Refused }),
    Count: DgenServer.call({ success: Schema.Int }),
    Leave: DgenServer.cast({ payload: { as: Schema.String } }),
    Refuse: DgenServer.cast({ payload: { why: Schema.String } }),
    Wrong: DgenServer.call({ payload: { value: Schema.Unknown }, success: Schema.String }),
    Echo: DgenServer.call({ payload: { bytes: Schema.Int }, success: Schema.String }),
    Note: DgenServer.cast({ payload: { item: Schema.String } }),
    Log: DgenServer.call({ success: Schema.Array(Schema.String) }),
    Self: DgenServer.call({ success: Schema.String })
  }
}) {}

/** Another server, whose calls the gate must not answer, and whose casts it forwards. */
class Board extends DgenServer.Service<Board>()("Board", {
  state: Schema.Struct({ log: Schema.Array(Schema.String), waiting: Schema.Array(DgenServer.From) }),
  messages: {
    Wait: DgenServer.call({ success: Schema.String }),
    Forward: DgenServer.call({ payload: { item: Schema.String, end: Schema.String }, error: Refused }),
    Note: DgenServer.cast({ payload: { item: Schema.String } }),
    Log: DgenServer.call({ success: Schema.Array(Schema.String) })
  }
}) {}

const gate = Gate.behaviour({
  init: Effect.succeed({ log: [], waiting: [] }),
  handlers: {
    Enter: (_, state, { from }) => DgenServer.noReply({ ...state, waiting: [...state.waiting, from!] }),
    Count: (_, state, { from }) => DgenServer.noReply({ ...state, waiting: [...state.waiting, from!] }),
    Leave: Effect.fnUntraced(function*({ as }, state) {
      for (const from of state.waiting) yield* Gate.replyTo(from, Exit.succeed(as))
      return DgenServer.noReply({ ...state, waiting: [] })
    }),
    Refuse: Effect.fnUntraced(function*({ why }, state) {
      for (const from of state.waiting) yield* Gate.replyTo(from, Exit.fail(new Refused({ why })))
      return DgenServer.noReply({ ...state, waiting: [] })
    }),
    Wrong: (_, state) => DgenServer.noReply(state),
    Echo: ({ bytes }, state) => DgenServer.reply("é".repeat(bytes / 2), state),
    Note: ({ item }, state) => DgenServer.noReply({ ...state, log: [...state.log, item] }),
    Log: (_, state) => DgenServer.reply(state.log, state),
    Self: Effect.fnUntraced(function*(_, state, { from }) {
      yield* Gate.replyTo(from!, Exit.succeed("from myself"))
      return DgenServer.noReply(state)
    })
  }
})

const board = Board.behaviour({
  init: Effect.succeed({ log: [], waiting: [] }),
  handlers: {
    Wait: (_, state, { from }) => DgenServer.noReply({ ...state, waiting: [...state.waiting, from!] }),
    Forward: Effect.fnUntraced(function*({ item, end }, state, { attempt }) {
      yield* Effect.orDie(Gate.castTx("Note", { item }))
      yield* Effect.orDie(Board.castAllTx([["Note", { item: `1 ${item}` }], ["Note", { item: `2 ${item}` }]]))
      if (end === "crash" && attempt === 1) throw new Error("crash")
      return DgenServer.reply(undefined, { ...state, log: [...state.log, `forwarded ${item}`] })
    }),
    Note: ({ item }, state) => DgenServer.noReply({ ...state, log: [...state.log, item] }),
    Log: (_, state) => DgenServer.reply(state.log, state)
  }
})

const startGate = (options: DgenServer.Options = {}) => Gate.start(gate, { ...fast, tuid: ["Gate"], ...options })
const startBoard = (options: DgenServer.Options = {}) => Board.start(board, { ...fast, tuid: ["Board"], ...options })

/** The commits of a tenant layer that write of the gate, those that take its messages, and those that push some. */
const counted = Effect.gen(function*() {
  const { items, prefix } = yield* keysOf(["Gate"])
  const isOfGate = touches(prefix)
  const isOf = touches(items)
  const counts = { takes: 0, pushes: 0, commits: 0 }
  const tenant = yield* tapped({
    after: ({ mutations }) =>
      Effect.sync(() => {
        if (mutations.some(isOfGate)) counts.commits++
        if (mutations.some((mutation) => mutation.op === "clear" && isOf(mutation))) counts.takes++
        if (mutations.some((mutation) => mutation.op === "versionstampedKey" && isOf(mutation))) counts.pushes++
      })
  })
  return { counts, tenant }
})

export const callsSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "calls")

  describe(`${name}: calls`, () => {
    for (const [consumeK, commits] of [[1, 20], [5, 4], [10, 2], [100, 1]] as const) {
      live(
        `a batch of up to ${consumeK} messages is one commit`,
        Effect.gen(function*() {
          const sender = yield* startGate({ consume: false })
          yield* sender.castAll(Array.from({ length: 20 }, (_, i) => ["Note", { item: `${i}` }] as const))
          const { counts, tenant } = yield* counted
          const server = yield* inside(tenant)(startGate({ consumeK }))
          yield* until(server.queueLength, (length) => length === 0)
          yield* server.stop()
          assert.strictEqual(counts.takes, commits)
          assert.deepStrictEqual((yield* sender.state)!.log, Array.from({ length: 20 }, (_, i) => `${i}`))
        })
      )
    }
    live(
      "a call runs inline with consumeK 1 and an empty queue, in one commit, and else through the queue",
      Effect.gen(function*() {
        const { counts, tenant } = yield* counted
        const one = yield* inside(tenant)(startGate())
        const started = counts.commits
        yield* one.call("Echo", { bytes: 2 })
        assert.deepStrictEqual(counts, { takes: 0, pushes: 0, commits: started })
        yield* one.cast("Note", { item: "a" })
        yield* until(one.queueLength, (length) => length === 0)
        counts.pushes = 0
        yield* one.call("Enter", undefined, { timeout: "20 millis" }).pipe(Effect.flip)
        assert.strictEqual(counts.pushes, 0)
        for (const options of [{ consumeK: 2 }, { consume: false }]) {
          counts.pushes = 0
          const other = yield* inside(tenant)(startGate(options))
          assert.strictEqual(yield* other.call("Echo", { bytes: 2 }), "é")
          assert.strictEqual(counts.pushes, 1)
        }
      })
    )
    live(
      "a call without a payload takes its time limit in the payload's place",
      Effect.gen(function*() {
        const server = yield* startGate({ consume: false })
        const client = yield* Gate.client()
        for (const call of [server.call, client.call]) {
          const error = yield* Effect.flip(call("Enter", { timeout: "20 millis" }))
          assert.deepInclude(error, { _tag: "CallTimeout", timeoutMillis: 20 })
          const refused = yield* Effect.flip(call("Enter", { timeout: -1 }))
          assert.strictEqual(refused._tag, "InvalidOption")
          // what is no option is a payload, and there is none
          const payload = yield* Effect.flip(call("Enter", { bytes: 2 } as {}))
          assert.strictEqual(payload._tag, "InvalidPayload")
        }
      })
    )
    live(
      "an inline call that conflicts is queued, and handled once",
      Effect.gen(function*() {
        const { head } = yield* keysOf(["Gate"])
        const refusals = { left: 0 }
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            Effect.suspend(() =>
              refusals.left > 0 && mutations.some(touches(head)) && refusals.left-- > 0
                ? Effect.fail(conflict)
                : Effect.void
            )
        })
        const server = yield* inside(tenant)(startGate())
        refusals.left = 1
        const call = yield* Effect.forkChild(server.call("Enter"))
        yield* until(server.state, (state) => state!.waiting.length === 1)
        assert.strictEqual(refusals.left, 0)
        yield* server.cast("Leave", { as: "left" })
        assert.strictEqual(yield* Fiber.join(call), "left")
        assert.strictEqual((yield* server.state)!.waiting.length, 0)
      })
    )
    for (const bytes of [200_000, 2_000_000]) {
      live(
        `an answer of ${bytes} bytes comes whole: inline, queued, and to another tenant layer`,
        Effect.gen(function*() {
          const server = yield* startGate()
          const text = "é".repeat(bytes / 2)
          const queued = yield* startGate({ consume: false })
          const other = yield* elsewhere
          const client = yield* inside(other)(Gate.client())
          assert.isTrue((yield* server.call("Echo", { bytes })) === text)
          assert.isTrue((yield* queued.call("Echo", { bytes })) === text)
          const several = yield* Effect.forEach([1, 2, 3], () => client.call("Echo", { bytes }), {
            concurrency: "unbounded"
          })
          assert.isTrue(several.every((answer) => answer === text))
          assert.isTrue((yield* server.priorityCall("Echo", { bytes })) === text)
        })
      )
    }
    live(
      "an answer that is too large is an error of the call, and holds nobody up",
      Effect.gen(function*() {
        const server = yield* startGate()
        const client = yield* Effect.flatMap(elsewhere, (context) => inside(context)(Gate.client()))
        for (const caller of [server, client]) {
          const error = yield* Effect.flip(caller.call("Echo", { bytes: 12_000_000 }))
          assert.strictEqual(error._tag, "HandlerCrashed")
          assert.include(error.message, "Echo")
        }
        assert.strictEqual(yield* server.call("Echo", { bytes: 2 }), "é")
      })
    )
    live(
      "a caller that times out, or goes, leaves nothing that waits",
      Effect.gen(function*() {
        const queued = yield* startGate({ consume: false })
        const client = yield* Effect.flatMap(elsewhere, (context) => inside(context)(Gate.client()))
        // long enough for a push on a busy machine
        const timeout = { timeout: "500 millis" } as const
        for (const caller of [queued, client]) {
          const error = yield* Effect.flip(caller.call("Enter", undefined, timeout))
          assert.strictEqual(error._tag, "CallTimeout")
          assert.deepStrictEqual(yield* waitingCalls(["Gate"]), [])
          const fiber = yield* Effect.forkChild(caller.call("Enter"))
          yield* until(waitingCalls(["Gate"]), (rows) => rows.length === 1)
          yield* Fiber.interrupt(fiber)
          assert.deepStrictEqual(yield* waitingCalls(["Gate"]), [])
        }
        // the messages stay, and are handled
        assert.strictEqual(yield* queued.queueLength, 4)
        const server = yield* startGate()
        yield* until(server.queueLength, (length) => length === 0)
        assert.strictEqual((yield* server.state)!.waiting.length, 4)
        assert.strictEqual((yield* Effect.flip(server.call("Enter", undefined, timeout)))._tag, "CallTimeout")
        assert.strictEqual((yield* Effect.flip(server.priorityCall("Enter", undefined, timeout)))._tag, "CallTimeout")
        assert.deepStrictEqual(yield* waitingCalls(["Gate"]), [])
        // nobody is there any more to be answered
        yield* server.cast("Leave", { as: "late" })
        assert.deepStrictEqual(yield* server.call("Log"), [])
      })
    )
    for (const operation of ["call", "priorityCall"] as const) {
      live(
        `a caller that goes while its ${operation} is handled leaves nothing that waits`,
        Effect.gen(function*() {
          const begun = yield* Deferred.make<void>()
          const go = yield* Deferred.make<void>()
          const { head } = yield* keysOf(["Gate"])
          const tenant = yield* tapped({
            before: ({ mutations }) =>
              mutations.some(touches(head)) && !mutations.some((m) => m.op === "add")
                ? Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go))
                : Effect.void
          })
          const server = yield* inside(tenant)(startGate())
          const call = yield* Effect.forkChild(server[operation]("Enter"))
          yield* Deferred.await(begun)
          yield* Fiber.interrupt(call)
          yield* Deferred.succeed(go, undefined)
          yield* until(server.state, (state) => state!.waiting.length === 1)
          yield* server.stop()
          yield* until(waitingCalls(["Gate"]), (rows) => rows.length === 0)
        })
      )
    }

    describe("that are answered later", () => {
      for (const [way, options] of Object.entries({ inline: {}, queued: { consumeK: 3 } })) {
        live(
          `come back when somebody answers, with a value or the declared error (${way})`,
          Effect.gen(function*() {
            const server = yield* startGate(options)
            const first = yield* Effect.forkChild(server.call("Enter"))
            yield* until(server.state, (state) => state!.waiting.length === 1)
            const urgent = yield* Effect.forkChild(server.priorityCall("Enter"))
            yield* until(server.state, (state) => state!.waiting.length === 2)
            yield* server.cast("Leave", { as: "entered" })
            assert.strictEqual(yield* Fiber.join(first), "entered")
            assert.strictEqual(yield* Fiber.join(urgent), "entered")
            const second = yield* Effect.forkChild(server.call("Enter"))
            yield* until(server.state, (state) => state!.waiting.length === 1)
            yield* server.cast("Refuse", { why: "closed" })
            assert.deepInclude(yield* failureOf(second), { _tag: "Refused", why: "closed" })
            assert.deepStrictEqual(yield* waitingCalls(["Gate"]), [])
          })
        )
        live(
          `can be answered by their own handler (${way})`,
          Effect.gen(function*() {
            const server = yield* startGate(options)
            assert.strictEqual(yield* server.call("Self"), "from myself")
            assert.strictEqual(yield* server.priorityCall("Self"), "from myself")
            assert.deepStrictEqual(yield* waitingCalls(["Gate"]), [])
          })
        )
      }
      live(
        "are answered by a server that has been started again meanwhile, also elsewhere",
        Effect.gen(function*() {
          const here = yield* Gate.client()
          const there = yield* Effect.flatMap(elsewhere, (context) => inside(context)(Gate.client()))
          const calls = yield* Effect.scoped(Effect.gen(function*() {
            const server = yield* startGate()
            const calls = [
              yield* Effect.forkDetach(here.call("Enter", undefined, { timeout: "20 seconds" })),
              yield* Effect.forkDetach(there.call("Enter", undefined, { timeout: "20 seconds" }))
            ]
            yield* until(server.state, (state) => state!.waiting.length === 2)
            return calls
          }))
          const again = yield* Effect.flatMap(elsewhere, (context) => inside(context)(startGate()))
          yield* again.cast("Leave", { as: "at last" })
          assert.deepStrictEqual(yield* Effect.forEach(calls, Fiber.join), ["at last", "at last"])
        })
      )
      live(
        "are answered once: a second answer is dropped",
        Effect.gen(function*() {
          const server = yield* startGate()
          const call = yield* Effect.forkChild(server.call("Enter"))
          const [from] = (yield* until(server.state, (state) => state!.waiting.length === 1))!.waiting
          yield* Tenant.transact(Gate.replyTo(from!, Exit.succeed("first")))
          assert.strictEqual(yield* Fiber.join(call), "first")
          yield* Tenant.transact(Gate.replyTo(from!, Exit.succeed("second")))
          assert.strictEqual(yield* server.call("Echo", { bytes: 2 }), "é")
        })
      )
      live(
        "with another server's caller, or another type, die with both names and answer nobody",
        Effect.gen(function*() {
          const gates = yield* startGate()
          const boards = yield* startBoard()
          const foreign = yield* Effect.forkChild(boards.call("Wait"))
          const [from] = (yield* until(boards.state, (state) => state!.waiting.length === 1))!.waiting
          const wrongServer = defectOf(yield* Effect.exit(Tenant.transact(Gate.replyTo(from!, Exit.succeed("a")))))
          assert.include(wrongServer, "Gate")
          assert.include(wrongServer, "Board")
          assert.include(wrongServer, "Wait")
          const counting = yield* Effect.forkChild(gates.call("Count"))
          const [count] = (yield* until(gates.state, (state) => state!.waiting.length === 1))!.waiting
          const wrongType = defectOf(yield* Effect.exit(Tenant.transact(Gate.replyTo(count!, Exit.succeed("text")))))
          assert.include(wrongType, "Gate")
          assert.include(wrongType, "Count")
          yield* Tenant.transact(Gate.replyTo(count!, Exit.succeed(7)))
          yield* Tenant.transact(Board.replyTo(from!, Exit.succeed("right")))
          assert.strictEqual(yield* Fiber.join(counting), 7)
          assert.strictEqual(yield* Fiber.join(foreign), "right")
        })
      )
    })

    describe("casts of handlers", () => {
      for (const [way, options] of Object.entries({ inline: {}, queued: { consumeK: 3 } })) {
        live(
          `come to another server and to itself once, after the current message (${way})`,
          Effect.gen(function*() {
            const gates = yield* startGate(options)
            const boards = yield* startBoard(options)
            yield* boards.call("Forward", { item: "a", end: "" })
            yield* boards.call("Forward", { item: "b", end: "crash" })
            yield* until(boards.state, (state) => state!.log.length === 6)
            assert.deepStrictEqual(yield* boards.call("Log"), [
              "forwarded a",
              "1 a",
              "2 a",
              "forwarded b",
              "1 b",
              "2 b"
            ])
            assert.deepStrictEqual(yield* until(gates.call("Log"), (log) => log.length >= 2), ["a", "b"])
            assert.strictEqual(yield* gates.queueLength, 0)
          })
        )
      }
      live(
        "are not sent by a message that is lost",
        Effect.gen(function*() {
          const boards = yield* startBoard()
          const error = yield* Effect.flip(boards.priorityCall("Forward", { item: "a", end: "crash" }))
          assert.strictEqual(error._tag, "HandlerCrashed")
          assert.deepStrictEqual(yield* scan(["Gate"]), [])
          assert.deepStrictEqual(yield* boards.call("Log"), [])
        })
      )
      live(
        "of a program's transaction are sent with it or not at all",
        Effect.gen(function*() {
          const server = yield* startGate()
          const both = (end: Effect.Effect<void, string>) =>
            Tenant.transact(
              Effect.andThen(
                Effect.all([
                  Transaction.set(["order"], Uint8Array.of(1)),
                  Gate.castTx("Note", { item: "a" }),
                  Gate.castAllTx([["Note", { item: "b" }], ["Note", { item: "c" }]])
                ]),
                end
              )
            )
          assert.strictEqual(yield* Effect.flip(both(Effect.fail("no"))), "no")
          assert.isUndefined(yield* Tenant.transact(Transaction.get(["order"])))
          yield* both(Effect.void)
          assert.deepStrictEqual(yield* until(server.call("Log"), (log) => log.length > 0), ["a", "b", "c"])
          const wrong: any = yield* Effect.flip(Tenant.transact(Gate.castTx("Note", { item: 7 } as any)))
          assert.deepStrictEqual([wrong._tag, wrong.field], ["InvalidPayload", "item"])
          const tuid = yield* Effect.flip(Tenant.transact(Gate.castTx("Note", { item: "" }, { tuid: [] })))
          assert.strictEqual(tuid._tag, "InvalidTuid")
        })
      )
    })
  })
}
