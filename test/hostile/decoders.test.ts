/** Decoders that read hostile bytes: they refuse, or what they accept is a value that is written and read again as it is. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Result, Schema } from "effect"
import { Tuple } from "effect-dgen"
import { packValue, unpackValue } from "../../src/internal/data/codec.ts"
import * as Envelopes from "../../src/internal/queue/envelope.ts"
import * as Pieces from "../../src/internal/queue/pieces.ts"
import type { Definition, Message } from "../../src/internal/server/definition/model.ts"
import * as Heads from "../../src/internal/server/kept/head.ts"
import * as Answers from "../../src/internal/server/sending/answerCodec.ts"
import type { SeededRandom } from "../../src/internal/simulation/random.ts"
import { changed, plain, randomBytes, randomOf, reshaped, seed } from "./bytes.ts"

const RUNS = 20_000

/** Far more than it takes, and far less than for ever. */
const LIMIT_MILLIS = 60_000

const hostile = (
  title: string,
  stream: number,
  goods: ReadonlyArray<Uint8Array>,
  shapes: ReadonlyArray<ReadonlyArray<unknown>>,
  check: (bytes: Uint8Array) => boolean
) =>
  it(`${title} (seed ${seed})`, { timeout: LIMIT_MILLIS }, () => {
    const random = randomOf(stream)
    const one = <A>(list: ReadonlyArray<A>): A => list[random.between(0, list.length - 1)]!
    const ways: ReadonlyArray<(random: SeededRandom) => Uint8Array> = [
      () => randomBytes(random, 60),
      () => changed(random, one(goods)),
      () => packValue(shapes.length === 0 ? plain(random) : reshaped(random, one(shapes))),
      () => packValue(plain(random))
    ]
    let accepted = 0
    for (const good of goods) assert.isTrue(check(good))
    for (let run = 0; run < RUNS; run++) {
      const bytes = one(ways)(random)
      try {
        if (check(bytes)) accepted++
      } catch (cause) {
        throw new Error(`run ${run}, bytes ${Buffer.from(bytes).toString("hex")}`, { cause })
      }
    }
    // otherwise nothing was tested but the refusals
    assert.isAbove(accepted, 0)
  })

const hasIncomplete = (element: Tuple.Element): boolean =>
  Array.isArray(element)
    ? element.some(hasIncomplete)
    : element instanceof Tuple.Versionstamp && !element.isComplete

const stamp = new Tuple.Versionstamp(Uint8Array.of(0, 0, 0, 0, 0, 0, 1, 0, 0, 7), 3)

