/** Rows, and entries of the indexes, that nobody here wrote: each costs its own job, and no other. */
import { assert } from "@effect/vitest"
import { Cause, Deferred, Duration, Effect, Exit, Fiber, Option } from "effect"
import { Jobs, Tenant, Tuple } from "effect-dgen"
import { packValue } from "../../../src/internal/data/codec.ts"
import { JobKeys } from "../../../src/internal/jobs/definition/layout.ts"
import { overwrite } from "../server/support.ts"
import { acceptNow, allKeys, Data, data, type Harness, opened, SHORT } from "./support.ts"

const { transact } = Tenant
const Work = Jobs.make("work", { data: Data, timeout: SHORT, maxRunningPerKey: 1, retention: "1 milli" })

const keys = Effect.map(Tenant.Tenant, ({ prefix }) => new JobKeys(prefix, "work"))
const EMPTY = new Uint8Array(0)

/** Writes a row as it is. */
const put = (key: (keys: JobKeys) => Uint8Array, value: Uint8Array) =>
  Effect.flatMap(keys, (at) => overwrite([{ op: "set", key: key(at), value }]))

/** A readable row, with some fields replaced. */
const row = (fields: { readonly [index: number]: unknown } = {}): Uint8Array =>
  packValue(
    [1, 0, null, 0, 1, false, null, 0, null, 1, 0, 0, "", 1, -1, Uint8Array.of(1)].map((field, i) =>
      i in fields ? fields[i] : field
    )
  )

/** A row with something that few rows have. */
const extended = (extras: unknown): Uint8Array =>
  packValue([2, 0, null, 0, 1, false, null, 0, null, 1, 0, 0, "", 1, -1, Uint8Array.of(1), extras])

const rows: { readonly [name: string]: Uint8Array } = {
  "nothing": EMPTY,
  "garbage": Uint8Array.of(0xff, 0xc1, 1, 2, 3),
  "another format": row({ 0: 2 }),
  "an unknown state": row({ 1: 9 }),
  "a state of every object": row({ 1: "length" }),
  "running without a lock": row({ 1: 1 }),
  "a priority that is none": row({ 3: "high" }),
  "a time that is none": row({ 4: "soon" }),
  "parked without a key": row({ 5: true }),
  "a resubmission that is none": row({ 6: 5 }),
  "attempts that are none": row({ 7: "1" }),
  "a key that is none": row({ 8: Uint8Array.of(0xff) }),
  "a key that no key of the store holds": row({ 8: Tuple.pack(["x".repeat(20_000)]) }),
  "an error that is none": row({ 12: 5 }),
  "data shorter than it says": row({ 13: 100 }),
  "silent ends that are none": extended(["silentEnds", "x"]),
  "an extra without a value": extended(["silentEnds"])
}

const pendingEntries: ReadonlyArray<(keys: JobKeys) => Uint8Array> = [
  (keys) => Tuple.pack([-100, 1], keys.pending),
  (keys) => Tuple.pack(["first", 1, "a"], keys.pending),
  (keys) => new Uint8Array(Buffer.concat([keys.pending, Uint8Array.of(0x14, 0xff, 0xff)]))
]

const spoilAll = Effect.fnUntraced(function*(at: (keys: JobKeys, id: string) => Uint8Array) {
  for (const [name, value] of Object.entries(rows)) {
    yield* put((keys) => keys.job(name), value)
    yield* put((keys) => at(keys, name), EMPTY)
  }
})

/** The rows of a tenant that say who waits for whom, by what they are. */
const families = ["parent", "family", "children", "ends"] as const

const familyRows = (of: (typeof families)[number]) =>
  Effect.map(allKeys, (all) => all.filter(({ key }) => Buffer.from(key).toString("latin1").includes(`\x02${of}\x00`)))

const garbage = [EMPTY, Uint8Array.of(0xc1), packValue("x"), packValue([1, 2]), packValue([EMPTY, 5, "waiting", 1])]

