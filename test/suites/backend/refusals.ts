/** What programs without types can pass to a tenant and its transactions: typed errors, and nothing written. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Schema } from "effect"
import {
  type Backend,
  type BackendError,
  DgenServer,
  DurableQueue,
  Jobs,
  Tenant,
  Transaction,
  Tuple
} from "effect-dgen"
import { userPrefix } from "../../../src/internal/tenant/layout.ts"
import { overwrite, rowsUnder } from "../server/support.ts"

const bytes = (...values: ReadonlyArray<number>) => Uint8Array.from(values)

const loose: any = Transaction

class Log extends DgenServer.Service<Log>()("Log", { state: Schema.Int, messages: { Add: DgenServer.cast() } }) {}

const Work = Jobs.make("work", { data: Schema.String })

/** The reason that a transaction is refused for, after a write that must not be there then. */
const refusal = (transaction: Effect.Effect<unknown, never, Transaction.Transaction>) =>
  Effect.gen(function*() {
    const body = Effect.andThen(Transaction.set(["never"], bytes(1)), Effect.exit(transaction))
    const { reason } = yield* Effect.flip(Tenant.transact(body))
    assert.strictEqual(yield* Tenant.transact(Transaction.get(["never"])), undefined)
    return (reason as unknown) as BackendError.Reason
  })

/** `Array.isArray`, with a length, and nothing inside. */
const hole: ReadonlyArray<never> = Object.assign([], { length: 1 })

const tuples: { readonly [name: string]: unknown } = {
  undefined: undefined,
  null: null,
  string: "key",
  number: 5,
  object: {},
  "an object inside": [{}],
  hole,
  symbol: [Symbol("x")],
  surrogate: ["\ud800"]
}

