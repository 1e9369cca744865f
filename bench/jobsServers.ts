/** The servers that other libraries need: started in a temporary folder, ended with the benchmark. */
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { startServer } from "../test/postgres/throwawayServer.ts"

export interface Server {
  readonly socket: string
  readonly stop: () => Promise<void>
}

export interface Postgres {
  readonly connection: {
    readonly host: string
    readonly port: number
    readonly user: string
    readonly database: string
  }
  readonly stop: () => Promise<void>
}

const connects = (socket: string) =>
  new Promise<boolean>((resolve) => {
    const connection = net.connect(socket)
    connection.once("connect", () => {
      connection.destroy()
      resolve(true)
    })
    connection.once("error", () => resolve(false))
  })

/** Waits until a server answers; one that does not is ended. */
const answering = async (child: ChildProcess, folder: string, answers: () => Promise<boolean>) => {
  for (let i = 0; i < 300; i++) {
    if (await answers()) return
    if (child.exitCode !== null) break
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  await stopping(child, folder)()
  throw new Error(`${child.spawnfile} did not start`)
}

const stopping = (child: ChildProcess, folder: string) => async () => {
  if (child.exitCode === null) {
    const ended = new Promise((resolve) => child.once("exit", resolve))
    child.kill("SIGINT")
    await ended
  }
  fs.rmSync(folder, { recursive: true, force: true })
}

/** PostgreSQL as it comes: a commit is on the disk when it is answered. */
export const startPostgres = async (): Promise<Postgres> => {
  // on a disk: in memory a sync costs nothing
  const server = await startServer(["max_connections=200"], os.tmpdir())
  return { ...connectionOf(server.port), stop: () => Promise.resolve(server.stop()) }
}

/** How clients of `pg` reach a server of the tests. */
export const connectionOf = (port: number) => ({
  connection: { host: "127.0.0.1", port, user: "postgres", database: "postgres" }
})

/** Redis with every write on the disk before it is answered. */
export const startRedis = async (): Promise<Server> => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "bench-redis-"))
  const socket = path.join(folder, "redis.sock")
  const settings = ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction"]
  const child = spawn("redis-server", ["--port", "0", "--unixsocket", socket, "--dir", folder, ...settings], {
    stdio: "ignore"
  })
  await new Promise((resolve, reject) => {
    child.once("spawn", resolve)
    child.once("error", () => reject(new Error("there is no redis-server")))
  })
  await answering(child, folder, () => connects(socket))
  return { socket, stop: stopping(child, folder) }
}
