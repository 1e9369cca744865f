/** Processes beside the soak: they open the same file for a tenant of their own, and count there. */
import { Effect } from "effect"
import { Tenant, Transaction } from "effect-dgen"

export const FOREIGN_TENANT = ["foreign"]

const countOf = (bytes: Uint8Array | undefined): number =>
  bytes === undefined ? 0 : new DataView(bytes.buffer, bytes.byteOffset).getInt32(0, true)

const bytesOf = (count: number): Uint8Array => {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setInt32(0, count, true)
  return bytes
}

/** One life: counts, reads what all have counted, opens and closes the file again. */
export const count = (name: string, told: (count: number) => void) =>
  Effect.gen(function*() {
    for (let i = 1; i <= 50; i++) {
      const now = yield* Tenant.transact(Effect.gen(function*() {
        const next = countOf(yield* Transaction.get([name])) + 1
        yield* Transaction.set([name], bytesOf(next))
        return next
      }))
      told(now)
      yield* Tenant.transact(Transaction.getRange([], { limit: 100 }))
    }
  }).pipe(Effect.provide(Tenant.layer(FOREIGN_TENANT)))

/** What does not hold of the counts that were told. */
export const checkForeign = (told: ReadonlyMap<string, number>) =>
  Effect.map(
    Effect.forEach(told, ([name, count]) =>
      Effect.map(Tenant.transact(Transaction.get([name])), (bytes) => {
        const stored = countOf(bytes)
        // the last one may have been committed and not told
        return stored === count || stored === count + 1 ? [] : [`${name} counted to ${count}, and ${stored} is stored`]
      })),
    (problems) => problems.flat()
  ).pipe(Effect.provide(Tenant.layer(FOREIGN_TENANT)))
