/**
 * Tuples with their bytes, as the encoding's specification and the tests of FoundationDB's bindings give them.
 */
import * as Tuple from "../../src/Tuple.ts"
import { fromHex } from "./support.ts"

export const uuid = Tuple.Uuid.fromString("1100aabb-ccdd-eeff-1100-aabbccddeeff")
export const stampBytes = fromHex("aabbccddeeff00010203")

export const vectors: ReadonlyArray<readonly [string, Tuple.Tuple, string]> = [
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
