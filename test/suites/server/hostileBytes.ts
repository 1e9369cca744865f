/** Bytes in the store that nobody here wrote: each costs its own message or its own call, and no other waits for ever. */
import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Schema } from "effect"
import { DgenServer, DurableQueue, Tenant, Tuple } from "effect-dgen"
import { packValue } from "../../../src/internal/data/codec.ts"
import { processPrefix } from "../../../src/internal/tenant/layout.ts"
import { elsewhere, fast, inside, keysOf, overwrite, scan, type Store, testsOf, until } from "./support.ts"

class Ledger extends DgenServer.Service<Ledger>()("Ledger", {
  state: Schema.Array(Schema.Int),
  messages: {
    Add: DgenServer.cast({ payload: { amount: Schema.Int } }),
    Sum: DgenServer.call({ success: Schema.Int })
  }
}) {}

const behaviour = Ledger.behaviour({
  init: Effect.succeed([]),
  handlers: {
    Add: ({ amount }, state) => DgenServer.noReply([...state, amount]),
    Sum: (_, state) => DgenServer.reply(state.reduce((sum, amount) => sum + amount, 0), state)
  }
})

const tuid = ["Ledger"]

const startLedger = (options: DgenServer.Options = {}) =>
  Ledger.start(behaviour, { tuid, deadLetterThreshold: 2, ...fast, ...options })

const put = (key: Uint8Array, value: Uint8Array) => overwrite([{ op: "set", key, value }])

const first = new Tuple.Versionstamp(new Uint8Array(10))

const garbage = Uint8Array.of(0xff, 0xc1, 1, 2, 3)

/** A queued message of plain data, with no attempts behind it. */
const item = (data: unknown): Uint8Array => new Uint8Array(Buffer.concat([new Uint8Array(4), packValue(data)]))

const messages: { readonly [name: string]: Uint8Array } = {
  "nothing": new Uint8Array(0),
  "less than a header": Uint8Array.of(1, 2),
  "garbage": garbage,
  "another format": item([9, "Add", { amount: 1 }, null, null, 0, null]),
  "no tag": item([1, 5, null, null, null, 0, null]),
  "an unknown tag": item([1, "Nope", null, null, null, 0, null]),
  "a tag of every object": item([1, "__proto__", null, null, null, 0, null]),
  "a wrong payload": item([1, "Add", { amount: "1" }, null, null, 0, null]),
  "a caller that is none": item([1, "Sum", null, "x", null, 0, null]),
  "a caller that no key can hold": item([1, "Sum", null, [new Uint8Array(11_000), 1, 1], null, 0, null])
}

const heads: { readonly [name: string]: ReadonlyArray<unknown> } = {
  "a time that no date can hold": [1, [new Uint8Array(20), 1e300, "Sum", "call", 0], []],
  "a lock that is none": [1, 5, []],
  "another format": [9, null, []],
  "a fenced message of a time that no date can hold": [1, null, [[new Uint8Array(20), -1e300, 0]]]
}

const letters: { readonly [name: string]: unknown } = {
  "another format": [9],
  "a time that no date can hold": [1, 1, 1e300, "cause", Uint8Array.of(1)],
  "no list": 5
}

/** A call from a layer that runs no server, with a look at its own answers. */
const calling = Effect.gen(function*() {
  const { instance, prefix } = yield* Tenant.Tenant
  const answers = Tuple.pack(["answer"], processPrefix(prefix, instance))
  const bell = Tuple.pack(["bell"], processPrefix(prefix, instance))
  const client = yield* Ledger.client({ tuid })
  const call = yield* Effect.forkChild(Effect.exit(client.call("Sum", undefined, { timeout: "20 seconds" })))
  const waiting = yield* until(
    Effect.map(scan(tuid), (rows) => rows.find((row) => row[0] === "wait")),
    (row) => row !== undefined
  )
  return { answers, bell, call, id: waiting![3] as number }
})

