/**
 * A driver's transaction on a cluster.
 *
 * Owner: one try of one transaction.
 *
 * 1. Reads are snapshot reads for the cluster: the read conflicts come from the request alone.
 * 2. They are added before the mutations: the client takes out of a read conflict what the transaction has written by
 *    then, and a read of a key that is also written would be forgotten.
 * 3. Write conflicts are the cluster's: it adds them for every mutation, for versionstamped keys with their final key.
 * 4. A watch is armed after the mutations, so it compares with what they write. It is told of nothing before the commit
 *    succeeded; after a commit that failed, never.
 * 5. A commit that writes nothing asks the cluster for nothing, unless it arms watches: what was read is durable.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { CommitRequest, DriverTransaction, KeyValue, Mutation, WatchRequest } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as Keys from "../data/keys.ts"
import { toBackendError } from "./errors.ts"
import type { FdbPackage, FdbTransaction } from "./package.ts"
import type { FoundationDbSession } from "./session.ts"

/** The longest row limit that the client takes; more rows than that do not fit a transaction's time. */
const ROW_LIMIT = 2 ** 31 - 1

const STAMP_BYTES = 10

/** Plain bytes: the package gives buffers. */
const plain = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const toVersion = (bytes: Uint8Array): bigint => new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0)

/** The cluster reads where a versionstamp goes from the last four bytes. */
const withPosition = (bytes: Uint8Array, position: number): Uint8Array => {
  const out = new Uint8Array(bytes.length + 4)
  out.set(bytes)
  new DataView(out.buffer).setUint32(bytes.length, position, true)
  return out
}

const apply = (fdb: FdbPackage, transaction: FdbTransaction, mutation: Mutation): void => {
  const { Add, SetVersionstampedKey, SetVersionstampedValue } = fdb.MutationType
  switch (mutation.op) {
    case "set":
      return transaction.set(mutation.key, mutation.value)
    case "clear":
      return transaction.clear(mutation.key)
    case "clearRange":
      return transaction.clearRange(mutation.begin, mutation.end)
    case "add":
      return transaction.atomicOpNative(Add, mutation.key, mutation.operand)
    case "versionstampedKey": {
      const key = withPosition(mutation.key, mutation.position)
      return transaction.atomicOpNative(SetVersionstampedKey, key, mutation.value)
    }
    case "versionstampedValue": {
      const value = withPosition(mutation.value, mutation.position)
      return transaction.atomicOpNative(SetVersionstampedValue, mutation.key, value)
    }
  }
}

/** A watch between its request and the end of its commit (4). */
interface Arming {
  readonly succeeded: () => void
  readonly dropped: () => void
}

const arm = (session: FoundationDbSession, transaction: FdbTransaction, request: WatchRequest): Arming => {
  let phase: "committing" | "armed" | "over" = "committing"
  let settled: (() => void) | undefined
  const settle = (tell: () => void) => {
    if (phase === "armed") {
      phase = "over"
      tell()
    } else if (phase === "committing") settled = tell
  }
  const { cancel } = session.follow(
    transaction.watch(request.key, { throwAllErrors: true }),
    () => settle(request.fire),
    (error) => settle(() => request.fail(error))
  )
  request.onCancel = () => {
    phase = "over"
    cancel()
  }
  return {
    succeeded: () => {
      if (phase !== "committing") return
      phase = settled === undefined ? "armed" : "over"
      settled?.()
    },
    dropped: () => {
      phase = "over"
      cancel()
    }
  }
}

class FoundationDbTransaction implements DriverTransaction {
  readonly #session: FoundationDbSession
  readonly #transaction: FdbTransaction
  readonly #snapshot: FdbTransaction
  #startedMillis: number | undefined
  #committed = false
  readonly #elapsedMillis = () => this.#startedMillis === undefined ? 0 : performance.now() - this.#startedMillis

  constructor(session: FoundationDbSession, transaction: FdbTransaction) {
    this.#session = session
    this.#transaction = transaction
    this.#snapshot = transaction.snapshot()
  }

