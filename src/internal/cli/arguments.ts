/** Arguments and options that several commands have, and what their texts mean. */
import * as Argument from "effect/cli/Argument"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Tuple from "../../Tuple.ts"
import { elementOfArgument, parseElement } from "../inspect/texts.ts"
import { usage, type UsageError } from "./errors.ts"
import { STORE_VARIABLE, TENANT_VARIABLE } from "./stores.ts"

/** An option that may be left out. */
export const text = (name: string, metavar: string, description: string) =>
  Flag.String(name).pipe(
    Flag.withMetavar(metavar),
    Flag.withDescription(description),
    Flag.optional,
    Flag.map(Option.getOrUndefined)
  )

export const whole = (name: string, description: string) =>
  Flag.Int(name).pipe(
    Flag.withMetavar("N"),
    Flag.withDescription(description),
    Flag.optional,
    Flag.map(Option.getOrUndefined)
  )

export const flag = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

export const store = text(
  "store",
  "STORE",
  `sqlite:FILE, foundationdb:CLUSTERFILE or postgres://USER@HOST/DATABASE; ${STORE_VARIABLE} if it is left out`
)

export const json = flag("json", "an object a line, for programs")

export const values = flag("values", "show values of which nothing says what is redacted")

export const yes = flag("yes", "do not ask before something is deleted")

/** What commands on a tenant have. */
export const where = {
  store,
  tenant: text("tenant", "PATH", `my-app/carts, or a JSON array of names; ${TENANT_VARIABLE} if it is left out`),
  json
}

/** What commands that list have. */
export const paging = {
  limit: whole("limit", "so many at the most"),
  after: text("after", "CURSOR", "where to go on, as an earlier page said"),
  all: flag("all", "all of them, however many")
}

export const tuid = Argument.String("tuid").pipe(
  Argument.withDescription("a server's tuid: [\"cart\",7], or a text for a tuid of one")
)

export const type = Argument.String("type").pipe(Argument.withDescription("a type of jobs: mail, 7, [\"mail\",\"de\"]"))

export const id = (of: string) => Argument.String("id").pipe(Argument.withDescription(`the id of ${of}`))

/** The tuid that a text means. */
export const tuidOf = (text: string): Effect.Effect<Tuple.Tuple, UsageError> => {
  const parsed = parseElement(text)
  if (Result.isFailure(parsed) && /^\s*\[/.test(text)) {
    return usage(`the tuid ${JSON.stringify(text)}: ${parsed.failure}`)
  }
  const element = elementOfArgument(text)
  if (!Array.isArray(element)) return Effect.succeed([element])
  return element.length > 0 ? Effect.succeed(element) : usage("a tuid has one or more elements")
}

/** The type or the id that a text means. */
export const elementOf = (text: string): Tuple.Element => elementOfArgument(text)
