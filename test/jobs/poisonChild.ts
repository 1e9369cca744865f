/** A process whose jobs are run five together: one of them is its death, whenever it runs. */
import { Effect, Schema } from "effect"
import { Jobs } from "effect-dgen"
import { storeAt } from "./child.ts"

export const POISON = 0

export const Deadly = Jobs.make("deadly", {
  data: Schema.Struct({ n: Schema.Number }),
  timeout: "500 millis",
  maxAttempts: 3
})

/** Longer than it takes a process to die of what began together with them. */
const INNOCENT_MILLIS = 100

const Worker = Deadly.workerLayer((job) =>
  job.data.n === POISON
    ? Effect.andThen(Effect.sleep(INNOCENT_MILLIS / 4), Effect.sync(() => process.kill(process.pid, "SIGKILL")))
    : Effect.sleep(INNOCENT_MILLIS), { concurrency: 5 })

if (process.argv[2] !== undefined && import.meta.main) {
  const untilEnd = Effect.callback<void>((resume) => {
    process.stdin.once("end", () => resume(Effect.void)).resume()
    process.stdout.write("ready\n")
  })
  await Effect.runPromise(untilEnd.pipe(Effect.provide(Worker), Effect.provide(storeAt(process.argv[2]))))
}
