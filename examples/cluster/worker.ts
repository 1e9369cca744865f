/**
 * One process of the example: `worker.ts <store> consumer`, or `worker.ts <store> publisher <name> <count>`. It runs
 * until its parent says that it is over, and does not outlive it.
 */
import { Deferred, Effect, Exit, Layer } from "effect"
import { Tenant, Transaction } from "effect-dgen"
import { behaviour, path, storeOf, Tally } from "./tally.ts"

const [store, role, name, count] = process.argv.slice(2) as [string, string, string, string]

// heard from the first moment on: the parent may say that it is over before anything has begun
const over = Deferred.makeUnsafe<void>()
process.once("message", () => Deferred.doneUnsafe(over, Exit.void))
process.once("disconnect", () => Deferred.isDoneUnsafe(over) || process.exit(1))

const told = Deferred.await(over)

const consume = told.pipe(Effect.provide(Tally.layer(behaviour, { consumeK: 10 })))

// the message and how far this publisher is are one commit: whoever takes over after a crash goes on exactly there
const publishNext = Tenant.transact(Effect.gen(function*() {
  const published = yield* Transaction.get(["published", name])
  const number = (published === undefined ? 0 : Buffer.from(published).readInt32BE()) + 1
  if (number > Number(count)) return false
  const next = Buffer.alloc(4)
  next.writeInt32BE(number)
  yield* Transaction.set(["published", name], next)
  yield* Tally.castTx("Count", { publisher: name, number })
  return true
}))

const publish = Effect.andThen(Effect.repeat(publishNext, { while: (more) => more }), told)

const work: Effect.Effect<void, unknown, Tenant.Tenant> = role === "consumer" ? consume : publish

await Effect.runPromise(Effect.provide(work, Tenant.layer(path).pipe(Layer.provide(storeOf(store)))))
process.disconnect()
