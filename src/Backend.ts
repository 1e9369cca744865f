/**
 * The seam between this library and a store.
 *
 * A backend is an ordered key-value store with optimistic transactions: every read sees one snapshot, a commit is
 * refused when another transaction wrote what this one read, and a commit that succeeded is durable. A driver gives
 * only that: snapshots, reads, commits with their conflict ranges, and watches. Everything a program sees above it is
 * written once for all stores: reading one's own writes, limits, the retry loop, idempotence (`Transaction`, `Tenant`).
 *
 * Programs do not call a backend; they provide one of the layers `SqliteBackend.layer`, `MemoryBackend.layer` or
 * `FoundationDbBackend.layer`. Whoever writes another driver owes what each of its operations says here.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { BackendError } from "./BackendError.ts"

/**
 * The longest key in bytes, counted from the tenant, its prefix allowance included (FoundationDB's limit).
 *
 * @since 0.1.0
 * @category limits
 */
export const KEY_LIMIT_BYTES = 10_000

/**
 * What every key is charged for its tenant's prefix, whatever its length in the store at hand, so that what fits one
 * store fits all.
 *
 * @since 0.1.0
 * @category limits
 */
export const KEY_PREFIX_ALLOWANCE_BYTES = 64

/**
 * The longest value in bytes (FoundationDB's limit).
 *
 * @since 0.1.0
 * @category limits
 */
export const VALUE_LIMIT_BYTES = 100_000

/**
 * The largest transaction in bytes: keys and values of its mutations, and both ends of its conflict ranges
 * (FoundationDB's limit).
 *
 * @since 0.1.0
 * @category limits
 */
export const TRANSACTION_LIMIT_BYTES = 10_000_000

/**
 * The longest life of a transaction, from its first read to its commit (FoundationDB's limit).
 *
 * @since 0.1.0
 * @category limits
 */
export const TRANSACTION_LIMIT_MILLIS = 5_000

/**
 * A key and its value, as the store holds them.
 *
 * @since 0.1.0
 * @category models
 */
export interface KeyValue {
  readonly key: Uint8Array
  readonly value: Uint8Array
}

/**
 * The keys from `begin` (inclusive) to `end` (exclusive).
 *
 * @since 0.1.0
 * @category models
 */
export interface KeyRange {
  readonly begin: Uint8Array
  readonly end: Uint8Array
}

/**
 * One write of a commit. Mutations apply in their order. `add` is a little-endian addition that wraps, on a missing
 * value it starts from zero, and the result has the operand's length. The versionstamped forms replace the ten bytes
 * at `position` with the commit's versionstamp: 8 bytes commit version and 2 bytes order, big-endian, greater than
 * that of every earlier commit and of every read version before it.
 *
 * @since 0.1.0
 * @category models
 */
export type Mutation =
  | { readonly op: "set"; readonly key: Uint8Array; readonly value: Uint8Array }
  | { readonly op: "clear"; readonly key: Uint8Array }
  | { readonly op: "clearRange"; readonly begin: Uint8Array; readonly end: Uint8Array }
  | { readonly op: "add"; readonly key: Uint8Array; readonly operand: Uint8Array }
  | {
    readonly op: "versionstampedKey"
    readonly key: Uint8Array
    readonly position: number
    readonly value: Uint8Array
  }
  | {
    readonly op: "versionstampedValue"
    readonly key: Uint8Array
    readonly value: Uint8Array
    readonly position: number
  }

/**
 * A watch that a commit arms. The driver calls `fire` once when the key's value differs from what the transaction
 * saw, or wrote (spurious calls are allowed, lost ones only across a lost connection), or `fail` when it can watch no
 * longer; it sets `onCancel` to what frees its side. Watches of a transaction that does not commit are dropped.
 *
 * @since 0.1.0
 * @category models
 */
export interface WatchRequest {
  readonly key: Uint8Array
  readonly fire: () => void
  readonly fail: (error: BackendError) => void
  onCancel: (() => void) | undefined
  /** A driver whose watches are lost with the whole store only says so here: who waits then looks again less often. */
  isKept?: boolean
}

