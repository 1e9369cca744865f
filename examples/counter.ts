/**
 * A counter that survives its process: it starts, changes, stops, starts again, and is where it was. The file stays, so
 * that the next run goes on from there.
 */
import { Console, Effect, Layer } from "effect"
import { SqliteBackend, Tenant } from "effect-dgen"
import * as fs from "node:fs"
import * as path from "node:path"
import { behaviour, Counter, MAX } from "./counterServer.ts"

const filename = process.argv[2] ?? path.join(".data", "counter.db")
fs.mkdirSync(path.dirname(filename), { recursive: true })

// what it touches: only after the commit, with whatever services it needs
const CounterActions = Counter.actionsLayer({
  Announce: ({ total }) => Console.log(`  after the commit: the total is ${total}`)
})

// one life of the server: the file is opened, the server runs, and both are closed again
const CounterLive = Counter.layer(behaviour).pipe(
  Layer.provide(CounterActions),
  Layer.provide(Tenant.layer(["demo", "counter"])),
  Layer.provide(SqliteBackend.layer({ filename }))
)

const firstLife = Effect.gen(function*() {
  const counter = yield* Counter
  yield* Console.log(`started: the count is ${yield* counter.call("Value")}`)
  const refused = yield* Effect.flip(counter.call("Increment", { by: MAX + 1 }))
  yield* Console.log(`a call for ${MAX + 1} more is refused: ${refused._tag}`)
  yield* Console.log("a cast adds 40, then a call adds 2")
  yield* counter.cast("Add", { by: 40 })
  return yield* counter.call("Increment", { by: 2 })
})

const secondLife = Effect.gen(function*() {
  const counter = yield* Counter
  yield* Console.log(`started again: the count is ${yield* counter.call("Value")}`)
})

await Effect.runPromise(Effect.gen(function*() {
  // a life ends when all that it committed has had its actions
  const answer = yield* Effect.provide(firstLife, CounterLive)
  yield* Console.log(`stopped: the call was answered ${answer}, and the file is closed`)
  yield* Effect.provide(secondLife, CounterLive)
  yield* Console.log(`stopped: the next run goes on from ${filename}`)
}))