  get readVersion(): Effect.Effect<bigint, BackendError> {
    return Effect.map(this.#read(() => this.#transaction.getReadVersion()), toVersion)
  }

  get(key: Uint8Array): Effect.Effect<Uint8Array | undefined, BackendError> {
    return Effect.map(
      this.#read(() => this.#snapshot.get(key)),
      (value) => value === undefined ? undefined : plain(value)
    )
  }

  getRange(
    begin: Uint8Array,
    end: Uint8Array,
    options: { readonly limit: number; readonly reverse: boolean }
  ): Effect.Effect<ReadonlyArray<KeyValue>, BackendError> {
    return this.#rows(begin, end, options.limit, options.reverse, 1, [])
  }

  commit(request: CommitRequest): Effect.Effect<Uint8Array, BackendError> {
    return Effect.suspend(() => request.mutations.length === 0 ? this.#commitRead(request) : this.#commitWrite(request))
  }

  close(): void {
    this.#session.end(this.#transaction, this.#committed)
  }

  #read<A>(operation: () => Promise<A>): Effect.Effect<A, BackendError> {
    return Effect.suspend(() => {
      this.#startedMillis ??= performance.now()
      return this.#session.run(operation, "read", this.#elapsedMillis)
    })
  }

  /** The rows of a range come in parts. */
  #rows(
    begin: Uint8Array,
    end: Uint8Array,
    limit: number,
    reverse: boolean,
    part: number,
    before: Array<KeyValue>
  ): Effect.Effect<ReadonlyArray<KeyValue>, BackendError> {
    const { StreamingMode, keySelector } = this.#session.fdb
    const read = this.#read(() =>
      this.#snapshot.getRangeNative(
        keySelector.firstGreaterOrEqual(begin),
        keySelector.firstGreaterOrEqual(end),
        // none for the client is 0
        limit > ROW_LIMIT ? 0 : limit,
        0,
        StreamingMode.WantAll,
        part,
        reverse
      )
    )
    return Effect.flatMap(read, ({ more, results }) => {
      for (const [key, value] of results) before.push({ key: plain(key), value: plain(value) })
      const left = limit - results.length
      const last = results.at(-1)?.[0]
      if (!more || left <= 0 || last === undefined) return Effect.succeed(before)
      return reverse
        ? this.#rows(begin, last, left, reverse, part + 1, before)
        : this.#rows(Keys.next(last), end, left, reverse, part + 1, before)
    })
  }

  /** See (5). The cluster gives such a commit no versionstamp. */
  #commitRead(request: CommitRequest): Effect.Effect<Uint8Array, BackendError> {
    const none = new Uint8Array(STAMP_BYTES)
    if (request.watches.length === 0) return Effect.succeed(none)
    const commit = this.#session.run(() => this.#transaction.rawCommit(), "read", this.#elapsedMillis)
    return this.#armed(request, () => Effect.as(commit, none))
  }

  #commitWrite(request: CommitRequest): Effect.Effect<Uint8Array, BackendError> {
    const transaction = this.#transaction
    try {
      for (const { begin, end } of request.readConflicts) transaction.addReadConflictRange(begin, end)
      for (const mutation of request.mutations) apply(this.#session.fdb, transaction, mutation)
    } catch (cause) {
      return Effect.fail(toBackendError(cause, "read", this.#elapsedMillis()))
    }
    return this.#armed(request, () => {
      this.#session.committing(transaction)
      const commit = () => {
        const stamp = transaction.getVersionstamp()
        // of a commit that fails it says only that there is none, and it may say so first
        return transaction.rawCommit().then(() => stamp.promise)
      }
      return Effect.map(this.#session.run(commit, "commit", this.#elapsedMillis), plain)
    })
  }

  /** Arms the watches of a commit (4). */
  #armed(
    request: CommitRequest,
    commit: () => Effect.Effect<Uint8Array, BackendError>
  ): Effect.Effect<Uint8Array, BackendError> {
    const watches: Array<Arming> = []
    try {
      for (const watch of request.watches) watches.push(arm(this.#session, this.#transaction, watch))
    } catch (cause) {
      for (const watch of watches) watch.dropped()
      return Effect.fail(toBackendError(cause, "read", this.#elapsedMillis()))
    }
    return Effect.onExit(commit(), (exit) =>
      Effect.sync(() => {
        this.#committed = Exit.isSuccess(exit)
        for (const watch of watches) {
          if (this.#committed) watch.succeeded()
          else watch.dropped()
        }
      }))
  }
}

/** Begins a transaction. */
export const begin = (session: FoundationDbSession): Effect.Effect<DriverTransaction, BackendError> =>
  Effect.map(session.begin, (transaction) => new FoundationDbTransaction(session, transaction))
