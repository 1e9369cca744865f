/**
 * The embedded backend: one SQLite file, used by any number of processes of one machine, with nothing to install. A
 * commit that was reported survives a crash and a loss of power (WAL with `synchronous=FULL`), and concurrent commits of
 * a process share a disk sync.
 *
 * What you owe: the file lies on a local disk (not on a network file system), in a folder that exists.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as fs from "node:fs"
import * as path from "node:path"
import { Backend } from "./Backend.ts"
import { BackendError, InvalidArgument, isBackendError } from "./BackendError.ts"
import * as Directory from "./internal/directory.ts"
import { isBusy, SqliteFile } from "./internal/sqliteFile.ts"
import { SqliteStore } from "./internal/sqliteStore.ts"

/** How long a file that another process is just making is tried again, and how often. */
const OPEN_RETRIES = 200
const OPEN_RETRY_MILLIS = 10

interface Shared {
  readonly store: SqliteStore
  layers: number
}

/** The open files of this process, by real path. */
const open = new Map<string, Shared>()

const realPath = (filename: string): string => {
  const absolute = path.resolve(filename)
  try {
    return fs.realpathSync(absolute)
  } catch {
    const folder = path.dirname(absolute)
    return fs.existsSync(folder) ? path.join(fs.realpathSync(folder), path.basename(absolute)) : absolute
  }
}

const acquire = (filename: string): Effect.Effect<Shared, BackendError> =>
  Effect.suspend(() => {
    const file = realPath(filename)
    const shared = open.get(file)
    if (shared !== undefined) {
      shared.layers++
      return Effect.succeed(shared)
    }
    try {
      const opened: Shared = { store: new SqliteStore(SqliteFile.open(file)), layers: 1 }
      open.set(file, opened)
      return Effect.succeed(opened)
    } catch (cause) {
      return isBackendError(cause) ? Effect.fail(cause) : Effect.die(cause)
    }
  })

const release = (filename: string, shared: Shared): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    shared.layers--
    if (shared.layers > 0) return resume(Effect.void)
    open.delete(realPath(filename))
    shared.store.onDrained(() => {
      shared.store.close()
      resume(Effect.void)
    })
  })

/**
 * The backend of a file, made when it does not exist. Fails with `BackendError`: `InvalidArgument` for a folder that
 * does not exist and for `":memory:"` (use `MemoryBackend`), `ForeignDatabase`, `NewerFormat`, `ReadOnly`, `DiskFull` or
 * `Corrupt`, each of which says what to do and changed nothing.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: { readonly filename: string }): Layer.Layer<Backend, BackendError> =>
  Layer.effect(
    Backend,
    Effect.gen(function*() {
      const filename: unknown = options.filename
      if (typeof filename !== "string" || filename === "" || filename === ":memory:") {
        return yield* new BackendError({
          reason: new InvalidArgument({
            message: `SqliteBackend.layer: the filename must be the path of a file, not ${
              JSON.stringify(filename)
            }. For a store in memory use MemoryBackend.layer`
          })
        })
      }
      const { store } = yield* Effect.acquireRelease(
        Effect.retry(acquire(filename), {
          times: OPEN_RETRIES,
          while: (error) => isBusy(error) ? Effect.as(Effect.sleep(OPEN_RETRY_MILLIS), true) : Effect.succeed(false)
        }),
        (shared) => release(filename, shared)
      )
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
        signals: store.signals
      })
    })
  )
