/** Stored values in the lines of tables, and at length. */
import type * as Inspect from "../../Inspect.ts"
import { jsonText } from "./output.ts"

/** A value on one line. */
export const shortValue = (value: Inspect.Value | undefined): string => {
  if (value === undefined) return ""
  switch (value._tag) {
    case "Shown":
      return jsonText(value.value)
    case "Hidden":
      return "(hidden)"
    case "Unreadable":
      return `(unreadable: ${value.problem})`
    case "TooLarge":
      return `(${value.bytes.toLocaleString("en")} bytes)`
  }
}

/** A value at length, and what it lacks. */
export const longValue = (value: Inspect.Value): string => {
  if (value._tag === "Shown") return `${jsonText(value.value, 2)}${value.isCut ? "\n(it was cut)" : ""}`
  return value._tag === "Hidden" ? `(hidden: ${value.reason})` : shortValue(value)
}
