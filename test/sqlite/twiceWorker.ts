/** A worker thread that opens a file, writes a key, and tells: `{ filename, stays }`. */
import { Effect } from "effect"
import { parentPort, workerData } from "node:worker_threads"
import { put, write } from "../support/driver.ts"
import { withBackend } from "./support.ts"

const { filename, stays } = workerData as { readonly filename: string; readonly stays: boolean }
await Effect.runPromise(withBackend(filename, (backend) =>
  Effect.gen(function*() {
    yield* write(backend, put("worker", "1"))
    if (!stays) return
    parentPort!.postMessage("open", [])
    return yield* Effect.never
  })))
parentPort!.postMessage("closed", [])
