/** How long keys are kept, under a clock that the tests set, and what they cost. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Logger, Schema } from "effect"
import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
import { TestClock } from "effect/testing"
import * as Heads from "../../src/internal/server/kept/head.ts"
import { keyRows, kinds, tuid } from "../suites/keys/support.ts"
import { keysOf, rowsUnder, tapped, until } from "../suites/server/support.ts"

const settle = Effect.repeat(Effect.yieldNow, { times: 200 })
const pass = (duration: Parameters<typeof TestClock.adjust>[0]) =>
  Effect.andThen(Effect.andThen(settle, TestClock.adjust(duration)), settle)

const inMemory = <A, E>(effect: Effect.Effect<A, E, any>): Effect.Effect<A, E> =>
  effect.pipe(
    Effect.scoped,
    Effect.provide(Tenant.layer(["keys"]).pipe(Layer.provideMerge(MemoryBackend.layer))),
    Effect.provide(Logger.layer([]))
  ) as Effect.Effect<A, E>

const pay = { item: "pay" }

describe("keys and time", () => {
  for (const [kind, { client, hosted, run }] of Object.entries(kinds)) {
    it.effect(`of a ${kind} server are kept for keyRetention from their answer, and go by themselves`, () =>
      inMemory(Effect.gen(function*() {
        yield* run()
        const till = yield* client
        yield* till.call("Pay", pay, { key: "a" })
        yield* pass("30 minutes")
        yield* till.cast("Note", { item: "b", times: 1 }, { key: "b" })
        yield* pass("29 minutes")
        assert.strictEqual(yield* till.call("Pay", pay, { key: "a" }), "pay 1")
        assert.strictEqual((yield* till.result("a"))._tag, "Done")
        assert.deepStrictEqual(yield* keyRows, [2, 0, 2, 0, 1])
        yield* pass("2 minutes")
        assert.deepStrictEqual(yield* till.result("a"), { _tag: "Unknown" })
        assert.deepStrictEqual(yield* keyRows, [1, 0, 1, 0, 1])
        yield* pass("1 hour")
        yield* pass("1 minute")
        assert.deepStrictEqual(yield* keyRows, [0, 0, 0, 0, 0])
        assert.strictEqual(yield* till.call("Pay", pay, { key: "a" }), "pay 3")
      })))
    it.effect(`of a ${kind} server go beside timers, and do not hold them up`, () =>
      inMemory(Effect.gen(function*() {
        yield* run()
        const till = yield* client
        yield* till.call("Pay", pay, { key: "a" })
        for (const after of ["30 minutes", "90 minutes"] as const) {
          yield* till.castLater("Note", { item: after, times: 1 }, { after, id: after })
        }
        yield* pass("31 minutes")
        assert.deepStrictEqual((yield* till.state)?.done, ["pay", "30 minutes 1"])
        yield* pass("30 minutes")
        assert.deepStrictEqual((yield* keyRows)[0], 0)
        yield* pass("30 minutes")
        assert.deepStrictEqual((yield* till.state)?.done, ["pay", "30 minutes 1", "90 minutes 1"])
      })))
    it.effect(`make the head of a ${kind} server one that an earlier version does not read`, () =>
      inMemory(Effect.gen(function*() {
        yield* run()
        const till = yield* client
        yield* till.call("Pay", { item: "first" })
        const { head } = yield* keysOf(tuid)
        const formatOf = Effect.map(rowsUnder(head), ([row]) => {
          const read = Heads.decode(row!.value)
          return read._tag === "Success" ? read.success.format : read.failure
        })
        assert.strictEqual(yield* formatOf, hosted ? 2 : 1)
        yield* till.call("Pay", pay, { key: "a" })
        assert.strictEqual(yield* formatOf, 2)
        yield* till.call("Pay", { item: "last" })
        assert.strictEqual(yield* formatOf, 2)
      })))
  }
})

const many = {
  state: Schema.Int,
  messages: { Count: DgenServer.cast(), Read: DgenServer.call({ success: Schema.Int }) },
  keyRetention: "1 hour"
} as const
class Many extends DgenServer.Service<Many>()("Many", many) {}
class ManyHosted extends DgenServer.Service<ManyHosted>()("ManyHosted", { ...many, hosted: true }) {}
const counting = {
  Count: (_: void, n: number) => DgenServer.noReply(n + 1),
  Read: (_: void, n: number) => DgenServer.reply(n, n)
}

describe("very many keys", () => {
  const runs = {
    started: Effect.as(
      Many.start(Many.behaviour({ init: Effect.succeed(0), handlers: counting }), { tuid, consumeK: 500 }),
      undefined
    ),
    hosted: Effect.asVoid(Layer.build(ManyHosted.hostLayer(
      ManyHosted.behaviour({ init: Effect.succeed(0), handlers: counting }),
      { consumeK: 500 }
    )))
  }
  for (const [kind, run] of Object.entries(runs)) {
    it.effect(`that end at one moment all go, of a ${kind} server`, () =>
      inMemory(Effect.gen(function*() {
        yield* run
        const server = kind === "started" ? yield* Many.client({ tuid }) : yield* ManyHosted.client({ tuid })
        const casts = Array.from({ length: 1_800 }, (_, i) => ["Count", undefined, { key: `${i}` }] as const)
        yield* server.castAll(casts)
        yield* server.castAll(casts)
        yield* until(server.state, (state) => state === 1_800)
        yield* until(server.queueLength, (length) => length === 0)
        assert.deepStrictEqual(yield* keyRows, [1_800, 0, 1_800, 0, 1])
        yield* pass("61 minutes")
        yield* until(keyRows, ([rows]) => rows === 0)
        assert.deepStrictEqual(yield* keyRows, [0, 0, 0, 0, 0])
        assert.strictEqual(yield* server.state, 1_800)
      })))
  }
})

class Plain extends DgenServer.Service<Plain>()("Plain", {
  state: Schema.Int,
  messages: { Add: DgenServer.call({ success: Schema.Int }), Count: DgenServer.cast() }
}) {}

const plain = Plain.behaviour({
  init: Effect.succeed(0),
  handlers: { Add: (_, n) => DgenServer.reply(n + 1, n + 1), Count: (_, n) => DgenServer.noReply(n + 1) }
})

describe("keys", () => {
  for (const consumeK of [1, 5]) {
    it.effect(`cost a message without one nothing, and one that has one a few rows (consumeK ${consumeK})`, () =>
      inMemory(Effect.gen(function*() {
        const { prefix } = yield* keysOf(["Plain"])
        const seen = { read: [] as Array<string>, written: [] as Array<string> }
        const nameOf = (key: Uint8Array) => Buffer.from(key.subarray(prefix.length)).toString("latin1")
        const tenant = yield* tapped({
          gets: (key) => seen.read.push(nameOf(key)),
          reads: (begin) => seen.read.push(nameOf(begin)),
          before: ({ mutations }) =>
            Effect.sync(() => {
              for (const mutation of mutations) {
                seen.written.push(nameOf("key" in mutation ? mutation.key : mutation.begin))
              }
            })
        })
        const server = yield* Effect.provideContext(Plain.start(plain, { tuid: ["Plain"], consumeK }), tenant)
        const keyed = (names: ReadonlyArray<string>) => names.filter((name) => name.includes("\u0002key"))
        yield* server.call("Add")
        yield* server.cast("Count")
        yield* until(server.queueLength, (length) => length === 0)
        assert.deepStrictEqual([keyed(seen.read), keyed(seen.written)], [[], []])
        assert.isAbove(seen.written.length, 0)
        seen.read.length = seen.written.length = 0
        yield* server.call("Add", { key: "a" })
        const written = keyed(seen.written).map((name) => name.slice(0, name.indexOf("\u0000")))
        assert.deepStrictEqual(written.sort(), ["\u0002key", "\u0002keyEnd", "\u0002keys"])
        seen.written.length = 0
        assert.strictEqual(yield* server.call("Add", { key: "a" }), 3)
        assert.deepStrictEqual(keyed(seen.written), [])
        assert.deepStrictEqual(yield* server.result("a"), { _tag: "Done", exit: Exit.succeed(3) })
      })))
  }
})
