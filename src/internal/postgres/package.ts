/**
 * The npm package `pg`: what this library uses of it, and how it is loaded. The package is optional, so nothing here is
 * imported from it, its types neither.
 */
import * as Effect from "effect/Effect"
import { BackendError, ClientMissing } from "../../BackendError.ts"
import { messageOfThrown } from "../data/thrown.ts"

/** One statement's answer; a text of several statements has one for each. */
export interface PgResult {
  readonly command: string
  readonly rows: ReadonlyArray<ReadonlyArray<unknown>>
}

export interface PgNotification {
  readonly channel: string
  readonly payload?: string | undefined
}

/** A connection. */
export interface PgClient {
  readonly connect: () => Promise<unknown>
  readonly query: (
    query: { readonly text: string; readonly rowMode: "array" }
  ) => Promise<PgResult | ReadonlyArray<PgResult>>
  readonly end: () => Promise<void>
  readonly on: {
    (event: "error", listener: (error: Error) => void): unknown
    (event: "end", listener: () => void): unknown
    (event: "notification", listener: (message: PgNotification) => void): unknown
  }
  readonly connection: { readonly stream: { readonly destroy: () => void } }
}

/** How a client connects: what `pg` takes, of which this library sets some itself. */
export type PgConfig = Readonly<Record<string, unknown>>

/** The package. */
export interface PgPackage {
  readonly Client: new(config: PgConfig) => PgClient
}

// no literal: whoever compiles this without the package must not need it
const PACKAGE: string = "pg"

/** Loads the package. */
export const importPackage = (): Promise<PgPackage> =>
  import(PACKAGE).then((module: { readonly default: PgPackage }) => module.default)

/** Why the package could not be loaded, and what to do. */
const loadError = (cause: unknown): BackendError => {
  const { code } = Object(cause) as { readonly code?: unknown }
  const text = messageOfThrown(cause)
  const message = (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND") && text.includes(`'${PACKAGE}'`)
    ? "the package \"pg\" is not installed. Run npm install pg@8"
    : `the package "pg" cannot be loaded: ${text.split("\n")[0]}. Run npm install pg@8`
  return new BackendError({ reason: new ClientMissing({ message: `PostgresBackend.layer: ${message}`, cause }) })
}

/** The package. Fails with `ClientMissing`. */
export const load = (from: () => Promise<PgPackage>): Effect.Effect<PgPackage, BackendError> =>
  Effect.tryPromise({ try: from, catch: loadError })
