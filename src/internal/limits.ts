/** Limits that several modules share. */

/** The longest time that a call may wait: what is older belongs to nobody. */
export const CALL_TIMEOUT_LIMIT_MILLIS = 24 * 60 * 60 * 1000
