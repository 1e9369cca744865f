/**
 * A cluster for tests: the one that `FDB_CLUSTER_FILE` names, or a throwaway one of a single process, in a folder of its
 * own and on a free port, that ends with the tests of its file.
 *
 * Suites on it see a root directory of their own, which is removed at the end: a cluster keeps what earlier runs left.
 */
import { it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { Backend, type BackendError, FoundationDbBackend, Tenant } from "effect-dgen"
import { afterAll } from "vitest"
import { findFoundationDb, whySkipped } from "../../scripts/foundationDb.mjs"
import { startCluster } from "./throwawayCluster.ts"

const found = findFoundationDb()

/** Why there is no cluster, or `undefined`. */
export const skipped = whySkipped(found)

const cluster = skipped !== undefined
  ? undefined
  : found.clusterFile !== undefined
  ? { clusterFile: found.clusterFile, stop: () => {} }
  : await startCluster(found)

/** The cluster's file, where there is a cluster. */
export const clusterFile = cluster?.clusterFile

const root = `test-${Buffer.from(globalThis.crypto.getRandomValues(new Uint8Array(6))).toString("hex")}`

/** A backend whose directories lie under the root of this run. */
const under = (backend: Backend.Backend["Service"]): Backend.Backend["Service"] => ({
  ...backend,
  directory: {
    open: (names) => backend.directory.open([root, ...names]),
    remove: (names) => backend.directory.remove([root, ...names])
  }
})

const layer: Layer.Layer<Backend.Backend, BackendError.BackendError> = Layer.effect(
  Backend.Backend,
  Effect.map(
    Layer.build(FoundationDbBackend.layer({ clusterFile })),
    (context) => under(Context.get(context, Backend.Backend))
  )
)

if (cluster !== undefined) {
  afterAll(async () => {
    await Effect.runPromise(
      Effect.scoped(Effect.provide(Tenant.remove([root]), FoundationDbBackend.layer({ clusterFile })))
    )
    cluster.stop()
  })
}

/** Defines tests on the cluster, or one skipped test that says why there are none. */
export const onFoundationDb = (
  title: string,
  define: (layer: Layer.Layer<Backend.Backend, BackendError.BackendError>, clusterFile: string) => void
): void => {
  if (cluster === undefined) it.skip(`${title}: ${skipped}`, () => {})
  else define(layer, cluster.clusterFile)
}
