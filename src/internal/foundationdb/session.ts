/**
 * A layer's connection to a cluster: what of it is under way, and how it ends.
 *
 * Owner: the layer. Its transactions, watches and directories belong to it, and end with it.
 *
 * 1. Every operation of the client is counted until it settles: Node is kept alive by each of them, so a process can
 *    only end by itself when none is left. The client calls back from its own thread; a connection is closed when
 *    nothing calls back any more.
 * 2. After `close` no operation begins. Transactions that read are cancelled, armed watches fail as closed, and commits
 *    under way are waited for: each has a time limit of its own.
 * 3. Fibers are resumed with nothing left to do here, because they run at once.
 */
import * as Effect from "effect/Effect"
import { BackendError, Closed } from "../../BackendError.ts"
import { type Doing, toBackendError, toConnectError } from "./errors.ts"
import type { FdbDatabase, FdbPackage, FdbTransaction, FdbWatch } from "./package.ts"

/** How a layer connects. */
export interface Settings {
  readonly clusterFile: string | undefined
  readonly connectLimitMillis: number
  readonly transactionLimitMillis: number
  readonly maxWatches: number
}

/** The retry loop is ours: the client's own, which only directories could reach, is cut off. */
const CLIENT_RETRY_LIMIT = 10

/** How much later than the client's own time limit a client that does not keep it is given up. */
const CLIENT_GRACE_MILLIS = 2_000

/** A special key that the client answers itself: the coordinators, and before the `@` the cluster's name and id. */
const CONNECTION_STRING = Buffer.from("\xff\xff/connection_string", "latin1")

/**
 * So many operations can be under way while the client's network thread is stopped: the package has room for 16 calls
 * back, a commit has two, and some are left for one that has just failed; with no room left the thread would wait for ever.
 */
const STOPPABLE_OPERATIONS = 7

/** The operations of the process that have not settled, armed watches and connects among them. */
let underWay = 0

export const closedError = (): BackendError =>
  new BackendError({ reason: new Closed({ message: "the store's scope is closed" }) })

export class FoundationDbSession {
  readonly fdb: FdbPackage
  readonly #database: FdbDatabase
  readonly #settings: Settings
  readonly #reading = new Set<FdbTransaction>()
  readonly #watches = new Map<FdbWatch, () => void>()
  #pending = 0
  #idle: (() => void) | undefined
  #closed = false

  constructor(fdb: FdbPackage, database: FdbDatabase, settings: Settings) {
    this.fdb = fdb
    this.#database = database
    this.#settings = settings
  }

  /** A transaction that `end` has to be called for. */
  get begin(): Effect.Effect<FdbTransaction, BackendError> {
    return Effect.suspend(() => {
      if (this.#closed) return Effect.fail(closedError())
      try {
        const transaction = this.#database.rawCreateTransaction()
        this.#reading.add(transaction)
        return Effect.succeed(transaction)
      } catch (cause) {
        return Effect.fail(toBackendError(cause, "read"))
      }
    })
  }

  /** Ends a transaction: what it has not committed is cancelled, its watches too. */
  end(transaction: FdbTransaction, committed: boolean): void {
    if (this.#reading.delete(transaction) && !committed) transaction.rawCancel()
  }

  /** From now on the transaction is not cancelled when the layer ends (2). */
  committing(transaction: FdbTransaction): void {
    this.#reading.delete(transaction)
  }

  /** Awaits an operation of the client (1). */
  run<A>(operation: () => Promise<A>, doing: Doing, elapsedMillis: () => number): Effect.Effect<A, BackendError> {
    return Effect.callback((resume) => {
      const failed = (cause: unknown) =>
        resume(Effect.fail(
          this.#closed && doing === "read" ? closedError() : toBackendError(cause, doing, elapsedMillis())
        ))
      let promise: Promise<A>
      try {
        promise = operation()
      } catch (cause) {
        return failed(cause)
      }
      this.#begun()
      promise.then(
        (value) => {
          this.#settled()
          resume(Effect.succeed(value))
        },
        (cause) => {
          this.#settled()
          failed(cause)
        }
      )
    })
  }

  /** Follows a watch until it settles; `fail` is told when it is no longer watched. Ends it when `cancel` is called. */
  follow(watch: FdbWatch, fire: () => void, fail: (error: BackendError) => void): { readonly cancel: () => void } {
    this.#begun()
    const settle = (tell: () => void) => {
      this.#settled()
      if (this.#watches.delete(watch)) tell()
    }
    this.#watches.set(watch, () => fail(closedError()))
    watch.promise.then(
      () => settle(fire),
      (cause) => settle(() => fail(toBackendError(cause, "watch")))
    )
    return {
      cancel: () => {
        if (this.#watches.delete(watch)) watch.cancel()
      }
    }
  }

  /** Ends everything of the layer (2). */
  get close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#closed = true
      for (const transaction of this.#reading) transaction.rawCancel()
      this.#reading.clear()
      const watches = [...this.#watches]
      this.#watches.clear()
      for (const [watch, fail] of watches) {
        watch.cancel()
        fail()
      }
      return this.#quiet
    })
  }

  /** Closes the connection when nothing calls back any more (1), or when the client does not keep its time limits. */
  get #quiet(): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      const limit = this.#settings.transactionLimitMillis + CLIENT_GRACE_MILLIS
      const timer = setTimeout(() => done(), limit)
      const done = () => {
        clearTimeout(timer)
        this.#idle = undefined
        this.#database.close()
        resume(Effect.void)
      }
      this.#idle = done
      if (this.#pending === 0) done()
    })
  }

  #begun(): void {
    this.#pending++
    underWay++
  }

