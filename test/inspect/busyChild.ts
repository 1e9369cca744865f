/**
 * A process that writes to a file of SQLite without a pause: `node busyChild.ts <filename> <tenant>`, until it is killed. It
 * counts in a server that nobody hosts, so each commit touches what others look at.
 */
import { Effect, Layer } from "effect"
import { SqliteBackend, Tenant } from "effect-dgen"
import { Clerk } from "./clerk.ts"

const [filename, tenant] = process.argv.slice(2)
const cast = Tenant.transact(Clerk.castTx("Write", { text: "busy" }, { tuid: ["clerk", 500] }))
const Live = Tenant.layer([tenant!]).pipe(Layer.provide(SqliteBackend.layer({ filename: filename! })))

await Effect.runPromise(
  Effect.tap(cast, () => Effect.sync(() => process.send!("writes"))).pipe(
    Effect.andThen(Effect.forever(cast)),
    Effect.provide(Live)
  )
)
