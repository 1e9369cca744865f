/**
 * Signing in to a dashboard that its own server serves: by a token that is printed where the server was started.
 *
 * 1. The token is exchanged once, for a cookie of another secret: an address that is left in a history or a log opens
 *    nothing. Both are compared without telling by the time how much of them was right.
 * 2. The cookie is not seen by scripts, and not sent by other sites. Its name holds the port, since cookies are not kept
 *    apart by it.
 */
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { createHash, randomBytes, timingSafeEqual } from "node:crypto"

const SECRET_BYTES = 32

const secret = () => randomBytes(SECRET_BYTES).toString("base64url")

const digest = (text: string) => createHash("sha256").update(text).digest()

const isSame = (a: string, b: string): boolean => timingSafeEqual(digest(a), digest(b))

export interface Session {
  /** What opens the page, once. */
  readonly token: string
  /** The answer to who brings a token: the page with a cookie, or `undefined` for a token that opens nothing. */
  readonly enter: (token: string) => HttpServerResponse.HttpServerResponse | undefined
  /** Whether these cookies are of who brought it. */
  readonly isOpen: (cookies: Readonly<Record<string, string>>) => boolean
}

/** A session of a server at a port, which nobody has opened yet. */
export const make = (port: number): Session => {
  const token = secret()
  const value = secret()
  const name = `effect-dgen-${port}`
  let isUsed = false
  return {
    token,
    enter: (given) => {
      if (isUsed || !isSame(given, token)) return undefined
      isUsed = true
      return HttpServerResponse.setCookieUnsafe(HttpServerResponse.redirect("/", { status: 303 }), name, value, {
        httpOnly: true,
        sameSite: "strict",
        path: "/"
      })
    },
    isOpen: (cookies) => isUsed && isSame(cookies[name] ?? "", value)
  }
}
