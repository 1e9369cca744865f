/**
 * Random numbers from a seed, for simulations: the same seed gives the same numbers, whoever asks in the same order.
 * The generator is sfc32: small, fast, and of a long period; nothing here is secret.
 */

/** A generator of random numbers. */
export class SeededRandom {
  #a: number
  #b: number
  #c: number
  #counter = 1

  constructor(seed: number, stream = 0) {
    this.#a = seed >>> 0
    this.#b = Math.floor(seed / 0x1_0000_0000) >>> 0
    this.#c = stream >>> 0
    // the first numbers of near seeds are alike
    for (let i = 0; i < 12; i++) this.#next()
  }

  /** A number from 0 (inclusive) to 1 (exclusive). */
  next(): number {
    return this.#next() / 0x1_0000_0000
  }

  /** A whole number from `low` to `high`, both inclusive. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1))
  }

  /** Whether something of a probability happens. */
  happens(probability: number | undefined): boolean {
    return probability !== undefined && probability > 0 && this.next() < probability
  }

  /** So many random bytes. */
  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.#next() & 0xff)
  }

  #next(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return sum >>> 0
  }
}
