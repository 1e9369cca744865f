import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Equal, Schema } from "effect"
import * as fdbTuple from "fdb-tuple"
import * as Tuple from "../../src/Tuple.ts"
import { byte, plainTuple, tuple, tuplePair } from "./arbitrary.ts"
import { concat, fromHex, hex, loneSurrogate, refusal, runs, unpacked } from "./support.ts"
import { stampBytes, uuid, vectors } from "./vectors.ts"

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
      if (loneSurrogate.test(text)) return
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
        assert.strictEqual(
          Tuple.compareBytes(Tuple.pack([ascending[i]!]), Tuple.pack([ascending[j]!])),
          expected,
          where
        )
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

  it("has room for every element, wherever in the buffer it begins", () => {
    const elements: Tuple.Tuple = [
      null,
      true,
      "\uffff".repeat(40),
      "\0".repeat(40),
      new Uint8Array(40),
      Number.MAX_SAFE_INTEGER,
      -(2n ** 64n) + 1n,
      2n ** 2000n,
      0.5,
      new Tuple.Float(0.5),
      uuid,
      new Tuple.Versionstamp(stampBytes, 1),
      [null, [null]]
    ]
    for (const element of elements) {
      const alone = hex(Tuple.pack([element]))
      for (let size = 700; size < 1030; size++) {
        // a refusal drops the buffer, and the next one is new and small
        refusal(() => Tuple.pack([undefined as never]))
        const prefix = new Uint8Array(size)
        if (hex(Tuple.pack([element], prefix)) !== hex(prefix) + alone) assert.fail(`${String(element)} behind ${size}`)
      }
    }
  })

  it.effect.prop(
    "puts the prefix in front",
    { prefix: Arbitrary.array(byte), tuple },
    ({ prefix, tuple }) =>
      Effect.sync(() => {
        const bytes = Uint8Array.from(prefix)
        const key = Tuple.pack(tuple, bytes)
        assert.strictEqual(hex(key), hex(bytes) + hex(Tuple.pack(tuple)))
        assert.deepStrictEqual(Tuple.unpack(key, bytes.length), tuple.map(unpacked))
      }),
    runs(300)
  )
})

describe("incomplete versionstamps", () => {
  it("are packed with the place to fill in, at any depth and behind any prefix", () => {
    const prefix = fromHex("0102")
    const template = Tuple.packVersionstamped(["q", [1, Tuple.Versionstamp.incomplete(0x0102)], "x"], prefix)
    assert.strictEqual(
      hex(template.bytes),
      "0102" + "027100" + "05" + "1501" + "33" + "ff".repeat(10) + "0102" + "00" + "027800"
    )
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
    for (const last of ["", "ff", "ffff"]) {
      assert.strictEqual(refusal(() => Tuple.strinc(fromHex(last))).reason, "NoSuccessor")
    }
    assert.strictEqual(refusal(() => Tuple.strinc("a" as never)).reason, "InvalidArgument")
  })

  it.effect.prop("end behind a prefix: every key with it, and no other, is before", {
    prefix: Arbitrary.array(byte),
    key: Arbitrary.array(byte)
  }, (
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
    assert.strictEqual(
      String(Tuple.Uuid.fromString("1100AABB-ccdd-eeff-1100-aabbccddeeff")),
      "1100aabb-ccdd-eeff-1100-aabbccddeeff"
    )
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
