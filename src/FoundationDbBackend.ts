/**
 * The distributed backend: a FoundationDB cluster, shared by any number of processes of any number of machines. A commit
 * that was reported survives the loss of as many machines as the cluster's redundancy says.
 *
 * It uses the npm package `foundationdb`, an optional peer dependency that this module alone imports, when its layer is
 * built, and FoundationDB's client library (`libfdb_c`), 7.1 or newer. Where one of them is missing or nothing answers,
 * the layer fails with an error that says what to install or to check; nothing waits for ever.
 *
 * What you owe: the two installations, a cluster file that the process may read and write (the client keeps it up to
 * date), and Node's main thread (the package cannot be used in a worker). `docs/OPERATING.md` says more.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as fs from "node:fs"
import * as path from "node:path"
import { Backend } from "./Backend.ts"
import { BackendError, InvalidArgument } from "./BackendError.ts"
import { make } from "./internal/foundationdb/layer.ts"
import { importPackage } from "./internal/foundationdb/package.ts"
import type { Settings } from "./internal/foundationdb/session.ts"

/**
 * How long the layer waits for a cluster's first answer, in milliseconds: longer than a recovery of a healthy cluster
 * takes, shorter than a person's patience.
 *
 * @since 0.1.0
 * @category limits
 */
export const CONNECT_LIMIT_MILLIS = 10_000

/**
 * How long one transaction may take before the client gives it up, in milliseconds. Beyond the 5 seconds that the
 * cluster lets a transaction live, so that it is met only where nothing answers.
 *
 * @since 0.1.0
 * @category limits
 */
export const TRANSACTION_TIMEOUT_MILLIS = 10_000

/**
 * How many watches a connection may have: each running server has one, and each tenant layer with open calls has one.
 * The client's own default is 10,000, and 1,000,000 the most that it takes.
 *
 * @since 0.1.0
 * @category limits
 */
export const MAX_WATCHES = 100_000

const WATCHES_LIMIT = 1_000_000

/** The client's time limits are 32 bit numbers of milliseconds. */
const CLIENT_MILLIS_LIMIT = 2 ** 31 - 1

/**
 * How to connect. `clusterFile` defaults to the file that `FDB_CLUSTER_FILE` names, else to the system's own; a layer
 * fails when no cluster answers within `connectTimeout`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  readonly clusterFile?: string | undefined
  readonly connectTimeout?: Duration.Input | undefined
  readonly transactionTimeout?: Duration.Input | undefined
  readonly maxWatches?: number | undefined
}

const invalid = (message: string) =>
  Effect.fail(new BackendError({ reason: new InvalidArgument({ message: `FoundationDbBackend.layer: ${message}` }) }))

const millisOf = (name: string, input: Duration.Input | undefined, fallback: number) => {
  if (input === undefined) return Effect.succeed(fallback)
  const millis = Option.map(Duration.fromInput(input), Duration.toMillis)
  return Option.isSome(millis) && millis.value >= 1 && millis.value <= CLIENT_MILLIS_LIMIT
    ? Effect.succeed(Math.round(millis.value))
    : invalid(`${name} must be a duration of 1 ms to ${CLIENT_MILLIS_LIMIT} ms, not ${String(input)}`)
}

const settingsOf = Effect.fnUntraced(function*(options: Options): Effect.fn.Return<Settings, BackendError> {
  const clusterFile: unknown = options.clusterFile
  if (clusterFile !== undefined && (typeof clusterFile !== "string" || clusterFile === "")) {
    return yield* invalid(`clusterFile must be the path of a file, not ${JSON.stringify(clusterFile)}`)
  }
  if (typeof clusterFile === "string" && !fs.existsSync(clusterFile)) {
    return yield* invalid(
      `the cluster file ${path.resolve(clusterFile)} does not exist. Copy it from a server of the cluster, often ` +
        "/etc/foundationdb/fdb.cluster"
    )
  }
  const maxWatches = options.maxWatches ?? MAX_WATCHES
  if (!Number.isInteger(maxWatches) || maxWatches < 1 || maxWatches > WATCHES_LIMIT) {
    return yield* invalid(`maxWatches must be a whole number of 1 to ${WATCHES_LIMIT}, not ${String(maxWatches)}`)
  }
  return {
    clusterFile,
    connectLimitMillis: yield* millisOf("connectTimeout", options.connectTimeout, CONNECT_LIMIT_MILLIS),
    transactionLimitMillis: yield* millisOf(
      "transactionTimeout",
      options.transactionTimeout,
      TRANSACTION_TIMEOUT_MILLIS
    ),
    maxWatches
  }
})

/**
 * The backend of a cluster. Fails with `BackendError`: `ClientMissing` without the package `foundationdb` or a client
 * library of 7.1 or newer, `InvalidArgument` for an option or a cluster file that cannot be used, `Unavailable` when no
 * cluster answers within `connectTimeout`.
 *
 * **Example** (A tenant on the cluster of a file)
 *
 * ```ts
 * import { Layer } from "effect"
 * import { FoundationDbBackend, Tenant } from "effect-dgen"
 *
 * const store = Tenant.layer(["my-app", "counters"]).pipe(
 *   Layer.provide(FoundationDbBackend.layer({ clusterFile: "/etc/foundationdb/fdb.cluster" }))
 * )
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options = {}): Layer.Layer<Backend, BackendError> =>
  Layer.effect(Backend, Effect.flatMap(settingsOf(options), (settings) => make(settings, importPackage)))
