/**
 * One server, three processes on one file: this one publishes, two children consume. Each message is handled once,
 * whoever takes it, and a call is answered from whichever process ran it.
 */
import { Console, Effect, Layer } from "effect"
import { SqliteBackend, Tenant } from "effect-dgen"
import { fork } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { behaviour, Counter } from "./counterServer.ts"

const MESSAGES = 200

const storeAt = (filename: string) =>
  Tenant.layer(["demo", "counter"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))

/** A child: runs the server until the parent says it is over, and reports how much it handled. */
const consumer = (filename: string) =>
  Effect.gen(function*() {
    let handled = 0
    const live = Counter.layer(behaviour).pipe(
      Layer.provide(Counter.actionsLayer({ Announce: () => Effect.sync(() => void handled++) })),
      Layer.provide(storeAt(filename))
    )
    yield* Effect.callback<void>((resume) => {
      process.once("message", () => resume(Effect.void))
      process.send?.("ready")
    }).pipe(Effect.provide(live))
    process.send?.(handled)
    process.disconnect()
  })

interface Child {
  readonly ready: Promise<unknown>
  readonly finish: () => Promise<number>
}

const startChild = (filename: string): Child => {
  const child = fork(import.meta.filename, [filename], { execArgv: ["--conditions=effect-dgen-source"] })
  const next = () =>
    new Promise<any>((resolve, reject) => {
      child.once("message", resolve)
      child.once("exit", (code) => reject(new Error(`a child ended early, with ${code}`)))
    })
  return {
    ready: next(),
    finish: () => {
      const handled = next()
      child.send("finish")
      return handled
    }
  }
}

const publisher = Effect.gen(function*() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "two-processes-"))
  const filename = path.join(folder, "counter.db")
  const children = [startChild(filename), startChild(filename)]
  yield* Effect.promise(() => Promise.all(children.map((child) => child.ready)))
  yield* Effect.gen(function*() {
    const counter = yield* Counter.client()
    yield* Effect.forEach(
      Array.from({ length: MESSAGES }),
      () => counter.call("Increment", { by: 1 }, { timeout: "30 seconds" }),
      { concurrency: 8, discard: true }
    )
    yield* Console.log(`${MESSAGES} calls from this process, the count is ${(yield* counter.state)?.count}`)
    yield* Console.log(`messages that still wait: ${yield* counter.queueLength}`)
  }).pipe(Effect.provide(storeAt(filename)))
  const handled = yield* Effect.promise(() => Promise.all(children.map((child) => child.finish())))
  yield* Console.log(`handled by the two consumers together: ${handled[0]! + handled[1]!}`)
  fs.rmSync(folder, { recursive: true })
})

const run = process.argv[2] === undefined ? Effect.asVoid(publisher) : consumer(process.argv[2])
await Effect.runPromise<void, unknown>(run)
