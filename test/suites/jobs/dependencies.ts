/** Jobs that wait for the end of others. */
import { assert } from "@effect/vitest"
import { Effect, Layer, Option, Schema } from "effect"
import { Jobs, Tenant, Transaction } from "effect-dgen"
import { acceptNow, allKeys, Data, data, elsewhere, type Harness, opened, pass, untyped } from "./support.ts"

const { transact } = Tenant

const definitions = (name: string) => ({
  Parts: Jobs.make(`${name} parts`, { data: Data, maxAttempts: 1 }),
  Sums: Jobs.make([`${name} sums`, 1], { data: Schema.Struct({ of: Schema.String }) })
})

type Defined = ReturnType<typeof definitions>

const some = (count: number) => Array.from({ length: count }, (_, i) => i)
const partsOf = (Parts: Defined["Parts"], ids: ReadonlyArray<number>) => ids.map((id) => ({ job: Parts, id }))

/** Runs the next job of a type by hand. */
const finishNext = <A>(type: Jobs.JobType<A>, result?: A) =>
  Effect.flatMap(
    acceptNow(type),
    (job) => Effect.as(transact(type.finish(job!, result)), job!.id)
  )

const killNext = <A>(type: Jobs.JobType<A>, error: unknown) =>
  Effect.flatMap(acceptNow(type), (job) => transact(type.fail(job!, error)))

const errorOf = <A>(type: Jobs.JobType<A>, id: number | string) =>
  Effect.map(transact(type.list()), ({ jobs }) => jobs.find((job) => job.id === id)!.error)

/** Nothing of what makes jobs wait is left. */
const assertNothingLeft = Effect.map(allKeys, (rows) => {
  const names = rows.map(({ key }) => Buffer.from(key).toString("latin1"))
  for (const name of ["parent", "parent-data", "children", "ends", "family", "pending-waits"]) {
    assert.isFalse(names.some((key) => key.includes(`\x02${name}\x00`)), name)
  }
})

export const jobsDependencies = (tests: Harness) => {
  results(tests)
  deaths(tests)
  refusals(tests)
  families(tests)
}

