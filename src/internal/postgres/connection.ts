/**
 * One connection to a server.
 *
 * Owner: whoever has it from a pool, one at a time.
 *
 * 1. A text of statements is one message; nothing depends on what an earlier message left in the session, so a pooler may
 *    stand between that gives each transaction another session.
 * 2. It is lost at the first error that is not an answer to a statement, and whoever waits is told so. A server that does not
 *    answer within the time limit is given up like one that is gone.
 */
import { ConnectionLost, isLost } from "./errors.ts"
import type { PgClient, PgConfig, PgNotification, PgPackage, PgResult } from "./package.ts"

/** Longer than a transaction lives, and than a busy server makes a commit wait for its turn. */
export const ANSWER_LIMIT_MILLIS = 20_000

export class Connection {
  readonly #client: PgClient
  #lost: Error | undefined
  #onLost: (() => void) | undefined
  #fail: ((error: Error) => void) | undefined

  private constructor(client: PgClient) {
    this.#client = client
    client.on("error", (error) => this.lose(error))
    client.on("end", () => this.lose(new ConnectionLost("the connection ended")))
  }

  static async open(pg: PgPackage, config: PgConfig): Promise<Connection> {
    const client = new pg.Client(config)
    const connection = new Connection(client)
    try {
      await client.connect()
      return connection
    } catch (cause) {
      connection.lose(cause instanceof Error ? cause : new ConnectionLost(String(cause)))
      throw cause
    }
  }

  get isLost(): boolean {
    return this.#lost !== undefined
  }

  onLost(listener: () => void): void {
    this.#onLost = listener
    if (this.#lost !== undefined) listener()
  }

  onNotification(listener: (message: PgNotification) => void): void {
    this.#client.on("notification", listener)
  }

  /** Runs a text of statements, and succeeds with the rows of those that select. */
  query(text: string): Promise<ReadonlyArray<PgResult["rows"]>> {
    return new Promise((resolve, reject) => {
      if (this.#lost !== undefined) return reject(this.#lost)
      const timer = setTimeout(
        () => this.lose(new ConnectionLost(`the server did not answer within ${ANSWER_LIMIT_MILLIS} ms`)),
        ANSWER_LIMIT_MILLIS
      )
      const settle = () => {
        clearTimeout(timer)
        this.#fail = undefined
      }
      this.#fail = (error) => {
        settle()
        reject(error)
      }
      this.#client.query({ text, rowMode: "array" }).then(
        (answer) => {
          settle()
          const results = "length" in answer ? answer : [answer]
          resolve(results.filter(({ command }) => command === "SELECT").map(({ rows }) => rows))
        },
        (error: Error) => {
          settle()
          if (isLost(error)) this.lose(error)
          reject(error)
        }
      )
    })
  }

  /** Gives it up (2). */
  lose(error: Error): void {
    if (this.#lost !== undefined) return
    this.#lost = error
    this.#client.connection.stream.destroy()
    this.#fail?.(error)
    this.#onLost?.()
  }

  /** Ends it in order. */
  async end(): Promise<void> {
    if (this.#lost !== undefined) return
    this.#onLost = undefined
    this.#lost = new ConnectionLost("the connection was closed")
    await this.#client.end().catch(() => {})
  }
}
