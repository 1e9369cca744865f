/** Another process on the file of a benchmark: commits to a tenant of its own, so often a second, until it is ended. */
import { Effect, Layer, Schedule } from "effect"
import { SqliteBackend, Tenant, Transaction } from "effect-dgen"

const [filename, aSecond] = process.argv.slice(2)
const store = Tenant.layer(["foreign"]).pipe(Layer.provide(SqliteBackend.layer({ filename: filename! })))

const commit = Tenant.transact(Transaction.set(["tick"], Uint8Array.of(1)))
const program = Effect.repeat(commit, Schedule.fixed(1_000 / Number(aSecond)))
console.log("ready")
await Effect.runPromise(Effect.provide(program, store))