const results = ({ live, timed }: Harness) => {
  live(
    "a job waits until all that it is after have ended, and gets what they left, in the order in which they were named",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("fan-in")
      // the first has ended before, the others are added with it
      yield* transact(Parts.add(2, data(0)))
      yield* finishNext(Parts, data(20))
      yield* transact(Effect.gen(function*() {
        yield* Parts.add(0, data(0))
        yield* Parts.add(1, data(0))
        yield* Sums.add("s", { of: "x" }, { after: partsOf(Parts, [0, 1, 2, 1]) })
      }))
      assert.strictEqual(yield* transact(Sums.getState("s")), "pending")
      const [waiting] = (yield* transact(Sums.list({ state: "pending" }))).jobs
      assert.strictEqual(waiting!.waitsFor, 2)
      assert.deepStrictEqual(
        (yield* transact(Sums.parents("s"))).map(({ id, state }) => [id, state]),
        [[0, "waiting"], [1, "waiting"], [2, "finished"]]
      )
      yield* finishNext(Parts, data(7))
      assert.isUndefined(yield* acceptNow(Sums))
      yield* finishNext(Parts, data(8))
      const sum = yield* acceptNow(Sums)
      assert.strictEqual(sum!.id, "s")
      const left = yield* transact(Sums.results("s", Parts))
      assert.deepStrictEqual(left.map(({ data, state }) => [state, data?.done]), [
        ["finished", 7],
        ["finished", 8],
        ["finished", 20]
      ])
      assert.deepStrictEqual(yield* transact(Sums.results("s", Sums)), [])
    })
  )

  live(
    "a worker in another process waits without a look, and its handler gets the results of parents that are gone since",
    Effect.gen(function*() {
      const Parts = Jobs.make("gone parts", { data: Data, retention: 0 })
      const { Sums } = definitions("gone")
      yield* transact(Effect.forEach(some(3), (id) => Parts.add(id, data(0))))
      yield* transact(Sums.add("s", { of: "" }, { after: partsOf(Parts, some(3)) }))
      const sums = Sums.workerLayer((_, { parents, results }) =>
        Effect.gen(function*() {
          const left = yield* results(Parts)
          const states = (yield* parents).map(({ state }) => state)
          return { of: [...states, ...left.map(({ data }) => data?.done)].join(" ") }
        })
      )
      const { path } = yield* Tenant.Tenant
      yield* opened(Layer.provide(sums, Layer.fresh(Tenant.layer(path))))
      yield* opened(Parts.workerLayer((job) => Effect.succeed(data(Number(job.id) + 1))))
      const subscription = yield* Sums.subscribe("s")
      const end = Option.getOrThrow(yield* Jobs.wait(subscription, { state: "finished" }))
      assert.deepStrictEqual(end.data, { of: "finished finished finished 1 2 3" })
      assert.deepStrictEqual((yield* transact(Parts.list())).jobs, [])
      yield* transact(Sums.remove("s"))
      yield* assertNothingLeft
    })
  )

  live(
    "a chain that is added in one transaction runs one after the other, also with jobs of one type",
    Effect.gen(function*() {
      const { Parts } = definitions("chain")
      yield* transact(
        Effect.forEach(
          some(5),
          (id) => Parts.add(id, data(0), id === 0 ? {} : { after: { job: Parts, id: id - 1 }, priority: id })
        )
      )
      for (const id of some(5)) assert.strictEqual(yield* finishNext(Parts), id)
      assert.isUndefined(yield* acceptNow(Parts))
    })
  )

  live(
    "long data is read from the parent as long as that is there",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("long")
      const long = { url: "é".repeat(100_000), done: 1 }
      yield* transact(Parts.add(0, data(0)))
      yield* transact(Sums.add("s", { of: "" }, { after: { job: Parts, id: 0 } }))
      yield* finishNext(Parts, long)
      assert.deepStrictEqual((yield* transact(Sums.results("s", Parts)))[0]!.data, long)
      yield* transact(Parts.remove(0))
      assert.strictEqual((yield* transact(Sums.results("s", Parts)))[0]!.state, "removed")
    })
  )

  timed(
    "a job with a time runs when both its time has come and the others have ended",
    1_000_000,
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("times")
      yield* transact(Parts.add(0, data(0)))
      yield* transact(Sums.add("late", { of: "" }, { after: partsOf(Parts, [0]), delay: "1 hour" }))
      yield* transact(Sums.add("early", { of: "" }, { after: partsOf(Parts, [0]), scheduledAt: 1 }))
      yield* pass("10 minutes")
      assert.isUndefined(yield* acceptNow(Sums))
      yield* finishNext(Parts)
      assert.strictEqual(yield* finishNext(Sums), "early")
      assert.isUndefined(yield* acceptNow(Sums))
      yield* pass("50 minutes")
      assert.strictEqual((yield* acceptNow(Sums))!.id, "late")
    })
  )
}

