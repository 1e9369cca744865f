/** Rows in the store that nobody wrote on purpose: a server, its callers and its operators go on beside them. */
import { assert, describe, it } from "@effect/vitest"
import { type Context, Effect, Fiber, Layer, Logger, Result, Schema } from "effect"
import { type Backend, type BackendError, DgenServer, DurableQueue, MemoryBackend, Tenant, Tuple } from "effect-dgen"
import { packValue } from "../../src/internal/data/codec.ts"
import * as Envelopes from "../../src/internal/queue/envelope.ts"
import type { SeededRandom } from "../../src/internal/simulation/random.ts"
import { libraryPrefix, processPrefix } from "../../src/internal/tenant/layout.ts"
import { INSTANCE_BYTES } from "../../src/internal/tenant/limits.ts"
import {
  elsewhere,
  fast,
  inside,
  keysOf,
  type Needs,
  overwrite,
  rowsUnder,
  scan,
  until
} from "../suites/server/support.ts"
import { changed, plain, randomBytes, randomOf, reshaped, seed } from "./bytes.ts"

class Log extends DgenServer.Service<Log>()("Log", {
  state: Schema.Array(Schema.String),
  messages: {
    Note: DgenServer.cast({ payload: { item: Schema.String } }),
    Read: DgenServer.call({ success: Schema.Array(Schema.String) })
  }
}) {}

const behaviour = Log.behaviour({
  init: Effect.succeed([]),
  handlers: {
    Note: ({ item }, log) => DgenServer.noReply([...log, item]),
    Read: (_, log) => DgenServer.reply(log, log)
  }
})

const options = { tuid: ["Log"], deadLetterThreshold: 1, unreadableGrace: 0, ...fast }

const ROUNDS = 60
const ROWS = 25
const LIMIT_MILLIS = 60_000

const world = (stream: number, run: (random: SeededRandom) => Effect.Effect<void, unknown, Needs>) =>
  Effect.suspend(() => run(randomOf(stream))).pipe(
    Effect.scoped,
    Effect.provide(Tenant.layer(["hostile"]).pipe(Layer.provideMerge(Layer.fresh(MemoryBackend.layer)))),
    Effect.provide(Logger.layer([])),
    Effect.mapError((cause) => new Error(`stream ${stream}`, { cause }))
  )

/** A test in so many stores, each with other rows. */
const worlds = (
  title: string,
  from: number,
  count: number,
  run: (random: SeededRandom) => Effect.Effect<void, unknown, Needs>
) =>
  it.live(
    title,
    () =>
      Effect.forEach(Array.from({ length: count }, (_, i) => from + i), (stream) => world(stream, run), {
        discard: true
      }),
    LIMIT_MILLIS
  )

const envelope = Envelopes.encode({
  tag: "Note",
  payload: { item: "x" },
  caller: { instance: new Uint8Array(INSTANCE_BYTES), id: 1, millis: 1 },
  trace: undefined,
  millis: 1,
  id: undefined
})

const shape = [1, "Note", { item: "x" }, [new Uint8Array(INSTANCE_BYTES), 1, 1], null, 1, null]
const deadShape = [1, 3, 1_700_000_000_000, "why", envelope]

const sharedShape = [Uint8Array.of(0x91, 5), [7, "x", 1e9, -1]]

const oneOf = <A>(random: SeededRandom, list: ReadonlyArray<A>): A => list[random.between(0, list.length - 1)]!

const valueOf = (random: SeededRandom, list: ReadonlyArray<unknown>, header: number): Uint8Array => {
  const bytes = oneOf(random, [
    () => packValue(reshaped(random, list)),
    () => changed(random, packValue(list)),
    () => packValue(plain(random)),
    () => randomBytes(random, 40)
  ])()
  return random.happens(0.8) ? new Uint8Array(Buffer.concat([new Uint8Array(header), bytes])) : bytes
}

/** A key below a prefix, as it should be or changed; whatever it is, it begins like that of a tuple. */
const keyBelow = (random: SeededRandom, prefix: Uint8Array, tuple: Tuple.Tuple): Uint8Array => {
  const good = Tuple.pack(tuple, prefix)
  if (random.happens(0.7)) return good
  const other = changed(random, good.subarray(prefix.length))
  return other.length === 0 || other[0] === 0xff ? good : new Uint8Array(Buffer.concat([prefix, other]))
}

const number = (random: SeededRandom): Tuple.Element => oneOf(random, [0, 0, 1, 1, 2, 3, 0.5, -1, 1e300, "x", null])

/** A key of a byte string in pieces, which lies before all of this run, or something like one. */
const keyOf = (random: SeededRandom, prefix: Uint8Array): Uint8Array => {
  const stamp = new Tuple.Versionstamp(Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, random.between(0, 5)), 0)
  return keyBelow(random, prefix, [stamp, number(random), number(random)])
}

const put = (rows: ReadonlyArray<readonly [Uint8Array, Uint8Array]>) =>
  overwrite(rows.map(([key, value]) => ({ op: "set", key, value })))

const several = <A>(make: () => A): Array<A> => Array.from({ length: ROWS }, make)

const peek = (limit: number, after?: string) =>
  Tenant.transact(DurableQueue.peekDeadLetters(Log.queue(), { limit, after }))

/** All dead letters, page by page; more pages than rows are pages without end. */
const listed = (random: SeededRandom, most: number) =>
  Effect.gen(function*() {
    const found: Array<DurableQueue.DeadLetter> = []
    for (let after: string | undefined, pages = 0;; pages++) {
      assert.isAtMost(pages, most)
      const page = yield* peek(random.between(1, 5), after)
      if (page.length === 0) return found
      found.push(...page)
      after = page.at(-1)!.id
    }
  })

