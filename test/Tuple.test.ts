import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Equal, Result, Schema } from "effect"
import * as fdbTuple from "fdb-tuple"
import * as Tuple from "../src/Tuple.ts"
import { byte, plainTuple, recipe, tuple, tupleOf, tuplePair } from "./tupleArbitrary.ts"

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")

const fromHex = (text: string): Uint8Array => new Uint8Array(Buffer.from(text.replaceAll(" ", ""), "hex"))

const concat = (...parts: ReadonlyArray<Uint8Array>): Uint8Array => new Uint8Array(Buffer.concat(parts))

const runs = (count: number) => ({ arbitrary: { runs: count, size: 60 } })

const refusal = (run: () => unknown): Tuple.TupleError => {
  try {
    run()
  } catch (error) {
    assert.instanceOf(error, Tuple.TupleError)
    return error
  }
  return assert.fail("nothing was refused")
}

const nested = (depth: number): Tuple.Tuple => {
  let result: Tuple.Tuple = []
  for (let i = 0; i < depth; i++) result = [result]
  return result
}

const isCanonicalNan = (element: Tuple.Double): boolean => Number.isNaN(element.value) && element.nanBits === undefined

/** What a packed element comes back as. */
const unpacked = (element: Tuple.Element): Tuple.Element => {
  if (typeof element === "bigint") {
    const fits = element >= BigInt(Number.MIN_SAFE_INTEGER) && element <= BigInt(Number.MAX_SAFE_INTEGER)
    return fits ? Number(element) : element
  }
  if (element instanceof Tuple.Double) {
    const staysWrapped = (Number.isSafeInteger(element.value) && !Object.is(element.value, -0)) ||
      (Number.isNaN(element.value) && !isCanonicalNan(element))
    return staysWrapped ? element : element.value
  }
  return Array.isArray(element) ? element.map(unpacked) : element
}

/** The same element for `fdb-tuple`. */
const foreign = (element: Tuple.Element): fdbTuple.TupleItem => {
  if (element instanceof Uint8Array) return Buffer.from(element)
  if (element instanceof Tuple.Float) return { type: "float", value: element.value }
  if (element instanceof Tuple.Double) return { type: "double", value: element.value }
  if (element instanceof Tuple.Uuid) return { type: "uuid", value: Buffer.from(element.bytes) }
  if (element instanceof Tuple.Versionstamp) {
    const user = Buffer.from([element.userVersion >> 8, element.userVersion & 0xff])
    return { type: "versionstamp", value: Buffer.concat([element.bytes, user]) }
  }
  return Array.isArray(element) ? element.map(foreign) : element as fdbTuple.TupleItem
}

const uuid = Tuple.Uuid.fromString("1100aabb-ccdd-eeff-1100-aabbccddeeff")
const stampBytes = fromHex("aabbccddeeff00010203")

