/**
 * The one error of the stores: `BackendError`, with a `reason` that says what happened, whether running the
 * transaction again can help (`isRetryable`), and whether the transaction may have been applied all the same
 * (`isMaybeCommitted`).
 *
 * `Tenant.transact` retries what is retryable by itself, so what reaches a program is final for that call: each
 * reason's `message` says what to do about it. Handle one reason with `Effect.catchReason("BackendError", ...)`.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

const TypeId = "~effect-dgen/BackendError"

/**
 * An unexpected fault of the store, kept whole: `code` is the store's own error code where it has one.
 */
const fields = {
  message: Schema.String,
  code: Schema.optionalKey(Schema.Union([Schema.String, Schema.Number])),
  cause: Schema.optionalKey(Schema.Defect())
}

/**
 * Another transaction wrote what this one read. `transact` runs the body again by itself; it surfaces only when the
 * retry time limit is over.
 *
 * @since 0.1.0
 * @category errors
 */
export class Conflict extends Schema.TaggedError<Conflict>("effect-dgen/BackendError/Conflict")("Conflict", fields) {
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return true
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * The transaction lived longer than 5 seconds, or its snapshot can no longer be read. `transact` runs the body again by
 * itself.
 *
 * @since 0.1.0
 * @category errors
 */
export class TransactionTooOld
  extends Schema.TaggedError<TransactionTooOld>("effect-dgen/BackendError/TransactionTooOld")(
    "TransactionTooOld",
    fields
  )
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return true
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * The store did not say whether the commit was applied, and it cannot be found out any more.
 *
 * @since 0.1.0
 * @category errors
 */
export class CommitUnknown
  extends Schema.TaggedError<CommitUnknown>("effect-dgen/BackendError/CommitUnknown")("CommitUnknown", fields)
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return true
  }
}

/**
 * The store does not answer: no cluster, a lock that another process holds too long, a connection that is gone.
 *
 * @since 0.1.0
 * @category errors
 */
