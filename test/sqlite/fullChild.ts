/**
 * A process whose files may not grow beyond a limit: `node fullChild.ts <filename>` writes one key after another until it
 * was refused three times, and prints the outcomes.
 */
import { Context, Effect, Layer } from "effect"
import { Backend, SqliteBackend } from "effect-dgen"
import { outcome, put, write } from "../support/driver.ts"

const REFUSALS = 3
const VALUE = "x".repeat(20_000)

await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  const layer = SqliteBackend.layer({ filename: process.argv[2]! })
  const backend = Context.get(yield* Layer.build(layer), Backend.Backend)
  const outcomes: Array<string> = []
  while (outcomes.filter((result) => result !== "success").length < REFUSALS) {
    const key = `k${String(outcomes.length).padStart(4, "0")}`
    outcomes.push(yield* outcome(write(backend, put(key, VALUE))))
  }
  console.log(JSON.stringify(outcomes))
})))
