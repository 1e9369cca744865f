/** Servers in processes that are killed with SIGKILL, again and again, also under the lock: nothing is lost or doubled. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Schedule } from "effect"
import { SqliteBackend, Tenant, Transaction } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as path from "node:path"
import { check, Journal, makeTold, send } from "../soak/journal.ts"
import { temporaryFolder } from "../support/temporary.ts"
import type { Section } from "./journalChild.ts"

const KILLS = 16
const SENDERS = ["a", "b", "c"]
const MESSAGES = 60

/** A locked handler of a process, from begin to end, or to the process's death. */
interface Interval {
  readonly pid: number
  readonly id: string
  readonly begin: bigint
  end: bigint | undefined
}

/** Processes that come back as often as they are killed. */
const processes = (filename: string) => {
  const sections: Array<Interval> = []
  const living = new Map<number, ChildProcess>()
  const start = (slot: number) => {
    const child = fork(path.join(import.meta.dirname, "journalChild.ts"), [filename, String(slot === 0 ? 1 : 7)])
    const pid = child.pid!
    living.set(slot, child)
    child.on("message", ({ begins, id, nanos }: Section) => {
      if (begins) sections.push({ pid, id, begin: BigInt(nanos), end: undefined })
      else sections.findLast((section) => section.pid === pid && section.id === id)!.end = BigInt(nanos)
    })
  }
  const kill = (slot: number) =>
    Effect.callback<void>((resume) => {
      const child = living.get(slot)!
      child.once("close", () => {
        const now = process.hrtime.bigint()
        for (const section of sections) if (section.pid === child.pid) section.end ??= now
        resume(Effect.void)
      })
      child.kill("SIGKILL")
    })
  return { sections, start, kill }
}

/** Two locked handlers at the same time, though the first one was not slower than the time limit of its lock. */
const overlaps = (sections: ReadonlyArray<Interval>) => {
  const sorted = sections.toSorted((a, b) => a.begin < b.begin ? -1 : 1)
  return sorted.filter((section, i) =>
    sorted.slice(0, i).some((before) =>
      (before.end ?? section.begin) > section.begin && section.begin - before.begin < 2_000_000_000n
    )
  )
}

describe("SqliteBackend with processes that are killed", () => {
  it.live(`${KILLS} kills lose no message, double none, and let no two into the lock`, () =>
    Effect.gen(function*() {
      const filename = path.join(temporaryFolder(), "kills.db")
      const { kill, sections, start } = processes(filename)
      yield* Effect.addFinalizer(() => Effect.forEach([0, 1], kill, { discard: true }))
      const told = makeTold()
      return yield* Effect.gen(function*() {
        for (const slot of [0, 1]) start(slot)
        const sending = yield* Effect.forkChild(
          Effect.forEach(SENDERS, (sender) => send(told, sender, MESSAGES), { concurrency: "unbounded" })
        )
        let killed = 0
        // each kill waits for progress since the last one, and every second one for a locked handler
        for (; killed < KILLS && sending.pollUnsafe() === undefined; killed++) {
          const inside = () => sections.find((section) => section.end === undefined)
          const before = told.acknowledged.size
          yield* Effect.repeat(Effect.sleep(5), {
            until: () =>
              sending.pollUnsafe() !== undefined ||
              (killed % 2 === 0 ? inside() !== undefined : told.acknowledged.size > before + 3)
          })
          const slot = killed % 2
          yield* kill(slot)
          start(slot)
        }
        yield* Effect.repeat(Effect.void, {
          until: () => sending.pollUnsafe() !== undefined,
          schedule: Schedule.spaced(20)
        })
        const journal = yield* Journal.client()
        const isDone = Effect.zipWith(journal.queueLength, journal.locked, (length, locked) => length === 0 && !locked)
        for (let quiet = 0; quiet < 5;) {
          yield* Effect.sleep(1_000)
          quiet = (yield* isDone) ? quiet + 1 : 0
        }
        const applied = yield* Tenant.transact(Transaction.get(["applied"]))
        const result = {
          state: (yield* journal.state)!,
          applied: applied === undefined ? 0 : new DataView(applied.buffer).getInt32(0, true)
        }
        assert.deepStrictEqual(check(told, result, true), [])
        assert.lengthOf(result.state.entries, SENDERS.length * MESSAGES)
        assert.deepStrictEqual(overlaps(sections), [])
        assert.isAtLeast(killed, 5)
        assert.isAtLeast(sections.length, SENDERS.length * MESSAGES / 5)
      }).pipe(
        Effect.provide(Tenant.layer(["journal"]).pipe(Layer.provideMerge(SqliteBackend.layer({ filename })))),
        Effect.provide(Logger.layer([]))
      )
    }).pipe(Effect.scoped), 120_000)
})
