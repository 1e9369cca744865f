/** Who waits for a commit of another process is told by the file system once it can be seen, and needs no timer for it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Backend } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { vi } from "vitest"
import { bytes, commit, within } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { nameOf, withBackend } from "./support.ts"

type Service = Backend.Backend["Service"]

const folder = temporaryFolder()

const COMMITS = 20

/** Another process that writes the next key whenever it is told to. */
const writer = (filename: string) =>
  Effect.acquireRelease(
    Effect.callback<ChildProcess>((resume) => {
      const child = fork(path.join(import.meta.dirname, "wakesChild.ts"), [filename])
      child.once("message", () => resume(Effect.succeed(child)))
      child.once("close", () => resume(Effect.die(new Error("the process ended too early"))))
    }),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

/** Ends when the key was written by the other process, which is told once the watch is armed. */
const woken = (backend: Service, child: ChildProcess, i: number) =>
  Effect.callback<void>((resume) => {
    const watch = { key: bytes(nameOf(i)), fire: () => resume(Effect.void), fail: () => {}, onCancel: undefined }
    Effect.runFork(Effect.andThen(
      within(backend, (driver) => commit(driver, [], { watches: [watch] })),
      Effect.sync(() => child.send(i))
    ))
  })

/** The timer behind the file system is an interval: without it nothing helps but the file system. */
const withoutTimer = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => vi.useFakeTimers({ toFake: ["setInterval"] })),
    () => effect,
    () => Effect.sync(() => vi.useRealTimers())
  )

const places: Record<string, (filename: string) => void> = {
  "as a rule": () => {},
  "where no file can lie beside the database for it": (filename) => fs.mkdirSync(`${filename}-version`)
}

describe.skipIf(process.platform !== "linux")("SqliteBackend's wake-ups between processes", () => {
  for (const [name, prepare] of Object.entries(places)) {
    it.live(`come by the file system alone ${name}`, () =>
      Effect.gen(function*() {
        const filename = path.join(folder, `${name}.db`)
        prepare(filename)
        yield* withBackend(filename, (backend) =>
          Effect.gen(function*() {
            const child = yield* writer(filename)
            yield* withoutTimer(Effect.forEach(
              Array.from({ length: COMMITS }, (_, i) => i),
              (i) => woken(backend, child, i),
              { discard: true }
            ))
          }).pipe(Effect.scoped))
      }))
  }

  it.live("come by the file system alone after somebody deleted the file for it", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "deleted.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          const child = yield* writer(filename)
          yield* woken(backend, child, 0)
          fs.rmSync(`${filename}-version`)
          for (let i = 1; i < 4; i++) yield* woken(backend, child, i)
          assert.isTrue(fs.existsSync(`${filename}-version`))
          // the other one watches too, and so has found out by now
          yield* withoutTimer(Effect.forEach([4, 5, 6], (i) => woken(backend, child, i), { discard: true }))
        }).pipe(Effect.scoped))
    }))

  it.live("come by the timer when a process died between its commit and the word of it", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "silent.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          const child = yield* writer(filename)
          // the other process has its file open, and writes into what nobody watches
          fs.renameSync(`${filename}-version`, `${filename}-version.away`)
          fs.writeFileSync(`${filename}-version`, "")
          yield* woken(backend, child, 0)
        }).pipe(Effect.scoped))
    }))
})
