/** A cluster of one process, in a folder of its own and on a free port, for tests and benchmarks. */
import { execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { findFoundationDb, type Found } from "../../scripts/foundationDb.mjs"

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
  /** Ends it for good. */
  readonly stop: () => void
  /** Kills its process, as a loss of power would; what it has promised is on its disk. */
  readonly kill: () => Promise<void>
  /** Starts its process again. */
  readonly start: () => void
}

/** Starts a cluster of one process; it ends with this one, if not before. */
export const startCluster = async (found: Found = findFoundationDb()): Promise<Cluster> => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "effect-dgen-fdb-"))
  const address = `127.0.0.1:${await freePort()}`
  const clusterFile = path.join(folder, "fdb.cluster")
  fs.writeFileSync(clusterFile, `test:${path.basename(folder).replace(/\W/g, "")}@${address}`)
  const where = ["--cluster-file", clusterFile, "--public-address", address, "--listen-address", "public"]
  const files = ["--datadir", path.join(folder, "data"), "--logdir", folder]
  const start = () =>
    spawn(found.fdbserver!, where.concat(files, "--parentpid", String(process.pid)), { stdio: "ignore" })
  let server = start()
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
  return {
    clusterFile,
    stop,
    kill: () =>
      new Promise((resolve) => {
        server.once("exit", () => resolve())
        server.kill("SIGKILL")
      }),
    start: () => {
      server = start()
    }
  }
}
