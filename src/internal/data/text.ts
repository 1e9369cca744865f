/**
 * Text that can be kept and shown wherever it came from: well-formed, so that every store and encoder takes it,
 * without characters that only a terminal understands, and of bounded length.
 */

/** Enough to see what happened, whatever a stack trace holds, and little enough for a row, a line, an answer. */
export const TEXT_LIMIT_CHARS = 10_000

/** Control characters but for tab and line feed, and what reorders or breaks the lines of others. */
// oxlint-disable-next-line no-control-regex
const UNPRINTABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufeff]/g

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`

/** A text as it can be shown, cut where it is longer than `limit`. */
export const printable = (text: string, limit: number = TEXT_LIMIT_CHARS): string => {
  // what is cut off is not looked at: a text can have megabytes
  const some = text.length > limit ? text.slice(0, limit) : text
  const shown = some.replaceAll("\r\n", "\n").replace(UNPRINTABLE, escaped)
  const cut = text.length > limit || shown.length > limit ? `${shown.slice(0, limit - 1)}…` : shown
  return cut.toWellFormed()
}
