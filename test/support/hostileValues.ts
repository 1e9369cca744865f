/** What programs can throw, and a test should: each is made anew, since reading one can change it. */
import { Cause, Schema } from "effect"

const throws = (key: string, value: unknown = new Error("plain")): unknown =>
  Object.defineProperty(value, key, {
    enumerable: true,
    configurable: true,
    get() {
      throw new Error(`${key} was read`)
    }
  })

const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

/** A proxy whose every trap throws. */
const thorny = () =>
  new Proxy(
    {},
    new Proxy({}, {
      get: () => () => {
        throw new Error("touched")
      }
    })
  )

const cycle = () => {
  const error = new Error("round")
  return Object.assign(error, { cause: error, self: { error } })
}

/** A cause behind each cause, for ever. */
class Endless extends Error {
  override get cause(): unknown {
    return new Endless("again")
  }
}

const schemaError = () => {
  try {
    Schema.decodeUnknownSync(Schema.Struct({ a: Schema.Int }))(throws("a", {}))
  } catch (error) {
    return error
  }
  return new Error("the schema took it")
}

/** A getter that throws something that throws. */
const twice = () =>
  Object.defineProperty(new Error("plain"), "message", {
    get() {
      throw throws("message")
    }
  })

export const hostileValues: Readonly<Record<string, () => unknown>> = {
  "an error whose message throws": () => throws("message"),
  "an error whose stack throws": () => throws("stack"),
  "an error whose name throws": () => throws("name"),
  "an error whose cause throws": () => throws("cause"),
  "an error whose toString throws": () => throws("toString"),
  "an error whose toJSON throws": () => throws("toJSON"),
  "an error with a field that throws": () => throws("detail"),
  "an object without text": () => throws(Symbol.toPrimitive as never, throws("toString", {})),
  "a message whose reading throws what throws": twice,
  "a message, stack and name that are no text": () =>
    Object.assign(new Error("plain"), { message: { a: 1n }, stack: 7, name: Symbol("name") }),
  "a revoked proxy": revoked,
  "a proxy that throws at all": thorny,
  "an error that is its own cause": cycle,
  "causes without end": () => new Endless("first"),
  "a bigint": () => 7n,
  "a symbol": () => Symbol("thrown"),
  "undefined": () => undefined,
  "null": () => null,
  "a function": () => () => 7,
  "half a character": () => new Error("😀".slice(0, 1)),
  "half a character as text": () => "😀".slice(1),
  "zero bytes": () => new Error("zero \0 and \u001b[31mred"),
  "megabytes": () => new Error("😀".repeat(2_000_000)),
  "megabytes within": () => ({ many: Array.from({ length: 100_000 }, (_, i) => ({ text: "x".repeat(100), i })) }),
  "fields with bigints": () => Object.assign(new Error("plain"), { total: 1n, deep: { total: 2n } }),
  "an endless list": () => ({
    *[Symbol.iterator]() {
      for (;;) yield 1
    }
  }),
  "an object without a prototype": () => Object.create(null),
  "a cause of what throws": () => Cause.fail(throws("message")),
  "errors that throw": () => new AggregateError([throws("message"), revoked(), "half \ud800"], "several"),
  "errors that are no list": () => throws("errors", new AggregateError([], "several")),
  "an error of a schema": schemaError
}

export const hostileNames = Object.keys(hostileValues)

/** What a text must be that a store, a terminal and a log can take. */
export const isPresentable = (text: unknown): text is string =>
  typeof text === "string" && text.length > 0 && text.length <= 10_000 && text.isWellFormed() &&
  // oxlint-disable-next-line no-control-regex
  !/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(text)
