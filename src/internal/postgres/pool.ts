/**
 * Connections that are used by one at a time, and opened when they are needed.
 *
 * Owner: the layer.
 *
 * 1. Whoever takes a connection gives it back once. A lost one is not given again.
 * 2. Who waits is served in order. With nobody left to give back a connection, the first to wait tries to open one, and
 *    meets the error if that fails.
 * 3. What the last user left open is ended in front of the next one's first statement, or soon when nobody comes: a snapshot
 *    that stays open keeps vacuum from all tables.
 */
import type { Connection } from "./connection.ts"
import { closedError } from "./errors.ts"

const ROLLBACK = "ROLLBACK"

/** Whoever works comes again within it, and saves a message. */
const OPEN_MILLIS = 5

/** A connection, and what comes first on it. */
export interface Lease {
  readonly connection: Connection
  /** A statement that must come before those of the new user, or nothing. */
  readonly first: string
}

interface Idle {
  readonly connection: Connection
  /** Ends what the last user left open; absent where nothing is. */
  readonly ending: NodeJS.Timeout | undefined
}

interface Waiting {
  readonly resolve: (lease: Lease) => void
  readonly reject: (error: unknown) => void
}

export class Pool {
  readonly #size: number
  readonly #open: () => Promise<Connection>
  readonly #idle: Array<Idle> = []
  readonly #all = new Set<Connection>()
  readonly #waiting: Array<Waiting> = []
  #count = 0
  #closed = false
  #onEmpty: (() => void) | undefined

  constructor(size: number, open: () => Promise<Connection>) {
    this.#size = size
    this.#open = open
  }

  take(): Promise<Lease> {
    if (this.#closed) return Promise.reject(closedError())
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      const { connection, ending } = idle
      clearTimeout(ending)
      if (!connection.isLost) return Promise.resolve({ connection, first: ending === undefined ? "" : `${ROLLBACK}; ` })
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      this.#grow()
    })
  }

  /** Gives a connection back; `isOpen` when a transaction may be open on it. */
  give(connection: Connection, isOpen: boolean): void {
    if (connection.isLost) return
    if (this.#closed) return this.#discard(connection)
    const next = this.#waiting.shift()
    if (next !== undefined) return next.resolve({ connection, first: isOpen ? `${ROLLBACK}; ` : "" })
    const end = () => {
      this.#forget(connection)
      connection.query(ROLLBACK).then(() => this.give(connection, false), () => this.#discard(connection))
    }
    this.#idle.push({ connection, ending: isOpen ? setTimeout(end, OPEN_MILLIS) : undefined })
  }

  /** Ends all connections, once those in use are given back or lost. */
  close(): Promise<void> {
    this.#closed = true
    for (const { reject } of this.#waiting.splice(0)) reject(closedError())
    for (const { connection, ending } of this.#idle.splice(0)) {
      clearTimeout(ending)
      this.#discard(connection)
    }
    return new Promise((resolve) => {
      this.#onEmpty = resolve
      if (this.#count === 0) resolve()
    })
  }

  /** Ends what is in use: whoever has it meets the error. */
  abort(error: Error): void {
    for (const connection of Array.from(this.#all)) {
      if (!this.#idle.some((idle) => idle.connection === connection)) connection.lose(error)
    }
  }

  #grow(): void {
    if (this.#count >= this.#size) return
    this.#count++
    this.#open().then(
      (connection) => {
        this.#all.add(connection)
        connection.onLost(() => this.#removed(connection))
        this.give(connection, false)
      },
      (error) => {
        this.#count--
        this.#waiting.shift()?.reject(error)
        if (this.#closed && this.#count === 0) this.#onEmpty?.()
        else if (this.#waiting.length > 0 && this.#count === 0) this.#grow()
      }
    )
  }

  #discard(connection: Connection): void {
    connection.end().then(() => this.#removed(connection))
  }

  /** It is idle no more. */
  #forget(connection: Connection): void {
    const at = this.#idle.findIndex((idle) => idle.connection === connection)
    if (at >= 0) clearTimeout(this.#idle.splice(at, 1)[0]!.ending)
  }

  #removed(connection: Connection): void {
    if (!this.#all.delete(connection)) return
    this.#count--
    this.#forget(connection)
    if (this.#closed) {
      if (this.#count === 0) this.#onEmpty?.()
    } else if (this.#waiting.length > 0) this.#grow()
  }
}
