/** A SQLite file for the length of a function, and keys in an order that shows whether one is missing. */
import { assert } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import * as Backend from "../../src/Backend.ts"
import * as SqliteBackend from "../../src/SqliteBackend.ts"
import { put, range, within, write } from "../support/driver.ts"

type Service = Backend.Backend["Service"]

export const withBackend = <A, E>(filename: string, use: (backend: Service) => Effect.Effect<A, E>) =>
  Effect.scoped(
    Effect.flatMap(
      Layer.build(SqliteBackend.layer({ filename })),
      (context) => use(Context.get(context, Backend.Backend))
    )
  )

export const nameOf = (i: number): string => `k${String(i).padStart(4, "0")}`
export const valueOf = (i: number): string => `${i} `.repeat(60)

/** Writes keys, each in a commit of its own. */
export const writeKeys = (backend: Service, from: number, count: number) =>
  Effect.forEach(
    Array.from({ length: count }, (_, i) => from + i),
    (i) => write(backend, put(nameOf(i), valueOf(i))),
    { discard: true }
  )

/** How many of the first keys are there, in one look; no key may be there behind one that is missing. */
export const prefixOf = (backend: Service, keys: number) =>
  Effect.map(within(backend, (driver) => range(driver, "k", "l")), (rows) => {
    assert.isAtMost(rows.length, keys)
    const other = rows.findIndex(([name, value], i) => name !== nameOf(i) || value !== valueOf(i))
    if (other !== -1) assert.deepStrictEqual(rows[other], [nameOf(other), valueOf(other)])
    return rows.length
  })
