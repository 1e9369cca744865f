/** Priorities that grow while a job waits. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { acceptNow, Data, data, type Harness, opened } from "./support.ts"

const { transact } = Tenant
const HOUR = 3_600_000

/** In the order in which they are taken. */
const takeAll = <A>(type: Jobs.JobType<A>, count: number) =>
  Effect.map(
    Effect.replicateEffect(acceptNow(type), count),
    (jobs) => jobs.map((job) => job?.id)
  )

export const jobsAging = ({ live, timed }: Harness) => {
  const types = (name: string) => ({
    still: Jobs.make(name, { data: Data }),
    aged: Jobs.make(name, { data: Data, aging: "1 hour" })
  })
  /** Due hours after the beginning of time, with a priority. */
  const jobs = [["low", 0, -2], ["middle", 1, 0], ["high", 4, 1], ["higher", 4, 2], ["late", 7, 0]] as const

  for (const order of ["aged", "still"] as const) {
    timed(
      `due jobs are taken by priority${order === "aged" ? ", which grows while they wait" : " alone without aging"}`,
      10 * HOUR,
      Effect.gen(function*() {
        const type = types(order)[order]
        yield* transact(
          Effect.forEach(
            jobs,
            ([id, hours, priority]) => type.add(id, data(0), { scheduledAt: hours * HOUR, priority })
          )
        )
        yield* transact(type.add("later", data(0), { scheduledAt: 11 * HOUR, priority: 100 }))
        assert.deepStrictEqual(
          yield* takeAll(type, 6),
          order === "aged"
            // by the time that they were due, an hour earlier for each priority: 1, 2, 2, 3, 7
            ? ["middle", "higher", "low", "high", "late", undefined]
            : ["higher", "high", "middle", "late", "low", undefined]
        )
      })
    )
  }

  live(
    "a job of a low priority gets its turn though higher ones never end",
    Effect.gen(function*() {
      const Busy = Jobs.make("busy", { data: Data, aging: "10 millis" })
      let n = 0
      const next = Effect.suspend(() => Busy.add(n++, data(0), { priority: 5 }))
      yield* transact(Effect.replicateEffect(next, 50))
      yield* transact(Busy.add("low", data(0), { priority: 0 }))
      // each one that is done brings another one along
      yield* opened(Busy.workerLayer((job) => Effect.asVoid(transact(Effect.andThen(Busy.finish(job), next)))))
      yield* Effect.repeat(transact(Busy.getState("low")), { until: (state) => state === "finished" })
    })
  )

  live(
    "an aging that is none is refused",
    Effect.gen(function*() {
      for (const aging of [0, -1, "soon", Number.NaN] as ReadonlyArray<any>) {
        const error = yield* Effect.flip(transact(Jobs.make("wrong", { data: Data, aging }).pause))
        assert.strictEqual((error as Jobs.InvalidOption).option, "aging")
      }
    })
  )
}