const emptied = (random: SeededRandom) =>
  Effect.gen(function*() {
    const { dead } = yield* keysOf(["Log"])
    for (let left = (yield* rowsUnder(dead)).length; left > 0;) {
      for (const { id } of yield* peek(100)) {
        // rows of one commit can share a name: each call takes one of them
        const taking = random.happens(0.5) ? DurableQueue.deleteDeadLetter : DurableQueue.requeueDeadLetter
        const taken = yield* Effect.result(Tenant.transact(taking(Log.queue(), id)))
        assert.isTrue(Result.isSuccess(taken), id)
        assert.strictEqual(
          (yield* Effect.flip(Tenant.transact(DurableQueue.deleteDeadLetter(Log.queue(), `${id}0`))))._tag,
          "DeadLetterNotFound"
        )
      }
      const now = (yield* rowsUnder(dead)).length
      assert.isBelow(now, left)
      left = now
    }
  })

describe(`hostile rows (seed ${seed})`, () => {
  worlds("among dead letters are listed, requeued and deleted", 0, ROUNDS, (random) =>
    Effect.gen(function*() {
      const { dead } = yield* keysOf(["Log"])
      yield* put(several(() => [keyOf(random, dead), valueOf(random, deadShape, 0)]))
      const rows = yield* rowsUnder(dead)
      const letters = yield* listed(random, rows.length)
      assert.isAbove(letters.length, 0)
      for (const { at, attempts, bytes, cause } of letters) {
        assert.isTrue(Number.isSafeInteger(attempts) && attempts >= 0)
        assert.strictEqual(typeof cause, "string")
        assert.instanceOf(bytes, Uint8Array)
        assert.isFalse(Number.isNaN(at.epochMilliseconds))
      }
      yield* emptied(random)
      assert.deepStrictEqual(yield* peek(10), [])
      yield* Tenant.transact(DurableQueue.purgeDeadLetters(Log.queue()))
    }))

  it.live("names that are none are refused", () =>
    world(0, () =>
      Effect.gen(function*() {
        for (
          const after of ["", "no", "key-", "key-0", "f".repeat(24), "0".repeat(23), 5, null, {}, ["0".repeat(24)]]
        ) {
          const error = yield* Effect.flip(peek(1, after as any)) as Effect.Effect<BackendError.BackendError>
          assert.strictEqual(error.reason._tag, "InvalidArgument")
          for (const taking of [DurableQueue.deleteDeadLetter, DurableQueue.requeueDeadLetter]) {
            const missing = yield* Effect.flip(Tenant.transact(taking(Log.queue(), after as any)))
            assert.strictEqual(missing._tag, "DeadLetterNotFound")
          }
        }
      })))

  worlds(
    "in a queue become dead letters, and hold up no message",
    1_000,
    ROUNDS / 2,
    (random) =>
      Effect.gen(function*() {
        const { dead, items, prefix } = yield* keysOf(["Log"])
        const client = yield* Log.client()
        yield* put(several(() => [keyOf(random, items), valueOf(random, shape, 4)]))
        yield* client.cast("Note", { item: "first" })
        yield* put(several(() => [keyOf(random, items), valueOf(random, shape, 4)]))
        yield* client.cast("Note", { item: "last" })
        const log = yield* Log.start(behaviour, { ...options, consumeK: random.between(1, 10) })
        const read = yield* log.call("Read", undefined, { timeout: "20 seconds" })
        assert.deepStrictEqual(read.filter((item) => item === "first" || item === "last"), ["first", "last"])
        yield* until(rowsUnder(items), (rows) => rows.length === 0)
        assert.isAbove((yield* rowsUnder(dead)).length, 0)
        // without the consumer, which would bury again what is requeued
        yield* log.stop()
        yield* emptied(random)
        yield* log.kill()
        assert.deepStrictEqual(yield* rowsUnder(prefix), [])
        assert.deepStrictEqual(yield* scan(["Log"]), [])
      })
  )

  worlds("where answers and layers lie hold up no call", 2_000, ROUNDS / 2, (random) =>
    Effect.gen(function*() {
      const caller: Context.Context<Tenant.Tenant> = yield* elsewhere
      const { instance, prefix } = yield* inside(caller)(Tenant.Tenant)
      const answers = Tuple.pack(["answer"], processPrefix(prefix, instance))
      const layers = Tuple.pack(["p"], libraryPrefix(prefix))
      const lies = several(() =>
        [
          keyBelow(random, answers, [oneOf(random, [number(random), "shared"]), number(random), number(random)]),
          oneOf(random, [randomBytes(random, 20), valueOf(random, sharedShape, 0)])
        ] as const
      )
      yield* put([
        ...lies,
        ...several(() => [keyBelow(random, layers, [random.bytes(20), "beat"]), randomBytes(random, 9)] as const)
      ])
      const client = yield* inside(caller)(Log.client())
      const calling = yield* Effect.forkChild(client.call("Read", undefined, { timeout: "20 seconds" }))
      yield* Log.start(behaviour, options)
      // answered, or told at once that what came under the call's number is no answer
      const answer = yield* Effect.result(Fiber.join(calling))
      if (Result.isSuccess(answer)) assert.deepStrictEqual(answer.success, [])
      else assert.notStrictEqual(answer.failure._tag, "CallTimeout")
      // they are told before they are taken away, and the true answer may come after the call has ended by one of them
      const isLie = (row: Backend.KeyValue) =>
        lies.some(([key, value]) => Buffer.compare(key, row.key) === 0 && Buffer.compare(value, row.value) === 0)
      yield* until(rowsUnder(answers), (rows) => !rows.some(isLie))
    }))
})