// The bytes are those that the encoding's specification and the tests of FoundationDB's bindings give for these tuples.
const vectors: ReadonlyArray<readonly [string, Tuple.Tuple, string]> = [
  ["the empty tuple", [], ""],
  ["null", [null], "00"],
  ["false", [false], "26"],
  ["true", [true], "27"],
  ["bytes with a null", [fromHex("666f6f00626172")], "01 666f6f00ff626172 00"],
  ["no bytes", [new Uint8Array(0)], "01 00"],
  ["bytes of nulls", [fromHex("00000004")], "01 00ff00ff00ff04 00"],
  ["bytes of 0xff", [fromHex("ff00ff")], "01 ff00ffff 00"],
  ["a string with a null", ["F\u00d4O\u0000bar"], "02 46c3944f00ff626172 00"],
  ["the empty string", [""], "02 00"],
  ["three bytes a letter", ["\u4e2d\u6587"], "02 e4b8ade69687 00"],
  ["two bytes a letter", ["\u03bc\u03ac\u03b8\u03b7\u03bc\u03b1"], "02 cebcceacceb8ceb7cebcceb1 00"],
  ["four bytes a letter", ["\u{1f525}"], "02 f09f94a5 00"],
  ["the last code point", ["\u{10ffff}"], "02 f48fbfbf 00"],
  ["0", [0], "14"],
  ["0n", [0n], "14"],
  ["1", [1], "15 01"],
  ["-1", [-1], "13 fe"],
  ["255", [255], "15 ff"],
  ["-255", [-255], "13 00"],
  ["256", [256], "16 0100"],
  ["-256", [-256], "12 feff"],
  ["1234", [1234], "16 04d2"],
  ["65536", [65536], "17 010000"],
  ["-65536", [-65536], "11 feffff"],
  ["-5551212", [-5551212], "11 ab4b93"],
  ["-(2^32 - 1)", [-(2 ** 32 - 1)], "10 00000000"],
  ["2^63 - 1", [2n ** 63n - 1n], "1c 7fffffffffffffff"],
  ["2^63", [2n ** 63n], "1c 8000000000000000"],
  ["2^64 - 1", [2n ** 64n - 1n], "1c ffffffffffffffff"],
  ["2^64", [2n ** 64n], "1d 09 010000000000000000"],
  ["-2^63 + 2", [-(2n ** 63n) + 2n], "0c 8000000000000001"],
  ["-2^63", [-(2n ** 63n)], "0c 7fffffffffffffff"],
  ["-2^63 - 1", [-(2n ** 63n) - 1n], "0c 7ffffffffffffffe"],
  ["-2^64 + 1", [-(2n ** 64n) + 1n], "0c 0000000000000000"],
  ["float -42", [new Tuple.Float(-42)], "20 3dd7ffff"],
  ["float 3.14", [new Tuple.Float(3.14)], "20 c048f5c3"],
  ["float -3.14", [new Tuple.Float(-3.14)], "20 3fb70a3c"],
  ["float 0", [new Tuple.Float(0)], "20 80000000"],
  ["float -0", [new Tuple.Float(-0)], "20 7fffffff"],
  ["float infinity", [new Tuple.Float(Infinity)], "20 ff800000"],
  ["float -infinity", [new Tuple.Float(-Infinity)], "20 007fffff"],
  ["the largest float NaN", [Tuple.Float.fromBits(0x7fffffff)], "20 ffffffff"],
  ["the smallest float NaN", [Tuple.Float.fromBits(0xffffffff)], "20 00000000"],
  ["3.14", [3.14], "21 c0091eb851eb851f"],
  ["-3.14", [-3.14], "21 3ff6e147ae147ae0"],
  ["double 0", [new Tuple.Double(0)], "21 8000000000000000"],
  ["-0", [-0], "21 7fffffffffffffff"],
  ["infinity", [Infinity], "21 fff0000000000000"],
  ["-infinity", [-Infinity], "21 000fffffffffffff"],
  ["the largest NaN", [Tuple.Double.fromBits(0x7fffffffffffffffn)], "21 ffffffffffffffff"],
  ["the smallest NaN", [Tuple.Double.fromBits(0xffffffffffffffffn)], "21 0000000000000000"],
  ["nested", [[fromHex("666f6f00626172"), null, []]], "05 01666f6f00ff62617200 00ff 0500 00"],
  ["null and a string, nested", [[null, "hell\0"]], "05 00ff 0268656c6c00ff00 00"],
  ["null, nested", [[null], "hello"], "05 00ff 00 0268656c6c6f00"],
  ["a UUID", [uuid, "foobarbaz", 1234, null], "30 1100aabbccddeeff1100aabbccddeeff 02666f6f62617262617a00 1604d2 00"],
  ["a versionstamp", [new Tuple.Versionstamp(stampBytes)], "33 aabbccddeeff00010203 0000"],
  [
    "a versionstamp with a user version",
    [new Tuple.Versionstamp(fromHex("0102030405060708090a"), 657)],
    "33 0102030405060708090a 0291"
  ]
]

