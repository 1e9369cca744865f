/**
 * Whatever was thrown, as text and as a plain error that says the same. What user code throws is input like any other:
 * it can throw when it is read, be endless, be no text. What comes from here is printable, well-formed and bounded, and
 * is read once, so that whoever gets it (a store, a caller, a user's logger) meets nothing of the original.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import { reading, show } from "./show.ts"
import { printable } from "./text.ts"

/** Causes within causes, and errors within an `AggregateError`, are shown so deep. */
const DEPTH_LIMIT = 4

/** Errors of an `AggregateError` that are shown, and own fields of an error that are kept. */
const PARTS_LIMIT = 10

/** Each error within an `AggregateError` is shown with so many characters. */
const PART_LIMIT_CHARS = 1_000

/** So many reasons of a cause are shown: more are one fault many times. */
const REASONS_LIMIT = 20

const UNREADABLE = "an error that cannot be shown: reading it throws"

/** The text of whatever was thrown. */
export const textOfThrown = (thrown: unknown): string => {
  const tame = tamed(thrown, 0)
  return tame instanceof Error ? printable(tame.stack!) : show(tame)
}

/** What was thrown without where: its message, for who says in its own words what failed. */
export const messageOfThrown = (thrown: unknown): string => {
  const tame = tamed(thrown, 0)
  return tame instanceof Error ? tame.message || tame.name : show(tame)
}

/** The text of a cause: every reason, with stacks and the causes behind it. */
export const textOfCause = (cause: Cause.Cause<unknown>): string => {
  const tame = tameCause(cause)
  return printable(reading(() => Cause.pretty(tame), UNREADABLE))
}

/** The cause that says the same in plain errors and primitives: what a user's logger can be given. */
export const tameCause = (cause: Cause.Cause<unknown>): Cause.Cause<unknown> =>
  reading(
    () =>
      Cause.fromReasons(
        cause.reasons.slice(0, REASONS_LIMIT).map((reason): Cause.Reason<unknown> => {
          if (reason._tag === "Interrupt") return reason
          const made = reason._tag === "Fail"
            ? Cause.makeFailReason(tamed(reason.error, 0))
            : Cause.makeDieReason(tamed(reason.defect, 0))
          // where it was thrown, as Effect noted it
          return reading(() => made.annotate(Context.makeUnsafe(new Map(reason.annotations))), made)
        })
      ),
    Cause.die(new Error(UNREADABLE))
  )

/** The plain value that stands for what was thrown: an error, or a primitive that any encoder takes. */
const tamed = (thrown: unknown, depth: number): unknown => {
  switch (typeof thrown) {
    case "string":
      return printable(thrown)
    case "number":
    case "boolean":
    case "undefined":
      return thrown
    case "object":
      return thrown === null ? null : reading(() => plain(thrown, depth), new Error(UNREADABLE))
    default:
      return show(thrown)
  }
}

const plain = (thrown: object, depth: number): Error => {
  if (reading(() => Cause.isCause(thrown), false)) {
    return errorOf("Cause", textOfCause(thrown as Cause.Cause<unknown>), "", undefined)
  }
  const read = (key: string) => reading(() => Reflect.get(thrown, key), undefined)
  const isDeep = depth >= DEPTH_LIMIT
  const name = read("name")
  const message = messageOf(thrown)
  const error = errorOf(
    typeof name === "string" ? printable(name, PART_LIMIT_CHARS) : "Error",
    message,
    isDeep ? "" : errorsOf(read("errors"), depth),
    read("stack")
  )
  keepFields(thrown, error)
  const cause = isDeep ? undefined : read("cause")
  if (cause !== undefined && cause !== thrown) define(error, "cause", tamed(cause, depth + 1))
  return error
}

const messageOf = (thrown: object): string => {
  const found = reading((): unknown => Reflect.get(thrown, "message"), new Unread())
  if (typeof found === "string") return printable(found)
  if (found instanceof Unread) return UNREADABLE
  return show(thrown)
}

/** What reading a message that throws comes to. */
class Unread {}

const headOf = (name: string, message: string): string => message === "" ? name : `${name}: ${message}`

const define = (error: Error, key: string, value: unknown): void =>
  void Object.defineProperty(error, key, { value, enumerable: false, configurable: true, writable: true })

/** A plain error; `within` tells of the errors in it, and stands behind the message, where no stack is cut off. */
const errorOf = (name: string, message: string, within: string, thrownStack: unknown): Error => {
  const error = new Error(message + within)
  const head = headOf(name, message)
  const stack = typeof thrownStack === "string" ? printable(thrownStack) : head
  define(error, "name", name)
  define(error, "stack", stack.startsWith(head) ? head + within + stack.slice(head.length) : stack + within)
  return error
}

/** Own fields that are primitives tell errors apart for whoever filters them, as `_tag` and `code` do. */
const keepFields = (thrown: object, error: Error): void => {
  for (const key of reading(() => Object.keys(thrown), []).slice(0, PARTS_LIMIT)) {
    const value = key in error ? undefined : reading(() => Reflect.get(thrown, key), undefined)
    if (typeof value === "string") Object.assign(error, { [key]: printable(value, PART_LIMIT_CHARS) })
    if (typeof value === "number" || typeof value === "boolean") Object.assign(error, { [key]: value })
  }
}

/** The errors within an `AggregateError`, behind its message. */
const errorsOf = (errors: unknown, depth: number): string => {
  if (!reading(() => Array.isArray(errors), false)) return ""
  const some = reading(() => (errors as ReadonlyArray<unknown>).slice(0, PARTS_LIMIT), [UNREADABLE])
  return some.map((each) => {
    const tame = tamed(each, depth + 1)
    return `\n  [errors]: ${printable(tame instanceof Error ? tame.stack! : show(tame), PART_LIMIT_CHARS)}`
  }).join("")
}
