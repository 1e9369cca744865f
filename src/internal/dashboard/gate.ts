/**
 * Who may do what: the checks that every request of the dashboard passes, before anything is read for it.
 *
 * 1. Nothing is answered, reads and the page itself included, but to whom `admit` says yes: it sees the tenant, the server
 *    and the operation.
 * 2. A request that a page of another origin made is refused, whatever it carries. Where the names of the server are known,
 *    `Host` must be one of them: a name that somebody else points at this machine is none.
 * 3. A write carries a header that no form can send, and which a script of another origin may not send either.
 * 4. With `readOnly` no write is run, whatever the page shows.
 */
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Schema from "effect/Schema"
import type * as Tuple from "../../Tuple.ts"
import { logError } from "../observing/logging.ts"
import { apart } from "../observing/unforeseen.ts"
import type { Operation } from "./wire.ts"

/** What somebody asks for. */
export interface Access {
  /** The path of the tenant. */
  readonly tenant: ReadonlyArray<string>
  readonly operation: Operation
  /** Whether it changes anything. */
  readonly isWrite: boolean
  /** The server that is meant, where one is. */
  readonly tuid: Tuple.Tuple | undefined
  /** The jobs that are meant: of a type, or one of them. */
  readonly job: { readonly type: Tuple.Element; readonly id: Tuple.Element | undefined } | undefined
  readonly request: HttpServerRequest
}

/** The rules of one dashboard. */
export interface Gate {
  readonly admit: (access: Access) => Effect.Effect<boolean>
  /** What `Host` may be; `undefined` where the user's own server sees to it. */
  readonly hosts: ReadonlySet<string> | undefined
  readonly readOnly: boolean
}

/** A request is refused. `status` is HTTP's, `message` is for people. */
export class Refused extends Schema.TaggedError<Refused>("effect-dgen/Dashboard/Refused")("Refused", {
  status: Schema.Int,
  message: Schema.String
}) {}

const refuse = (status: number, message: string) => Effect.fail(new Refused({ status, message }))

/** The header that writes carry, and what it says (3). */
export const WRITE_HEADER = "x-effect-dgen"
const WRITE_VALUE = "dashboard"

/** The host of an origin; `undefined` for `null` and for what is none. */
const hostOf = (origin: string): string | undefined => URL.canParse(origin) ? new URL(origin).host : undefined

/** Whom a request was sent to. */
const addressed = ({ headers }: HttpServerRequest): string | undefined =>
  (headers["host"] ?? headers[":authority"])?.toLowerCase()

/** Whether a page of another origin made a request, as far as its browser says so (2). */
const isForeign = (request: HttpServerRequest, isPage: boolean): boolean => {
  const { origin, "sec-fetch-mode": mode, "sec-fetch-site": site } = request.headers
  if (origin !== undefined && hostOf(origin) !== addressed(request)) return true
  // a link to the page is no harm: it says nothing but to whom is admitted, and runs nothing
  if (isPage && mode === "navigate") return false
  return site !== undefined && site !== "same-origin" && site !== "none"
}

/** Passes a request on that (2) and (3) allow. */
export const checkOrigin = (
  { hosts }: Gate,
  request: HttpServerRequest,
  kind: "page" | "read" | "write"
): Effect.Effect<void, Refused> => {
  if (hosts !== undefined && !hosts.has(addressed(request) ?? "")) {
    return refuse(403, "This server does not go by that name. Open the address that was printed.")
  }
  if (isForeign(request, kind === "page")) return refuse(403, "Requests of other pages are refused.")
  if (kind === "write" && request.headers[WRITE_HEADER] !== WRITE_VALUE) {
    return refuse(403, `A change needs the header ${WRITE_HEADER}: ${WRITE_VALUE}.`)
  }
  return Effect.void
}

/** A user's answer to whether somebody may do something: one that fails, or is none, is no. */
export const answered = <E, R>(effect: Effect.Effect<boolean, E, R>): Effect.Effect<boolean, never, R> =>
  Effect.catchCause(
    apart(effect),
    (cause) => Effect.as(logError("the dashboard's authorize failed: the request is refused", cause), false)
  )

/** Passes an access on that (1) and (4) allow. */
export const checkAccess = ({ admit, readOnly }: Gate, access: Access): Effect.Effect<void, Refused> =>
  Effect.flatMap(admit(access), (isAdmitted) => {
    if (isAdmitted !== true) return refuse(401, "You may not do this, or are not signed in any more.")
    return access.isWrite && readOnly ? refuse(403, "This dashboard is read-only.") : Effect.void
  })
