/**
 * The line of what has something to do: first come, first served, but for those that come back after a crash. They have a
 * line of their own, and one turn in `CRASHED_TURNS` while others wait: however many there are, they do not stand before
 * the others.
 */

/** With four, crashing servers take a quarter of the turns at the most while others wait. */
const CRASHED_TURNS = 4

/** So many that left are kept before the line is moved together. */
const LEFT_LIMIT = 4_096

class Lane<A> {
  #items: Array<A> = []
  #at = 0

  get size(): number {
    return this.#items.length - this.#at
  }

  push(item: A): void {
    this.#items.push(item)
  }

  take(): A | undefined {
    if (this.size === 0) return undefined
    const item = this.#items[this.#at++]
    if (this.#at > LEFT_LIMIT && this.#at * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#at)
      this.#at = 0
    }
    return item
  }
}

export class Line<A> {
  readonly #others = new Lane<A>()
  readonly #crashed = new Lane<A>()
  #turn = 0

  /** How many wait that have not crashed. */
  get size(): number {
    return this.#others.size
  }

  push(item: A, hasCrashed: boolean): void {
    const lane = hasCrashed ? this.#crashed : this.#others
    lane.push(item)
  }

  /** The one whose turn it is, if there is one. */
  take(): A | undefined {
    const [first, second] = ++this.#turn % CRASHED_TURNS === 0
      ? [this.#crashed, this.#others]
      : [this.#others, this.#crashed]
    return first.take() ?? second.take()
  }
}