const deaths = ({ live }: Harness) => {
  live(
    "with a parent that dies a child dies at once, with the reason, and so do its own children; `run` lets it run",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("deaths")
      const dead: Array<Jobs.DeadJob<unknown>> = []
      yield* opened(Sums.deadJobLayer((job) => Effect.sync(() => void dead.push(job))))
      yield* transact(Effect.forEach(some(2), (id) => Parts.add(id, data(0))))
      yield* transact(Effect.gen(function*() {
        yield* Sums.add("child", { of: "c" }, { after: partsOf(Parts, [0, 1]) })
        yield* Sums.add("grandchild", { of: "g" }, { after: { job: Sums, id: "child" } })
        yield* Sums.add("stoic", { of: "s" }, { after: partsOf(Parts, [0, 1]), onParentDeath: "run" })
      }))
      yield* killNext(Parts, new Error("no paper"))
      assert.deepStrictEqual(yield* transact(Sums.counts), { pending: 1, running: 0, finished: 0, dead: 2 })
      assert.include(yield* errorOf(Sums, "child"), "no paper")
      assert.include(yield* errorOf(Sums, "grandchild"), "\"child\"")
      assert.isUndefined(yield* acceptNow(Sums))
      yield* finishNext(Parts, data(9))
      assert.strictEqual((yield* acceptNow(Sums))!.id, "stoic")
      const [first, second] = yield* transact(Sums.results("stoic", Parts))
      assert.strictEqual(first!.state, "dead")
      assert.include(first!.error, "no paper")
      assert.strictEqual(second!.data?.done, 9)
      yield* Effect.repeat(Effect.yieldNow, { until: () => dead.length === 2 })
      assert.deepStrictEqual(dead.map(({ data, id }) => [id, data]), [["child", { of: "c" }], ["grandchild", {
        of: "g"
      }]])
    })
  )

  live(
    "a child of a parent that is dead already is told the same",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("born dead")
      yield* transact(Parts.add(0, data(0)))
      yield* killNext(Parts, "broken")
      yield* transact(Sums.add("dies", { of: "" }, { after: partsOf(Parts, [0]) }))
      yield* transact(Sums.add("runs", { of: "" }, { after: partsOf(Parts, [0]), onParentDeath: "run" }))
      assert.strictEqual(yield* transact(Sums.getState("dies")), "dead")
      assert.include(yield* errorOf(Sums, "dies"), "broken")
      assert.strictEqual((yield* acceptNow(Sums))!.id, "runs")
    })
  )

  live(
    "a parent that is removed before it ends is as one that died; one that had ended is not",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("removed")
      yield* transact(Effect.forEach(some(2), (id) => Parts.add(id, data(0))))
      yield* transact(Sums.add("a", { of: "" }, { after: partsOf(Parts, [0]) }))
      yield* transact(Sums.add("b", { of: "" }, { after: partsOf(Parts, [0, 1]), onParentDeath: "run" }))
      yield* transact(Parts.remove(0))
      assert.strictEqual(yield* transact(Sums.getState("a")), "dead")
      assert.include(yield* errorOf(Sums, "a"), "removed")
      yield* finishNext(Parts, data(3))
      yield* transact(Parts.remove(1))
      assert.strictEqual((yield* acceptNow(Sums))!.id, "b")
      assert.deepStrictEqual((yield* transact(Sums.parents("b"))).map(({ state }) => state), ["removed", "finished"])
      assert.strictEqual((yield* transact(Sums.results("b", Parts)))[1]!.data?.done, 3)
    })
  )

  live(
    "a parent that fails, is handed back or resubmitted has not ended",
    Effect.gen(function*() {
      const Parts = Jobs.make("again", { data: Data })
      const { Sums } = definitions("again")
      yield* transact(Parts.add(0, data(0)))
      yield* transact(Sums.add("s", { of: "" }, { after: { job: Parts, id: 0 } }))
      const first = yield* acceptNow(Parts)
      yield* transact(Parts.release(first!))
      const second = yield* acceptNow(Parts)
      yield* transact(Parts.resubmit(0, { data: data(5) }))
      yield* transact(Parts.finish(second!, data(1)))
      assert.isUndefined(yield* acceptNow(Sums))
      const third = yield* acceptNow(Parts)
      yield* transact(Parts.fail(third!, "later"))
      assert.isUndefined(yield* acceptNow(Sums))
      yield* transact(Parts.remove(0))
      assert.strictEqual(yield* transact(Sums.getState("s")), "dead")
    })
  )

  live(
    "a dead child that is put back waits for a parent that was put back, and not for one that is still dead",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("requeued")
      yield* transact(Effect.forEach(some(2), (id) => Parts.add(id, data(0))))
      yield* transact(Sums.add("s", { of: "" }, { after: partsOf(Parts, [0, 1]) }))
      yield* killNext(Parts, "no")
      // without its parent it runs, and sees why: but the other one has not ended
      yield* transact(Sums.requeueDead("s"))
      assert.isUndefined(yield* acceptNow(Sums))
      yield* killNext(Parts, "nor this")
      assert.strictEqual(yield* transact(Sums.getState("s")), "dead")
      yield* transact(Parts.requeueDead(0))
      assert.strictEqual(yield* Sums.retryAll(), 1)
      assert.isUndefined(yield* acceptNow(Sums))
      yield* finishNext(Parts, data(4))
      assert.strictEqual((yield* acceptNow(Sums))!.id, "s")
      const left = yield* transact(Sums.results("s", Parts))
      assert.deepStrictEqual(left.map(({ data, state }) => [state, data?.done]), [["finished", 4], ["dead", undefined]])
    })
  )
}

