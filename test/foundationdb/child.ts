/**
 * A process that uses a cluster and then has nothing to do: `node child.ts <cluster file>`. It says `ready`
 * with a watch armed and a call open, closes its layer, says `closed`, and has to end by itself. With a number as the third
 * argument it dies of an error instead, in the middle of so many transactions.
 */
import { Effect, Layer } from "effect"
import * as FoundationDbBackend from "../../src/FoundationDbBackend.ts"
import * as Tenant from "../../src/Tenant.ts"
import * as Transaction from "../../src/Transaction.ts"

const [clusterFile, connectTimeout = "10 seconds", transactions] = process.argv.slice(2)

const crashing = Effect.gen(function*() {
  for (let n = 0; n < Number(transactions); n++) {
    yield* Effect.forkScoped(Effect.forever(Tenant.transact(Transaction.set(["child", n], new Uint8Array(1)))))
  }
  setImmediate(() =>
    setImmediate(() => {
      throw new Error("crash")
    })
  )
  return yield* Effect.never
})

const program = Effect.gen(function*() {
  yield* Tenant.transact(Transaction.set(["child"], new Uint8Array(1)))
  const watch = yield* Tenant.transact(Transaction.watch(["child"]))
  yield* Effect.forkScoped(Effect.ignore(watch.changed), { startImmediately: true })
  console.log("ready")
  if (transactions !== undefined) yield* crashing
}).pipe(
  Effect.scoped,
  Effect.provide(
    Tenant.layer(["foundationDbChild"]).pipe(
      Layer.provide(FoundationDbBackend.layer({ clusterFile, connectTimeout: connectTimeout as "10 seconds" }))
    )
  )
)

await Effect.runPromise(Effect.match(program, {
  onFailure: (error) => console.log(`${error.reason._tag}: ${error.message}`),
  onSuccess: () => console.log("closed")
}))
