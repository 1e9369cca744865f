/** The life of a job, without workers. */
import { assert } from "@effect/vitest"
import { Effect, Option, Result, Schedule, Schema } from "effect"
import { DgenServer, Jobs, Tenant, Transaction } from "effect-dgen"
import { TestClock } from "effect/testing"
import { acceptNow, allKeys, Data, data, elsewhere, type Harness, pass, settle, SHORT } from "./support.ts"

const { transact } = Tenant
const Work = Jobs.make("work", { data: Data })
const Hasty = Jobs.make("hasty", { data: Data, timeout: SHORT })

const accepted = <A>(type: Jobs.JobType<A>) => Effect.map(type.accept(), Option.getOrThrow)
const look = <A>(type: Jobs.JobType<A>, id: string) => transact(Effect.all([type.getState(id), type.getData(id)]))

/** Brings a job of this id into a state, with `data(1)`. Succeeds with the holder's job where there is one. */
const brought = Effect.fnUntraced(function*(id: string, state: Jobs.JobState) {
  const Once = Jobs.make("work", { data: Data, maxAttempts: 1 })
  yield* transact(Once.add(id, data(1)))
  if (state === "pending") return undefined
  const job = yield* accepted(Once)
  if (state === "finished") yield* transact(Once.finish(job))
  if (state === "dead") yield* transact(Once.fail(job, "no"))
  assert.strictEqual(yield* transact(Once.getState(id)), state)
  return job
})

