/**
 * Connections that are used by one at a time, and opened when they are needed.
 *
 * Owner: the layer.
 *
 * 1. Whoever takes a connection gives it back once. A lost one is not given again.
 * 2. Who waits is served in order. With nobody left to give back a connection, the first to wait tries to open one, and
 *    meets the error if that fails.
 * 3. What the last user left open is ended in front of the next one's first statement, or at once when nobody waits.
 */
import type { Connection } from "./connection.ts"
import { closedError } from "./errors.ts"

const ROLLBACK = "ROLLBACK"

/** A connection, and what comes first on it. */
export interface Lease {
  readonly connection: Connection
  /** A statement that must come before those of the new user, or nothing. */
  readonly first: string
}

interface Waiting {
  readonly resolve: (lease: Lease) => void
  readonly reject: (error: unknown) => void
}

export class Pool {
  readonly #size: number
  readonly #open: () => Promise<Connection>
  readonly #idle: Array<Connection> = []
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
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      if (!connection.isLost) return Promise.resolve({ connection, first: "" })
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
    if (!isOpen) {
      this.#idle.push(connection)
      return
    }
    connection.query(ROLLBACK).then(() => this.give(connection, false), () => this.#discard(connection))
  }

  /** Ends all connections, once those in use are given back or lost. */
  close(): Promise<void> {
    this.#closed = true
    for (const { reject } of this.#waiting.splice(0)) reject(closedError())
    for (const connection of this.#idle.splice(0)) this.#discard(connection)
    return new Promise((resolve) => {
      this.#onEmpty = resolve
      if (this.#count === 0) resolve()
    })
  }

  /** Ends what is in use: whoever has it meets the error. */
  abort(error: Error): void {
    for (const connection of Array.from(this.#all)) if (!this.#idle.includes(connection)) connection.lose(error)
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

  #removed(connection: Connection): void {
    if (!this.#all.delete(connection)) return
    this.#count--
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
    if (this.#closed) {
      if (this.#count === 0) this.#onEmpty?.()
    } else if (this.#waiting.length > 0) this.#grow()
  }
}