describe("hostile bytes", () => {
  const tuples: ReadonlyArray<Tuple.Tuple> = [
    [],
    ["text\0ä💩", Uint8Array.of(0, 255), 1, -70_000, 2n ** 80n, -(2n ** 80n), null, true, 0.5, [null, ["x"], []]],
    [stamp, 0, 1, Tuple.Uuid.fromString("6e7af6ad-ac22-4f5c-a302-6f5d1c0bd4a1"), new Tuple.Float(1.5)]
  ]
  hostile("are a tuple or none", 1, tuples.map((tuple) => Tuple.pack(tuple)), [], (bytes) => {
    const read = Tuple.unpackResult(bytes)
    if (Result.isFailure(read)) return false
    const written = hasIncomplete(read.success)
      ? Tuple.packVersionstamped(read.success).bytes
      : Tuple.pack(read.success)
    assert.deepStrictEqual(Buffer.from(written), Buffer.from(bytes))
    return true
  })

  const data = [null, [1, -1, 0.5, "text", { a: [true], b: {} }], Uint8Array.of(1, 2)]
  hostile("are plain data or none", 2, data.map(packValue), [data], (bytes) => {
    const read = unpackValue(bytes)
    if (Result.isFailure(read)) return false
    assert.deepStrictEqual(Result.getOrThrow(unpackValue(packValue(read.success))), read.success)
    return true
  })

  it("are plain data exactly as deep as plain data is written", () => {
    const deep = (depth: number) => {
      let value: unknown = []
      for (let i = 1; i < depth; i++) value = i % 2 === 0 ? [value] : { a: value }
      return value
    }
    assert.isTrue(Result.isSuccess(unpackValue(packValue(deep(500)))))
    assert.throws(() => packValue(deep(501)))
    for (let depth = 499; depth < 503; depth++) {
      const read = unpackValue(Uint8Array.from({ length: depth }, (_, i) => i === depth - 1 ? 0x90 : 0x91))
      assert.strictEqual(Result.isSuccess(read), depth <= 500)
      if (Result.isSuccess(read)) packValue(read.success)
    }
  })

  const caller = { instance: new Uint8Array(20).fill(7), id: 12, millis: 1_700_000_000_000 }
  const trace = { traceId: "t", spanId: "s", sampled: true }
  const envelopes: ReadonlyArray<Envelopes.Envelope> = [
    { tag: "Add", payload: { by: 1 }, caller, trace, millis: 5, id: "00" },
    { tag: "Add", payload: null, caller: undefined, trace: undefined, millis: 0, id: undefined }
  ]
  const envelopeShapes = [
    [1, "Add", { by: 1 }, [caller.instance, 12, 13], ["t", "s", true], 5, "id"],
    [1, "Add", null, null, null, 5, null]
  ]
  hostile("are a message or none", 3, envelopes.map(Envelopes.encode), envelopeShapes, (bytes) => {
    const read = Envelopes.decode(bytes)
    // whoever moves a message gives it an id, whatever it is
    const moved = Envelopes.decode(Envelopes.withId(bytes, "moved"))
    assert.strictEqual(Result.isSuccess(moved), Result.isSuccess(read))
    if (Result.isFailure(read) || Result.isFailure(moved)) return false
    assert.deepStrictEqual(Result.getOrThrow(Envelopes.decode(Envelopes.encode(read.success))), read.success)
    assert.deepStrictEqual(moved.success, { ...read.success, id: read.success.id ?? "moved" })
    return true
  })

  const token = new Uint8Array(20).fill(9)
  const version = "v".repeat(22)
  const lock: Heads.Lock = { token, millis: 5, tag: "Slow", kind: "call", attempts: 0 }
  const heads: ReadonlyArray<Heads.Head> = [
    { version, lock: undefined, fenced: [], format: 1, stateVersion: 1, isKeyed: false },
    { version, lock, fenced: [], format: 1, stateVersion: 1, isKeyed: false },
    {
      version,
      lock: { ...lock, kind: "cast", attempts: undefined },
      fenced: [{ token, millis: 3, attempts: 2 }],
      format: 2,
      stateVersion: 3,
      isKeyed: true
    }
  ]
  const headShapes = [[1, [token, 5, "Slow", "call", null], [[token, 3, 2]]], [1, null, [[token, 3, 2], [token, 4, 0]]]]
  const readsHead = (bytes: Uint8Array): boolean => {
    const read = Heads.decode(bytes)
    if (Result.isFailure(read)) return false
    assert.deepStrictEqual(Result.getOrThrow(Heads.decode(Heads.encode(read.success))), read.success)
    for (const entry of [read.success.lock ?? lock, ...read.success.fenced]) {
      assert.strictEqual(entry.token.length, 20)
      assert.isTrue(entry.attempts === undefined || (Number.isSafeInteger(entry.attempts) && entry.attempts >= 0))
    }
    return true
  }
  hostile("are a head or none", 4, heads.map(Heads.encode), [], readsHead)
  hostile(
    "behind a version are a head or none",
    5,
    [packValue(headShapes[0])],
    headShapes,
    (bytes) => readsHead(Buffer.concat([Buffer.from(version), bytes]))
  )

  const definition: Definition = {
    name: "Vault",
    hosted: false,
    maxQueueLength: Infinity,
    maxKeys: 1,
    keyRetentionMillis: 1,
    maxTimers: 1,
    hasDurable: false,
    earlier: [],
    state: Schema.Int,
    messages: new Map(),
    actions: new Map()
  }
  const message: Message = {
    tag: "Look",
    kind: "call",
    locks: false,
    payload: undefined,
    success: Schema.Struct({ at: Schema.Date, items: Schema.Array(Schema.Union([Schema.Int, Schema.String])) }),
    error: Schema.Union([Schema.Literal("no"), Schema.Uint8Array])
  }
  const answers = [
    Answers.encode(message, Exit.succeed({ at: new Date(0), items: [1, "a"] })),
    Answers.encode(message, Exit.fail("no")),
    Answers.crashed("why"),
    Answers.stopped("why"),
    Answers.deadLettered(3, "why"),
    Answers.killed,
    Answers.keyReused("k"),
    Answers.tooManyKeys(3)
  ]
  const answerShapes = answers.map((bytes) => Result.getOrThrow(unpackValue(bytes)) as ReadonlyArray<unknown>)
  hostile("are an answer, or one that says that they are none", 6, answers, answerShapes, (bytes) => {
    const read = Answers.decode({ definition, keys: { tuid: ["Vault"] } }, message, bytes)
    if (Exit.isSuccess(read)) {
      const again = Answers.decode({ definition, keys: { tuid: ["Vault"] } }, message, Answers.encode(message, read))
      assert.deepStrictEqual(again, read)
      return true
    }
    const error: any = Effect.runSync(Effect.flip(read))
    if (error === "no" || error instanceof Uint8Array) return true
    assert.include([
      "HandlerCrashed",
      "ServerStopped",
      "DeadLettered",
      "ServerKilled",
      "KeyReused",
      "TooManyKeys"
    ], error._tag)
    assert.strictEqual(typeof error.message, "string")
    return true
  })
})