const refusals = ({ live }: Harness) => {
  live(
    "a death goes through a long line of jobs that wait for each other, each with a reason of bounded length",
    Effect.gen(function*() {
      const { Parts } = definitions("line")
      const LENGTH = 2_500
      for (const from of some(LENGTH / 100)) {
        yield* transact(Effect.forEach(some(100), (i) => {
          const id = 100 * from + i
          return Parts.add(id, data(id), id === 0 ? {} : { after: partsOf(Parts, [id - 1]) })
        }))
      }
      yield* killNext(Parts, "x".repeat(1_000))
      yield* Effect.repeat(transact(Parts.counts), { until: ({ dead }) => dead === LENGTH })
      const { jobs } = yield* transact(Parts.list({ state: "dead", limit: 1_000 }))
      for (const { error } of jobs) assert.isAtMost(error.length, 4_000)
      assert.strictEqual(yield* Parts.removeAll(), LENGTH)
      yield* assertNothingLeft
    }),
    60_000
  )

  live(
    "a job cannot wait for what is not there, so not for itself nor in a circle, and nothing is written",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("circles")
      const before = yield* allKeys
      const missing = yield* Effect.flip(transact(Sums.add("s", { of: "" }, { after: { job: Parts, id: 7 } })))
      assert.strictEqual((missing as Jobs.ParentNotFound)._tag, "ParentNotFound")
      assert.deepInclude(missing as Jobs.ParentNotFound, { id: "s", parentType: "circles parts", parentId: 7 })
      const self = yield* Effect.flip(transact(Parts.add(1, data(0), { after: { job: Parts, id: 1 } })))
      assert.strictEqual(self._tag, "ParentNotFound")
      // an operation that fails has written nothing: the transaction goes on
      yield* transact(Effect.gen(function*() {
        yield* Transaction.set(["other"], Uint8Array.of(1))
        yield* Effect.flip(Sums.add("s", { of: "" }, { after: partsOf(Parts, [7]) }))
        yield* Transaction.clear(["other"])
      }))
      assert.deepStrictEqual(yield* allKeys, before)
      // and by detours: the first again, after the second that waits for it
      yield* transact(Parts.add(1, data(0)))
      yield* transact(Parts.add(2, data(0), { after: partsOf(Parts, [1]) }))
      const again = { after: partsOf(Parts, [2]), ifExists: "resubmit" } as const
      assert.strictEqual((yield* Effect.flip(transact(Parts.add(1, data(0), again))))._tag, "InvalidOption")
      assert.strictEqual(yield* transact(Parts.add(1, data(0), { ...again, ifExists: "ignore" })), "ignored")
      yield* transact(Parts.remove(1))
      yield* transact(Parts.add(1, data(0), { after: partsOf(Parts, [2]), onParentDeath: "run" }))
      yield* transact(Parts.requeueDead(2))
      assert.isDefined(yield* acceptNow(Parts))
    })
  )

  live(
    "what names no jobs is refused",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("named")
      const wrong: ReadonlyArray<unknown> = [
        null,
        7,
        "parts",
        {},
        { id: 1 },
        { job: Parts },
        { job: { type: "parts" }, id: 1 },
        { job: Parts, id: "x".repeat(5_000) },
        { job: Jobs.make("wrong", { data: 5 as any }), id: 1 },
        [{ job: Parts, id: 1 }, undefined],
        some(1_001).map((id) => ({ job: Parts, id }))
      ]
      for (const after of wrong) {
        const error = yield* Effect.flip(transact(untyped(Sums).add!("s", { of: "" }, { after })))
        assert.strictEqual((error as Jobs.InvalidOption)._tag, "InvalidOption", String(after))
      }
      const death = yield* Effect.flip(transact(untyped(Sums).add!("s", { of: "" }, { onParentDeath: "cry" })))
      assert.strictEqual((death as Jobs.InvalidOption).option, "onParentDeath")
      assert.strictEqual((yield* Effect.flip(transact(Sums.parents("s"))))._tag, "JobNotFound")
      yield* transact(Sums.add("s", { of: "" }, { after: [] }))
      const none = yield* Effect.flip(transact(untyped(Sums).results!("s", {})))
      assert.strictEqual((none as Jobs.InvalidOption).option, "of")
    })
  )
}

