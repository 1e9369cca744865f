/**
 * A job as its holder has it. The lock inside is the fencing token: it names one run of one job, and no other caller
 * can make it up.
 */
import type * as Tuple from "../../../Tuple.ts"
import type { Row } from "./row.ts"

const TypeId = "~effect-dgen/Jobs/Job"

/**
 * A job that its caller holds: what `accept` gives, and a worker's handler gets. It is a value; `update` gives a new
 * one with the new data.
 *
 * @since 0.1.0
 * @category models
 */
export interface Job<out A> {
  readonly [TypeId]: Uint8Array
  readonly type: Tuple.Element
  readonly id: Tuple.Element
  readonly data: A
  /** Which attempt this is: 1 for the first. */
  readonly attempt: number
  readonly priority: number
  /** When the job was due, in milliseconds since 1970. */
  readonly scheduledAt: number
  /** Whether another run was asked for when this value was made. */
  readonly isResubmitted: boolean
}

export const makeJob = <A>(type: Tuple.Element, id: Tuple.Element, lock: Uint8Array, row: Row, data: A): Job<A> => ({
  [TypeId]: lock,
  type,
  id,
  data,
  attempt: row.attempts,
  priority: row.priority,
  scheduledAt: row.scheduledAt,
  isResubmitted: row.resubmit !== undefined
})

/** Tokens of runs that a holder of this process has settled itself: their jobs are gone from it, but not lost. */
const settledHere = new WeakSet<Uint8Array>()

/** Notes that the holder has settled its run. */
export const settled = (lock: Uint8Array): void => void settledHere.add(lock)

/** Whether the holder has settled the run of this token, which must be the object that the job carries. */
export const wasSettledHere = (lock: Uint8Array): boolean => settledHere.has(lock)

/** The fencing token of a job, `undefined` for a value that is no job. */
export const lockOf = (job: unknown): Uint8Array | undefined => {
  const lock = typeof job === "object" && job !== null ? (job as Partial<Job<unknown>>)[TypeId] : undefined
  return lock instanceof Uint8Array ? lock : undefined
}
