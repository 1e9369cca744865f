/** A process that pushes: `node versionsChild.ts URL SCHEMA COUNT`. It takes the next of a queue, too, after each push. */
import { Effect, Layer } from "effect"
import * as PostgresBackend from "../../src/PostgresBackend.ts"
import * as Tenant from "../../src/Tenant.ts"
import * as Transaction from "../../src/Transaction.ts"
import * as Tuple from "../../src/Tuple.ts"

const [url, schema, count] = process.argv.slice(2)

const push = Tenant.transact(Effect.gen(function*() {
  yield* Transaction.setVersionstampedKey(["pushed", Tuple.Versionstamp.incomplete()], Uint8Array.of(1))
  yield* Transaction.add(["pushes"], 1)
}))

/** Takes the first of what waits, as a consumer does: by snapshot, with a conflict on what it takes alone. */
const take = Tenant.transact(Effect.gen(function*() {
  const [first] = yield* Transaction.getRange(["waiting"], { limit: 1, snapshot: true })
  if (first === undefined) return undefined
  if ((yield* Transaction.get(first.key)) === undefined) return undefined
  yield* Transaction.clear(first.key)
  yield* Transaction.add(["taken", ...first.key.slice(1)], 1)
  return first.key[1]
}))

await Effect.runPromise(
  Effect.repeat(Effect.andThen(push, take), { times: Number(count) - 1 }).pipe(
    Effect.provide(
      Layer.provide(Tenant.layer(["versions"]), PostgresBackend.layer({ url: url!, schema, maxConnections: 4 }))
    )
  )
)
