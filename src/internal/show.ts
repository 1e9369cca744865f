/** Values of any kind, as errors show them. */
import * as Formatter from "effect/Formatter"

/** The text of a value; it never throws, whatever a program without types passes. */
export const show = (value: unknown): string => typeof value === "string" ? value : Formatter.format(value)
