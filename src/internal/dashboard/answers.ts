/**
 * Answers with what keeps a browser from doing more with them than show them: no script, style or picture but the page's
 * own, nothing that embeds the page, nothing that is kept or sent on.
 */
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { Asset } from "./assets.ts"
import type { Refused } from "./gate.ts"

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  // whatever is stored cannot become markup, even by a mistake of the page
  "require-trusted-types-for 'script'",
  "trusted-types 'none'"
].join("; ")

const HEADERS = {
  "content-security-policy": POLICY,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "cache-control": "no-store"
}

/** Any answer, made safe. */
export const safe = HttpServerResponse.setHeaders(HEADERS)

export const json = (body: object, status = 200): HttpServerResponse.HttpServerResponse =>
  safe(HttpServerResponse.text(JSON.stringify(body), { status, contentType: "application/json" }))

/** A file of the page, compressed for who takes it so. */
export const asset = ({ bytes, compressed, type }: Asset, accepts = ""): HttpServerResponse.HttpServerResponse =>
  safe(
    /\bgzip\b/.test(accepts)
      ? HttpServerResponse.uint8Array(compressed, {
        contentType: type,
        headers: { "content-encoding": "gzip", vary: "accept-encoding" }
      })
      : HttpServerResponse.uint8Array(bytes, { contentType: type, headers: { vary: "accept-encoding" } })
  )

export const refused = ({ message, status }: Refused): HttpServerResponse.HttpServerResponse =>
  json({ message }, status)

/** The same for who opens the page itself. */
export const refusedPage = ({ message, status }: Refused): HttpServerResponse.HttpServerResponse =>
  safe(HttpServerResponse.text(`${message}\n`, { status }))
