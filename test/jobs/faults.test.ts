/** Jobs on a store that fails now and then, in each way that running again can help, and in some where it cannot. */
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Layer, Logger, Option, Schema } from "effect"
import { BackendError, Jobs, Tenant } from "effect-dgen"
import { describe } from "vitest"
import { hubOf } from "../../src/internal/jobs/background/hub.ts"
import * as Model from "../../src/internal/jobs/definition/model.ts"
import { take, taking } from "../../src/internal/jobs/working/accept.ts"
import { committing } from "../support/driver.ts"

const Data = Schema.Struct({ n: Schema.Number })
const { transact } = Tenant

type Reason = BackendError.Reason
interface Faults {
  /** Asked before each commit that writes: the reason that it fails with, if it does. */
  next: (writes: number) => Reason | undefined
}

/** A backend in memory whose commits fail when `faults` says so; nothing of such a commit is applied. */
const failing = (faults: Faults) =>
  committing(({ mutations }, commit) => {
    const reason = faults.next(mutations.length)
    return reason === undefined ? commit : Effect.fail(new BackendError.BackendError({ reason }))
  })

const message = "on purpose"

/** So many failures make a pass of the monitor 7 jobs long. */
const HALVINGS = 6
const reasons: ReadonlyArray<Reason> = [
  new BackendError.Conflict({ message }),
  new BackendError.TransactionTooOld({ message }),
  new BackendError.Unavailable({ message }),
  new BackendError.TransactionTooLarge({ message }),
  new BackendError.CommitUnknown({ message })
]

const run = (faults: Faults, test: Effect.Effect<void, unknown, Tenant.Tenant>) =>
  test.pipe(
    Effect.provide(Tenant.layer(["faults"]).pipe(Layer.provide(failing(faults)))),
    Effect.provide(Logger.layer([]))
  )

describe("a store that fails", () => {
  it.live("a handler is interrupted once its lease cannot be renewed for the timeout", () => {
    let isDown = false
    const reason = new BackendError.Unavailable({ message })
    const Work = Jobs.make("work", { data: Data, timeout: "300 millis" })
    const started = Deferred.makeUnsafe<AbortSignal>()
    const ended = Deferred.makeUnsafe<void>()
    const worker = Work.workerLayer(
      (_, { signal }) =>
        Effect.andThen(Deferred.succeed(started, signal), Effect.never).pipe(
          Effect.onInterrupt(() => Deferred.succeed(ended, undefined))
        ),
      { grace: 0 }
    )
    return run(
      { next: () => isDown ? reason : undefined },
      Effect.gen(function*() {
        yield* transact(Work.add("one", { n: 1 }))
        yield* Effect.gen(function*() {
          const signal = yield* Deferred.await(started)
          isDown = true
          yield* Deferred.await(ended)
          assert.isTrue(signal.aborted)
          isDown = false
        }).pipe(Effect.provide(worker))
        assert.strictEqual((yield* transact(Work.counts)).finished, 0)
      })
    )
  })

  it.live("the monitor's passes grow again after failures made them small", () => {
    const COUNT = 2_000
    const options = { data: Data, timeout: "300 millis" } as const
    const Hasty = Jobs.make("hasty", options)
    // some failures, then none: how much each commit writes after them
    let left = 0
    let afterwards: Array<number> | undefined
    const faults: Faults = {
      next: (writes) => {
        if (left-- > 0) return new BackendError.TransactionTooLarge({ message })
        afterwards?.push(writes)
        return undefined
      }
    }
    return run(
      faults,
      Effect.scoped(Effect.gen(function*() {
        for (let first = 0; first < COUNT; first += 500) {
          yield* transact(Effect.forEach(Array.from({ length: 500 }, (_, i) => first + i), (n) => Hasty.add(n, { n })))
        }
        const model = Model.make("hasty", options)
        const hub = yield* hubOf(model)
        const wanted = { limit: 500, maxScheduledTime: undefined }
        const taken = yield* Effect.replicateEffect(
          taking(hub, (state, claimed) => take(hub, model, state, wanted, claimed), () => {}),
          COUNT / 500
        )
        const last = taken.at(-1)!.jobs.at(-1)!.id
        left = HALVINGS
        afterwards = []
        // starts the monitor
        const subscription = yield* Hasty.subscribe(last)
        yield* Jobs.wait(subscription, { state: "pending" })
        const [first] = afterwards
        assert.isAbove(Math.max(...afterwards), 20 * first!)
        // with 7 jobs each they would be 285
        assert.isBelow(afterwards.length, 100)
      }))
    )
  })

  for (const reason of reasons) {
    it.live(`the monitor goes on after ${reason._tag}, and gives back all that is stale`, () => {
      const COUNT = 700
      let left = 0
      const faults: Faults = { next: (writes) => writes > 20 && left-- > 0 ? reason : undefined }
      const Hasty = Jobs.make("hasty", { data: Data, timeout: "200 millis" })
      return run(
        faults,
        Effect.scoped(Effect.gen(function*() {
          yield* transact(Effect.forEach(Array.from({ length: COUNT }, (_, i) => i), (n) => Hasty.add(n, { n })))
          left = 4
          yield* Effect.replicateEffect(Hasty.accept(), COUNT, { concurrency: 10, discard: true })
          // taken once more: only what was given back can be, some more than once where that takes long
          const again = new Set<unknown>()
          while (again.size < COUNT) {
            const jobs = yield* Effect.replicateEffect(Hasty.accept(), 10, { concurrency: 10 })
            for (const job of jobs.map(Option.getOrThrow)) if (job.attempt >= 2) again.add(job.id)
          }
          assert.isBelow(left, 4)
        }))
      )
    })

    it.live(`a worker goes on after ${reason._tag}, and settles every job`, () => {
      const COUNT = 120
      let commits = 0
      const faults: Faults = { next: () => ++commits % 5 === 0 ? reason : undefined }
      const Work = Jobs.make("work", { data: Data, timeout: "500 millis" })
      const last = Deferred.makeUnsafe<void>()
      const seen = new Set<unknown>()
      const worker = Work.workerLayer((job) =>
        Effect.suspend(() => {
          seen.add(job.id)
          return seen.size === COUNT ? Deferred.succeed(last, undefined).pipe(Effect.asVoid) : Effect.void
        }), { concurrency: 7 })
      return run(
        faults,
        Effect.gen(function*() {
          for (let n = 0; n < COUNT; n++) {
            yield* Effect.retry(transact(Work.add(n, { n }, { ifExists: "ignore" })), { times: 5 })
          }
          yield* Effect.provide(Deferred.await(last), worker)
          const { finished, pending, running } = yield* transact(Work.counts)
          // what the last turns could not settle is left to the lease, and is not lost
          assert.strictEqual(finished + pending + running, COUNT)
          assert.isAtLeast(finished, COUNT - 14)
        })
      )
    })
  }
})