export const jobsHostile = ({ live }: Harness) => {
  for (const of of families) {
    live(
      `what cannot be read of those who wait for others keeps nobody from ending or going: ${of}`,
      Effect.forEach(garbage, (value, round) =>
        Effect.gen(function*() {
          const Parts = Jobs.make(["parts", round], { data: Data, maxAttempts: 1 })
          const Sums = Jobs.make(["sums", round], { data: Data, maxAttempts: 1 })
          const after = [{ job: Parts, id: 1 }, { job: Parts, id: 2 }]
          yield* transact(Effect.gen(function*() {
            for (const id of [1, 2]) yield* Parts.add(id, data(id))
            yield* Sums.add("dies", data(1), { after })
            yield* Sums.add("runs", data(1), { after, onParentDeath: "run" })
            yield* Sums.add("last", data(1), { after: { job: Sums, id: "dies" } })
          }))
          // an end that is still to be told
          const { prefix } = yield* Tenant.Tenant
          if (of === "ends") yield* put(() => new JobKeys(prefix, ["parts", round]).end([1, 1]), value)
          for (const { key } of yield* familyRows(of)) yield* overwrite([{ op: "set", key, value }])
          const one = (yield* acceptNow(Parts))!
          assert.isTrue(Exit.isSuccess(yield* Effect.exit(transact(Parts.finish(one)))))
          assert.isTrue(Exit.isSuccess(yield* Effect.exit(transact(Sums.parents("runs")))))
          assert.isTrue(Exit.isSuccess(yield* Effect.exit(transact(Sums.results("runs", Parts)))))
          yield* transact(Parts.remove(2))
          // whatever is damaged, both ends were told
          const counts = yield* transact(Sums.counts)
          assert.deepStrictEqual(counts, { pending: 1, running: 0, finished: 0, dead: 2 })
          assert.strictEqual((yield* acceptNow(Sums))!.id, "runs")
          yield* Sums.retryAll()
          assert.strictEqual(yield* Sums.removeAll(), 3)
          assert.strictEqual(yield* Parts.removeAll(), 1)
        }), { discard: true })
    )
  }

  live(
    "an entry that names nobody who waits is cleared",
    Effect.gen(function*() {
      const Parts = Jobs.make("parts", { data: Data })
      const Sums = Jobs.make("sums", { data: Data })
      yield* transact(Effect.gen(function*() {
        yield* Parts.add(1, data(1))
        yield* Sums.add("s", data(1), { after: { job: Parts, id: 1 } })
      }))
      const [entry] = yield* familyRows("children")
      for (const end of [[0xff], [0x02, 0xff, 0x00], [0x15]]) {
        const key = new Uint8Array(Buffer.concat([entry!.key.subarray(0, -3), Uint8Array.from(end)]))
        yield* overwrite([{ op: "set", key, value: entry!.value }])
      }
      yield* transact(Parts.finish((yield* acceptNow(Parts))!))
      assert.strictEqual((yield* familyRows("children")).length, 0)
      assert.strictEqual((yield* acceptNow(Sums))!.id, "s")
    })
  )

  live(
    "a timeout that cannot be read is that of the definition",
    Effect.gen(function*() {
      for (const value of [packValue(["soon", false]), packValue([-1, false]), packValue([[], 1]), packValue(7)]) {
        yield* put((keys) => keys.settings, value)
        assert.strictEqual(Duration.toMillis(yield* transact(Work.getTimeout)), 300)
        assert.isFalse(yield* transact(Work.isPaused))
      }
    })
  )

  live(
    "what cannot be read in the queue holds no worker and no accept up, and stays",
    Effect.gen(function*() {
      yield* spoilAll((keys, id) => keys.pendingJob({ priority: 5, scheduledAt: 1, id }))
      for (const entry of pendingEntries) yield* put(entry, EMPTY)
      yield* transact(Work.add("good", data(1)))
      const job = (yield* acceptNow(Work))!
      assert.strictEqual(job.id, "good")
      yield* transact(Work.finish(job))
      const done = yield* Deferred.make<void>()
      yield* opened(Work.workerLayer(() => Deferred.succeed(done, undefined).pipe(Effect.asVoid)))
      yield* transact(Work.add("next", data(1)))
      yield* Deferred.await(done)
      const failure = yield* Effect.exit(transact(Work.getState("another format")))
      assert.strictEqual(failure._tag, "Failure")
    })
  )

  live(
    "what cannot be read among running jobs does not keep the monitor from the others",
    Effect.gen(function*() {
      const stamp = (n: number) => Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n)
      let n = 0
      for (const [name, value] of Object.entries(rows)) {
        const at = n++
        yield* put((keys) => keys.job(name), value)
        yield* put((keys) => keys.seq(name), stamp(at))
        yield* put((keys) => keys.activityEntry(stamp(at)), Tuple.pack([name]))
      }
      yield* put((keys) => keys.activityEntry(stamp(n)), Uint8Array.of(0xff))
      yield* put((keys) => keys.activityEntry(stamp(n + 1)), EMPTY)
      for (const id of ["a", "b", "c"]) yield* transact(Work.add(id, data(1)))
      yield* Effect.replicateEffect(Work.accept(), 3)
      const again = yield* Effect.replicateEffect(Work.accept(), 3)
      assert.deepStrictEqual(again.map((job) => Option.getOrThrow(job).attempt), [2, 2, 2])
    })
  )

  live(
    "what cannot be read among finished and dead jobs holds up neither retention nor purge nor a page",
    Effect.gen(function*() {
      yield* spoilAll((keys, id) => keys.endedJob("finished", 1, id))
      yield* put((keys) => Tuple.pack(["finished"], keys.ended), EMPTY)
      yield* put((keys) => Tuple.pack(["finished", "x"], keys.ended), EMPTY)
      yield* put((keys) => Tuple.pack(["finished", 1, "none"], keys.ended), EMPTY)
      yield* put((keys) => Tuple.pack(["dead", 1, "none"], keys.ended), EMPTY)
      yield* put((keys) => keys.endedJob("dead", 1, "garbage"), EMPTY)
      yield* transact(Work.add("one", data(1)))
      const page = yield* transact(Work.list())
      assert.deepStrictEqual(page.jobs.map(({ id }) => id), ["one"])
      yield* Effect.scoped(Effect.gen(function*() {
        const subscription = yield* Work.subscribe("one")
        yield* transact(Work.finish((yield* acceptNow(Work))!))
        assert.strictEqual(Option.getOrThrow(yield* Jobs.wait(subscription, { state: "removed" })).state, "removed")
      }))
      yield* transact(Work.add("two", data(1)))
      const job = (yield* acceptNow(Work))!
      const Once = Jobs.make("work", { data: Data, maxAttempts: 1 })
      assert.strictEqual(yield* transact(Once.fail(job, "no")), "dead")
      let purged = 0
      for (let count = -1; count !== 0; purged += count) count = yield* transact(Work.purgeDead())
      assert.strictEqual((yield* Effect.flip(transact(Work.getState("two"))))._tag, "JobNotFound")
      assert.isAtMost(purged, 2)
    })
  )

  live(
    "a parked job that cannot be read does not keep its key's others from running",
    Effect.gen(function*() {
      for (const id of ["a", "b", "c"]) yield* transact(Work.add(id, data(1), { key: "k" }))
      const first = (yield* acceptNow(Work))!
      assert.isUndefined(yield* acceptNow(Work))
      yield* put((keys) => keys.job("b"), Uint8Array.of(0xff))
      yield* transact(Work.finish(first))
      const next = (yield* acceptNow(Work))!
      assert.strictEqual(next.id, "c")
      yield* transact(Work.finish(next))
    })
  )

  for (const [name, spoilt] of Object.entries(rows)) {
    if (name === "another format") continue
    live(
      `a job whose row is ${name} can be removed, and leaves nothing behind`,
      Effect.gen(function*() {
        // one in each state, with long data
        const long = { url: "x".repeat(200_000), done: 1 }
        const Once = Jobs.make("work", { data: Data, timeout: "1 second", maxAttempts: 1 })
        const nobody = { pending: 0, running: 0, finished: 0, dead: 0 }
        for (const id of ["running", "dead", "finished", "pending"]) {
          yield* transact(Once.add(id, long))
          if (id === "pending") continue
          const job = (yield* acceptNow(Once))!
          if (id === "dead") yield* transact(Once.fail(job, "no"))
          if (id === "finished") yield* transact(Once.finish(job))
        }
        for (const id of Object.keys(nobody)) {
          yield* put((keys) => keys.job(id), spoilt)
          yield* transact(Once.remove(id))
          assert.strictEqual((yield* Effect.flip(transact(Once.getState(id))))._tag, "JobNotFound")
        }
        assert.strictEqual((yield* transact(Once.counts)).running, 0)
        // the others are counted until somebody meets what is left of them: who takes, who purges, the retention
        assert.isUndefined(yield* acceptNow(Work))
        yield* transact(Work.purgeDead())
        yield* Effect.repeat(Effect.andThen(Effect.yieldNow, transact(Work.counts)), {
          until: (counts) => counts.finished === 0
        })
        assert.deepStrictEqual(yield* transact(Work.counts), nobody)
        const at = yield* keys
        const entries = [at.jobs, at.pieces, at.pending, at.parked, at.seqs, at.activity, at.ended]
        const left = (yield* allKeys).filter(({ key }) =>
          entries.some((prefix) => Tuple.equalsBytes(key.subarray(0, prefix.length), prefix))
        )
        assert.deepStrictEqual(left, [])
      })
    )
  }

  live(
    "a damaged job that was removed can be added again, and is listed once, in its new state",
    Effect.gen(function*() {
      yield* transact(Work.add("one", data(1), { delay: "1 day" }))
      yield* put((keys) => keys.job("one"), EMPTY)
      const subscription = yield* transact(Work.add("other", data(1), { delay: "1 day" })).pipe(
        Effect.andThen(Work.subscribe("other"))
      )
      yield* transact(Effect.andThen(Work.remove("one"), Work.add("one", data(2), { delay: "2 days" })))
      for (const state of [undefined, "pending"] as const) {
        const { jobs } = yield* transact(Work.list({ state }))
        assert.deepStrictEqual(jobs.map(({ data, id }) => [id, data._tag]).toSorted(), [
          ["one", "Success"],
          ["other", "Success"]
        ])
      }
      // what is left of the damaged one is due first, and is nobody's
      const next = Option.getOrThrow(yield* Work.accept({ maxScheduledTime: Date.now() + 3 * 86_400_000 }))
      assert.strictEqual(next.id, "other")
      assert.deepStrictEqual(yield* transact(Work.counts), { pending: 1, running: 1, finished: 0, dead: 0 })
      assert.strictEqual(Option.getOrThrow(yield* Jobs.wait(subscription)).state, "running")
    })
  )

  live(
    "what a removed job left among the parked ones of its key holds none of them up, and is counted no more",
    Effect.gen(function*() {
      const One = Jobs.make("work", { data: Data, maxRunningPerKey: 1 })
      yield* transact(Effect.forEach(["a", "b", "c"], (id) => One.add(id, data(1), { key: "k", scheduledAt: 1 })))
      const first = (yield* acceptNow(One))!
      assert.isUndefined(yield* acceptNow(One))
      yield* put((keys) => keys.job("b"), EMPTY)
      yield* transact(One.remove("b"))
      assert.strictEqual((yield* transact(One.counts)).pending, 2)
      yield* transact(One.finish(first))
      assert.strictEqual((yield* acceptNow(One))!.id, "c")
      assert.deepStrictEqual(yield* transact(One.counts), { pending: 0, running: 1, finished: 1, dead: 0 })
    })
  )

  live(
    "subscribers and the holder of a damaged job learn of its removal; its places are free again",
    Effect.gen(function*() {
      const One = Jobs.make("work", { data: Data, maxRunning: 1, maxRunningPerKey: 1 })
      yield* transact(Effect.forEach(["a", "b", "c"], (id) => One.add(id, data(1), { key: "k", scheduledAt: 1 })))
      const first = (yield* acceptNow(One))!
      const subscription = yield* One.subscribe("a")
      yield* put((keys) => keys.job("a"), row({ 1: 9, 8: Tuple.pack(["k"]) }))
      const waiting = yield* Effect.forkChild(One.accept(), { startImmediately: true })
      yield* transact(One.remove("a"))
      assert.strictEqual(Option.getOrThrow(yield* Jobs.wait(subscription, { state: "removed" })).state, "removed")
      const second = Option.getOrThrow(yield* Fiber.join(waiting))
      assert.strictEqual(second.id, "b")
      assert.isUndefined(yield* acceptNow(One))
      assert.strictEqual((yield* Effect.flip(transact(One.finish(first))))._tag, "Halt")
      yield* transact(One.finish(second))
      assert.strictEqual((yield* acceptNow(One))!.id, "c")
    })
  )

  const newerRows = { format: row({ 0: 3 }), extra: extended(["what comes later", 1]) }
  for (const [what, newer] of Object.entries(newerRows)) {
    live(
      `a job of a newer version is not removed: it is whole (${what})`,
      Effect.gen(function*() {
        yield* put((keys) => keys.job("newer"), newer)
        const exit = yield* Effect.exit(transact(Work.remove("newer")))
        assert.include(String(Exit.isFailure(exit) && Cause.squash(exit.cause)), "use that version")
        const stored = yield* allKeys
        assert.deepStrictEqual(stored.map(({ value }) => Buffer.from(value)), [Buffer.from(newer)])
      })
    )
  }

  live(
    "a held job whose row cannot be read is lost to its holder, and other leases and subscribers live on",
    Effect.gen(function*() {
      const begun = yield* Deferred.make<void>()
      const lost = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      let runs = 0
      yield* opened(Work.workerLayer((job) => {
        if (job.id === "spoilt") {
          return Deferred.succeed(begun, undefined).pipe(
            Effect.andThen(Effect.never),
            Effect.onInterrupt(() => Deferred.succeed(lost, undefined))
          )
        }
        runs++
        return Effect.andThen(Deferred.await(go), Effect.void)
      }, { concurrency: 2 }))
      yield* transact(Work.add("spoilt", data(1)))
      yield* transact(Work.add("good", data(1)))
      yield* Deferred.await(begun)
      const subscription = yield* Work.subscribe("good")
      yield* Work.subscribe("spoilt")
      yield* put((keys) => keys.job("spoilt"), Uint8Array.of(0xff))
      yield* Deferred.await(lost)
      yield* Deferred.succeed(go, undefined)
      assert.isTrue(Option.isSome(yield* Jobs.wait(subscription, { state: "removed" })))
      assert.strictEqual(runs, 1)
    })
  )
}