export const jobsLife = ({ live, timed }: Harness) => {
  live(
    "from its creation to its end",
    Effect.gen(function*() {
      assert.strictEqual(yield* transact(Work.add("one", data(0))), "added")
      assert.deepStrictEqual(yield* look(Work, "one"), ["pending", data(0)])
      const job = yield* accepted(Work)
      assert.deepStrictEqual([job.type, job.id, job.data, job.attempt], ["work", "one", data(0), 1])
      assert.deepStrictEqual(yield* look(Work, "one"), ["running", data(0)])
      const updated = yield* transact(Work.update(job, data(1)))
      assert.deepStrictEqual(updated.data, data(1))
      assert.deepStrictEqual(yield* look(Work, "one"), ["running", data(1)])
      yield* transact(Work.finish(updated, data(2)))
      assert.deepStrictEqual(yield* look(Work, "one"), ["finished", data(2)])
      assert.deepStrictEqual(yield* transact(Work.counts), { pending: 0, running: 0, finished: 1, dead: 0 })
    })
  )

  live(
    "properties that the schema does not have are left out of the data",
    Effect.gen(function*() {
      const more = (done: number) => ({ ...data(done), more: true })
      yield* transact(Work.add("one", more(1)))
      assert.deepStrictEqual(yield* look(Work, "one"), ["pending", data(1)])
      const job = yield* transact(Work.update(yield* accepted(Work), more(2)))
      assert.deepStrictEqual(yield* look(Work, "one"), ["running", data(2)])
      yield* transact(Work.finish(job, more(3)))
      assert.deepStrictEqual(yield* look(Work, "one"), ["finished", data(3)])
    })
  )

  live(
    "updates and ends without data leave the data alone; progress is computed from it",
    Effect.gen(function*() {
      yield* transact(Work.add("one", data(5)))
      const job = yield* transact(Work.update(yield* accepted(Work)))
      const further = yield* transact(Work.updateProgress(job, (now) => ({ ...now, done: now.done + 1 })))
      assert.deepStrictEqual(further.data, data(6))
      yield* transact(Work.finish(job))
      assert.deepStrictEqual(yield* look(Work, "one"), ["finished", data(6)])
    })
  )

  live(
    "several operations on a job are one transaction",
    Effect.gen(function*() {
      const read = yield* transact(Effect.andThen(Work.add("one", data(1)), Work.getData("one")))
      assert.deepStrictEqual(read, data(1))
      const job = yield* accepted(Work)
      yield* transact(Effect.flatMap(Work.update(job, data(2)), (updated) => Work.finish(updated)))
      assert.deepStrictEqual(yield* look(Work, "one"), ["finished", data(2)])
      assert.deepStrictEqual(
        yield* transact(Effect.gen(function*() {
          yield* Work.resubmit("one", { data: data(3) })
          yield* Work.resubmit("one", { data: data(4) })
          return [yield* Work.getState("one"), yield* Work.getData("one"), yield* Work.counts]
        })),
        ["pending", data(4), { pending: 1, running: 0, finished: 0, dead: 0 }]
      )
    })
  )

  live(
    "what is added and removed in one transaction leaves no job behind",
    Effect.gen(function*() {
      yield* transact(Work.add("other", data(0)))
      const before = yield* allKeys
      yield* transact(Effect.andThen(Work.add("one", data(1)), Work.remove("one")))
      const names = (rows: typeof before) => rows.map(({ key }) => Buffer.from(key).toString("latin1"))
      const left = names(yield* allKeys).filter((key) => !names(before).includes(key))
      // counters of the type alone, which cancel each other out, and a bell
      assert.isTrue(left.every((key) => key.includes("moves") || key.includes("bell")), left.join())
      assert.deepStrictEqual(yield* transact(Work.counts), { pending: 1, running: 0, finished: 0, dead: 0 })
    })
  )

  live(
    "a job is added in the commit of its creator's writes, or not at all",
    Effect.gen(function*() {
      const both = Effect.andThen(Transaction.set(["row"], Uint8Array.of(1)), Work.add("one", data(1)))
      const error = yield* Effect.flip(transact(Effect.andThen(both, Effect.fail("no" as const))))
      assert.strictEqual(error, "no")
      assert.strictEqual((yield* Effect.flip(transact(Work.getState("one"))))._tag, "JobNotFound")
      yield* transact(both)
      assert.deepStrictEqual(yield* transact(Transaction.get(["row"])), Uint8Array.of(1))
      assert.strictEqual(yield* transact(Work.getState("one")), "pending")
    })
  )

  live(
    "a server's handler adds a job in the commit of its state, once, also when it runs again",
    Effect.gen(function*() {
      class Orders extends DgenServer.Service<Orders>()("Orders", {
        state: Schema.Number,
        messages: { Order: DgenServer.call({ success: Schema.Number }) }
      }) {}
      let crashes = 1
      const orders = yield* Orders.start(
        Orders.behaviour({
          init: Effect.succeed(0),
          handlers: {
            Order: (_, state) =>
              Effect.gen(function*() {
                yield* Effect.orDie(Work.add(state, data(state)))
                if (crashes-- > 0) return yield* Effect.die("on purpose")
                return DgenServer.reply(state, state + 1)
              })
          }
        }),
        { tuid: ["orders"], restart: Schedule.forever }
      )
      yield* orders.call("Order")
      yield* orders.call("Order")
      const { jobs } = yield* transact(Work.list())
      assert.deepStrictEqual(jobs.map(({ id, state }) => [id, state]), [[0, "pending"], [1, "pending"]])
    })
  )

  for (const state of ["pending", "running", "finished", "dead"] as const) {
    live(
      `re-adding a ${state} job: an error, nothing, or another run with the new data`,
      Effect.gen(function*() {
        const job = yield* brought("one", state)
        const error = yield* Effect.flip(transact(Work.add("one", data(2))))
        assert.deepStrictEqual([error._tag, (error as Jobs.JobExists).id], ["JobExists", "one"])
        assert.include(error.message, "\"one\"")
        assert.strictEqual(yield* transact(Work.add("one", data(2), { ifExists: "ignore" })), "ignored")
        assert.deepStrictEqual(yield* look(Work, "one"), [state, data(1)])
        assert.strictEqual(yield* transact(Work.add("one", data(3), { ifExists: "resubmit" })), "resubmitted")
        if (job !== undefined && state === "running") {
          // the holder's data is its own until it ends
          assert.deepStrictEqual(yield* look(Work, "one"), ["running", data(1)])
          assert.isTrue(yield* transact(Work.isResubmitted(job)))
          yield* transact(Work.finish(job, data(9)))
        }
        assert.deepStrictEqual(yield* look(Work, "one"), ["pending", data(3)])
        const again = yield* accepted(Work)
        assert.deepStrictEqual([again.data, again.attempt, again.isResubmitted], [data(3), 1, false])
        yield* transact(Work.finish(again))
        assert.deepStrictEqual(yield* look(Work, "one"), ["finished", data(3)])
      })
    )
    live(
      `resubmitting a ${state} job without data keeps the data`,
      Effect.gen(function*() {
        const job = yield* brought("one", state)
        const now = yield* transact(Work.resubmit("one"))
        assert.strictEqual(now, state === "running" ? "running" : "pending")
        if (job !== undefined && state === "running") yield* transact(Work.finish(job, data(9)))
        assert.deepStrictEqual(yield* look(Work, "one"), ["pending", state === "running" ? data(9) : data(1)])
      })
    )
  }

  for (const state of ["pending", "running"] as const) {
    live(
      `asking a ${state} job again for what it was asked for already changes nothing`,
      Effect.gen(function*() {
        yield* brought("one", state)
        const asked = { scheduledAt: Date.UTC(2200, 0), data: data(2) }
        yield* transact(Work.resubmit("one", asked))
        const before = yield* allKeys
        yield* transact(Work.resubmit("one", asked))
        yield* transact(Work.resubmit("one", { scheduledAt: asked.scheduledAt }))
        yield* transact(Work.add("one", asked.data, { scheduledAt: asked.scheduledAt, ifExists: "resubmit" }))
        // in whatever order the properties were written
        const Loose = Jobs.make("work", { data: Schema.Record(Schema.String, Schema.Unknown) })
        const { done, url } = asked.data
        yield* transact(Loose.resubmit("one", { data: { done, url } }))
        yield* transact(Loose.resubmit("one", { data: { url, done } }))
        assert.deepStrictEqual(yield* allKeys, before)
        yield* transact(Work.resubmit("one", { data: data(3) }))
        assert.notDeepEqual(yield* allKeys, before)
      })
    )
  }

  live(
    "resubmitted while it ran, a job waits for its new time",
    Effect.gen(function*() {
      const job = (yield* brought("one", "running"))!
      const far = Date.UTC(2200, 0)
      yield* transact(Work.resubmit("one", { scheduledAt: far }))
      const updated = yield* transact(Work.update(job))
      assert.isTrue(updated.isResubmitted)
      yield* transact(Work.finish(updated))
      assert.strictEqual(yield* transact(Work.getState("one")), "pending")
      assert.isUndefined(yield* acceptNow(Work))
      assert.strictEqual((yield* transact(Work.list())).jobs[0]!.scheduledAt, far)
    })
  )

  live(
    "a holder resubmits its own job",
    Effect.gen(function*() {
      const job = (yield* brought("one", "running"))!
      assert.isFalse(yield* transact(Work.isResubmitted(job)))
      const resubmitted = yield* transact(Work.resubmitJob(job))
      assert.isTrue(resubmitted.isResubmitted)
      assert.strictEqual(yield* transact(Work.getState("one")), "running")
      yield* transact(Work.finish(resubmitted, data(7)))
      assert.deepStrictEqual((yield* accepted(Work)).data, data(7))
    })
  )

  live(
    "a holder that lost its job gets Halt, and nothing of its transactions is written",
    Effect.gen(function*() {
      yield* transact(Hasty.add("one", data(1)))
      const late = yield* accepted(Hasty)
      // silent for the timeout: the job is pending again, and the next one takes it
      const holder = yield* elsewhere(accepted(Hasty))
      assert.deepStrictEqual([holder.id, holder.attempt], ["one", 2])
      const writes = [Hasty.update(late, data(8)), Hasty.finish(late, data(9)), Hasty.resubmitJob(late)] as const
      for (const write of writes) {
        const error = yield* Effect.flip(
          transact(Effect.andThen(Transaction.set(["mine"], Uint8Array.of(1)), Effect.asVoid(write)))
        )
        assert.deepStrictEqual([error._tag, (error as Jobs.Halt).id], ["Halt", "one"])
      }
      assert.isUndefined(yield* transact(Transaction.get(["mine"])))
      assert.isFalse(yield* transact(Hasty.isResubmitted(late)))
      yield* transact(Hasty.finish(holder, data(3)))
      assert.deepStrictEqual(yield* look(Hasty, "one"), ["finished", data(3)])
      assert.strictEqual((yield* Effect.flip(transact(Hasty.finish(holder))))._tag, "Halt")
    })
  )

  live(
    "the holder of a removed job gets Halt, also when the id was added again",
    Effect.gen(function*() {
      const job = (yield* brought("one", "running"))!
      yield* transact(Work.remove("one"))
      assert.strictEqual((yield* Effect.flip(transact(Work.update(job))))._tag, "Halt")
      assert.strictEqual((yield* Effect.flip(transact(Work.getState("one"))))._tag, "JobNotFound")
      yield* transact(Work.add("one", data(5)))
      const other = yield* accepted(Work)
      assert.strictEqual((yield* Effect.flip(transact(Work.finish(job))))._tag, "Halt")
      assert.deepStrictEqual(other.data, data(5))
    })
  )

  live(
    "a removed pending job is never taken, and leaves nothing",
    Effect.gen(function*() {
      yield* brought("one", "pending")
      yield* transact(Work.remove("one"))
      assert.isUndefined(yield* acceptNow(Work))
      assert.strictEqual((yield* Effect.flip(transact(Work.remove("one"))))._tag, "JobNotFound")
      assert.deepStrictEqual(yield* transact(Work.list()), { jobs: [], next: undefined })
    })
  )

  live(
    "failed attempts are counted and wait as the schedule says; when it ends, the job is dead",
    Effect.gen(function*() {
      const Twice = Jobs.make("twice", {
        data: Data,
        retry: Schedule.spaced("1 milli").pipe(Schedule.upTo({ times: 2 }))
      })
      yield* transact(Twice.add("one", data(1)))
      for (const attempt of [1, 2]) {
        const job = yield* accepted(Twice)
        assert.strictEqual(job.attempt, attempt)
        assert.strictEqual(yield* transact(Twice.fail(job, new Error("broken"))), "pending")
      }
      const last = yield* accepted(Twice)
      assert.strictEqual(yield* transact(Twice.fail(last, "out of luck")), "dead")
      const { jobs } = yield* transact(Twice.list({ state: "dead" }))
      assert.deepStrictEqual([jobs.length, jobs[0]!.attempts, jobs[0]!.error], [1, 3, "out of luck"])
      assert.isTrue(yield* transact(Twice.requeueDead("one")))
      assert.isFalse(yield* transact(Twice.requeueDead("one")))
      assert.strictEqual((yield* accepted(Twice)).attempt, 1)
    })
  )

  live(
    "backoff grows with the attempts",
    Effect.gen(function*() {
      const Slow = Jobs.make("slow", { data: Data, retry: Schedule.exponential("1 hour") })
      yield* transact(Slow.add("one", data(1)))
      for (const hours of [1, 2, 4]) {
        const job = Option.getOrThrow(yield* Slow.accept({ maxScheduledTime: Date.UTC(2200, 0) }))
        const failed = Date.now()
        yield* transact(Slow.fail(job, "no"))
        const { scheduledAt } = (yield* transact(Slow.list())).jobs[0]!
        assert.approximately(scheduledAt - failed, hours * 3_600_000, 5_000)
      }
    })
  )

  live(
    "a job whose holders die is dead after its last attempt",
    Effect.gen(function*() {
      const Once = Jobs.make("once", { data: Data, timeout: SHORT, maxAttempts: 1 })
      yield* transact(Once.add("one", data(1)))
      const job = yield* accepted(Once)
      const subscription = yield* Once.subscribe("one")
      const change = Option.getOrThrow(yield* Jobs.wait(subscription, { state: "dead" }))
      assert.deepStrictEqual(change.data, data(1))
      assert.strictEqual((yield* Effect.flip(transact(Once.finish(job))))._tag, "Halt")
    })
  )

  live(
    "many jobs are run again or removed, by state and by what they are, in bounded passes",
    Effect.gen(function*() {
      const Once = Jobs.make("once", { data: Data, maxAttempts: 1 })
      const all = Array.from({ length: 450 }, (_, i) => i)
      yield* transact(Effect.forEach(all, (i) => Once.add(i, data(i))))
      yield* transact(Effect.forEach(yield* Effect.replicateEffect(accepted(Once), 420), (job) => Once.fail(job, "no")))
      const kept = (job: Jobs.Listed<typeof Data.Type>) => Result.isSuccess(job.data) && job.data.success.done >= 10
      assert.strictEqual(yield* Once.retryAll({ where: kept }), 410)
      assert.deepStrictEqual(yield* transact(Once.counts), { pending: 440, running: 0, finished: 0, dead: 10 })
      assert.strictEqual(yield* Once.removeAll({ state: "pending", where: ({ id }) => id !== 440 }), 439)
      assert.strictEqual(yield* Once.removeAll({ state: "dead" }), 10)
      assert.deepStrictEqual((yield* transact(Once.list())).jobs.map(({ id }) => id), [440])
      const job = yield* accepted(Once)
      yield* transact(Once.finish(job))
      assert.strictEqual(yield* Once.retryAll(), 0)
      assert.strictEqual(yield* Once.retryAll({ state: "finished" }), 1)
      assert.strictEqual(yield* Once.removeAll(), 1)
      assert.deepStrictEqual(yield* transact(Once.counts), { pending: 0, running: 0, finished: 0, dead: 0 })
      assert.strictEqual((yield* Effect.flip(Once.retryAll({ state: "running" }))).message.includes("state"), true)
    })
  )

  live(
    "a waiting job gets another priority or key; one that runs stays as it is",
    Effect.gen(function*() {
      const Keyed = Jobs.make("keyed", { data: Data, maxRunningPerKey: 1 })
      yield* transact(Effect.forEach(["a", "b", "c"], (id) => Keyed.add(id, data(1), { key: "k" })))
      assert.isTrue(yield* transact(Keyed.move("c", { priority: 5 })))
      const first = yield* accepted(Keyed)
      assert.strictEqual(first.id, "c")
      assert.isFalse(yield* transact(Keyed.move("c", { priority: 7 })))
      // the others wait for a place of the key, until they have another one
      assert.isUndefined(yield* acceptNow(Keyed))
      assert.isTrue(yield* transact(Keyed.move("b", { key: "l" })))
      assert.deepStrictEqual([(yield* acceptNow(Keyed))?.id, yield* acceptNow(Keyed)], ["b", undefined])
      assert.isTrue(yield* transact(Keyed.move("a", { key: undefined })))
      assert.strictEqual((yield* acceptNow(Keyed))?.id, "a")
      yield* transact(Keyed.finish(first))
      const error = yield* Effect.flip(transact(Keyed.move("c", { priority: 1_000 })))
      assert.strictEqual(error._tag, "InvalidOption")
      assert.strictEqual((yield* Effect.flip(transact(Keyed.move("none", {}))))._tag, "JobNotFound")
    })
  )

  live(
    "dead jobs are purged, in bounded steps",
    Effect.gen(function*() {
      const Once = Jobs.make("once", { data: Data, maxAttempts: 1 })
      for (const id of ["a", "b", "c"]) {
        yield* transact(Once.add(id, data(1)))
        yield* transact(Once.fail(yield* accepted(Once), "no"))
      }
      assert.strictEqual(yield* transact(Once.purgeDead({ limit: 2 })), 2)
      assert.deepStrictEqual((yield* transact(Once.list())).jobs.map((job) => job.id), ["c"])
      assert.strictEqual(yield* transact(Once.purgeDead()), 1)
      assert.strictEqual(yield* transact(Once.purgeDead()), 0)
    })
  )

  live(
    "a job that is handed back is pending at once, and the attempt does not count",
    Effect.gen(function*() {
      const job = (yield* brought("one", "running"))!
      yield* transact(Work.release(job))
      assert.strictEqual((yield* accepted(Work)).attempt, 1)
    })
  )

  live(
    "types and ids are any tuple elements, and none of them is another one",
    Effect.gen(function*() {
      const names = ["a", ["a"], 1, ["a", 1], [], null, Uint8Array.of(1, 2)] as const
      const types = names.map((name) => Jobs.make(name as any, { data: Schema.String }))
      for (const [i, type] of types.entries()) {
        for (const [j, id] of names.entries()) yield* transact(type.add(id as any, `${i} ${j}`))
      }
      for (const [i, type] of types.entries()) {
        for (const [j, id] of names.entries()) assert.strictEqual(yield* transact(type.getData(id as any)), `${i} ${j}`)
        assert.strictEqual((yield* transact(type.counts)).pending, names.length)
      }
      const job = yield* accepted(types[3]!)
      yield* transact(types[3]!.finish(job))
      assert.deepStrictEqual(yield* transact(types[1]!.counts), { pending: 7, running: 0, finished: 0, dead: 0 })
    })
  )

  live(
    "finished jobs stay for their retention; with 0 they go at once",
    Effect.gen(function*() {
      const Brief = Jobs.make("brief", { data: Data, timeout: "100 millis", retention: "1 milli" })
      yield* transact(Brief.add("one", data(1)))
      const subscription = yield* Brief.subscribe("one")
      yield* transact(Brief.finish(yield* accepted(Brief)))
      assert.isTrue(Option.isSome(yield* Jobs.wait(subscription, { state: "removed" })))
      assert.deepStrictEqual(yield* transact(Brief.counts), { pending: 0, running: 0, finished: 0, dead: 0 })
      const Gone = Jobs.make("gone", { data: Data, retention: 0 })
      yield* transact(Gone.add("one", data(1)))
      yield* transact(Gone.finish(yield* accepted(Gone)))
      assert.strictEqual((yield* Effect.flip(transact(Gone.getState("one"))))._tag, "JobNotFound")
    })
  )

  const DAY = 24 * 3_600_000
  const retentions = [
    [undefined, 7 * DAY, 90 * DAY],
    [{ dead: "1 hour" }, 7 * DAY, DAY / 24],
    ["1 day", DAY, 90 * DAY],
    [{ finished: "2 hours", dead: "1 day" }, DAY / 12, DAY]
  ] as const
  for (const [retention, finishedMillis, deadMillis] of retentions) {
    timed(
      `what has ended stays for its retention, and not for ever: ${JSON.stringify(retention) ?? "as if absent"}`,
      Date.UTC(2030, 0, 1),
      Effect.gen(function*() {
        const Once = Jobs.make("once", { data: Data, maxAttempts: 1, retention })
        const start = Date.UTC(2030, 0, 1)
        yield* elsewhere(Effect.gen(function*() {
          yield* transact(Effect.andThen(Once.add("a", data(1)), Once.add("b", data(1))))
          yield* transact(Once.finish(yield* accepted(Once)))
          yield* transact(Once.fail(yield* accepted(Once), "no"))
        }))
        const ends = [["a", finishedMillis], ["b", deadMillis]] as const
        for (const [id, millis] of ends.toSorted(([, x], [, y]) => x - y)) {
          // a process that begins a minute before removes nothing, and the next one does
          yield* TestClock.setTime(start + millis - 60_000)
          yield* elsewhere(Effect.andThen(acceptNow(Once), settle))
          assert.include(["finished", "dead"], yield* transact(Once.getState(id)))
          yield* TestClock.setTime(start + millis + 1)
          yield* elsewhere(Effect.gen(function*() {
            const isThere = Effect.map(transact(Once.list()), ({ jobs }) => jobs.some((job) => job.id === id))
            yield* Effect.forkChild(Once.accept())
            // what a store makes its transactions wait for is a time of the clock, too
            yield* Effect.repeat(Effect.andThen(pass("1 second"), isThere), { until: (there) => !there })
          }))
        }
        assert.deepStrictEqual(yield* transact(Once.counts), { pending: 0, running: 0, finished: 0, dead: 0 })
      })
    )
  }

  live(
    "pages show every job once, in any state",
    Effect.gen(function*() {
      yield* transact(Effect.forEach(Array.from({ length: 25 }, (_, i) => i), (i) => Work.add(i, data(i))))
      const running = yield* Effect.replicateEffect(accepted(Work), 12)
      yield* transact(Effect.forEach(running.slice(0, 5), (job) => Work.finish(job)))
      const pages = Effect.fnUntraced(function*(state: Jobs.JobState | undefined) {
        const ids: Array<unknown> = []
        let after: string | undefined
        do {
          const page: Jobs.Page<unknown> = yield* transact(Work.list({ state, limit: 4, after }))
          assert.isAtMost(page.jobs.length, 4)
          for (const job of page.jobs) {
            ids.push(job.id)
            if (state !== undefined) assert.strictEqual(job.state, state)
          }
          after = page.next
        } while (after !== undefined)
        return ids
      })
      const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)
      assert.deepStrictEqual(yield* pages(undefined), range(0, 25))
      assert.deepStrictEqual(yield* pages("pending"), range(12, 25))
      assert.deepStrictEqual(yield* pages("running"), range(5, 12))
      assert.deepStrictEqual(yield* pages("finished"), range(0, 5))
      assert.deepStrictEqual(yield* pages("dead"), [])
    })
  )
}
