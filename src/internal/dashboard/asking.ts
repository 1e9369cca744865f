/**
 * What a request asks for: its parameters and its body, checked before anything is read. Tuids, types and ids are texts.
 */
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Tuple from "../../Tuple.ts"
import { parseElement } from "../inspect/texts.ts"
import { STATES } from "../jobs/definition/layout.ts"
import { problemOfTuid } from "../server/kept/layout.ts"
import { type Access, Refused } from "./gate.ts"
import type { Look } from "./wire.ts"

/** What is written of a server: of one dead letter, or of all. */
const OfServer = Schema.Union([
  Schema.Struct({
    operation: Schema.Literals(["requeue", "discard"]),
    tuid: Schema.String,
    id: Schema.optionalKey(Schema.String)
  }),
  Schema.Struct({ operation: Schema.Literals(["unlock", "kill"]), tuid: Schema.String }),
  Schema.Struct({
    operation: Schema.Literal("cast"),
    tuid: Schema.String,
    tag: Schema.String,
    payload: Schema.optionalKey(Schema.Json)
  })
])

/** What is written of jobs: of one, or of all that are in a state. */
const OfJobs = Schema.Union([
  Schema.Struct({
    operation: Schema.Literals(["requeue-job", "remove-job"]),
    type: Schema.String,
    id: Schema.optionalKey(Schema.String),
    state: Schema.optionalKey(Schema.Literals(STATES))
  }),
  Schema.Struct({ operation: Schema.Literals(["pause", "resume"]), type: Schema.String }),
  Schema.Struct({
    operation: Schema.Literals(["pause-schedule", "resume-schedule", "reset-schedule", "run-schedule"]),
    type: Schema.String,
    name: Schema.String
  })
])

export type MendServer = typeof OfServer.Type & { readonly at: Tuple.Tuple }
export type MendJobs = typeof OfJobs.Type & { readonly of: Tuple.Element; readonly one: Tuple.Element | undefined }

const decodeOfServer = Schema.decodeUnknownResult(OfServer)
const decodeOfJobs = Schema.decodeUnknownResult(OfJobs)

const bad = (message: string) => new Refused({ status: 400, message })

const tuidOf = (text: string): Effect.Effect<Tuple.Tuple, Refused> =>
  Effect.flatMap(elementOf("tuid", text), (tuid) => {
    const problem = problemOfTuid(tuid)
    return problem === undefined ? Effect.succeed(tuid as Tuple.Tuple) : Effect.fail(bad(`"tuid" is none: ${problem}`))
  })

const elementOf = (name: string, text: string): Effect.Effect<Tuple.Element, Refused> =>
  Effect.fromResult(Result.mapError(parseElement(text), (problem) => bad(`"${name}" is none: ${problem}`)))

/** The parameters of a request. */
export interface Asked {
  readonly text: (name: string) => string | undefined
  readonly tuid: Tuple.Tuple | undefined
  readonly type: Tuple.Element | undefined
}

/** The parameters of a look, with what they name. */
export const askedOf = Effect.fnUntraced(function*(request: HttpServerRequest): Effect.fn.Return<Asked, Refused> {
  const at = request.url.indexOf("?")
  const params = new URLSearchParams(at < 0 ? "" : request.url.slice(at))
  const text = (name: string) => params.get(name) || undefined
  const tuid = text("tuid")
  const type = text("type")
  return {
    text,
    tuid: tuid === undefined ? undefined : yield* tuidOf(tuid),
    type: type === undefined ? undefined : yield* elementOf("type", type)
  }
})

type About = Omit<Access, "tenant" | "request">

/** What a look is to whoever admits. */
export const aboutLook = (operation: Look, { tuid, type }: Asked): About => ({
  operation,
  isWrite: false,
  tuid,
  job: type === undefined ? undefined : { type, id: undefined }
})

/** What a request wants to be changed, and what that is to whoever admits. */
export interface Wanted {
  readonly about: About
  readonly mend: MendServer | MendJobs
}

/** The change that a body asks for. */
export const wantedOf = Effect.fnUntraced(function*(body: unknown): Effect.fn.Return<Wanted, Refused> {
  const ofServer = Result.getOrUndefined(decodeOfServer(body))
  if (ofServer !== undefined) {
    const at = yield* tuidOf(ofServer.tuid)
    return {
      about: { operation: ofServer.operation, isWrite: true, tuid: at, job: undefined },
      mend: { ...ofServer, at }
    }
  }
  const ofJobs = Result.getOrUndefined(decodeOfJobs(body))
  if (ofJobs === undefined) return yield* bad("The body asks for nothing that there is.")
  const of = yield* elementOf("type", ofJobs.type)
  const one = "id" in ofJobs && ofJobs.id !== undefined ? yield* elementOf("id", ofJobs.id) : undefined
  return {
    about: { operation: ofJobs.operation, isWrite: true, tuid: undefined, job: { type: of, id: one } },
    mend: { ...ofJobs, of, one }
  }
})