export class Unavailable
  extends Schema.TaggedError<Unavailable>("effect-dgen/BackendError/Unavailable")("Unavailable", fields)
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return true
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * A key is longer than a store accepts (10,000 bytes, of which 64 are kept for the tenant's prefix).
 *
 * @since 0.1.0
 * @category errors
 */
export class KeyTooLarge
  extends Schema.TaggedError<KeyTooLarge>("effect-dgen/BackendError/KeyTooLarge")("KeyTooLarge", fields)
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * A value is longer than a store accepts (100,000 bytes).
 *
 * @since 0.1.0
 * @category errors
 */
export class ValueTooLarge
  extends Schema.TaggedError<ValueTooLarge>("effect-dgen/BackendError/ValueTooLarge")("ValueTooLarge", fields)
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * A transaction writes and reads more than a store accepts in one commit (10,000,000 bytes).
 *
 * @since 0.1.0
 * @category errors
 */
export class TransactionTooLarge
  extends Schema.TaggedError<TransactionTooLarge>("effect-dgen/BackendError/TransactionTooLarge")(
    "TransactionTooLarge",
    fields
  )
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * A transaction read a key or value that it had itself written with a versionstamp, which is not known before the
 * commit.
 *
 * @since 0.1.0
 * @category errors
 */
export class AccessedUnreadable
  extends Schema.TaggedError<AccessedUnreadable>("effect-dgen/BackendError/AccessedUnreadable")(
    "AccessedUnreadable",
    fields
  )
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * An argument cannot be used: an empty tenant path, a key element the tuple encoding does not know, a value that is not
 * bytes.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidArgument
  extends Schema.TaggedError<InvalidArgument>("effect-dgen/BackendError/InvalidArgument")("InvalidArgument", fields)
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * The file is a database, or a file, that this library did not make. It was not changed.
 *
 * @since 0.1.0
 * @category errors
 */
export class ForeignDatabase
  extends Schema.TaggedError<ForeignDatabase>("effect-dgen/BackendError/ForeignDatabase")("ForeignDatabase", fields)
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * The store was written by a newer version of this library. It was not changed.
 *
 * @since 0.1.0
 * @category errors
 */
export class NewerFormat
  extends Schema.TaggedError<NewerFormat>("effect-dgen/BackendError/NewerFormat")("NewerFormat", fields)
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * The store cannot be written: a read-only file, folder or file system.
 *
 * @since 0.1.0
 * @category errors
 */
export class ReadOnly extends Schema.TaggedError<ReadOnly>("effect-dgen/BackendError/ReadOnly")("ReadOnly", fields) {
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * The disk, or the quota, has no room for the commit. Nothing of it was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class DiskFull extends Schema.TaggedError<DiskFull>("effect-dgen/BackendError/DiskFull")("DiskFull", fields) {
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * The store's file is damaged, has lost its newest commits, or was taken away while it was open.
 *
 * @since 0.1.0
 * @category errors
 */
export class Corrupt extends Schema.TaggedError<Corrupt>("effect-dgen/BackendError/Corrupt")("Corrupt", fields) {
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * A client library or a package that the backend needs is not installed, or too old.
 *
 * @since 0.1.0
 * @category errors
 */
export class ClientMissing
  extends Schema.TaggedError<ClientMissing>("effect-dgen/BackendError/ClientMissing")("ClientMissing", fields)
{
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * The backend was used after its scope was closed.
 *
 * @since 0.1.0
 * @category errors
 */
export class Closed extends Schema.TaggedError<Closed>("effect-dgen/BackendError/Closed")("Closed", fields) {
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return false
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return false
  }
}

/**
 * Every reason a store can give.
 *
 * @since 0.1.0
 * @category models
 */
export type Reason =
  | Conflict
  | TransactionTooOld
  | CommitUnknown
  | Unavailable
  | KeyTooLarge
  | ValueTooLarge
  | TransactionTooLarge
  | AccessedUnreadable
  | InvalidArgument
  | ForeignDatabase
  | NewerFormat
  | ReadOnly
  | DiskFull
  | Corrupt
  | ClientMissing
  | Closed

/**
 * The schema of every reason a store can give.
 *
 * @since 0.1.0
 * @category models
 */
export const Reason: Schema.Codec<Reason, unknown> = Schema.Union([
  Conflict,
  TransactionTooOld,
  CommitUnknown,
  Unavailable,
  KeyTooLarge,
  ValueTooLarge,
  TransactionTooLarge,
  AccessedUnreadable,
  InvalidArgument,
  ForeignDatabase,
  NewerFormat,
  ReadOnly,
  DiskFull,
  Corrupt,
  ClientMissing,
  Closed
]) as any

/**
 * What fails when a store fails. `reason` says why, `message` repeats its sentence.
 *
 * @since 0.1.0
 * @category errors
 */
export class BackendError extends Schema.TaggedError<BackendError>("effect-dgen/BackendError")("BackendError", {
  reason: Reason
}) {
  readonly [TypeId] = TypeId
  override get message(): string {
    return `${this.reason._tag}: ${this.reason.message}`
  }
  /** Whether running the transaction again can succeed. */
  get isRetryable(): boolean {
    return this.reason.isRetryable
  }
  /** Whether the transaction may have been applied all the same. */
  get isMaybeCommitted(): boolean {
    return this.reason.isMaybeCommitted
  }
}

/**
 * Whether a value is a `BackendError`.
 *
 * **Example** (One reason by its name)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { BackendError, SqliteBackend, Tenant, Transaction } from "effect-dgen"
 *
 * const program = Tenant.transact(Transaction.get(["k"])).pipe(
 *   Effect.provide(Tenant.layer(["docs"]).pipe(Layer.provide(SqliteBackend.layer({ filename: ":memory:" })))),
 *   Effect.catchReason("BackendError", "InvalidArgument", (reason) => Effect.succeed(reason._tag))
 * )
 *
 * await Effect.runPromise(program)
 * // => "InvalidArgument"
 * BackendError.isBackendError(new Error("of something else"))
 * // => false
 * ```
 *
 * @since 0.1.0
 * @category guards
 */
export const isBackendError = (u: unknown): u is BackendError =>
  typeof u === "object" && u !== null && (u as any)[TypeId] === TypeId
