/** Limits that several modules share. */

/** The longest time that a call may wait: what is older belongs to nobody. */
export const CALL_TIMEOUT_LIMIT_MILLIS = 24 * 60 * 60 * 1000

/** What tells a tenant's layer from every other one: sixteen bytes of its process, and its number there. */
export const INSTANCE_BYTES = 20

/** A piece of a long byte string: below a value's limit with room for a header. */
export const PIECE_BYTES = 90_000

/** What `Date` can hold, before and after 1970. */
const TIME_LIMIT_MILLIS = 8.64e15

/** Whether bytes that may come from anywhere hold a time. */
export const isTime = (millis: unknown): millis is number =>
  typeof millis === "number" && Math.abs(millis) <= TIME_LIMIT_MILLIS

/** Whether they hold a number of things. */
export const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
