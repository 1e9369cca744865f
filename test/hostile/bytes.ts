/** Bytes that nobody wrote on purpose: random ones, and good ones with changes, all from a seed. */
import { SeededRandom } from "../../src/internal/simulation/random.ts"

/** Repeat a run with `HOSTILE_SEED=<seed>`; it is in the names of the tests. */
export const seed = Number(process.env.HOSTILE_SEED ?? Date.now() % 1_000_000)

export const randomOf = (stream: number): SeededRandom => new SeededRandom(seed, stream)

/** Bytes that mean something in one of the formats, and the ends of ranges. */
const TELLING = Buffer.from(
  "000102051415161c202130337f80818f9091929fa0a1bfc0c1c2c3c4c5c6c7cacbcccfd2d3d9dbdcdddedfe0ff",
  "hex"
)

const byte = (random: SeededRandom): number =>
  random.happens(0.5) ? TELLING[random.between(0, TELLING.length - 1)]! : random.between(0, 255)

export const randomBytes = (random: SeededRandom, most: number): Uint8Array =>
  Uint8Array.from({ length: random.between(0, most) }, () => byte(random))

/** Good bytes with one to four changes: bytes replaced, put in, taken out, doubled, or the end cut off. */
export const changed = (random: SeededRandom, good: Uint8Array): Uint8Array => {
  let bytes = Array.from(good)
  for (let left = random.between(1, 4); left > 0; left--) {
    const at = random.between(0, bytes.length)
    const length = random.between(1, 4)
    switch (random.between(0, 5)) {
      case 0:
        if (at < bytes.length) bytes[at] = byte(random)
        break
      case 1:
        if (at < bytes.length) bytes[at] = bytes[at]! ^ (1 << random.between(0, 7))
        break
      case 2:
        bytes.splice(at, 0, ...Array.from({ length }, () => byte(random)))
        break
      case 3:
        bytes.splice(at, length)
        break
      case 4:
        bytes.splice(at, 0, ...bytes.slice(at, at + length * 4))
        break
      case 5:
        bytes = bytes.slice(0, at)
    }
  }
  return Uint8Array.from(bytes)
}

const NAMES = ["a", "id", "", "__proto__", "toString", "valueOf", "toJSON", "constructor", "length", "then", "0"]

const NUMBERS = [0, -0, 1, -1, 0.5, 255, 2 ** 31, 2 ** 53 - 1, -(2 ** 53 - 1), 1e300, -1e300, 5e-324, 8.64e15 + 1]

const TEXTS = ["", "a", "call", "cast", "x".repeat(300), "\0", "💩", "__proto__"]

const SCALARS: ReadonlyArray<unknown> = [null, true, false, ...NUMBERS, ...TEXTS]

/** Plain data of any shape: what decodes, and is not what was asked for. */
export const plain = (random: SeededRandom, depth = 0): unknown => {
  const length = random.between(0, 4)
  switch (random.between(0, depth < 4 ? 5 : 3)) {
    case 0:
      return random.bytes(length === 4 ? 300 : length * 10)
    case 4:
      return Array.from({ length }, () => plain(random, depth + 1))
    case 5:
      return Object.fromEntries(
        Array.from(
          { length },
          () => [NAMES[random.between(0, NAMES.length - 1)]!, plain(random, depth + 1)] as const
        ).filter(([name]) => name !== "__proto__")
      )
    default:
      return SCALARS[random.between(0, SCALARS.length - 1)]
  }
}

/** A list with one to three of its parts replaced by something else, or taken out, or one more. */
export const reshaped = (random: SeededRandom, good: ReadonlyArray<unknown>): ReadonlyArray<unknown> => {
  const parts = [...good]
  for (let left = random.between(1, 3); left > 0; left--) {
    const at = random.between(0, parts.length)
    const part = parts[at]
    if (random.happens(0.15)) parts.splice(at, 1)
    else if (Array.isArray(part) && part.length > 0 && random.happens(0.6)) parts[at] = reshaped(random, part)
    else parts[at] = plain(random)
  }
  return parts
}
