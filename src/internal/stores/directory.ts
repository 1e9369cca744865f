/**
 * Directories of stores that have none of their own: paths of names, each with a short prefix that is never given
 * again. The table of paths lies under one byte, the directories under another.
 *
 * ```
 * 0xFE "path" <name> ...   the prefix of a path
 * 0xFE "next"              how many were given
 * 0x15..0x1C <n>           the directories
 * ```
 *
 * 1. Opening twice is as good as once, so a commit without an answer is run again. A removal that was applied without an
 *    answer finds nothing when it is run again: it was there if any run found it.
 */
import * as Effect from "effect/Effect"
import type { Directory, DriverTransaction, KeyRange, Mutation } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"

const ROOT = Uint8Array.of(0xfe)
const NEXT = Tuple.pack(["next"], ROOT)

/** Directories are opened rarely; who meets so many conflicts in a row meets something else. */
const CONFLICT_RETRIES = 100

/** A store that is away is asked again after so long: with the retries, for ten seconds. */
const AWAY_PAUSE_MILLIS = 100

const pathKey = (path: ReadonlyArray<string>): Uint8Array => Tuple.pack(["path", ...path], ROOT)

interface Plan<A> {
  readonly value: A
  readonly mutations: ReadonlyArray<Mutation>
  readonly reads: ReadonlyArray<KeyRange>
}

const writeRange = (mutation: Mutation): KeyRange =>
  mutation.op === "clearRange" ? { begin: mutation.begin, end: mutation.end } : Keys.single(mutation.key)

/** Reads, then writes what the plan says, as one transaction. */
const run = <A>(
  begin: Effect.Effect<DriverTransaction, BackendError>,
  plan: (driver: DriverTransaction) => Effect.Effect<Plan<A>, BackendError>
): Effect.Effect<A, BackendError> =>
  Effect.retry(
    Effect.tapError(
      Effect.acquireUseRelease(
        begin,
        (driver) =>
          Effect.flatMap(plan(driver), ({ mutations, reads, value }) =>
            Effect.as(
              driver.commit(
                { mutations, readConflicts: reads, writeConflicts: mutations.map(writeRange), watches: [] },
                () => {}
              ),
              value
            )),
        (driver) => Effect.sync(() => driver.close())
      ),
      (error) => error.reason._tag === "Unavailable" ? Effect.sleep(AWAY_PAUSE_MILLIS) : Effect.void
    ),
    { times: CONFLICT_RETRIES, while: (error) => error.isRetryable || error.isMaybeCommitted }
  )

/** The names below a path: one read each, however many paths lie below them. */
const namesBelow = Effect.fnUntraced(function*(
  driver: DriverTransaction,
  path: ReadonlyArray<string>
): Effect.fn.Return<ReadonlyArray<string>, BackendError> {
  const key = pathKey(path)
  const { begin, end } = Tuple.range([], key)
  const names: Array<string> = []
  for (let at = begin;;) {
    const [row] = yield* driver.getRange(at, end, { limit: 1, reverse: false })
    const name = row && Tuple.unpack(row.key, key.length)[0]
    if (typeof name !== "string") return names
    names.push(name)
    at = Tuple.strinc(pathKey([...path, name]))
  }
})

/** The directories of a store. */
export const make = (begin: Effect.Effect<DriverTransaction, BackendError>): Directory => ({
  open: (path) =>
    run(begin, (driver) =>
      Effect.gen(function*() {
        const key = pathKey(path)
        const known = yield* driver.get(key)
        if (known !== undefined) return { value: known, mutations: [], reads: [] }
        const given = yield* driver.get(NEXT)
        const number = given === undefined ? 1 : (Tuple.unpack(given)[0] as number) + 1
        const prefix = Tuple.pack([number])
        return {
          value: prefix,
          mutations: [
            { op: "set", key, value: prefix },
            { op: "set", key: NEXT, value: prefix }
          ],
          reads: [Keys.single(key), Keys.single(NEXT)]
        }
      })),
  exists: (path) =>
    run(
      begin,
      (driver) =>
        Effect.map(driver.get(pathKey(path)), (known) => ({ value: known !== undefined, mutations: [], reads: [] }))
    ),
  list: (path) =>
    run(begin, (driver) => Effect.map(namesBelow(driver, path), (value) => ({ value, mutations: [], reads: [] }))),
  remove: (path) =>
    Effect.suspend(() => {
      let found = false
      return run(begin, (driver) =>
        Effect.gen(function*() {
          const key = pathKey(path)
          const below = Tuple.range([], key)
          const own = yield* driver.get(key)
          const rows = yield* driver.getRange(below.begin, below.end, { limit: Infinity, reverse: false })
          const prefixes = [...(own === undefined ? [] : [own]), ...rows.map((row) => row.value)]
          const mutations: Array<Mutation> = prefixes.map((prefix) => ({
            op: "clearRange",
            begin: prefix,
            end: Tuple.strinc(prefix)
          }))
          if (prefixes.length > 0) {
            mutations.push({ op: "clear", key }, { op: "clearRange", begin: below.begin, end: below.end })
          }
          found ||= prefixes.length > 0
          return { value: found, mutations, reads: [Keys.single(key), below] }
        }))
    })
})
