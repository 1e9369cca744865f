/** Hosts in processes on one file, which are killed, and stand still for longer than every lease: nothing is lost or doubled. */
import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Logger, Schedule } from "effect"
import { SqliteBackend } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as path from "node:path"
import { check, found, makeTold, send, setTick } from "../simulation/hosting.ts"
import { temporaryFolder } from "../support/temporary.ts"

const KILLS = 6

/** Longer than the lease of a host, which is 10 seconds, and than the time limit of a lock. */
const STILL = "12 seconds"

const children = (filename: string) => {
  const living: Array<ChildProcess> = []
  const start = (slot: number) => {
    living[slot] = fork(path.join(import.meta.dirname, "hostChild.ts"), [filename, slot === 0 ? "1" : "7"])
  }
  const kill = (slot: number) =>
    Effect.callback<void>((resume) => {
      living[slot]!.once("close", () => resume(Effect.void))
      living[slot]!.kill("SIGKILL")
    })
  const signal = (slot: number, name: "SIGSTOP" | "SIGCONT") => Effect.sync(() => living[slot]!.kill(name))
  return { living, start, kill, signal }
}

it.live("hosts that are killed and stand still lose no message and double none, and each timer is sent once", () =>
  Effect.gen(function*() {
    const filename = path.join(temporaryFolder(), "hosts.db")
    const { kill, living, signal, start } = children(filename)
    yield* Effect.addFinalizer(() => Effect.forEach(living.keys(), kill, { discard: true }))
    const told = makeTold()
    told.now = Date.now
    yield* Effect.gen(function*() {
      for (const slot of [0, 1, 2]) start(slot)
      yield* setTick
      const senders = yield* Effect.forEach(["a", "b", "c"], (name) => Effect.forkChild(send(told, name, 14)))
      const still = Effect.andThen(signal(2, "SIGSTOP"), Effect.andThen(Effect.sleep(STILL), signal(2, "SIGCONT")))
      const standing = yield* Effect.forkChild(still)
      for (let i = 0; i < KILLS; i++) {
        yield* Effect.sleep(1_500)
        yield* kill(i % 2)
        start(i % 2)
      }
      for (const fiber of [...senders, standing]) yield* Fiber.join(fiber as Fiber.Fiber<unknown, unknown>)
      const all = yield* Effect.repeat(found(told), {
        schedule: Schedule.spaced("300 millis"),
        until: ({ did, isDone, ticks }) =>
          isDone && ticks.size >= 2 && [...told.acknowledged].every((id) => did.has(id))
      })
      assert.deepStrictEqual(check(told, { ...all, left: [] }, 2), [])
    }).pipe(Effect.provide(SqliteBackend.layer({ filename })))
  }).pipe(Effect.scoped, Effect.provide(Logger.layer([]))))
