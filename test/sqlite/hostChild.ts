/** A process that hosts servers until it is killed: `node hostChild.ts <filename> <consumeK>`. */
import { Effect, Logger } from "effect"
import { SqliteBackend } from "effect-dgen"
import { host, makeTold } from "../simulation/hosting.ts"

const [, , filename, consumeK] = process.argv
const told = makeTold()
told.now = Date.now

process.once("disconnect", () => process.exit())
await Effect.runPromise(
  host(told, { consumeK: Number(consumeK) }, 0).pipe(
    Effect.provide(SqliteBackend.layer({ filename: filename! })),
    Effect.scoped,
    Effect.provide(Logger.layer([]))
  )
)