describe("the encoding", () => {
  it.each(vectors)("%s has the published bytes", (_name, elements, bytes) => {
    assert.strictEqual(hex(Tuple.pack(elements)), bytes.replaceAll(" ", ""))
    assert.deepStrictEqual(Tuple.unpack(fromHex(bytes)), elements.map(unpacked))
  })

  it("writes the longest integers, and refuses longer ones", () => {
    const largest = 2n ** 2040n - 1n
    assert.strictEqual(hex(Tuple.pack([largest])), "1dff" + "ff".repeat(255))
    assert.strictEqual(hex(Tuple.pack([-largest])), "0b00" + "00".repeat(255))
    assert.deepStrictEqual(Tuple.unpack(Tuple.pack([largest, -largest])), [largest, -largest])
    for (const tooLarge of [largest + 1n, -largest - 1n, 2n ** 100_000n]) {
      const error = refusal(() => Tuple.pack(["a", [tooLarge]]))
      assert.strictEqual(error.reason, "IntegerTooLarge")
      assert.deepStrictEqual(error.path, [1, 0])
    }
  })

  it("writes the usual NaN whatever bits the number happens to have", () => {
    const odd = new Float64Array(new BigUint64Array([0xfff8000000000001n]).buffer)[0]!
    assert.strictEqual(hex(Tuple.pack([odd])), "21fff8000000000000")
    assert.strictEqual(hex(Tuple.pack([new Tuple.Double(odd)])), "21fff8000000000000")
    assert.strictEqual(hex(Tuple.pack([new Tuple.Float(odd)])), "20ffc00000")
  })

  it("packs 1 and 1n to the same bytes", () => {
    assert.deepStrictEqual(Tuple.pack([1]), Tuple.pack([1n]))
    assert.strictEqual(Tuple.compare([1], [1n]), 0)
  })

  it.effect.prop("gives back what was packed", { tuple }, ({ tuple }) =>
    Effect.sync(() => {
      assert.deepStrictEqual(Tuple.unpack(Tuple.pack(tuple)), tuple.map(unpacked))
    }), runs(2000))

  it.effect.prop("gives equal bytes for what was unpacked", { tuple }, ({ tuple }) =>
    Effect.sync(() => {
      const bytes = Tuple.pack(tuple)
      assert.strictEqual(hex(Tuple.pack(Tuple.unpack(bytes))), hex(bytes))
    }), runs(2000))

  it.effect.prop("sorts bytes as it compares tuples", { pair: tuplePair }, ({ pair: [a, b] }) =>
    Effect.sync(() => {
      assert.strictEqual(Tuple.compareBytes(Tuple.pack(a), Tuple.pack(b)), Tuple.compare(a, b))
      assert.strictEqual(Tuple.compare(b, a), 0 - Tuple.compare(a, b))
    }), runs(4000))

  it.effect.prop("writes the same bytes as fdb-tuple", { tuple: plainTuple }, ({ tuple }) =>
    Effect.sync(() => {
      const theirs = fdbTuple.pack(tuple.map(foreign))
      assert.strictEqual(hex(Tuple.pack(tuple)), hex(theirs))
      assert.deepStrictEqual(Tuple.unpack(theirs), tuple.map(unpacked))
    }), runs(2000))

  it.effect.prop("agrees with fdb-tuple on any text and any number", [Schema.String, Schema.Number, Schema.Int], (
    [text, number, integer]
  ) =>
    Effect.sync(() => {
      if (!text.isWellFormed()) return
      const elements = [text, number, integer, -integer]
      assert.strictEqual(hex(Tuple.pack(elements)), hex(fdbTuple.pack(elements)))
    }), runs(1000))
})