export const refusalsSuite = (name: string, backend: Layer.Layer<Backend.Backend, BackendError.BackendError>) => {
  let paths = 0
  const live = <E>(title: string, test: Effect.Effect<void, E, Tenant.Tenant | Backend.Backend>) =>
    it.live(title, () =>
      test.pipe(
        Effect.provide(Tenant.layer(["refusals", String(++paths)]).pipe(Layer.provideMerge(backend)))
      ))

  describe(`${name}: refuses`, () => {
    live(
      "every operation of a transaction that has ended",
      Effect.gen(function*() {
        const ended = yield* Tenant.transact(Transaction.Transaction)
        const operations: { readonly [name: string]: Effect.Effect<unknown, unknown, Transaction.Transaction> } = {
          get: Transaction.get(["k"]),
          "get of a snapshot": Transaction.get(["k"], { snapshot: true }),
          getRange: Transaction.getRange(["k"]),
          set: Transaction.set(["k"], bytes(1)),
          clear: Transaction.clear(["k"]),
          clearRange: Transaction.clearRange(["k"]),
          add: Transaction.add(["k"], 1),
          setVersionstampedKey: Transaction.setVersionstampedKey(["k", Tuple.Versionstamp.incomplete()], bytes(1)),
          setVersionstampedValue: Transaction.setVersionstampedValue(["k"], [Tuple.Versionstamp.incomplete()]),
          watch: Transaction.watch(["k"]),
          currentTimeMillis: Transaction.currentTimeMillis,
          "a push": DurableQueue.pushAll(Log.queue(), [bytes(1)]),
          "a length": DurableQueue.length(Log.queue()),
          "a cast": Log.castTx("Add"),
          "a job": Work.add("a", "data")
        }
        for (const [operation, effect] of Object.entries(operations)) {
          const exit = yield* Effect.exit(Effect.provideService(effect, Transaction.Transaction, ended))
          assert.isTrue(Exit.isFailure(exit), operation)
        }
        assert.deepStrictEqual(yield* Tenant.transact(Transaction.getRange([])), [])
      })
    )
    for (const [kind, tuple] of Object.entries(tuples)) {
      live(
        `a key that is none, with the operation's name: ${kind}`,
        Effect.gen(function*() {
          const operations: { readonly [operation: string]: ReadonlyArray<unknown> } = {
            get: [tuple],
            getRange: [tuple],
            set: [tuple, bytes(1)],
            clear: [tuple],
            clearRange: [tuple],
            add: [tuple, 1],
            setVersionstampedKey: [tuple, bytes(1)],
            setVersionstampedValue: [["v"], tuple],
            watch: [tuple]
          }
          for (const [operation, args] of Object.entries(operations)) {
            const reason = yield* refusal(loose[operation](...args))
            assert.deepStrictEqual([reason._tag, reason.message.split(":")[0]], [
              "InvalidArgument",
              `Transaction.${operation}`
            ])
          }
          const inside = yield* refusal(loose.getRange({ begin: ["a"], end: tuple }))
          assert.strictEqual(inside._tag, "InvalidArgument")
        })
      )
    }
    live(
      "options of reads that are none",
      Effect.gen(function*() {
        for (const options of [null, 5, "snapshot", { limit: NaN }, { limit: "5" }, { limit: -1 }, { limit: 1.5 }]) {
          const reason = yield* refusal(loose.getRange(["a"], options))
          assert.strictEqual(reason._tag, "InvalidArgument", JSON.stringify(options))
        }
        for (const options of [null, { snapshot: "yes" }]) {
          for (const operation of ["get", "getRange"]) {
            assert.strictEqual((yield* refusal(loose[operation](["a"], options)))._tag, "InvalidArgument")
          }
        }
        assert.strictEqual((yield* refusal(loose.getRange(["a"], { reverse: 1 })))._tag, "InvalidArgument")
      })
    )
    live(
      "a transaction that is no effect",
      Effect.gen(function*() {
        for (const body of [undefined, 5, () => 1, Promise.resolve(1), { __proto__: null }]) {
          const { reason } = (yield* Effect.flip(Tenant.transact(body as any))) as BackendError.BackendError
          assert.deepStrictEqual([reason._tag, reason.message.split(":")[0]], ["InvalidArgument", "Tenant.transact"])
        }
      })
    )
    live(
      "paths that are none, and paths too long for a key",
      Effect.gen(function*() {
        const before = yield* rowsUnder(bytes(0xfe))
        const many = Array.from({ length: 5_000 }, () => "p")
        for (const path of [undefined, null, "a", 5, {}, [], [""], [5], hole, ["\ud800"], many] as Array<any>) {
          const built = yield* Effect.flip(Effect.scoped(Layer.build(Tenant.layer(path))))
          assert.strictEqual(built.reason._tag, "InvalidArgument")
          assert.include(built.message, "Tenant.layer")
          const removed = yield* Effect.flip(Tenant.remove(path))
          assert.strictEqual(removed.reason._tag, "InvalidArgument")
        }
        const long = yield* Effect.flip(Effect.scoped(Layer.build(Tenant.layer(["x".repeat(10_000)]))))
        assert.include(long.message, "10002 bytes")
        assert.deepStrictEqual(yield* rowsUnder(bytes(0xfe)), before)
      })
    )
  })

  describe(`${name}: keeps`, () => {
    for (const own of [Buffer.from([7]), bytes(7)]) {
      live(
        `a value as it was written, whatever becomes of the ${own.constructor.name} that it came in`,
        Effect.gen(function*() {
          yield* Tenant.transact(Effect.gen(function*() {
            yield* Transaction.set(["set"], own)
            yield* Transaction.setVersionstampedKey(["stamped", Tuple.Versionstamp.incomplete()], own)
            own[0] = 0
          }))
          const values = () =>
            Effect.map(Tenant.transact(Transaction.getRange([])), (rows) => rows.map((row) => row.value))
          assert.deepStrictEqual(yield* values(), [bytes(7), bytes(7)])
          own[0] = 1
          assert.deepStrictEqual(yield* values(), [bytes(7), bytes(7)])
        })
      )
    }
    live(
      "a key of others that is no tuple from looking like one: the range cannot be read, and says so",
      Effect.gen(function*() {
        const tenant = yield* Tenant.Tenant
        yield* Tenant.transact(Transaction.set(["a"], bytes(1)))
        yield* overwrite([{ op: "set", key: Buffer.concat([userPrefix(tenant.prefix), bytes(3)]), value: bytes(1) }])
        const { reason } = yield* Effect.flip(Tenant.transact(Transaction.getRange([])))
        assert.strictEqual(reason._tag, "Corrupt")
        assert.deepStrictEqual(yield* Tenant.transact(Transaction.get(["a"])), bytes(1))
      })
    )
  })
}
