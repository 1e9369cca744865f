/** Limits that several modules share. */

/** The longest time that a call may wait: what is older belongs to nobody. */
export const CALL_TIMEOUT_LIMIT_MILLIS = 24 * 60 * 60 * 1000

/** What tells a tenant's layer from every other one: sixteen bytes of its process, and its number there. */
export const INSTANCE_BYTES = 20

/** What `Date` can hold, before and after 1970. */
const TIME_LIMIT_MILLIS = 8.64e15

/** Whether bytes that may come from anywhere hold a time. */
export const isTime = (millis: unknown): millis is number =>
  typeof millis === "number" && Math.abs(millis) <= TIME_LIMIT_MILLIS
