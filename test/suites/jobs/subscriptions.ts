/** Who waits for a job's changes. */
import { assert } from "@effect/vitest"
import { Effect, Exit, Fiber, Option, Scope, Stream } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { Data, data, elsewhere, type Harness } from "./support.ts"

const { transact } = Tenant
const Work = Jobs.make("work", { data: Data, maxAttempts: 1 })

const accepted = Effect.map(Work.accept(), Option.getOrThrow)
const next = (
  subscription: Jobs.Subscription<typeof Data.Type>,
  options?: { readonly state?: Jobs.JobState | "removed" }
) =>
  Effect.map(Jobs.wait(subscription, options), (change) => {
    const { data, id, state } = Option.getOrThrow(change)
    assert.strictEqual(id, subscription.id)
    return [state, data?.done] as const
  })

export const jobsSubscriptions = ({ live }: Harness) => {
  for (const where of ["the same process", "another process"] as const) {
    const there = where === "the same process" ? <A, E, R>(effect: Effect.Effect<A, E, R>) => effect : elsewhere
    live(
      `a subscriber sees each state and each change of the data that it waits for, made by ${where}`,
      Effect.gen(function*() {
        yield* transact(Work.add("one", data(0)))
        const subscription = yield* Work.subscribe("one")
        assert.deepStrictEqual([subscription.type, subscription.id], ["work", "one"])
        assert.deepStrictEqual([subscription.state, subscription.data], ["pending", data(0)])
        const job = yield* there(accepted)
        assert.deepStrictEqual(yield* next(subscription), ["running", 0])
        yield* there(transact(Work.update(job, data(1))))
        assert.deepStrictEqual(yield* next(subscription), ["running", 1])
        yield* there(transact(Work.finish(job, data(2))))
        assert.deepStrictEqual(yield* next(subscription), ["finished", 2])
        yield* there(transact(Work.resubmit("one", { data: data(3) })))
        assert.deepStrictEqual(yield* next(subscription), ["pending", 3])
        yield* there(Effect.flatMap(accepted, (again) => transact(Work.fail(again, "no"))))
        assert.deepStrictEqual(yield* next(subscription, { state: "dead" }), ["dead", 3])
        yield* there(transact(Work.remove("one")))
        assert.deepStrictEqual(yield* next(subscription), ["removed", undefined])
        // nothing follows a removal
        yield* there(transact(Work.add("one", data(9))))
        assert.isTrue(Option.isNone(yield* Jobs.wait(subscription)))
      })
    )

    for (const [wanted, end] of [["finished", "dead"], ["dead", "finished"], ["running", "dead"]] as const) {
      live(
        `a wait for a job to be ${wanted} ends when it is ${end} instead: by ${where}`,
        Effect.gen(function*() {
          yield* transact(Work.add("one", data(0)))
          const job = yield* accepted
          const subscription = yield* Work.subscribe("one")
          if (wanted === "running") assert.deepStrictEqual(yield* next(subscription, { state: wanted }), ["running", 0])
          const fiber = yield* Effect.forkChild(next(subscription, { state: wanted }))
          yield* Effect.yieldNow
          yield* there(Effect.asVoid(transact(end === "dead" ? Work.fail(job, "no") : Work.finish(job))))
          assert.deepStrictEqual(yield* Fiber.join(fiber), [end, 0])
          // it was told of that, and waits for what comes now
          const again = yield* Effect.forkChild(next(subscription, { state: "pending" }))
          yield* there(transact(Work.resubmit("one")))
          assert.deepStrictEqual(yield* Fiber.join(again), ["pending", 0])
        })
      )
    }

    live(
      `who subscribes to a dead job is told at once that it will not finish, unless it is to run again: by ${where}`,
      Effect.gen(function*() {
        yield* transact(Work.add("one", data(0)))
        yield* transact(Work.fail(yield* accepted, "no"))
        const subscription = yield* Work.subscribe("one")
        assert.deepStrictEqual(yield* next(subscription, { state: "finished" }), ["dead", 0])
        const another = yield* Work.subscribe("one")
        yield* there(transact(Work.requeueDead("one")))
        const fiber = yield* Effect.forkChild(next(another, { state: "finished" }))
        yield* there(Effect.flatMap(accepted, (job) => transact(Work.finish(job, data(1)))))
        assert.deepStrictEqual(yield* Fiber.join(fiber), ["finished", 1])
      })
    )

    live(
      `a waiting subscriber is woken by a change that ${where} makes`,
      Effect.gen(function*() {
        yield* transact(Work.add("one", data(0)))
        const subscription = yield* Work.subscribe("one")
        const changes = [
          Effect.asVoid(accepted),
          transact(Work.resubmit("one")).pipe(Effect.andThen(transact(Work.remove("one"))))
        ]
        for (const [i, state] of (["running", "removed"] as const).entries()) {
          const fiber = yield* Effect.forkChild(next(subscription))
          yield* Effect.yieldNow
          assert.isUndefined(fiber.pollUnsafe())
          yield* there(changes[i]!)
          assert.strictEqual((yield* Fiber.join(fiber))[0], state)
        }
      })
    )
  }

  for (const state of ["pending", "running", "finished", "dead"] as const) {
    live(
      `a subscription that begins when the job is ${state} begins there, and misses nothing that follows`,
      Effect.gen(function*() {
        yield* transact(Work.add("one", data(0)))
        const job = state === "pending" ? undefined : yield* accepted
        if (state === "finished") yield* transact(Work.finish(job!))
        if (state === "dead") yield* transact(Work.fail(job!, "no"))
        const subscription = yield* Work.subscribe("one")
        assert.strictEqual(subscription.state, state)
        assert.isTrue(Option.isNone(yield* Jobs.wait(subscription, { timeout: "5 millis" })))
        // a state that is there already is given to who asks for it, once
        assert.deepStrictEqual(yield* next(subscription, { state }), [state, 0])
        assert.isTrue(Option.isNone(yield* Jobs.wait(subscription, { state, timeout: "5 millis" })))
        yield* transact(Work.remove("one"))
        assert.deepStrictEqual(yield* next(subscription, { state }), ["removed", undefined])
      })
    )
  }

  live(
    "a subscription made at the moment of a change sees the change or what was before it, then the latest",
    Effect.gen(function*() {
      for (let i = 0; i < 30; i++) {
        yield* transact(Work.add(i, data(0), { scheduledAt: Date.UTC(2200, 0) }))
        const [subscription] = yield* Effect.all([
          Effect.andThen(Effect.replicateEffect(Effect.yieldNow, i % 6), Work.subscribe(i)),
          transact(Work.resubmit(i, { data: data(1) })),
          Effect.andThen(Effect.replicateEffect(Effect.yieldNow, i % 5), transact(Work.resubmit(i, { data: data(2) })))
        ], { concurrency: "unbounded" })
        const latest = yield* transact(Work.getData(i))
        let seen = subscription.data
        while (seen.done !== latest.done) {
          seen = Option.getOrThrow(yield* Jobs.wait(subscription, { timeout: "5 seconds" })).data!
        }
        assert.isTrue(Option.isNone(yield* Jobs.wait(subscription, { timeout: 0 })))
      }
    })
  )

  live(
    "several subscribers of a job each get the latest; subscribers of other jobs get nothing",
    Effect.gen(function*() {
      yield* transact(Effect.all([Work.add("one", data(0)), Work.add("two", data(0), { delay: "1 day" })]))
      const [a, b, other] = yield* Effect.all([Work.subscribe("one"), Work.subscribe("one"), Work.subscribe("two")])
      const far = yield* elsewhere(Effect.gen(function*() {
        const c = yield* Work.subscribe("one")
        const job = yield* accepted
        yield* transact(Work.finish(job, data(7)))
        return yield* next(c, { state: "finished" })
      }))
      assert.deepStrictEqual(far, ["finished", 7])
      const both = yield* Effect.all([next(a, { state: "finished" }), next(b, { state: "finished" })], {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(both, [["finished", 7], ["finished", 7]])
      assert.isTrue(Option.isNone(yield* Jobs.wait(other, { timeout: "5 millis" })))
    })
  )

  live(
    "a wait for several subscriptions gives the first that has news",
    Effect.gen(function*() {
      yield* transact(Effect.all([Work.add("one", data(1)), Work.add("two", data(2), { delay: "1 day" })]))
      const both = yield* Effect.all([Work.subscribe("one"), Work.subscribe("two")])
      const fiber = yield* Effect.forkChild(Jobs.wait(both))
      yield* transact(Work.remove("two"))
      const change = Option.getOrThrow(yield* Fiber.join(fiber))
      assert.deepStrictEqual([change.id, change.state], ["two", "removed"])
      yield* accepted
      assert.strictEqual(Option.getOrThrow(yield* Jobs.wait(both)).id, "one")
    })
  )

  live(
    "after unsubscribe, or the end of its scope, a subscription gives nothing and open waits end",
    Effect.gen(function*() {
      yield* transact(Work.add("one", data(1)))
      const subscription = yield* Work.subscribe("one")
      const fiber = yield* Effect.forkChild(Jobs.wait(subscription))
      yield* Effect.yieldNow
      yield* Jobs.unsubscribe(subscription)
      assert.isTrue(Option.isNone(yield* Fiber.join(fiber)))
      yield* accepted
      assert.isTrue(Option.isNone(yield* Jobs.wait(subscription)))
      yield* Jobs.unsubscribe(subscription)
      const scope = yield* Scope.fork(yield* Effect.scope)
      const scoped = yield* Scope.provide(Work.subscribe("one"), scope)
      yield* Scope.close(scope, Exit.void)
      assert.isTrue(Option.isNone(yield* Jobs.wait(scoped)))
    })
  )

  live(
    "a wait of a tenant layer that has ended fails, and does not hang",
    Effect.gen(function*() {
      yield* transact(Work.add("one", data(1)))
      const scope = yield* Effect.scope
      const subscription = yield* elsewhere(Scope.provide(Work.subscribe("one"), scope))
      const error = yield* Effect.flip(Jobs.wait(subscription))
      assert.strictEqual(error._tag, "BackendError")
    })
  )

  live(
    "the stream of changes begins with the job as it is and ends after the removal",
    Effect.gen(function*() {
      yield* transact(Work.add("one", data(0)))
      const seen: Array<string> = []
      const fiber = yield* Work.changes("one").pipe(
        Stream.runForEach((change) =>
          Effect.gen(function*() {
            seen.push(change.state)
            if (change.state === "pending") yield* accepted
            if (change.state === "running") yield* transact(Work.remove("one"))
          })
        ),
        Effect.forkChild
      )
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(seen, ["pending", "running", "removed"])
    })
  )

  live(
    "a thousand subscribers are told by bounded passes",
    Effect.gen(function*() {
      const ids = Array.from({ length: 1_200 }, (_, i) => i)
      yield* transact(Effect.forEach(ids, (id) => Work.add(id, data(0), { delay: "1 day" })))
      const subscriptions = yield* Effect.forEach(ids, (id) => Work.subscribe(id), { concurrency: 50 })
      yield* elsewhere(transact(Effect.forEach(ids, (id) => Work.remove(id))))
      const changes = yield* Effect.forEach(subscriptions, (one) => next(one), { concurrency: "unbounded" })
      assert.isTrue(changes.every(([state]) => state === "removed"))
    })
  )
}
