/**
 * What an HTTP request passes before its handler: its body comes to an end, in bounded length and time, before anything
 * else is done with it; and what does not fit a schema is refused with the error that says so.
 *
 * 1. The body is read here, and what reads it later gets the same text: so a limit of time for it is none for the answer.
 * 2. What fails behind this with no error of the endpoint is a defect, and leaves as an id.
 */
import * as ByteSize from "effect/ByteSize"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import * as HttpEffect from "effect/http/HttpEffect"
import { MaxBodySize } from "effect/http/HttpIncomingMessage"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { problemOf } from "../../data/codec.ts"
import { isA } from "../../data/show.ts"
import { printable } from "../../data/text.ts"
import * as Errors from "../../server/definition/errors.ts"
import { BodyTimeout, BodyTooLarge, StoreUnavailable } from "../definition/errors.ts"
import { Exposed, type Exposure } from "../definition/exposure.ts"
import { outward } from "./outward.ts"

/** How long whoever is refused for now should stay away: a queue and a store are seldom in need for longer. */
const RETRY_AFTER_SECONDS = 1

/** Where keys are in the way, they go by the hour. */
const RETRY_AFTER_KEYS_SECONDS = 60

const LATER: ReadonlyArray<new(fields: any) => object> = [
  Errors.LockFenced,
  Errors.QueueFull,
  Errors.ServerStopped,
  StoreUnavailable
]

const retryAfter = (error: unknown): number | undefined => {
  if (isA(error, Errors.TooManyKeys)) return RETRY_AFTER_KEYS_SECONDS
  return LATER.some((type) => isA(error, type))
    ? RETRY_AFTER_SECONDS
    : undefined
}

/** The request's body, read to its end (1). Who reads lives with the request: to interrupt him would cut off the answer. */
const readBody = Effect.fnUntraced(function*(exposure: Exposure, tuid: string) {
  const { bodyTimeoutMillis, server, tag } = exposure
  const { text } = yield* HttpServerRequest
  const ofProcess = yield* MaxBodySize
  const maxBodyBytes = Math.min(exposure.maxBodyBytes, ofProcess === undefined ? Infinity : Number(ofProcess))
  yield* text.pipe(
    Effect.provideService(MaxBodySize, ByteSize.bytes(maxBodyBytes)),
    Effect.mapError((error) =>
      error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"
        ? new BodyTooLarge({ server, tag, limitBytes: maxBodyBytes })
        : new Errors.InvalidPayload({ server, tuid, tag, field: "", problem: "the body did not come to its end" })
    ),
    Effect.forkScoped({ startImmediately: true }),
    Effect.flatMap(Fiber.join),
    Effect.timeoutOrElse({
      duration: bodyTimeoutMillis,
      orElse: () => Effect.fail(new BodyTimeout({ server, tag, timeoutMillis: bodyTimeoutMillis }))
    })
  )
})

/** What did not fit, as an error of the endpoint. */
const refused = ({ server, tag }: Exposure, tuid: string, error: HttpApiSchemaError): unknown => {
  const { field, problem } = problemOf(error.cause)
  switch (error.kind) {
    case "Params":
      return new Errors.InvalidTuid({ server, problem })
    case "Headers":
    case "Query":
      return new Errors.InvalidOption({ server, option: field, problem })
    case "Payload":
      return new Errors.InvalidPayload({ server, tuid, tag, field, problem })
    default:
      return undefined
  }
}

/** The address, as it stands in the path. */
const addressOf = Effect.map(HttpRouter.RouteContext, ({ params }) => printable(params["tuid"] ?? ""))

/** The middleware. */
export const gate = <A, E, R>(
  handler: Effect.Effect<A, E, R>,
  { endpoint }: { readonly endpoint: HttpApiEndpoint.Top }
): Effect.Effect<A, any, R | HttpServerRequest | HttpRouter.RouteContext> => {
  const exposure = Context.getUnsafe(endpoint.annotations as Context.Context<Exposed>, Exposed)
  return Effect.flatMap(addressOf, (address) => {
    const through = endpoint.payload.size > 0 ? Effect.andThen(readBody(exposure, address), handler) : handler
    return Effect.catchCause(
      through,
      (cause) => Effect.flatMap(Effect.tap(said(exposure, address, cause), sayWhen), Effect.fail)
    ) as Effect.Effect<A, any, R | HttpServerRequest>
  })
}

/** Says when to ask again, where that can be known. */
const sayWhen = (error: unknown) => {
  const seconds = retryAfter(error)
  return seconds === undefined ?
    Effect.void :
    HttpEffect.appendPreResponseHandler((_, response) =>
      Effect.succeed(HttpServerResponse.setHeader(response, "retry-after", String(seconds)))
    )
}

/** What is said of a failure. */
const said = (exposure: Exposure, address: string, cause: Cause.Cause<unknown>): Effect.Effect<unknown> => {
  const asked = { server: exposure.server, tag: exposure.tag, address, key: undefined }
  const failure = cause.reasons.find((reason) => reason._tag === "Fail")
  if (failure === undefined) return outward(asked, cause)
  if (!HttpApiSchemaError.is(failure.error)) return Effect.succeed(failure.error)
  const error = refused(exposure, address, failure.error)
  return error === undefined ? outward(asked, Cause.die(failure.error.cause)) : Effect.succeed(error)
}
