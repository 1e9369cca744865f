/** A file that one process has open twice: nothing that it acknowledged is lost when others come and go and it is killed. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import type { BackendError } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import { get, put, within, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { prefixOf, withBackend, writeKeys } from "./support.ts"

const folder = temporaryFolder()

const WAYS = [
  "a worker thread that stays",
  "a worker thread that ends",
  "another copy of the library",
  "a hard link",
  "a symbolic link",
  "another spelling"
]

/** The library's files once more, in a folder where they find what they need. */
const copyOfLibrary = (): string => {
  const root = fileURLToPath(new URL("../..", import.meta.url))
  const copy = path.join(folder, "copy")
  fs.cpSync(path.join(root, "src"), path.join(copy, "src"), { recursive: true })
  fs.copyFileSync(path.join(root, "package.json"), path.join(copy, "package.json"))
  fs.symlinkSync(path.join(root, "node_modules"), path.join(copy, "node_modules"))
  return copy
}

const told = (child: ChildProcess, message: string) =>
  Effect.callback<void>((resume) => {
    child.on("message", (said) => said === message && resume(Effect.void))
    child.once("close", () => resume(Effect.die(new Error(`the process ended before it was "${message}"`))))
  })

const killed = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    child.once("close", () => resume(Effect.void))
    child.kill("SIGKILL")
  })

const refusal = (filename: string): Effect.Effect<BackendError.BackendError> =>
  Effect.flip(withBackend(filename, () => Effect.void)) as never

describe("SqliteBackend with a file that is open twice in a process", () => {
  const copy = copyOfLibrary()
  for (const way of WAYS) {
    it.live(`by ${way}: others come and go, it acknowledges, is killed, and all is there`, () =>
      Effect.gen(function*() {
        const filename = path.join(folder, `${way}.db`)
        const child = fork(path.join(import.meta.dirname, "twiceChild.ts"), [filename, way, copy])
        yield* told(child, "open")
        // whoever closes a file last deletes its log: this process must see that it is not the last
        for (let i = 0; i < 3; i++) yield* withBackend(filename, (backend) => within(backend, (d) => get(d, "first")))
        assert.isTrue(fs.existsSync(`${filename}-wal`))
        const written = yield* Effect.forkChild(told(child, "written"), { startImmediately: true })
        child.send("go")
        yield* Fiber.join(written)
        yield* killed(child)
        fs.rmSync(`${filename}.hard`, { force: true })
        yield* withBackend(filename, (backend) =>
          Effect.gen(function*() {
            assert.strictEqual(yield* prefixOf(backend, 20), 20)
          }))
      }))
  }

  it.live("layers of all its names see what the others wrote, at once", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "names.db")
      const [soft, early, hard] = ["soft", "early", "hard"].map((name) => `${filename}.${name}`) as [
        string,
        string,
        string
      ]
      // a link to a file that is still to be made
      fs.symlinkSync(filename, early)
      yield* withBackend(early, (first) =>
        Effect.gen(function*() {
          yield* write(first, put("a", "1"))
          assert.isTrue(fs.existsSync(`${filename}-version`))
          fs.symlinkSync(filename, soft)
          fs.linkSync(filename, hard)
          for (const name of [filename, soft, hard, path.relative(".", filename)]) {
            yield* withBackend(name, (backend) =>
              Effect.gen(function*() {
                yield* write(backend, put("b", name))
                assert.strictEqual(yield* within(first, (driver) => get(driver, "b")), name)
              }))
          }
        }))
    }))

  it.live("a hard link that is opened by itself is refused, and the name that was used is not", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "linked.db")
      yield* withBackend(filename, (backend) => writeKeys(backend, 0, 3))
      fs.linkSync(filename, `${filename}.hard`)
      const { reason } = yield* refusal(`${filename}.hard`)
      assert.strictEqual(reason._tag, "InvalidArgument")
      assert.match(reason.message, /second name/)
      yield* withBackend(filename, (backend) => writeKeys(backend, 3, 3))
    }))

  it.live("a worker thread that is ended in the midst of its commits leaves nothing locked", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "ended.db")
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          const running = new Worker(new URL("./twiceWorker.ts", import.meta.url), {
            workerData: { filename, stays: true }
          })
          yield* Effect.callback<void>((resume) => void running.once("message", () => resume(Effect.void)))
          yield* Effect.promise(() => running.terminate())
          assert.strictEqual(yield* within(backend, (driver) => get(driver, "worker")), "1")
          yield* writeKeys(backend, 0, 5)
        }))
    }))
})
