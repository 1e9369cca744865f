/** One queue of each library, behind one face: the same work for all. */
import { Effect, Layer, ManagedRuntime, Schema } from "effect"
import { type Backend, Jobs, SqliteBackend, Tenant } from "effect-dgen"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { type Postgres, startRedis } from "./jobsServers.ts"

export interface Payload {
  readonly n: number
  readonly text: string
}

/** An empty queue of a library. */
export interface Queue {
  /** Adds a job: durable when it is answered. */
  readonly add: (payload: Payload) => Promise<unknown>
  /** Starts workers, so many handlers at once. */
  readonly work: (workers: number) => Promise<void>
  /** How many jobs are finished, durably. */
  readonly finished: () => Promise<number>
  readonly end: () => Promise<void>
}

export interface Contender {
  readonly name: string
  readonly note: string
  readonly open: () => Promise<Queue>
  readonly stop: () => Promise<void>
}

/** Jobs that pg-boss fetches and completes together: one at a time, it waits for half a second between two. */
const PG_BOSS_BATCH = 50

/** A store of its own for each queue, and what takes it away. */
export interface OwnStore {
  readonly backend: Layer.Layer<Backend.Backend, unknown>
  readonly remove: () => void
}

export const onSqlite = (): OwnStore => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "bench-sqlite-"))
  return {
    backend: SqliteBackend.layer({ filename: path.join(folder, "jobs.db") }),
    remove: () => fs.rmSync(folder, { recursive: true })
  }
}

export const effectDgen = (note: string, store: () => OwnStore): Contender => {
  const Work = Jobs.make("work", { data: Schema.Struct({ n: Schema.Number, text: Schema.String }) })
  return {
    name: "effect-dgen",
    note,
    open: async () => {
      const { backend, remove } = store()
      const runtime = ManagedRuntime.make(Layer.provide(Tenant.layer(["bench"]), backend))
      let workers: ManagedRuntime.ManagedRuntime<never, any> | undefined
      return {
        add: (payload) => runtime.runPromise(Tenant.transact(Work.add(payload.n, payload))),
        work: async (concurrency) => {
          const tenant = Layer.succeed(Tenant.Tenant, await runtime.runPromise(Tenant.Tenant))
          workers = ManagedRuntime.make(Layer.provide(Work.workerLayer(() => Effect.void, { concurrency }), tenant))
          await workers.context()
        },
        finished: async () => (await runtime.runPromise(Tenant.transact(Work.counts))).finished,
        end: async () => {
          await workers?.dispose()
          await runtime.dispose()
          remove()
        }
      }
    },
    stop: async () => {}
  }
}

export const pgBoss = async (server: Postgres): Promise<Contender> => {
  const { PgBoss } = await import("pg-boss")
  return {
    name: "pg-boss",
    note: `PostgreSQL, batches of ${PG_BOSS_BATCH}`,
    open: async () => {
      const boss = new PgBoss({ ...server.connection, max: 16 })
      boss.on("error", () => {})
      await boss.start()
      const name = `bench-${process.hrtime.bigint()}`
      await boss.createQueue(name)
      const { Pool } = (await import("pg")).default
      const pool = new Pool({ ...server.connection, max: 1 })
      return {
        add: (payload) => boss.send(name, payload),
        work: async (workers) => {
          const options = {
            batchSize: PG_BOSS_BATCH,
            burstWhenBatchFull: true,
            pollingIntervalSeconds: 0.5,
            localConcurrency: workers
          }
          await boss.work(name, options, async () => {})
        },
        finished: async () => {
          const text = "SELECT count(*) FROM pgboss.job WHERE name = $1 AND state = 'completed'"
          return Number((await pool.query(text, [name])).rows[0].count)
        },
        end: async () => {
          await boss.stop({ graceful: false })
          await pool.end()
        }
      }
    },
    stop: server.stop
  }
}

export const graphileWorker = async (server: Postgres): Promise<Contender> => {
  const { Logger, makeWorkerUtils, run } = await import("graphile-worker")
  const { Pool } = (await import("pg")).default
  const logger = new Logger(() => () => {})
  return {
    name: "graphile-worker",
    note: "PostgreSQL, local queue",
    open: async () => {
      const pgPool = new Pool({ ...server.connection, max: 20 })
      // it asks for handlers, and warns where there are none
      pgPool.on("error", () => {})
      pgPool.on("connect", (client) => client.on("error", () => {}))
      const utils = await makeWorkerUtils({ pgPool, logger })
      await utils.migrate()
      await pgPool.query("TRUNCATE graphile_worker._private_jobs")
      let added = 0
      let runner: Awaited<ReturnType<typeof run>> | undefined
      return {
        add: (payload) => {
          added++
          return utils.addJob("work", payload)
        },
        work: async (workers) => {
          runner = await run({
            pgPool,
            logger,
            concurrency: workers,
            noHandleSignals: true,
            taskList: { work: async () => {} },
            preset: {
              worker: { pollInterval: 100, localQueue: { size: 2 * workers }, completeJobBatchDelay: 0 }
            }
          })
        },
        finished: async () => {
          const { rows } = await pgPool.query("SELECT count(*) FROM graphile_worker._private_jobs")
          return added - Number(rows[0].count)
        },
        end: async () => {
          await runner?.stop()
          await utils.release()
          await pgPool.end()
        }
      }
    },
    stop: server.stop
  }
}

export const bullmq = async (): Promise<Contender> => {
  const { Queue, Worker } = await import("bullmq")
  const server = await startRedis()
  const connection = { path: server.socket, maxRetriesPerRequest: null }
  return {
    name: "bullmq",
    note: "Redis, appendfsync always",
    open: async () => {
      const name = `bench-${process.hrtime.bigint()}`
      const queue = new Queue(name, { connection })
      await queue.waitUntilReady()
      let close: (() => Promise<void>) | undefined
      return {
        add: (payload) => queue.add("work", payload),
        work: async (concurrency) => {
          const worker = new Worker(name, async () => {}, { connection, concurrency })
          close = () => worker.close()
          await worker.waitUntilReady()
        },
        finished: () => queue.getCompletedCount(),
        end: async () => {
          await close?.()
          await queue.obliterate({ force: true })
          await queue.close()
        }
      }
    },
    stop: server.stop
  }
}