/**
 * What a driver is asked to commit. `writeConflicts` covers all mutations but those with a versionstamped key, whose
 * final key only the driver knows.
 *
 * @since 0.1.0
 * @category models
 */
export interface CommitRequest {
  readonly mutations: ReadonlyArray<Mutation>
  readonly readConflicts: ReadonlyArray<KeyRange>
  readonly writeConflicts: ReadonlyArray<KeyRange>
  readonly watches: ReadonlyArray<WatchRequest>
}

/**
 * One transaction of a driver. Its snapshot is taken at the first read, or at the commit when there was none.
 *
 * @since 0.1.0
 * @category models
 */
export interface DriverTransaction {
  /**
   * A lower bound of the commit version this transaction can get: that of its snapshot.
   */
  readonly readVersion: Effect.Effect<bigint, BackendError>
  readonly get: (key: Uint8Array) => Effect.Effect<Uint8Array | undefined, BackendError>
  readonly getRange: (
    begin: Uint8Array,
    end: Uint8Array,
    options: { readonly limit: number; readonly reverse: boolean }
  ) => Effect.Effect<ReadonlyArray<KeyValue>, BackendError>
  /**
   * Commits, and succeeds with the ten bytes of the versionstamp once the commit is durable. A driver that orders
   * commits in this process before they are durable calls `accepted` at the moment from which later transactions of
   * this process read these writes; it may still fail afterwards, and then what read them fails with it. A commit
   * that writes nothing succeeds when all that its transaction read is durable (at once, mostly), and never conflicts.
   */
  readonly commit: (request: CommitRequest, accepted: () => void) => Effect.Effect<Uint8Array, BackendError>
  /**
   * Ends the transaction. Always called once, after a commit too.
   */
  readonly close: () => void
}

/**
 * Opens and removes directories: paths of names, each with a short key prefix of its own.
 *
 * @since 0.1.0
 * @category models
 */
export interface Directory {
  /** The prefix of a path, made when it does not exist. */
  readonly open: (path: ReadonlyArray<string>) => Effect.Effect<Uint8Array, BackendError>
  /** Removes a path, all below it and all their keys. Succeeds with whether there was one. */
  readonly remove: (path: ReadonlyArray<string>) => Effect.Effect<boolean, BackendError>
  /**
   * Whether there is a path, and the names directly below one, or at the top for an empty path: for tools. Nothing is made.
   * Absent where a driver does not know them.
   */
  readonly exists?: ((path: ReadonlyArray<string>) => Effect.Effect<boolean, BackendError>) | undefined
  readonly list?: ((path: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<string>, BackendError>) | undefined
}

/**
 * Wake-ups within one process: hints without data, for who waits for a key. A listener that was added and not removed
 * is called by every later `notify` of its key.
 *
 * @since 0.1.0
 * @category models
 */
export interface Signals {
  readonly notify: (key: string) => void
  /** Adds a listener; the function it returns removes it. */
  readonly listen: (key: string, listener: () => void) => () => void
}

/**
 * A store, as the rest of the library uses it.
 *
 * @since 0.1.0
 * @category services
 */
export class Backend extends Context.Service<Backend, {
  /** What the store is called in errors, spans and metrics: `"sqlite"`, `"memory"`, `"foundationdb"`. */
  readonly name: string
  /** Sixteen bytes that no other process, and no other layer of this one, has: random, made with the layer. */
  readonly processId: Uint8Array
  /**
   * Whether a commit can fail with `CommitUnknown` in a store that goes on, so that `transact` must make itself idempotent.
   */
  readonly commitCanBeUnknown: boolean
  readonly begin: Effect.Effect<DriverTransaction, BackendError>
  readonly directory: Directory
  /** What is known at once within this process; shared by all layers on the same store. */
  readonly signals: Signals
  /**
   * Makes all later commits have greater versionstamps than a version, for data that comes from another store with
   * its versionstamps. Absent where the store alone says what its versions are.
   */
  readonly advance?: ((version: bigint) => Effect.Effect<void>) | undefined
}>()("effect-dgen/Backend") {}
