import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Result, Schema } from "effect"
import * as fdbTuple from "fdb-tuple"
import * as Tuple from "../../src/Tuple.ts"
import { byte, recipe, tupleOf } from "./arbitrary.ts"
import { concat, fromHex, hex, loneSurrogate, refusal, runs } from "./support.ts"
import { stampBytes, uuid } from "./vectors.ts"

const nested = (depth: number): Tuple.Tuple => {
  let result: Tuple.Tuple = []
  for (let i = 0; i < depth; i++) result = [result]
  return result
}

describe("bad tuples", () => {
  const cases: ReadonlyArray<readonly [string, unknown, ReadonlyArray<number>, RegExp]> = [
    ["undefined", ["a", undefined], [1], /\[1\] is undefined/],
    ["a hole", Object.assign([], { length: 2 }), [0], /\[0\] is undefined/],
    ["a function", [[1, () => 1]], [0, 1], /\[0, 1\] is a function/],
    ["a symbol", [Symbol("a")], [0], /is a symbol/],
    ["a plain object", [null, [null, [{}]]], [1, 1, 0], /\[1, 1, 0\] is a plain object/],
    ["an object without a prototype", [Object.create(null)], [0], /is a plain object/],
    ["a Date", [new Date(0)], [0], /is an instance of Date/],
    ["another typed array", [new Uint16Array(1)], [0], /is an instance of Uint16Array/],
    ["an element behind a nested one", [["a", ["b"], 1n, undefined]], [0, 3], /\[0, 3\] is undefined/]
  ]

  it.each(cases)("refuses %s, and tells where it is", (_name, elements, path, message) => {
    const error = refusal(() => Tuple.pack(elements as Tuple.Tuple))
    assert.strictEqual(error.reason, "UnsupportedElement")
    assert.deepStrictEqual(error.path, path)
    assert.match(error.message, message)
    assert.match(error.message, /a tuple holds null, booleans, numbers/)
  })

  it.each([
    ["a high one at the end", "ab\ud800", 2],
    ["a low one at the start", "\udc00ab", 0],
    ["two high ones", "\ud83d\ud83d\udca9", 0],
    ["a high one before a letter", "a\udbffb", 1]
  ])("refuses a lone surrogate: %s", (_name, text, index) => {
    const error = refusal(() => Tuple.pack([1, text]))
    assert.strictEqual(error.reason, "LoneSurrogate")
    assert.deepStrictEqual(error.path, [1])
    assert.include(error.message, `at index ${index}`)
  })

  const units = [0x61, 0x00, 0x7f, 0xd7ff, 0xd800, 0xd83d, 0xdbff, 0xdc00, 0xdca9, 0xdfff, 0xe000, 0xffff]

  it.effect.prop("refuses a string exactly if a surrogate is alone in it", { numbers: Arbitrary.array(byte) }, (
    { numbers }
  ) =>
    Effect.sync(() => {
      const text = String.fromCharCode(...numbers.map((number) => units[number % units.length]!))
      const result = Tuple.packResult([text])
      assert.strictEqual(Result.isFailure(result), loneSurrogate.test(text))
      if (Result.isSuccess(result)) {
        assert.strictEqual(hex(result.success), hex(fdbTuple.pack([text])))
        assert.deepStrictEqual(Tuple.unpack(result.success), [text])
      } else {
        assert.strictEqual(result.failure.reason, "LoneSurrogate")
      }
    }), { arbitrary: { runs: 2000, size: 8 } })

  it("refuses what is no tuple, and a prefix that is no bytes", () => {
    for (const wrong of [undefined, null, "a", 1, {}, new Uint8Array(1)]) {
      const error = refusal(() => Tuple.pack(wrong as never))
      assert.strictEqual(error.reason, "InvalidArgument")
      assert.match(error.message, /must be an array/)
    }
    assert.match(
      refusal(() => Tuple.pack([], "a" as never)).message,
      /the prefix must be a Uint8Array, and is a string/
    )
  })

  it("packs and unpacks 100 tuples inside each other, and no more", () => {
    const deepest = nested(100)
    assert.deepStrictEqual(Tuple.unpack(Tuple.pack(deepest)), deepest)
    assert.strictEqual(Tuple.compare(deepest, nested(100)), 0)
    const error = refusal(() => Tuple.pack(nested(101)))
    assert.strictEqual(error.reason, "NestedTooDeep")
    assert.lengthOf(error.path, 101)
    const endless: Array<Tuple.Element> = ["a"]
    endless.push(endless)
    assert.strictEqual(refusal(() => Tuple.pack(endless)).reason, "NestedTooDeep")
  })

  it("refuses what no transaction can hold", () => {
    const megabyte = "x".repeat(1_000_000)
    assert.lengthOf(Tuple.pack(["x".repeat(9_999_998)]), 10_000_000)
    const wrong: ReadonlyArray<() => unknown> = [
      () => Tuple.pack(["x".repeat(9_999_999)]),
      () => Tuple.pack(["x".repeat(100_000_000)]),
      () => Tuple.pack([new Uint8Array(10_000_001)]),
      () => Tuple.pack([], new Uint8Array(10_000_001)),
      () => Tuple.pack(Array.from({ length: 100_000 }, () => megabyte))
    ]
    for (const run of wrong) assert.strictEqual(refusal(run).reason, "TooLarge")
  })

  it("gives the refusal as a value on request, and other people's exceptions as they are", () => {
    assert.deepStrictEqual(Tuple.packResult(["a"]), Result.succeed(fromHex("026100")))
    const refused = Tuple.packResult([undefined as never])
    assert.isTrue(Result.isFailure(refused) && refused.failure.reason === "UnsupportedElement")
    const thrower: Array<Tuple.Element> = []
    Object.defineProperty(thrower, 0, {
      get: () => {
        throw new RangeError("mine")
      }
    })
    assert.throws(() => Tuple.packResult(thrower), RangeError, "mine")
  })
})