describe("hostile values", () => {
  it("are packed as what they hold, and show nothing of what was packed before or meanwhile", () => {
    packValue("the secret of somebody else ".repeat(50))
    const boastful = Object.defineProperty(Uint8Array.of(1, 2), "length", { value: 500 })
    assert.deepStrictEqual(packValue([boastful]), packValue([Uint8Array.of(1, 2)]))
    assert.deepStrictEqual(Tuple.pack([1], boastful), Tuple.pack([1], Uint8Array.of(1, 2)))
    const meddling = {
      get a() {
        packValue("meanwhile")
        return 1
      }
    }
    assert.deepStrictEqual(packValue([meddling, "after"]), packValue([{ a: 1 }, "after"]))
  })
})

describe("hostile rows of byte strings in pieces", () => {
  it(`are each taken once, and never without a key (seed ${seed})`, { timeout: LIMIT_MILLIS }, () => {
    const random = randomOf(7)
    const prefix = Tuple.pack(["q"])
    const numbers = [0, 1, 2, 3, -1, 0.5, 1.5, 1e300, 2 ** 40, NaN, Infinity, "1", null]
    const one = () => numbers[random.between(0, random.happens(0.7) ? 3 : numbers.length - 1)]!
    for (let run = 0; run < RUNS / 4; run++) {
      const rows = Array.from({ length: random.between(0, 8) }, () => {
        const at = new Tuple.Versionstamp(Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, random.between(0, 2)), 0)
        const good = Tuple.pack([at, one(), one()], prefix)
        const key = random.happens(0.3) ? Buffer.concat([prefix, changed(random, good.subarray(prefix.length))]) : good
        return { key: new Uint8Array(key), value: random.bytes(3) }
      }).sort((a, b) => Tuple.compareBytes(a.key, b.key))
      const whole = Pieces.assemble(prefix, rows, Infinity, true)
      assert.deepStrictEqual(whole.flatMap(({ keys }) => keys), rows.map(({ key }) => key))
      for (const { bytes, keys } of whole) {
        assert.isAbove(keys.length, 0)
        assert.strictEqual(bytes.length, keys.length * 3)
      }
    }
  })
})
