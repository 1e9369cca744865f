/** Jobs of one SQLite file while the processes that work on them are killed, again and again. */
import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { Jobs, Tenant, Transaction } from "effect-dgen"
import { type ChildProcess, spawn } from "node:child_process"
import * as path from "node:path"
import { temporaryFolder } from "../support/temporary.ts"
import { finishes, isLong, storeAt, Work, Worker } from "./child.ts"
import { Deadly, POISON } from "./poisonChild.ts"

const { transact } = Tenant
const COUNT = 300
const KILLS = 5

const start = (filename: string, child = "child.ts"): ChildProcess =>
  spawn(process.execPath, [path.join(import.meta.dirname, child), filename], { stdio: ["pipe", "pipe", "inherit"] })

const ready = (process: ChildProcess) =>
  Effect.callback<void>((resume) => void process.stdout!.once("data", () => resume(Effect.void)))

const ended = (process: ChildProcess) =>
  Effect.callback<void>((resume) => void process.once("exit", () => resume(Effect.void)))

it.live(
  "no job is lost and none is finished twice while its workers are killed",
  () => {
    const filename = path.join(temporaryFolder(), "killed.db")
    return Effect.gen(function*() {
      let added = 0
      const add = (count: number) =>
        transact(Effect.forEach(Array.from({ length: count }, () => added++), (n) => Work.add(n, { n })))
      for (let kill = 0; kill < KILLS; kill++) {
        const worker = start(filename)
        yield* ready(worker)
        // a different number of its commits each time: it is killed in the midst of them
        yield* Effect.forEach(Array.from({ length: COUNT / KILLS / 10 + kill % 3 }), () => add(kill % 3 === 0 ? 7 : 10))
        // and while a long job runs: a quick machine has finished the others
        yield* Effect.repeat(Effect.suspend(() => add(1)), { until: () => isLong(added - 1) })
        yield* Effect.repeat(transact(Work.getState(added - 1)), { until: (state) => state === "running" })
        const end = yield* Effect.forkChild(ended(worker), { startImmediately: true })
        worker.kill("SIGKILL")
        yield* Fiber.join(end)
      }
      yield* add(1)
      // the last worker is of this process
      yield* Effect.provide(
        Effect.gen(function*() {
          for (let n = 0; n < added; n++) {
            yield* Effect.scoped(Effect.flatMap(Work.subscribe(n), (one) => Jobs.wait(one, { state: "finished" })))
          }
        }),
        Worker
      )
      const counts = yield* transact(Work.counts)
      assert.deepStrictEqual(counts, { pending: 0, running: 0, finished: added, dead: 0 })
      // the kills have met jobs that ran
      const { jobs } = yield* transact(Work.list({ limit: 1_000 }))
      assert.isTrue(jobs.some(({ attempts }) => attempts > 1))
      for (let n = 0; n < added; n++) {
        assert.strictEqual((yield* transact(Transaction.get(finishes(n))))?.[0], 1, `job ${n}`)
      }
    }).pipe(Effect.provide(storeAt(filename)))
  },
  120_000
)

it.live(
  "a job that kills each process that runs it dies, and those that ran beside it are finished",
  () => {
    const filename = path.join(temporaryFolder(), "poison.db")
    const COUNT = 9
    return Effect.gen(function*() {
      yield* transact(Effect.forEach(Array.from({ length: COUNT }, (_, n) => n), (n) => Deadly.add(n, { n })))
      const isOver = Effect.map(transact(Deadly.counts), ({ pending, running }) => pending + running === 0)
      let deaths = 0
      for (;;) {
        const worker = start(filename, "poisonChild.ts")
        const died = yield* Effect.forkChild(ended(worker), { startImmediately: true })
        const over = Effect.repeat(Effect.delay(isOver, 50), { until: (isOver) => isOver })
        if (yield* Effect.raceFirst(Effect.as(Fiber.join(died), false), Effect.as(over, true))) {
          worker.stdin!.end()
          yield* Fiber.join(died)
          break
        }
        deaths++
      }
      assert.strictEqual(deaths, 3)
      assert.deepStrictEqual(
        yield* transact(Deadly.counts),
        { pending: 0, running: 0, finished: COUNT - 1, dead: 1 }
      )
      assert.strictEqual(yield* transact(Deadly.getState(POISON)), "dead")
    }).pipe(Effect.provide(storeAt(filename)))
  },
  120_000
)
