/**
 * What is done to many jobs at once: in passes, each a transaction of its own that does a bounded share. A pass does what
 * it does to the jobs as they are then; what comes meanwhile can be met or not. What comes behind the last job of the
 * beginning is not met: a job that is run again and dies again at once comes there, and there would be no end.
 */
import * as Effect from "effect/Effect"
import type { BackendError } from "../../../BackendError.ts"
import { Tenant } from "../../../Tenant.ts"
import type * as Tuple from "../../../Tuple.ts"
import { transact } from "../../transactions/loop.ts"
import { InvalidOption } from "../definition/errors.ts"
import { type State, STATES } from "../definition/layout.ts"
import { type Model, optionsOf, type Place, within } from "../definition/model.ts"
import { askAgain } from "../kept/lifecycle.ts"
import { Share } from "../kept/passLimits.ts"
import { tryLoad } from "../kept/places.ts"
import { removeJob } from "../kept/removal.ts"
import type { Row } from "../kept/row.ts"
import { cursorOf, lastRow, type Listed, listed, pageOf } from "./listing.ts"

/** Jobs that one pass looks at. */
const PASS_JOBS_LIMIT = 200

/**
 * Which jobs are meant: those of a state, if one is given, that `where` says yes to, if it is given.
 *
 * @since 0.1.0
 * @category models
 */
export interface ManyOptions<in A> {
  readonly state?: State | undefined
  /** Gets a job as a list shows it. It can be asked more than once about a job. */
  readonly where?: ((job: Listed<A>) => boolean) | undefined
}

/** For those who show how far it has come. */
interface Watched {
  /** Is told after each pass how many there have been so far. */
  readonly onProgress?: ((count: number) => void) | undefined
}

type Refused = InvalidOption | BackendError

/** One pass over a page, or the first part of one: succeeds with how many jobs it changed, and where the next one begins. */
const passOver = (
  model: Model,
  { state, where }: ManyOptions<any>,
  part: { readonly after: string | undefined; readonly upTo: string },
  use: (place: Place, id: Tuple.Element, row: Row) => Effect.Effect<unknown>
) =>
  Effect.flatMap(
    pageOf(model, { state, limit: PASS_JOBS_LIMIT, ...part }),
    ({ next, rows }) =>
      within(model, (place) =>
        Effect.gen(function*() {
          const share = new Share(place.state)
          let count = 0
          for (const [index, job] of rows.entries()) {
            if (share.isDone) return { count, next: cursorOf(place, rows[index - 1]!.key) }
            if (where !== undefined && !where(listed(model, job))) continue
            const row = yield* tryLoad(place, job.id)
            // the page looks by snapshot, and one that went can have ended others of it: what counts is the row
            if (
              row === undefined || row === "unreadable" || (state !== undefined && row.state !== job.row.state)
            ) continue
            yield* use(place, job.id, row)
            share.did(row.parents?.count ?? 0)
            count++
          }
          return { count, next }
        }))
  )

const overAll = Effect.fnUntraced(function*(
  model: Model,
  input: (ManyOptions<any> & Watched) | undefined,
  fallback: State | undefined,
  states: ReadonlyArray<State>,
  use: (place: Place, id: Tuple.Element, row: Row) => Effect.Effect<unknown>
): Effect.fn.Return<number, Refused, Tenant> {
  const tenant = yield* Tenant
  const given = yield* optionsOf(model, input)
  const options = { ...given, state: given.state ?? fallback }
  if (options.where !== undefined && typeof options.where !== "function") {
    return yield* new InvalidOption({ type: model.type, option: "where", problem: "must be a function" })
  }
  if (options.state !== undefined && !states.includes(options.state)) {
    const problem = `must be one of ${states.join(", ")}`
    return yield* new InvalidOption({ type: model.type, option: "state", problem })
  }
  const upTo = yield* transact(tenant, lastRow(model, options.state))
  if (upTo === undefined) return 0
  let total = 0
  let after: string | undefined
  do {
    const { count, next } = yield* transact(tenant, passOver(model, options, { after, upTo }, use))
    total += count
    options.onProgress?.(total)
    after = next
  } while (after !== undefined)
  return total
})

/** Removes all that are meant. */
export const removeAll = (model: Model, options?: ManyOptions<any> & Watched): Effect.Effect<number, Refused, Tenant> =>
  overAll(model, options, undefined, STATES, removeJob)

/** What is done to a job that has ended, so that it runs again. */
export type Again = (place: Place, id: Tuple.Element, row: Row) => Effect.Effect<unknown>

const runAgain: Again = (place, id, row) => askAgain(place, id, row, { scheduledAt: undefined, data: undefined })

/** Runs all again that are meant: dead ones, unless finished ones are asked for. */
export const retryAll = (
  model: Model,
  options?: ManyOptions<any> & Watched,
  again = runAgain
): Effect.Effect<number, Refused, Tenant> => overAll(model, options, "dead", ["dead", "finished"], again)
