/** Values of any kind, as errors show them. */
import * as Formatter from "effect/Formatter"

/** Enough to know a value by. */
const SHOWN_CHARACTERS = 1_000

/** The text of a value; it never throws, whatever a program without types passes. */
export const show = (value: unknown): string => {
  if (typeof value === "string") return value
  const text = Formatter.format(value)
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text
}
