/** The servers that other libraries need: started in a temporary folder, ended with the benchmark. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"

export interface Server {
  /** The socket, or for PostgreSQL the folder of it. */
  readonly socket: string
  readonly stop: () => Promise<void>
}

/** PostgreSQL refuses to run as root: then it runs as the user that Debian's package makes. */
const unprivileged = (): { readonly uid: number; readonly gid: number } | undefined => {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }))
  return { uid: id("-u"), gid: id("-g") }
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
export const startPostgres = async (): Promise<Server> => {
  const versions = "/usr/lib/postgresql"
  const found = fs.existsSync(versions) ? fs.readdirSync(versions).sort().at(-1) : undefined
  if (found === undefined) throw new Error(`there is no PostgreSQL in ${versions}`)
  const bin = path.join(versions, found, "bin")
  const owner = unprivileged()
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "bench-postgres-"))
  if (owner !== undefined) fs.chownSync(folder, owner.uid, owner.gid)
  const options = { cwd: folder, stdio: "ignore", ...owner } as const
  execFileSync(path.join(bin, "initdb"), ["-D", path.join(folder, "data"), "-U", "bench", "--auth=trust"], options)
  const args = ["-D", path.join(folder, "data"), "-k", folder, "-c", "listen_addresses=", "-c", "max_connections=100"]
  const child = spawn(path.join(bin, "postgres"), args, options)
  // it listens for a while before it can make a database
  const createdb = () =>
    new Promise<boolean>((resolve) => {
      const made = spawn(path.join(bin, "createdb"), ["-h", folder, "-U", "bench", "bench"], options)
      made.once("exit", (code) => resolve(code === 0))
    })
  await answering(child, folder, createdb)
  return { socket: folder, stop: stopping(child, folder) }
}

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
