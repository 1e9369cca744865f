/**
 * A cluster for tests: the one that `FDB_CLUSTER_FILE` names, or a throwaway one of a single process, in a folder of its
 * own and on a free port, that ends with the tests of its file.
 *
 * Suites on it see a root directory of their own, which is removed at the end: a cluster keeps what earlier runs left.
 */
import { it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { Backend, type BackendError, FoundationDbBackend, Tenant } from "effect-dgen"
import { execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll } from "vitest"
import { findFoundationDb, type Found, whySkipped } from "../scripts/foundationDb.mjs"

/** Long enough for a busy machine to make a database. */
const CONFIGURE_SECONDS = 60

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as net.AddressInfo
      server.close(() => resolve(port))
    })
  })

export interface Cluster {
  readonly clusterFile: string
  readonly stop: () => void
}

/** Starts a cluster of one process; it ends with this one, if not before. */
export const startCluster = async (found: Found = findFoundationDb()): Promise<Cluster> => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "effect-dgen-fdb-"))
  const address = `127.0.0.1:${await freePort()}`
  const clusterFile = path.join(folder, "fdb.cluster")
  fs.writeFileSync(clusterFile, `test:${path.basename(folder).replace(/\W/g, "")}@${address}`)
  const where = ["--cluster-file", clusterFile, "--public-address", address, "--listen-address", "public"]
  const files = ["--datadir", path.join(folder, "data"), "--logdir", folder]
  const server = spawn(found.fdbserver!, where.concat(files, "--parentpid", String(process.pid)), { stdio: "ignore" })
  const stop = () => {
    server.kill("SIGKILL")
    fs.rmSync(folder, { recursive: true, force: true })
  }
  process.once("exit", stop)
  try {
    const make = ["--exec", "configure new single memory", "--timeout", String(CONFIGURE_SECONDS)]
    execFileSync(found.fdbcli!, ["-C", clusterFile, ...make], { stdio: "pipe" })
  } catch (cause) {
    stop()
    throw cause
  }
  return { clusterFile, stop }
}

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
