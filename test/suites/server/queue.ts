/** The queue's own operations: pushing, taking, watching, deleting. */
import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber } from "effect"
import { DurableQueue, Tenant } from "effect-dgen"
import { Mill } from "./mill.ts"
import { elsewhere, inside, scan, type Store, testsOf } from "./support.ts"

const queue = Mill.queue({ tuid: ["queue"] })
const bytes = (...numbers: ReadonlyArray<number>) => numbers.map((number) => Uint8Array.of(number))
const push = (...numbers: ReadonlyArray<number>) => DurableQueue.pushAll(queue, bytes(...numbers))
const take = (limit: number) =>
  Effect.map(DurableQueue.consume(queue, limit), (items) => items.map((item) => item.bytes[0]))
const length = Tenant.transact(DurableQueue.length(queue))

export const queueSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "queue")

  describe(`${name}: a queue`, () => {
    live(
      "gives items in the order of commits and of pushes, each once",
      Effect.gen(function*() {
        yield* Tenant.transact(push(1, 2, 3))
        yield* Tenant.transact(Effect.andThen(push(4), push(5)))
        assert.strictEqual(yield* length, 5)
        assert.deepStrictEqual(yield* Tenant.transact(take(2)), [1, 2])
        assert.deepStrictEqual(yield* Tenant.transact(take(1_000)), [3, 4, 5])
        assert.deepStrictEqual(yield* Tenant.transact(take(1)), [])
        assert.strictEqual(yield* length, 0)
      })
    )
    live(
      "gives each item an id of its own, which later items exceed",
      Effect.gen(function*() {
        yield* Tenant.transact(push(1, 2))
        yield* Tenant.transact(push(3))
        const items = yield* Tenant.transact(DurableQueue.consume(queue, 3))
        const ids = items.map(({ id }) => id)
        assert.deepStrictEqual(ids, [...new Set(ids)].sort())
        assert.deepStrictEqual(items.map(({ attempts }) => attempts), [0, 0, 0])
      })
    )
    live(
      "shares items among those who take at once, each to one of them",
      Effect.gen(function*() {
        const numbers = Array.from({ length: 60 }, (_, i) => i)
        yield* Tenant.transact(push(...numbers))
        const other = yield* elsewhere
        const taken = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, i) => i),
          (i) => i % 2 ? Tenant.transact(take(3)) : inside(other)(Tenant.transact(take(3))),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(taken.flat().sort((a, b) => a! - b!), numbers)
        assert.strictEqual(yield* length, 0)
      })
    )
    live(
      "gives items that are their taker's own, whatever becomes of the transaction",
      Effect.gen(function*() {
        const pushed = [Uint8Array.of(1, 2), new Uint8Array(100).fill(3)]
        yield* Tenant.transact(DurableQueue.pushAll(queue, pushed))
        const spoiled = Effect.flatMap(DurableQueue.consume(queue, 2), (items) => {
          for (const { bytes } of items) bytes.fill(9)
          return Effect.fail("no")
        })
        assert.strictEqual(yield* Effect.flip(Tenant.transact(spoiled)), "no")
        const items = yield* Tenant.transact(DurableQueue.consume(queue, 2))
        assert.deepStrictEqual(items.map((item) => item.bytes), pushed)
        assert.deepStrictEqual(items.map((item) => item.bytes.buffer.byteLength), [2, 100])
      })
    )
    live(
      "holds of an item what is in it, whatever length it says that it has",
      Effect.gen(function*() {
        const boastful = Object.defineProperty(Uint8Array.of(1, 2), "length", { value: 500 })
        yield* Tenant.transact(DurableQueue.pushAll(queue, [boastful]))
        const [item] = yield* Tenant.transact(DurableQueue.consume(queue, 1))
        assert.deepStrictEqual(item!.bytes, Uint8Array.of(1, 2))
      })
    )
    live(
      "takes and pushes with its transaction, or not at all",
      Effect.gen(function*() {
        yield* Tenant.transact(push(1))
        yield* Effect.flip(Tenant.transact(Effect.andThen(Effect.andThen(take(1), push(2)), Effect.fail("no"))))
        assert.deepStrictEqual(yield* Tenant.transact(Effect.andThen(push(3), take(1))), [1])
        assert.deepStrictEqual(yield* Tenant.transact(take(10)), [3])
      })
    )
    live(
      "keeps items of any length whole",
      Effect.gen(function*() {
        const long = Uint8Array.from({ length: 3_000_000 }, (_, i) => i)
        const items = [new Uint8Array(0), Uint8Array.of(1), long, Uint8Array.of(2)]
        yield* Tenant.transact(DurableQueue.pushAll(queue, items))
        const taken = []
        for (let i = 0; i < items.length; i++) taken.push(...yield* Tenant.transact(DurableQueue.consume(queue, 1)))
        assert.isTrue(taken.every((item, i) => Buffer.compare(item.bytes, items[i]!) === 0))
        assert.strictEqual(taken.length, 4)
      })
    )
    live(
      "tells who watches of a push",
      Effect.gen(function*() {
        const watch = yield* Tenant.transact(DurableQueue.watchPush(queue))
        const changed = yield* Effect.forkChild(watch.changed, { startImmediately: true })
        assert.isUndefined(changed.pollUnsafe())
        yield* Effect.flatMap(elsewhere, (context) => inside(context)(Tenant.transact(push(1))))
        assert.deepStrictEqual(yield* Fiber.await(changed), Exit.void)
      })
    )
    live(
      "leaves nothing when it is deleted",
      Effect.gen(function*() {
        yield* Tenant.transact(push(1, 2))
        yield* Tenant.transact(take(1))
        yield* Tenant.transact(DurableQueue.delete(queue))
        assert.deepStrictEqual(yield* scan(["queue"]), [])
        assert.strictEqual(yield* length, 0)
        yield* Tenant.transact(push(3))
        assert.deepStrictEqual(yield* Tenant.transact(take(10)), [3])
      })
    )
    live(
      "refuses limits that are none",
      Effect.gen(function*() {
        yield* Tenant.transact(push(1))
        for (const limit of [0, -1, 1.5, 1_001, NaN, Infinity, "1" as any]) {
          const error = yield* Effect.flip(Tenant.transact(take(limit)))
          assert.strictEqual(error.reason._tag, "InvalidArgument")
        }
        assert.strictEqual(yield* length, 1)
      })
    )
  })
}