  #settled(): void {
    underWay--
    if (--this.#pending === 0) this.#idle?.()
  }
}

/** What the client reports when its time limit is over, for a client that does not report it. */
const SILENT = Object.assign(new Error("the client is silent"), { code: 1031 })

/** A connection, and what its cluster is called. */
export interface Connected {
  readonly session: FoundationDbSession
  readonly cluster: string
}

/** What a cluster is called, the same through every file that leads to it. */
const nameOf = (connectionString: Uint8Array | undefined, clusterFile: string): string =>
  connectionString === undefined ? clusterFile : Buffer.from(connectionString).toString("latin1").split("@")[0]!

/**
 * Opens a connection. With the first one, the package stops and awaits its network thread when the process exits, so that
 * it does not run into what the process takes down. Where many operations are under way that thread waits for the event
 * loop, which does not run any more, and the process would never end: then the thread is left alone, and the process may
 * end by a signal.
 */
const open = (fdb: FdbPackage, settings: Settings): FdbDatabase => {
  const before = process.listeners("exit")
  const database = fdb.open(settings.clusterFile, {
    max_watches: settings.maxWatches,
    transaction_timeout: settings.transactionLimitMillis,
    transaction_retry_limit: CLIENT_RETRY_LIMIT
  })
  for (const stop of process.listeners("exit")) {
    if (before.includes(stop)) continue
    process.off("exit", stop)
    process.on("exit", (code) => {
      if (underWay <= STOPPABLE_OPERATIONS) stop(code)
    })
  }
  return database
}

/**
 * Connects to a cluster, and waits until it answers. Fails with `InvalidArgument` for a file that cannot be used, and
 * with `Unavailable` when nothing answers within the time limit.
 */
export const connect = (
  fdb: FdbPackage,
  settings: Settings
): Effect.Effect<Connected, BackendError> => {
  const limit = settings.connectLimitMillis
  const clusterFile = settings.clusterFile ?? "the cluster file of FDB_CLUSTER_FILE or the system's default one"
  return Effect.suspend(() => {
    let database: FdbDatabase | undefined
    let transaction: FdbTransaction
    try {
      database = open(fdb, settings)
      transaction = database.rawCreateTransaction({ timeout: limit })
    } catch (cause) {
      database?.close()
      return Effect.fail(toConnectError(cause, clusterFile, limit))
    }
    const session = new FoundationDbSession(fdb, database, settings)
    const answer = Effect.callback<Connected, BackendError>((resume) => {
      const failed = (cause: unknown) => resume(Effect.fail(toConnectError(cause, clusterFile, limit)))
      const timer = setTimeout(() => failed(SILENT), limit + CLIENT_GRACE_MILLIS)
      underWay++
      const answered = transaction.getReadVersion().then(() => transaction.snapshot().get(CONNECTION_STRING))
      const settled = answered.finally(() => {
        underWay--
        clearTimeout(timer)
      })
      settled.then((found) => resume(Effect.succeed({ session, cluster: nameOf(found, clusterFile) })), failed)
      return Effect.sync(() => clearTimeout(timer))
    })
    return Effect.onError(answer, () => {
      transaction.rawCancel()
      return session.close
    })
  })
}
