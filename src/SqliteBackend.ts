/**
 * The embedded backend: one SQLite file, used by any number of processes of one machine, with nothing to install. A
 * commit that was reported survives a crash and a loss of power, and concurrent commits of a process share a disk sync. On
 * Linux the sync runs on another thread, and so does the copying of the log into the database: the event loop waits for neither.
 *
 * What you owe: the file lies on a local disk (not on a network file system), in a folder that exists. Nobody in the
 * process opens it but Node's own SQLite, not even to copy it: closing any descriptor drops the locks of the process. Beside
 * it lie its log (`-wal`), which may hold the newest commits alone, what processes share (`-shm`), and the version that it
 * must reach (`-version`): a file that lost commits is refused with `Corrupt`, so whoever restores an older one deletes its
 * `-version`. Files that are removed, replaced or cut while they are open are noticed before the next commit is answered. When a
 * sync fails, the commits that waited for it fail with `CommitUnknown`, and all else with `Corrupt`, until the file is opened again.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Formatter from "effect/Formatter"
import * as Layer from "effect/Layer"
import { Backend } from "./Backend.ts"
import { BackendError, InvalidArgument, isBackendError } from "./BackendError.ts"
import { isBusy, toBackendError } from "./internal/sqlite/errors.ts"
import { SqliteFile } from "./internal/sqlite/file.ts"
import { files, idOf, realPath, type Shared } from "./internal/sqlite/registry.ts"
import { pause, SqliteStore } from "./internal/sqlite/store.ts"
import * as Directory from "./internal/stores/directory.ts"

/** A file that another process is just making or recovering is tried again, this often. */
const OPEN_RETRIES = 500
const OPEN_RETRY_MILLIS = 10

const openStore = (filename: string): SqliteStore => {
  const file = SqliteFile.open(filename)
  try {
    return new SqliteStore(file)
  } catch (cause) {
    file.close()
    throw cause
  }
}

/** The open file of a name, opened if it is not. */
const find = (filename: string): Shared => {
  const file = realPath(filename)
  try {
    const known = idOf(file)
    const open = known === undefined ? undefined : files.get(known)
    if (open !== undefined) return open
    const shared = { store: openStore(file), id: idOf(file)!, layers: 0 }
    files.set(shared.id, shared)
    return shared
  } catch (cause) {
    throw toBackendError(file, cause)
  }
}

const acquire = (filename: string, tries = OPEN_RETRIES): Effect.Effect<Shared, BackendError> =>
  Effect.suspend(() => {
    try {
      const shared = find(filename)
      shared.layers++
      return Effect.succeed(shared)
    } catch (cause) {
      if (!isBackendError(cause)) return Effect.die(cause)
      return tries > 0 && isBusy(cause)
        ? Effect.andThen(pause(OPEN_RETRY_MILLIS), acquire(filename, tries - 1))
        : Effect.fail(cause)
    }
  })

/** Waits for what was accepted, then closes the file unless another layer has come to use it. */
const release = (shared: Shared): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    shared.layers--
    if (shared.layers > 0) return resume(Effect.void)
    shared.store.onDrained(() => {
      if (shared.layers === 0 && files.get(shared.id) === shared) {
        files.delete(shared.id)
        shared.store.close()
      }
      resume(Effect.void)
    })
  })

/**
 * The backend of a file, made when it does not exist; a relative `filename` begins at the working directory. Layers of
 * one file in one thread share its connection, by whatever names, and the last one closes it when its commits are on the
 * disk; worker threads have connections of their own, as processes do.
 *
 * Fails with `BackendError`: `InvalidArgument` for a folder that does not exist, for a device or a pipe, for a hard
 * link that is not the name in use, and for `":memory:"` (use `MemoryBackend`), `ForeignDatabase`, `NewerFormat`, `ReadOnly`, `DiskFull` or `Corrupt`, each of which says what to
 * do and changed nothing; `Unavailable` when another process held the file's lock for five seconds.
 *
 * **Example** (What was written is there when the file is opened again)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { SqliteBackend, Tenant, Transaction } from "effect-dgen"
 * import * as fs from "node:fs"
 * import * as os from "node:os"
 * import * as path from "node:path"
 *
 * const folder = fs.mkdtempSync(path.join(os.tmpdir(), "docs-"))
 * const store = Tenant.layer(["docs"]).pipe(
 *   Layer.provide(SqliteBackend.layer({ filename: path.join(folder, "app.db") }))
 * )
 *
 * await Effect.runPromise(Tenant.transact(Transaction.set(["k"], Uint8Array.of(1))).pipe(Effect.provide(store)))
 * await Effect.runPromise(Tenant.transact(Transaction.get(["k"])).pipe(Effect.provide(store)))
 * // => Uint8Array.of(1)
 *
 * fs.rmSync(folder, { recursive: true })
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: { readonly filename: string }): Layer.Layer<Backend, BackendError> =>
  Layer.effect(
    Backend,
    Effect.gen(function*() {
      const filename: unknown = (options as { readonly filename: unknown } | null | undefined)?.filename
      if (typeof filename !== "string" || filename === "" || filename === ":memory:" || filename.includes("\0")) {
        return yield* new BackendError({
          reason: new InvalidArgument({
            message:
              `SqliteBackend.layer: the filename must be the path of a file, not ${Formatter.format(filename)}. ` +
              "For a store in memory use MemoryBackend.layer"
          })
        })
      }
      const { store } = yield* Effect.acquireRelease(acquire(filename), release)
      const session = yield* Effect.acquireRelease(
        Effect.sync(() => store.store.open()),
        (opened) => Effect.sync(() => opened.close())
      )
      return Backend.of({
        name: "sqlite",
        processId: globalThis.crypto.getRandomValues(new Uint8Array(16)),
        commitCanBeUnknown: false,
        begin: session.begin,
        directory: Directory.make(session.begin),
        signals: store.signals,
        advance: (version) => Effect.sync(() => store.store.advance(Number(version)))
      })
    })
  )
