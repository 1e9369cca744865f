/**
 * Jobs under simulated failures: creators that add jobs and wait for their end, workers that count what they finish in
 * the commit that finishes it, and what must hold whatever went wrong.
 */
import { Effect, Layer, Schema } from "effect"
import { BackendError, Jobs, Tenant, Transaction, Tuple } from "effect-dgen"
import type { World } from "../../src/testing/Simulation.ts"

const Work = Jobs.make("work", {
  data: Schema.Struct({ millis: Schema.Number }),
  timeout: "2 seconds",
  maxRunning: 6,
  maxRunningPerKey: 2
})

const tenant = Tenant.layer(["jobs"])

/** What the creators know. */
export interface Known {
  /** Jobs that were added for sure, and are not removed. */
  readonly added: Set<string>
  /** Jobs whose end a subscriber saw. */
  readonly seen: Set<string>
}

export const makeKnown = (): Known => ({ added: new Set(), seen: new Set() })

/** How often a job was finished: written by whoever finishes it, in the same commit. */
const finishes = (id: string) => ["finishes", id]

const Worker = Work.workerLayer((job) =>
  Effect.gen(function*() {
    yield* Effect.sleep(job.data.millis)
    if (job.data.millis % 7 === 0 && job.attempt === 1) return yield* Effect.fail("the first attempt fails")
    yield* Tenant.transact(Effect.andThen(Work.finish(job), Transaction.add(finishes(job.id as string), 1)))
  }), { concurrency: 4, grace: "1 second" })

/** One life of a worker. */
export const work = Layer.launch(Worker).pipe(
  Effect.retry({ while: BackendError.isBackendError }),
  Effect.provide(tenant)
)

/** One life of a creator: adds jobs, one after another, and waits for every third. */
export const create = (known: Known, name: string, count: number) =>
  Effect.gen(function*() {
    for (let i = 0; i < count; i++) {
      const id = `${name}-${i}`
      const millis = (i * 389 + name.charCodeAt(0) * 131) % 5_000
      const add = Work.add(id, { millis }, { key: i % 3, priority: i % 2, delay: millis / 2 })
      yield* Effect.orDie(
        Effect.retry(Tenant.transact(Effect.catchTag(add, "JobExists", () => Effect.void)), { times: 50 })
      )
      known.added.add(id)
      if (i % 3 !== 0) continue
      const end = Effect.scoped(
        Effect.flatMap(Work.subscribe(id), (subscription) => Jobs.wait(subscription, { state: "finished" }))
      )
      yield* Effect.orDie(Effect.retry(end, { times: 50 }))
      known.seen.add(id)
    }
  }).pipe(Effect.provide(tenant))

/** What the store holds once all that was added is done. */
export const settle = (world: World) =>
  Effect.gen(function*() {
    yield* world.calm
    yield* world.spawn("last worker", work)
    return yield* Effect.gen(function*() {
      const isDone = Effect.map(Tenant.transact(Work.counts), ({ pending, running }) => pending + running === 0)
      while (!(yield* isDone)) yield* Effect.sleep("10 seconds")
      const jobs = (yield* Tenant.transact(Work.list({ limit: 1_000 }))).jobs
      const done = yield* Tenant.transact(Transaction.getRange(["finishes"]))
      const rows = yield* Tenant.transact(
        Effect.flatMap(Transaction.Transaction, (state) => state.getRange(state.prefix, Tuple.strinc(state.prefix)))
      )
      return {
        states: jobs.map(({ id, state }) => [id as string, state] as const),
        finishes: done.map(({ key, value }) =>
          [key[1] as string, new DataView(value.buffer, value.byteOffset).getInt32(0, true)] as const
        ),
        counts: yield* Tenant.transact(Work.counts),
        // of jobs that do not wait and do not run any more
        left: rows.map(({ key }) => Buffer.from(key).toString("latin1"))
          .filter((key) =>
            ["pending", "pending-parked", "seq", "activity"].some((kind) => key.includes(`\u0002work\0\u0002${kind}\0`))
          )
      }
    }).pipe(Effect.provide(tenant))
  })

/** What does not hold, in words; nothing when all does. */
export const check = (known: Known, found: Effect.Success<ReturnType<typeof settle>>): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const states = new Map(found.states)
  const finished = new Map(found.finishes)
  for (const id of known.added) {
    if (states.get(id) !== "finished") problems.push(`${id} was added, and is ${states.get(id) ?? "lost"}`)
  }
  for (const [id] of states) {
    if (finished.get(id) !== 1) problems.push(`${id} was finished ${finished.get(id) ?? 0} times`)
  }
  if (found.counts.finished !== states.size || found.counts.dead !== 0) {
    problems.push(`the counts ${JSON.stringify(found.counts)} are not those of ${states.size} finished jobs`)
  }
  for (const key of found.left) problems.push(`left behind: ${JSON.stringify(key)}`)
  return problems
}
