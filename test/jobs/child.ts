/** A process that works on jobs of a SQLite file until it is killed, or told to end by the end of its input. */
import { Effect, Layer, Schema } from "effect"
import { Jobs, SqliteBackend, Tenant, Transaction } from "effect-dgen"

export const Work = Jobs.make("work", { data: Schema.Struct({ n: Schema.Number }), timeout: "500 millis" })

/** How often a job was finished. */
export const finishes = (n: number) => ["finishes", n]

export const storeAt = (filename: string) =>
  Tenant.layer(["jobs"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))

/** Whether a job runs for long enough to be met while it does. */
export const isLong = (n: number) => n % 20 === 19

const LONG_MILLIS = 300

/** Finishes each job in the commit that counts it. */
export const Worker = Work.workerLayer((job) =>
  Effect.andThen(
    Effect.sleep(isLong(job.data.n) ? LONG_MILLIS : job.data.n % 20),
    Tenant.transact(Effect.andThen(Work.finish(job), Transaction.add(finishes(job.data.n), 1)))
  ), { concurrency: 5 })

if (process.argv[2] !== undefined && import.meta.main) {
  const untilEnd = Effect.callback<void>((resume) => {
    process.stdin.once("end", () => resume(Effect.void)).resume()
    process.stdout.write("ready\n")
  })
  await Effect.runPromise(untilEnd.pipe(Effect.provide(Worker), Effect.provide(storeAt(process.argv[2]))))
}
