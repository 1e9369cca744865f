/**
 * Jobs under simulated failures: creators that add jobs and wait for their end, workers that count what they finish in
 * the commit that finishes it, and what must hold whatever went wrong.
 */
import { Effect, Layer, Schema } from "effect"
import { Jobs, Tenant, Transaction, Tuple } from "effect-dgen"
import type { World } from "../../src/testing/Simulation.ts"
import { again } from "./again.ts"

const Work = Jobs.make("work", {
  data: Schema.Struct({ millis: Schema.Number, holder: Schema.String }),
  timeout: "2 seconds",
  maxRunning: 6,
  maxRunningPerKey: 2
})

const tenant = Tenant.layer(["jobs"])

/** Longer than any run takes: what is not done by then never will be. */
const PATIENCE_MILLIS = 10 * 60_000

/** What the creators know. */
export interface Known {
  /** Jobs that were added for sure, and are not removed. */
  readonly added: Set<string>
  /** Jobs whose end a subscriber saw. */
  readonly seen: Set<string>
  /** The last attempt of each job that began. */
  readonly attempts: Map<string, number>
  /** What holders saw. */
  readonly problems: Array<string>
  runs: number
}

export const makeKnown = (): Known => ({
  added: new Set(),
  seen: new Set(),
  attempts: new Map(),
  problems: [],
  runs: 0
})

/** How often a job was finished: written by whoever finishes it, in the same commit. */
const finishes = (id: string) => ["finishes", id]

/** A first attempt that fails. */
const isFlawed = (millis: number, attempt: number): boolean => millis % 7 === 0 && attempt === 1

/**
 * A holder writes its name into the job; whoever writes for the job later, and finds another name, wrote without the
 * job's lock.
 */
const workerOf = (known: Known) =>
  Work.workerLayer((job) =>
    Effect.gen(function*() {
      const id = job.id as string
      const { millis } = job.data
      const holder = `run ${++known.runs}`
      known.attempts.set(id, Math.max(known.attempts.get(id) ?? 0, job.attempt))
      yield* Tenant.transact(Work.update(job, { millis, holder }))
      yield* Effect.sleep(millis)
      if (isFlawed(millis, job.attempt)) return yield* Effect.fail("the first attempt fails")
      const finish = Effect.gen(function*() {
        const found = yield* Work.getData(id)
        yield* Work.finish(job)
        yield* Transaction.add(finishes(id), 1)
        if (found.holder !== holder) known.problems.push(`${holder} finished ${id}, which ${found.holder} holds`)
      })
      yield* Tenant.transact(finish)
    }), { concurrency: 4, grace: "1 second" })

/** One life of a worker. */
export const work = (known: Known) =>
  Layer.launch(workerOf(known)).pipe(
    Effect.retry(again),
    Effect.provide(tenant)
  )

/** One life of a creator: adds jobs, one after another, and waits for every third. */
export const create = (known: Known, name: string, count: number) =>
  Effect.gen(function*() {
    for (let i = 0; i < count; i++) {
      const id = `${name}-${i}`
      const millis = (i * 389 + name.charCodeAt(0) * 131) % 5_000
      const add = Work.add(id, { millis, holder: "" }, { key: i % 3, priority: i % 2, delay: millis / 2 })
      yield* Effect.orDie(
        Effect.retry(Tenant.transact(Effect.catchTag(add, "JobExists", () => Effect.void)), { times: 50 })
      )
      known.added.add(id)
      if (i % 3 !== 0) continue
      const end = Effect.scoped(
        Effect.flatMap(Work.subscribe(id), (subscription) =>
          Jobs.wait(subscription, { state: "finished", timeout: PATIENCE_MILLIS }))
      )
      yield* Effect.orDie(Effect.retry(end, { times: 50 }))
      known.seen.add(id)
    }
  }).pipe(Effect.provide(tenant))

/** What the store holds once all that was added is done. */
export const settle = (world: World, known: Known) =>
  Effect.gen(function*() {
    yield* world.calm
    yield* world.spawn("last worker", work(known))
    return yield* Effect.gen(function*() {
      const isDone = Effect.map(Tenant.transact(Work.counts), ({ pending, running }) => pending + running === 0)
      for (let waited = 0; waited < PATIENCE_MILLIS && !(yield* isDone); waited += 10_000) {
        yield* Effect.sleep("10 seconds")
      }
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

/**
 * What does not hold, in words; nothing when all does. Where everybody gives signs of life in time, no job is taken from
 * its holder.
 */
export const check = (
  known: Known,
  found: Effect.Success<ReturnType<typeof settle>>,
  isSteady: boolean
): ReadonlyArray<string> => {
  const problems = [...known.problems]
  for (const [id, attempt] of isSteady ? known.attempts : []) {
    if (attempt > 2) problems.push(`${id} needed ${attempt} attempts, though nobody was silent`)
  }
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