describe("the order", () => {
  it("is the order of the values, kind by kind", () => {
    const stamp = (last: number, user: number) => new Tuple.Versionstamp(fromHex("0000000000000000000" + last), user)
    const ascending: ReadonlyArray<Tuple.Element> = [
      null,
      new Uint8Array(0),
      fromHex("00"),
      fromHex("0001"),
      fromHex("01"),
      "",
      "\0",
      "a",
      "a\0",
      "aa",
      "b",
      "\uffff",
      "\u{10000}",
      [],
      [null],
      [null, null],
      [""],
      [1],
      [1, null],
      [1.5],
      -(2n ** 2040n) + 1n,
      -(2n ** 72n),
      -(2n ** 72n) + 1n,
      -(2n ** 64n),
      -(2n ** 64n) + 1n,
      -(2n ** 63n),
      Number.MIN_SAFE_INTEGER,
      -257,
      -256,
      -255,
      -1,
      0,
      1,
      255,
      256,
      Number.MAX_SAFE_INTEGER,
      2n ** 53n,
      2n ** 64n - 1n,
      2n ** 64n,
      2n ** 72n,
      2n ** 2040n - 1n,
      new Tuple.Float(-Infinity),
      new Tuple.Float(-1),
      new Tuple.Float(-0),
      new Tuple.Float(0),
      new Tuple.Float(2),
      new Tuple.Float(NaN),
      -Infinity,
      new Tuple.Double(-1),
      -0.5,
      -0,
      new Tuple.Double(0),
      0.5,
      new Tuple.Double(1),
      2 ** 53,
      Infinity,
      NaN,
      false,
      true,
      uuid,
      stamp(1, 0),
      stamp(1, 1),
      stamp(1, 256),
      stamp(2, 0)
    ]
    for (let i = 0; i < ascending.length; i++) {
      for (let j = 0; j < ascending.length; j++) {
        const expected = i < j ? -1 : i > j ? 1 : 0
        const where = `${String(ascending[i])} and ${String(ascending[j])}`
        assert.strictEqual(Tuple.compareBytes(Tuple.pack([ascending[i]!]), Tuple.pack([ascending[j]!])), expected, where)
        assert.strictEqual(Tuple.compare([ascending[i]!], [ascending[j]!]), expected, where)
      }
    }
  })

  it("compares keys byte by byte, the shorter first", () => {
    assert.strictEqual(Tuple.compareBytes(fromHex("01ff"), fromHex("02")), -1)
    assert.strictEqual(Tuple.compareBytes(fromHex("7f"), fromHex("80")), -1)
    assert.strictEqual(Tuple.compareBytes(fromHex("0100"), fromHex("01")), 1)
    assert.strictEqual(Tuple.compareBytes(fromHex("0100"), fromHex("0100")), 0)
    assert.isTrue(Tuple.equalsBytes(fromHex("0100"), fromHex("0100")))
    assert.isFalse(Tuple.equalsBytes(fromHex("0100"), fromHex("0101")))
    assert.isFalse(Tuple.equalsBytes(fromHex("01"), fromHex("0100")))
  })

  it("refuses to compare what no tuple can hold", () => {
    assert.strictEqual(refusal(() => Tuple.compare([undefined as never], [1])).reason, "UnsupportedElement")
    assert.strictEqual(refusal(() => Tuple.compare("a" as never, ["a"])).reason, "InvalidArgument")
    const endless: Array<Tuple.Element> = []
    endless.push(endless)
    assert.strictEqual(refusal(() => Tuple.compare(endless, endless)).reason, "NestedTooDeep")
  })
})

