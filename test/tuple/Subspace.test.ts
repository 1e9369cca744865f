import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Equal } from "effect"
import * as Subspace from "../../src/Subspace.ts"
import * as Tuple from "../../src/Tuple.ts"
import { byte, tuple } from "./arbitrary.ts"
import { hex, refusal, runs } from "./support.ts"

describe("Subspace", () => {
  it.effect.prop(
    "packs behind its prefix and unpacks again",
    { prefix: tuple, key: tuple },
    ({ prefix, key }) =>
      Effect.sync(() => {
        const subspace = Subspace.make(prefix)
        const packed = subspace.pack(key)
        assert.strictEqual(hex(packed), hex(Tuple.pack([...prefix, ...key])))
        assert.isTrue(subspace.contains(packed))
        assert.deepStrictEqual(subspace.unpack(packed), Tuple.unpack(Tuple.pack(key)))
        assert.strictEqual(hex(Subspace.make().sub(...prefix).pack(key)), hex(packed))
      }),
    runs(500)
  )

  it.effect.prop("contains the keys that begin with its prefix, and no others", {
    prefix: Arbitrary.array(byte, { maxLength: 4 }),
    key: Arbitrary.array(byte, { maxLength: 6 })
  }, ({ prefix, key }) =>
    Effect.sync(() => {
      const subspace = Subspace.make(Uint8Array.from(prefix))
      const inside = Uint8Array.from([...prefix, ...key])
      assert.isTrue(subspace.contains(inside))
      for (let i = 0; i < prefix.length; i++) {
        const other = inside.slice()
        other[i]! ^= 1
        assert.isFalse(subspace.contains(other))
        assert.isFalse(subspace.contains(inside.slice(0, i)))
      }
    }), runs(500))

  it("takes a prefix of bytes, and keeps it when the original changes", () => {
    const bytes = Buffer.from([1, 2])
    const subspace = Subspace.make(bytes)
    bytes.fill(9)
    assert.deepStrictEqual(subspace.prefix, Uint8Array.of(1, 2))
    assert.strictEqual(hex(subspace.pack([true])), "010227")
  })

  it("is the subspace of all keys without a prefix", () => {
    assert.lengthOf(Subspace.make().prefix, 0)
    assert.isTrue(Subspace.make().contains(new Uint8Array(0)))
    assert.deepStrictEqual(Subspace.make().range(), Tuple.range([]))
  })

  it("has subspaces, which it contains, and which do not change it", () => {
    const users = Subspace.make(["users"])
    const ann = users.sub("ann", 1)
    assert.deepStrictEqual(ann.prefix, Tuple.pack(["users", "ann", 1]))
    assert.deepStrictEqual(users.prefix, Tuple.pack(["users"]))
    assert.isTrue(users.contains(ann.pack(["x"])))
    assert.isFalse(ann.contains(users.sub("ann", 2).pack(["x"])))
    assert.deepStrictEqual(users.unpack(ann.pack(["x"])), ["ann", 1, "x"])
  })

  it("has ranges of everything in it, or of everything behind a tuple", () => {
    const users = Subspace.make(["users"])
    assert.deepStrictEqual(users.range(), Tuple.range(["users"]))
    assert.deepStrictEqual(users.range(["ann", 1]), Tuple.range(["users", "ann", 1]))
  })

  it("refuses keys that are not in it, and keys that hold no tuple", () => {
    const subspace = Subspace.make(["a"])
    for (const key of [Subspace.make(["b"]).pack([1]), new Uint8Array(0), Uint8Array.of(2, 0x61)]) {
      const error = refusal(() => subspace.unpack(key))
      assert.strictEqual(error.reason, "OutsideSubspace")
      assert.match(error.message, /does not begin with the subspace's prefix/)
    }
    const malformed = refusal(() => subspace.unpack(Uint8Array.of(...subspace.prefix, 0xff)))
    assert.strictEqual(malformed.reason, "MalformedBytes")
    assert.strictEqual(malformed.offset, 3)
    assert.strictEqual(refusal(() => subspace.contains("a" as never)).reason, "InvalidArgument")
    assert.strictEqual(refusal(() => subspace.unpack(undefined as never)).reason, "InvalidArgument")
  })

  it("packs incomplete versionstamps with their place in the whole key", () => {
    const { bytes, position } = Subspace.make(["q"]).packVersionstamped([Tuple.Versionstamp.incomplete(1)])
    assert.strictEqual(hex(bytes), "027100" + "33" + "ff".repeat(10) + "0001")
    assert.strictEqual(position, 4)
  })

  it("refuses prefixes and elements that cannot be packed", () => {
    assert.strictEqual(refusal(() => Subspace.make("a" as never)).reason, "InvalidArgument")
    assert.strictEqual(refusal(() => Subspace.make([Tuple.Versionstamp.incomplete()])).reason, "IncompleteVersionstamp")
    const error = refusal(() => Subspace.make().sub("a", undefined as never))
    assert.strictEqual(error.reason, "UnsupportedElement")
    assert.deepStrictEqual(error.path, [1])
  })

  it("is a value", () => {
    assert.isTrue(Equal.equals(Subspace.make(["a"]), Subspace.make().sub("a")))
    assert.isFalse(Equal.equals(Subspace.make(["a"]), Subspace.make(["b"])))
    assert.isTrue(Subspace.isSubspace(Subspace.make()))
    assert.isFalse(Subspace.isSubspace({ prefix: new Uint8Array(0) }))
  })
})
