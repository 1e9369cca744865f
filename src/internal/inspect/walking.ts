/**
 * Walks over what is longer than one transaction: page by page, each a transaction of its own, as long as the store lets one
 * see a single state. Beside a process that writes to the same file of SQLite without a pause that is some milliseconds: a
 * page that met another state is tried again, and becomes shorter; one that came through makes the next one longer.
 *
 * A page holds for its own moment. What moves while a walk goes on can be seen twice or not at all.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { BackendError } from "../../BackendError.ts"
import { Tenant } from "../../Tenant.ts"
import type { Transaction } from "../../Transaction.ts"
import { isA } from "../data/show.ts"
import { transact } from "../transactions/loop.ts"

/** So often a page meets another state before a shorter one is tried. */
const TRIES = 3

/** The rows of a page, as the walk has learned them. */
export class Pace {
  rows: number
  readonly #most: number

  constructor(most: number) {
    this.rows = this.#most = most
  }

  shorter(): void {
    this.rows = Math.max(1, Math.floor(this.rows / 4))
  }

  longer(): void {
    this.rows = Math.min(this.#most, this.rows + Math.ceil(this.rows / 4))
  }
}

export const isTooOld = (error: unknown): boolean =>
  isA(error, BackendError) && error.reason._tag === "TransactionTooOld"

/** Runs a page with as many rows as come through; one of a single row is tried for as long as any transaction. */
export const paced = <A, E>(
  tenant: Tenant["Service"],
  pace: Pace,
  page: (rows: number) => Effect.Effect<A, E, Transaction>
): Effect.Effect<A, E | BackendError> =>
  Effect.suspend((): Effect.Effect<A, E | BackendError> => {
    const { rows } = pace
    const run = transact(tenant, page(rows), rows === 1 ? {} : { tries: TRIES })
    return Effect.catch(Effect.tap(run, () => Effect.sync(() => pace.longer())), (error) => {
      if (rows === 1 || !(isA(error, BackendError) && error.isRetryable)) return Effect.fail(error)
      pace.shorter()
      return paced(tenant, pace, page)
    })
  })

/** The rows of a page where its options name a number, too: what is none is refused as it is. */
export const atMost = (given: number | undefined, rows: number): number =>
  given === undefined || Number.isInteger(given) && given > rows ? rows : given

/** What a page gives: rows, and where the following one begins. */
export interface Page<Row> {
  readonly rows: ReadonlyArray<Row>
  readonly looked: number
  readonly next: string | undefined
}

/** A page of so many rows at the most, behind a cursor, of so many looks where rows are chosen among others. */
export type PageAfter<Row, E> = (
  limit: number,
  after: string | undefined,
  look: number
) => Effect.Effect<Page<Row>, E, Transaction>

/** Until where a walk goes, whatever it has found. */
export interface Bounds {
  readonly limit: number
  readonly look: number
  readonly millis: number
}

/** Pages as one: so many rows, or what was found until enough was looked at, or enough time has passed. */
export const gathered = Effect.fnUntraced(function*<Row, E>(
  tenant: Tenant["Service"],
  pace: Pace,
  page: PageAfter<Row, E>,
  { after, limit, look, millis }: Bounds & { readonly after: string | undefined }
): Effect.fn.Return<Page<Row>, E | BackendError> {
  const until = (yield* Clock.currentTimeMillis) + millis
  const rows: Array<Row> = []
  let looked = 0
  let next = after
  do {
    const [rowsLeft, looksLeft, at] = [limit - rows.length, look - looked, next]
    const found: Page<Row> = yield* paced(
      tenant,
      pace,
      (some) => page(Math.min(some, rowsLeft), at, Math.min(some, looksLeft))
    )
    rows.push(...found.rows)
    looked += found.looked
    next = found.next
  } while (next !== undefined && rows.length < limit && looked < look && (yield* Clock.currentTimeMillis) < until)
  return { rows, looked, next }
})

/** All of a list, page by page. */
export const streamOf = <Row, E>(
  most: number,
  page: PageAfter<Row, E>
): Stream.Stream<Row, E | BackendError, Tenant> =>
  Stream.unwrap(Effect.map(Tenant, (tenant) => {
    const pace = new Pace(most)
    return Stream.paginate(undefined as string | undefined, (after) =>
      Effect.map(
        paced(tenant, pace, (rows) => page(rows, after, rows)),
        ({ next, rows }) => [rows, next === undefined ? Option.none() : Option.some(next)] as const
      ))
  }))
