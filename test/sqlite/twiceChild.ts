/**
 * A process that has a file open, and opens it once more: `node twiceChild.ts <filename> <how> [<copy>]`, by a worker thread that
 * stays or ends, by another name, or by the copy of this library in a folder. Then it tells its parent, writes keys when it is
 * told to, and waits to be killed.
 */
import { Context, Effect, Layer, Scope } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { pathToFileURL } from "node:url"
import { Worker } from "node:worker_threads"
import type * as Backends from "../../src/Backend.ts"
import { put, write } from "../support/driver.ts"
import { withBackend, writeKeys } from "./support.ts"

type Service = Backends.Backend["Service"]

const [filename, how, copy] = process.argv.slice(2) as [string, string, string | undefined]

const worker = (stays: boolean) =>
  Effect.callback<void>((resume) => {
    const running = new Worker(new URL("./twiceWorker.ts", import.meta.url), { workerData: { filename, stays } })
    running.once("message", () => resume(Effect.void))
    running.once("error", (error) => resume(Effect.die(error)))
  })

const linked = (name: string, make: (target: string, name: string) => void) =>
  Effect.suspend(() => {
    make(filename, name)
    return withBackend(name, (backend) => write(backend, put("linked", "1")))
  })

/** Opened by another copy of the library, and left open. */
const copied = Effect.gen(function*() {
  const module = (name: string) => Effect.promise(() => import(pathToFileURL(path.join(copy!, "src", name)).href))
  const SqliteBackend = yield* module("SqliteBackend.ts")
  const { Backend } = yield* module("Backend.ts")
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(SqliteBackend.layer({ filename }) as Layer.Layer<unknown>, scope)
  yield* write(Context.get(context as Context.Context<never>, Backend as never) as Service, put("copy", "1"))
})

const ways: Record<string, Effect.Effect<unknown, unknown>> = {
  "a worker thread that stays": worker(true),
  "a worker thread that ends": worker(false),
  "another copy of the library": copied,
  "a hard link": linked(`${filename}.hard`, fs.linkSync),
  "a symbolic link": linked(`${filename}.soft`, fs.symlinkSync),
  "another spelling": Effect.suspend(() =>
    withBackend(path.relative(".", filename), (backend) => write(backend, put("spelt", "1")))
  )
}

await Effect.runPromise(withBackend(filename, (backend) =>
  Effect.gen(function*() {
    yield* write(backend, put("first", "1"))
    yield* ways[how]!
    process.send!("open")
    yield* Effect.callback<void>((resume) => void process.once("message", () => resume(Effect.void)))
    yield* writeKeys(backend, 0, 20)
    process.send!("written")
    // the channel to the parent keeps the process alive
    process.on("message", () => {})
    return yield* Effect.never
  })))
