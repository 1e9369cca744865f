/**
 * The npm package `foundationdb`: what this library uses of it, and how it is loaded. The package is optional, so
 * nothing here is imported from it, its types neither.
 *
 * The package starts FoundationDB's network thread with the first connection and stops it when the process exits: a
 * network that was stopped cannot be started again, so no scope ends it. The thread does not keep a process alive;
 * what does is an operation or a watch that has not ended (see `session.ts`).
 */
import * as Effect from "effect/Effect"
import { BackendError, ClientMissing } from "../../BackendError.ts"
import { messageOfThrown } from "../data/thrown.ts"

/** The API that is asked of the client library: that of FoundationDB 7.1, which later ones speak too. */
export const API_VERSION = 710

/** An error of FoundationDB. */
export interface FdbError extends Error {
  readonly code: number
}

/** An armed watch. */
export interface FdbWatch {
  readonly promise: Promise<boolean>
  readonly cancel: () => void
}

interface FdbKeySelector {
  readonly key: Uint8Array
  readonly orEqual: boolean
  readonly offset: number
  readonly _isKeySelector: true
}

/** Rows of a range, and whether there are more. */
export interface FdbRows {
  readonly results: ReadonlyArray<readonly [Uint8Array, Uint8Array]>
  readonly more: boolean
}

/** One transaction. */
export interface FdbTransaction {
  readonly snapshot: () => FdbTransaction
  readonly get: (key: Uint8Array) => Promise<Uint8Array | undefined>
  readonly getRangeNative: (
    begin: FdbKeySelector,
    end: FdbKeySelector,
    limit: number,
    targetBytes: number,
    streamingMode: number,
    iteration: number,
    reverse: boolean
  ) => Promise<FdbRows>
  readonly set: (key: Uint8Array, value: Uint8Array) => void
  readonly clear: (key: Uint8Array) => void
  readonly clearRange: (begin: Uint8Array, end: Uint8Array) => void
  readonly atomicOpNative: (mutation: number, key: Uint8Array, operand: Uint8Array) => void
  readonly addReadConflictRange: (begin: Uint8Array, end: Uint8Array) => void
  readonly watch: (key: Uint8Array, options: { readonly throwAllErrors: boolean }) => FdbWatch
  readonly getReadVersion: () => Promise<Uint8Array>
  readonly getVersionstamp: () => { readonly promise: Promise<Uint8Array> }
  readonly rawCommit: () => Promise<void>
  readonly rawCancel: () => void
}

/** A connection to a cluster. */
export interface FdbDatabase {
  readonly rawCreateTransaction: (options?: { readonly timeout: number }) => FdbTransaction
  readonly close: () => void
}

interface FdbDirectory {
  readonly getSubspace: () => { readonly prefix: Uint8Array }
}

/** The package. */
export interface FdbPackage {
  readonly setAPIVersion: (version: number, headerVersion: number) => void
  readonly open: (
    clusterFile: string | undefined,
    options: {
      readonly max_watches: number
      readonly transaction_timeout: number
      readonly transaction_retry_limit: number
    }
  ) => FdbDatabase
  readonly directory: {
    readonly createOrOpen: (transaction: FdbTransaction, path: ReadonlyArray<string>) => Promise<FdbDirectory>
    readonly removeIfExists: (transaction: FdbTransaction, path: ReadonlyArray<string>) => Promise<boolean>
    readonly exists: (transaction: FdbTransaction, path: ReadonlyArray<string>) => Promise<boolean>
    readonly listAll: (transaction: FdbTransaction, path: ReadonlyArray<string>) => Promise<ReadonlyArray<Uint8Array>>
  }
  readonly keySelector: { readonly firstGreaterOrEqual: (key: Uint8Array) => FdbKeySelector }
  readonly MutationType: {
    readonly Add: number
    readonly SetVersionstampedKey: number
    readonly SetVersionstampedValue: number
  }
  readonly StreamingMode: { readonly WantAll: number }
}

// no literal: whoever compiles this without the package must not need it
const PACKAGE: string = "foundationdb"

/** Loads the package, which loads FoundationDB's client library. */
export const importPackage = (): Promise<FdbPackage> =>
  import(PACKAGE).then((module: { readonly default: FdbPackage }) => module.default)

const INSTALL_LIBRARY =
  "Install FoundationDB's client library, 7.1 or newer (the package foundationdb-clients), or name the folder of " +
  "libfdb_c in LD_LIBRARY_PATH before the process starts"

const missing = (message: string, cause: unknown): BackendError =>
  new BackendError({ reason: new ClientMissing({ message: `FoundationDbBackend.layer: ${message}`, cause }) })

/** Why the package could not be loaded, and what to do. */
const loadError = (cause: unknown): BackendError => {
  const { code } = Object(cause) as { readonly code?: unknown }
  const text = messageOfThrown(cause)
  if ((code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND") && text.includes(PACKAGE)) {
    return missing("the package \"foundationdb\" is not installed. Run npm install foundationdb@2", cause)
  }
  if (text.includes("No native build")) {
    return missing(
      `the package "foundationdb" has no binary for this machine (${text.split("\n")[0]}). Build it: npm rebuild ` +
        "foundationdb, with FoundationDB's headers installed",
      cause
    )
  }
  return missing(`FoundationDB's client library cannot be loaded: ${text.split("\n")[0]}. ${INSTALL_LIBRARY}`, cause)
}

/** Asks for our API, unless the program has already asked for one itself: a process has one. */
const selectApi = (fdb: FdbPackage): void => {
  try {
    fdb.setAPIVersion(API_VERSION, API_VERSION)
  } catch (cause) {
    if (messageOfThrown(cause).includes("already initialized")) return
    throw missing(
      `FoundationDB's client library does not speak API version ${API_VERSION}: ${messageOfThrown(cause)}. ` +
        INSTALL_LIBRARY,
      cause
    )
  }
}

/** The package, ready to connect. Fails with `ClientMissing`. */
export const load = (from: () => Promise<FdbPackage>): Effect.Effect<FdbPackage, BackendError> =>
  Effect.flatMap(
    Effect.tryPromise({ try: from, catch: loadError }),
    (fdb) => Effect.try({ try: () => (selectApi(fdb), fdb), catch: (error) => error as BackendError })
  )