describe("bad tuples", () => {
  const cases: ReadonlyArray<readonly [string, unknown, ReadonlyArray<number>, RegExp]> = [
    ["undefined", ["a", undefined], [1], /\[1\] is undefined/],
    ["a hole", new Array(2), [0], /\[0\] is undefined/],
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

  it("refuses what is no tuple, and a prefix that is no bytes", () => {
    for (const wrong of [undefined, null, "a", 1, {}, new Uint8Array(1)]) {
      const error = refusal(() => Tuple.pack(wrong as never))
      assert.strictEqual(error.reason, "InvalidArgument")
      assert.match(error.message, /must be an array/)
    }
    assert.match(refusal(() => Tuple.pack([], "a" as never)).message, /the prefix must be a Uint8Array, and is a string/)
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
      () => Tuple.pack(new Array(100_000).fill(megabyte))
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

describe("the buffer behind pack", () => {
  it("is not shared by results", () => {
    const first = Tuple.pack(["first"])
    const copy = first.slice()
    Tuple.pack(["something else"])
    assert.deepStrictEqual(first, copy)
    assert.strictEqual(first.buffer.byteLength, first.length)
  })

  it("survives large tuples, refusals, and a tuple packed in the middle of another", () => {
    const large = "x".repeat(300_000)
    assert.lengthOf(Tuple.pack([large, large]), 600_004)
    refusal(() => Tuple.pack(["left behind", undefined as never]))
    const tricky: Array<Tuple.Element> = ["outer"]
    Object.defineProperty(tricky, 1, { get: () => hex(Tuple.pack(["inner", 1])), enumerable: true })
    assert.deepStrictEqual(Tuple.unpack(Tuple.pack(tricky)), ["outer", "02696e6e6572001501"])
    assert.deepStrictEqual(Tuple.unpack(Tuple.pack(["small"])), ["small"])
  })

  it.effect.prop("puts the prefix in front", { prefix: Arbitrary.array(byte), tuple }, ({ prefix, tuple }) =>
    Effect.sync(() => {
      const bytes = Uint8Array.from(prefix)
      const key = Tuple.pack(tuple, bytes)
      assert.strictEqual(hex(key), hex(bytes) + hex(Tuple.pack(tuple)))
      assert.deepStrictEqual(Tuple.unpack(key, bytes.length), tuple.map(unpacked))
    }), runs(300))
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

  const codes = [0x00, 0xff, 0x01, 0x02, 0x05, 0x0b, 0x0c, 0x12, 0x13, 0x14, 0x15, 0x16, 0x1b, 0x1c, 0x1d, 0x20, 0x21, 0x26, 0x27, 0x30, 0x33, 0x61, 0xc3, 0xe0, 0xed, 0xf0, 0xf4, 0x80, 0xa0]

  it.effect.prop("are read exactly or refused: any bytes", { numbers: Arbitrary.array(byte) }, ({ numbers }) =>
    Effect.sync(() => {
      readsOrRefuses(Uint8Array.from(numbers))
    }), runs(3000))

  it.effect.prop("are read exactly or refused: bytes of the encoding", { numbers: recipe }, ({ numbers }) =>
    Effect.sync(() => {
      readsOrRefuses(Uint8Array.from(numbers, (number) => codes[number % codes.length]!))
    }), runs(6000))

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

describe("incomplete versionstamps", () => {
  it("are packed with the place to fill in, at any depth and behind any prefix", () => {
    const prefix = fromHex("0102")
    const template = Tuple.packVersionstamped(["q", [1, Tuple.Versionstamp.incomplete(0x0102)], "x"], prefix)
    assert.strictEqual(hex(template.bytes), "0102" + "027100" + "05" + "1501" + "33" + "ff".repeat(10) + "0102" + "00" + "027800")
    assert.strictEqual(template.position, 9)
  })

  it.effect.prop("become the complete key when they are filled in", { before: tuple, after: tuple, user: byte }, (
    { before, after, user }
  ) =>
    Effect.sync(() => {
      const keyOf = (stamp: Tuple.Versionstamp): Tuple.Tuple => [...before, [...after, stamp], ...after]
      const { bytes, position } = Tuple.packVersionstamped(keyOf(Tuple.Versionstamp.incomplete(user)))
      assert.strictEqual(hex(bytes.slice(position, position + 10)), "ff".repeat(10))
      bytes.set(stampBytes, position)
      assert.strictEqual(hex(bytes), hex(Tuple.pack(keyOf(new Tuple.Versionstamp(stampBytes, user)))))
    }), runs(300))

  it("are refused by pack, and by packVersionstamped when there is none or more than one", () => {
    const stamp = Tuple.Versionstamp.incomplete()
    const first = refusal(() => Tuple.pack(["a", [stamp]]))
    assert.strictEqual(first.reason, "IncompleteVersionstamp")
    assert.deepStrictEqual(first.path, [1, 0])
    assert.match(first.message, /packVersionstamped/)
    const none = refusal(() => Tuple.packVersionstamped(["a", new Tuple.Versionstamp(stampBytes)]))
    assert.strictEqual(none.reason, "IncompleteVersionstamp")
    const second = refusal(() => Tuple.packVersionstamped([stamp, [1, stamp]]))
    assert.strictEqual(second.reason, "IncompleteVersionstamp")
    assert.deepStrictEqual(second.path, [1, 1])
  })

  it("come back as incomplete ones", () => {
    const stamp = Tuple.Versionstamp.incomplete(7)
    assert.isFalse(stamp.isComplete)
    assert.isTrue(new Tuple.Versionstamp(fromHex("ffffffffffffffffff00")).isComplete)
    assert.isTrue(new Tuple.Versionstamp(fromHex("00ffffffffffffffffff")).isComplete)
    assert.deepStrictEqual(Tuple.unpack(Tuple.packVersionstamped([stamp]).bytes), [stamp])
  })
})

describe("ranges", () => {
  it("hold all longer tuples, and neither the tuple itself nor its neighbours", () => {
    const { begin, end } = Tuple.range(["a", 1], fromHex("07"))
    assert.strictEqual(hex(begin), "07026100150100")
    assert.strictEqual(hex(end), "070261001501ff")
    const whole = Tuple.range([])
    assert.strictEqual(hex(whole.begin), "00")
    assert.strictEqual(hex(whole.end), "ff")
  })

  it.effect.prop("hold a tuple exactly if it is a longer one", { pair: tuplePair, more: tuple }, (
    { pair: [a, b], more }
  ) =>
    Effect.sync(() => {
      const { begin, end } = Tuple.range(a)
      const holds = (tuple: Tuple.Tuple): boolean => {
        const key = Tuple.pack(tuple)
        return Tuple.compareBytes(begin, key) <= 0 && Tuple.compareBytes(key, end) < 0
      }
      assert.isFalse(holds(a))
      assert.strictEqual(holds([...a, ...more]), more.length > 0)
      assert.strictEqual(holds(b), b.length > a.length && Tuple.compare(b.slice(0, a.length), a) === 0)
    }), runs(1000))

  it("end behind a prefix at strinc", () => {
    assert.strictEqual(hex(Tuple.strinc(fromHex("01"))), "02")
    assert.strictEqual(hex(Tuple.strinc(fromHex("01ff"))), "02")
    assert.strictEqual(hex(Tuple.strinc(fromHex("01feffff"))), "01ff")
    assert.strictEqual(hex(Tuple.strinc(fromHex("00"))), "01")
    const prefix = Buffer.from("01ff", "hex")
    Tuple.strinc(prefix)
    assert.strictEqual(hex(prefix), "01ff")
    for (const last of ["", "ff", "ffff"]) assert.strictEqual(refusal(() => Tuple.strinc(fromHex(last))).reason, "NoSuccessor")
    assert.strictEqual(refusal(() => Tuple.strinc("a" as never)).reason, "InvalidArgument")
  })

  it.effect.prop("end behind a prefix: every key with it, and no other, is before", { prefix: Arbitrary.array(byte), key: Arbitrary.array(byte) }, (
    { prefix, key }
  ) =>
    Effect.sync(() => {
      const start = Uint8Array.from([1, ...prefix])
      const end = Tuple.strinc(start)
      const inside = concat(start, Uint8Array.from(key))
      assert.strictEqual(Tuple.compareBytes(inside, end), -1)
      const other = Uint8Array.from([1, ...key])
      const hasPrefix = hex(other).startsWith(hex(start))
      const isBetween = Tuple.compareBytes(start, other) <= 0 && Tuple.compareBytes(other, end) < 0
      assert.strictEqual(isBetween, hasPrefix)
    }), runs(1000))
})

describe("element classes", () => {
  it("refuse what they cannot hold", () => {
    const wrong: ReadonlyArray<() => unknown> = [
      () => new Tuple.Float("1" as never),
      () => new Tuple.Float(1e39),
      () => Tuple.Float.fromBits(2 ** 32),
      () => Tuple.Float.fromBits(-1),
      () => new Tuple.Double(1n as never),
      () => Tuple.Double.fromBits(2n ** 64n),
      () => Tuple.Double.fromBits(1 as never),
      () => new Tuple.Uuid(new Uint8Array(15)),
      () => new Tuple.Uuid("a" as never),
      () => Tuple.Uuid.fromString("1100aabbccddeeff1100aabbccddeeff"),
      () => Tuple.Uuid.fromString("1100aabb-ccdd-eeff-1100-aabbccddeefg"),
      () => Tuple.Uuid.fromString(1 as never),
      () => new Tuple.Versionstamp(new Uint8Array(12)),
      () => new Tuple.Versionstamp(new Uint8Array(10), 65_536),
      () => new Tuple.Versionstamp(new Uint8Array(10), -1),
      () => Tuple.Versionstamp.incomplete(0.5)
    ]
    for (const run of wrong) assert.strictEqual(refusal(run).reason, "InvalidArgument")
  })

  it("keep their bytes when the original changes", () => {
    const bytes = Buffer.alloc(16, 1)
    const id = new Tuple.Uuid(bytes)
    const stamp = new Tuple.Versionstamp(bytes.subarray(0, 10))
    bytes.fill(2)
    assert.deepStrictEqual(id.bytes, new Uint8Array(16).fill(1))
    assert.deepStrictEqual(stamp.bytes, new Uint8Array(10).fill(1))
  })

  it("show themselves", () => {
    assert.strictEqual(String(Tuple.Uuid.fromString("1100AABB-ccdd-eeff-1100-aabbccddeeff")), "1100aabb-ccdd-eeff-1100-aabbccddeeff")
    assert.strictEqual(String(new Tuple.Versionstamp(stampBytes, 3)), "Versionstamp(aabbccddeeff00010203, 3)")
    assert.strictEqual(String(Tuple.Versionstamp.incomplete(3)), "Versionstamp(incomplete, 3)")
    assert.strictEqual(String(new Tuple.Float(0.5)), "Float(0.5)")
    assert.strictEqual(String(new Tuple.Double(1)), "Double(1)")
  })

  it("are equal by value", () => {
    assert.isTrue(Equal.equals(new Tuple.Uuid(uuid.bytes), uuid))
    assert.isTrue(Equal.equals(new Tuple.Versionstamp(stampBytes, 1), new Tuple.Versionstamp(stampBytes, 1)))
    assert.isFalse(Equal.equals(new Tuple.Versionstamp(stampBytes, 1), new Tuple.Versionstamp(stampBytes, 2)))
    assert.isTrue(Equal.equals(new Tuple.Double(1), new Tuple.Double(1)))
    assert.isFalse(Equal.equals(new Tuple.Double(1), new Tuple.Float(1)))
  })

  it("round a float to 32 bits", () => {
    assert.strictEqual(new Tuple.Float(0.1).value, Math.fround(0.1))
    assert.deepStrictEqual(Tuple.Float.fromBits(0x3f800000), new Tuple.Float(1))
    assert.deepStrictEqual(Tuple.Double.fromBits(0x3ff0000000000000n), new Tuple.Double(1))
    assert.deepStrictEqual(Tuple.Double.fromBits(0x7ff8000000000000n), new Tuple.Double(NaN))
  })
})
