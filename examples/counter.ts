/** A counter that survives its process: it starts, changes, stops, starts again, and is where it was. */
import { Console, Effect, Layer } from "effect"
import { SqliteBackend, Tenant } from "effect-dgen"
import * as fs from "node:fs"
import { behaviour, Counter } from "./counterServer.ts"

const filename = process.argv[2] ?? ".data/counter.db"
fs.mkdirSync(new URL("../.data", import.meta.url), { recursive: true })

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
  yield* Console.log(`started, the count is ${yield* counter.call("Value")}`)
  yield* counter.cast("Add", { by: 40 })
  yield* Console.log(`a cast of 40 and a call of 2 make ${yield* counter.call("Increment", { by: 2 })}`)
  const refused = yield* Effect.flip(counter.call("Increment", { by: 5000 }))
  yield* Console.log(`a call of 5000 is refused: ${refused._tag}`)
  yield* Console.log("stopped")
}).pipe(Effect.provide(CounterLive))

const secondLife = Effect.gen(function*() {
  const counter = yield* Counter
  yield* Console.log(`started again, the count is still ${yield* counter.call("Value")}`)
}).pipe(Effect.provide(CounterLive))

await Effect.runPromise(Effect.andThen(firstLife, secondLife))