describe("bytes from anywhere", () => {
  // read, and packed again, they are the same bytes; or else they are refused
  const readsOrRefuses = (bytes: Uint8Array): "read" | "refused" => {
    const result = Tuple.unpackResult(bytes)
    if (Result.isFailure(result)) {
      assert.match(result.failure.message, /^the bytes are no packed tuple: .+ at offset \d+$/)
      assert.isAtMost(result.failure.offset!, bytes.length)
      return "refused"
    }
    const packed = Tuple.packResult(result.success)
    const again = Result.isSuccess(packed) ? packed.success : Tuple.packVersionstamped(result.success).bytes
    assert.strictEqual(hex(again), hex(bytes))
    return "read"
  }

  const codes = [
    0x00,
    0xff,
    0x01,
    0x02,
    0x05,
    0x0b,
    0x0c,
    0x12,
    0x13,
    0x14,
    0x15,
    0x16,
    0x1b,
    0x1c,
    0x1d,
    0x20,
    0x21,
    0x26,
    0x27,
    0x30,
    0x33,
    0x61,
    0xc3,
    0xe0,
    0xed,
    0xf0,
    0xf4,
    0x80,
    0xa0
  ]

  it.effect.prop(
    "are read exactly or refused: any bytes",
    { numbers: Arbitrary.array(byte) },
    ({ numbers }) =>
      Effect.sync(() => {
        readsOrRefuses(Uint8Array.from(numbers))
      }),
    runs(3000)
  )

  it.effect.prop(
    "are read exactly or refused: bytes of the encoding",
    { numbers: recipe },
    ({ numbers }) =>
      Effect.sync(() => {
        readsOrRefuses(Uint8Array.from(numbers, (number) => codes[number % codes.length]!))
      }),
    runs(6000)
  )

  it.effect.prop(
    "are read exactly or refused: packed tuples with a change",
    { numbers: recipe, at: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1000 })), value: byte, kind: byte },
    ({ numbers, at, value, kind }) =>
      Effect.sync(() => {
        const bytes = Tuple.pack(tupleOf(numbers))
        const place = at % (bytes.length + 1)
        const before = bytes.slice(0, place)
        const after = bytes.slice(place)
        const put = Uint8Array.of(kind < 128 ? value : codes[value % codes.length]!)
        readsOrRefuses(before)
        readsOrRefuses(concat(before, put, after))
        readsOrRefuses(concat(before, put, after.slice(1)))
        readsOrRefuses(concat(before, after.slice(1)))
        readsOrRefuses(concat(after, before))
      }),
    runs(3000)
  )

  it("are refused where an element is cut off", () => {
    // without a null in text or bytes: cut in the middle of its escape, they look finished
    const bytes = Tuple.pack([
      "text",
      fromHex("0201"),
      [1, ["a"]],
      70_000,
      -(2n ** 80n),
      2n ** 80n,
      0.5,
      new Tuple.Float(1),
      uuid,
      new Tuple.Versionstamp(stampBytes, 1)
    ])
    const ends = Tuple.unpack(bytes).reduce<Array<number>>((all, _, i, elements) => {
      all.push(Tuple.pack(elements.slice(0, i + 1)).length)
      return all
    }, [0])
    for (let length = 0; length <= bytes.length; length++) {
      assert.strictEqual(readsOrRefuses(bytes.slice(0, length)), ends.includes(length) ? "read" : "refused")
    }
  })

  it.each([
    ["bytes without an end", "01 deadc0de", 0],
    ["bytes that end in an escape", "01 dead00ff", 0],
    ["a string without an end", "02 68656c6c6f", 0],
    ["a continuation byte alone", "02 75 80 00", 0],
    ["a letter of two bytes without the second", "02 75 c3 00", 0],
    ["an overlong null", "02 c080 00", 0],
    ["an overlong letter of three bytes", "02 e08080 00", 0],
    ["an overlong letter of four bytes", "02 f08fbfbf 00", 0],
    ["a code point beyond the last", "02 f4908080 00", 0],
    ["a lead byte of five", "02 f888808080 00", 0],
    ["a lead byte that no letter has", "02 f9908080 00", 0],
    ["half of a surrogate pair", "02 eda0bd 00", 0],
    ["a surrogate pair as two letters", "02 eda0bdedb4a5 00", 0],
    ["a nested tuple without an end", "14 05 0268656c6c6f00", 1],
    ["a nested tuple that ends in a null", "05 0268656c6c6f00 00ff", 0],
    ["an integer that is cut off", "16 01", 0],
    ["a negative integer that is cut off", "12 01", 0],
    ["a large integer that is cut off", "1d 09 0102030405060708", 0],
    ["a large integer without its length", "1d", 0],
    ["an integer with a zero in front", "16 0001", 0],
    ["a negative integer with a zero in front", "12 fffe", 0],
    ["zero with a byte", "15 00", 0],
    ["a large integer that fits into 8 bytes", "1d 08 ffffffffffffffff", 0],
    ["a large negative integer that fits into 8 bytes", "0b f7 0000000000000000", 0],
    ["a large integer with a zero in front", "1d 0a 00010000000000000000", 0],
    ["a large negative integer with a zero in front", "0b f5 fffeffffffffffffffff", 0],
    ["a large integer without bytes", "1d 00", 0],
    ["a float that is cut off", "20 010203", 0],
    ["a double that is cut off", "21 01020304050607", 0],
    ["a UUID that is cut off", "30 0102030405060708090a0b0c0d0e0f", 0],
    ["a versionstamp that is cut off", "33 0102030405060708090a0b", 0],
    ["two incomplete versionstamps", "33 ffffffffffffffffffff0000 33 ffffffffffffffffffff0001", 13],
    ["the nesting of the first days", "03 04", 0],
    ["a reserved code", "22 00000000000000000000", 0],
    ["the true of the first days", "25", 0],
    ["an unknown code", "14 ff", 1]
  ])("are refused: %s", (_name, bytes, offset) => {
    const error = refusal(() => Tuple.unpack(fromHex(bytes)))
    assert.strictEqual(error.reason, "MalformedBytes")
    assert.strictEqual(error.offset, offset)
  })

  it("cannot choose the depth of the stack", () => {
    const error = refusal(() => Tuple.unpack(new Uint8Array(1_000_000).fill(0x05)))
    assert.strictEqual(error.reason, "NestedTooDeep")
    assert.strictEqual(error.offset, 100)
  })

  it("are not read beyond their end, nor before the offset", () => {
    const whole = concat(fromHex("ff"), Tuple.pack(["a", 1]), fromHex("ff"))
    assert.deepStrictEqual(Tuple.unpack(whole.subarray(1, whole.length - 1)), ["a", 1])
    // an escape byte just behind the end is no part of the string
    assert.deepStrictEqual(Tuple.unpack(fromHex("026100ff").subarray(0, 3)), ["a"])
    assert.deepStrictEqual(Tuple.unpack(fromHex("016100ff").subarray(0, 3)), [fromHex("61")])
    assert.deepStrictEqual(Tuple.unpack(fromHex("0500ff").subarray(0, 2)), [[]])
    assert.deepStrictEqual(Tuple.unpack(whole.subarray(0, whole.length - 1), 1), ["a", 1])
    assert.deepStrictEqual(Tuple.unpack(whole, whole.length), [])
    for (const offset of [-1, 0.5, whole.length + 1, NaN]) {
      assert.strictEqual(refusal(() => Tuple.unpack(whole, offset)).reason, "InvalidArgument")
    }
    assert.strictEqual(refusal(() => Tuple.unpack("a" as never)).reason, "InvalidArgument")
  })

  it("are not shared with the elements", () => {
    const bytes = Buffer.from(Tuple.pack([fromHex("6162"), uuid, new Tuple.Versionstamp(stampBytes)]))
    const elements = Tuple.unpack(bytes)
    bytes.fill(0)
    assert.deepStrictEqual(elements, [fromHex("6162"), uuid, new Tuple.Versionstamp(stampBytes)])
    assert.strictEqual(Object.getPrototypeOf(elements[0]), Uint8Array.prototype)
  })
})