const CHILDREN = 3_000

/** A look reads all there is: without a pause it would take the time of those it waits for. */
const POLL_MILLIS = 20

const countWaiting = Effect.map(
  allKeys,
  (rows) => rows.filter(({ key }) => Buffer.from(key).toString("latin1").includes("pending-waits")).length
)

const families = ({ live }: Harness) => {
  live(
    "thousands that wait for one job are told in bounded transactions, by whoever is there",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("many")
      yield* transact(Effect.forEach(some(2), (id) => Parts.add(id, data(0))))
      for (let from = 0; from < CHILDREN; from += 500) {
        yield* transact(
          Effect.forEach(
            some(500),
            (i) => Sums.add(from + i, { of: "" }, { after: partsOf(Parts, [i % 2 === 0 ? 0 : 1]) })
          )
        )
      }
      yield* finishNext(Parts, data(1))
      yield* killNext(Parts, "no")
      // the same parents in another life have nothing to do with them
      yield* transact(Parts.remove(0))
      yield* transact(Parts.add(0, data(0)))
      yield* transact(Sums.add("new", { of: "" }, { after: partsOf(Parts, [0]) }))
      yield* Effect.repeat(Effect.delay(countWaiting, POLL_MILLIS), { until: (count) => count === 1 })
      assert.deepStrictEqual(yield* transact(Sums.counts), {
        pending: CHILDREN / 2 + 1,
        running: 0,
        finished: 0,
        dead: CHILDREN / 2
      })
      yield* transact(Sums.remove("new"))
      const taken = yield* acceptNow(Sums)
      assert.deepStrictEqual((yield* transact(Sums.results(taken!.id, Parts)))[0]!.data, data(1))
      yield* Sums.removeAll()
      yield* transact(Parts.remove(0))
      yield* assertNothingLeft
    }),
    180_000
  )

  live(
    "children that a process had no time to tell are told by the next one that uses the parent's type",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("ended process")
      yield* transact(Parts.add(0, data(0)))
      yield* transact(Effect.forEach(some(1_000), (id) => Sums.add(id, { of: "" }, { after: partsOf(Parts, [0]) })))
      yield* elsewhere(finishNext(Parts))
      assert.isAbove(yield* countWaiting, 0)
      yield* Parts.accept({ timeout: 0 })
      yield* Effect.repeat(Effect.delay(countWaiting, POLL_MILLIS), { until: (count) => count === 0 })
      assert.strictEqual((yield* transact(Sums.counts)).pending, 1_000)
    })
  )

  live(
    "a child that is removed leaves nothing, and its id can wait for others",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("left")
      yield* transact(Effect.forEach(some(2), (id) => Parts.add(id, data(0))))
      yield* transact(Sums.add("s", { of: "" }, { after: partsOf(Parts, [0, 1]) }))
      yield* transact(Sums.remove("s"))
      yield* transact(Sums.add("s", { of: "" }, { after: partsOf(Parts, [1]) }))
      yield* finishNext(Parts)
      assert.isUndefined(yield* acceptNow(Sums))
      yield* elsewhere(finishNext(Parts))
      assert.strictEqual((yield* acceptNow(Sums))!.id, "s")
      yield* transact(Sums.remove("s"))
      yield* assertNothingLeft
    })
  )

  live(
    "parents that end at the same moment in many processes are each counted",
    Effect.gen(function*() {
      const { Parts, Sums } = definitions("together")
      yield* transact(Effect.forEach(some(40), (id) => Parts.add(id, data(0))))
      yield* transact(Sums.add("s", { of: "" }, { after: partsOf(Parts, some(40)) }))
      const { path } = yield* Tenant.Tenant
      for (const _ of some(4)) {
        const worker = Parts.workerLayer((job) => Effect.succeed(data(Number(job.id))), { concurrency: 4 })
        yield* opened(Layer.provide(worker, Layer.fresh(Tenant.layer(path))))
      }
      const job = Option.getOrThrow(yield* Sums.accept())
      const left = yield* transact(Sums.results(job.id, Parts))
      assert.deepStrictEqual(left.map(({ data }) => data?.done), some(40))
    })
  )
}