export const hostileBytesSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "hostile bytes")

  describe(`${name}: bytes that nobody here wrote`, () => {
    for (const [what, bytes] of Object.entries(messages)) {
      live(
        `in the queue (${what}): a dead letter, and the next message is handled`,
        Effect.gen(function*() {
          const { items } = yield* keysOf(tuid)
          const sender = yield* startLedger({ consume: false })
          yield* put(Tuple.pack([first, 0, 1], items), bytes)
          yield* sender.cast("Add", { amount: 7 })
          const server = yield* startLedger({ unreadableGrace: 0 })
          assert.strictEqual(yield* server.call("Sum", undefined, { timeout: "20 seconds" }), 7)
          const letters = yield* Tenant.transact(DurableQueue.peekDeadLetters(Ledger.queue({ tuid })))
          assert.strictEqual(letters.length, 1)
        })
      )
    }
    for (const [what, data] of Object.entries(heads)) {
      live(
        `in the head (${what}): the handle stops with what is wrong, and can be killed`,
        Effect.gen(function*() {
          const { head } = yield* keysOf(tuid)
          const server = yield* startLedger()
          yield* put(head, new Uint8Array(Buffer.concat([new Uint8Array(22), packValue(data)])))
          assert.strictEqual((yield* Effect.flip(server.locked))._tag, "StateError")
          assert.strictEqual((yield* Effect.flip(server.call("Sum")))._tag, "ServerStopped")
          assert.strictEqual((yield* Effect.flip(startLedger()))._tag, "StateError")
          yield* Tenant.transact(Ledger.lock({ tuid }))
          yield* server.kill()
          assert.deepStrictEqual(yield* scan(tuid), [])
        })
      )
    }
    for (const [what, data] of Object.entries(letters)) {
      live(
        `among the dead letters (${what}): listed, and can be deleted`,
        Effect.gen(function*() {
          const { dead } = yield* keysOf(tuid)
          yield* put(Tuple.pack([first, 0, 1], dead), packValue(data))
          const queue = Ledger.queue({ tuid })
          const [letter] = yield* Tenant.transact(DurableQueue.peekDeadLetters(queue))
          assert.include(letter!.cause, "delete it")
          const listed = letter!.bytes.slice()
          letter!.bytes.fill(9)
          const [again] = yield* Tenant.transact(DurableQueue.peekDeadLetters(queue))
          assert.deepStrictEqual(again!.bytes, listed)
          yield* Tenant.transact(DurableQueue.deleteDeadLetter(queue, letter!.id))
          assert.deepStrictEqual(yield* Tenant.transact(DurableQueue.peekDeadLetters(queue)), [])
        })
      )
    }
    for (
      const [what, bytes] of Object.entries({ garbage, unknown: packValue([77, { toString: 5 }]), none: packValue(5) })
    ) {
      live(
        `in an answer (${what}): its call fails with what is wrong`,
        Effect.gen(function*() {
          const { answers, bell, call, id } = yield* calling
          yield* overwrite([
            { op: "set", key: Tuple.pack([id, 0, 1], answers), value: bytes },
            { op: "set", key: bell, value: garbage }
          ])
          const exit = yield* Fiber.join(call)
          const error: any = yield* Effect.flip(exit)
          assert.deepStrictEqual([error._tag, error.server, error.tag], ["HandlerCrashed", "Ledger", "Sum"])
        })
      )
    }
    live(
      "in an answer of which pieces are missing: its call fails with what is wrong",
      Effect.gen(function*() {
        const { answers, bell, call, id } = yield* calling
        yield* overwrite([
          { op: "set", key: Tuple.pack([id, 0, 3], answers), value: packValue([0, 5]).subarray(0, 2) },
          { op: "set", key: bell, value: garbage }
        ])
        const error: any = yield* Effect.flip(yield* Fiber.join(call))
        assert.strictEqual(error._tag, "HandlerCrashed")
      })
    )
    live(
      "in keys of answers: they are taken away, and answers come",
      Effect.gen(function*() {
        const { instance, prefix } = yield* Tenant.Tenant
        const answers = Tuple.pack(["answer"], processPrefix(prefix, instance))
        yield* put(Tuple.pack(["x"], answers), garbage)
        yield* put(Tuple.pack([999_999, 0, 5], answers), garbage)
        yield* put(new Uint8Array(Buffer.concat([answers, Uint8Array.of(3, 1)])), garbage)
        const client = yield* Ledger.client({ tuid })
        const call = yield* Effect.forkChild(client.call("Sum", undefined, { timeout: "20 seconds" }))
        yield* Effect.flatMap(elsewhere, (context) => inside(context)(startLedger()))
        assert.strictEqual(yield* Fiber.join(call), 0)
      })
    )
  })
}
