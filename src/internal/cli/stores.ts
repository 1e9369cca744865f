/**
 * Stores and tenants, as arguments or the environment name them. What is secret of them is never shown: a password in a
 * URL is left out of every name, and the environment is the better place for it.
 */
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import { Backend } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as FoundationDbBackend from "../../FoundationDbBackend.ts"
import * as Inspect from "../../Inspect.ts"
import * as PostgresBackend from "../../PostgresBackend.ts"
import * as SqliteBackend from "../../SqliteBackend.ts"
import * as Tenant from "../../Tenant.ts"
import { NotFound, usage, type UsageError } from "./errors.ts"

/** Where a store and a tenant can be named instead of in the arguments. */
export const STORE_VARIABLE = "EFFECT_DGEN_STORE"
export const TENANT_VARIABLE = "EFFECT_DGEN_TENANT"

/** A store, as an argument names it. */
export interface Store {
  readonly name: string
  readonly layer: Layer.Layer<Backend, BackendError>
  readonly kind: "sqlite" | "foundationdb" | "postgres"
  /** The file of SQLite; how to connect to PostgreSQL. */
  readonly filename?: string
  readonly postgres?: PostgresBackend.Options
}

/** A server, by a URL whose password is not shown, or by the environment. */
const postgresOf = (option: string, text: string, rest: string): Effect.Effect<Store, UsageError> => {
  const kind = "postgres"
  if (rest === "") return Effect.succeed({ name: text, kind, layer: PostgresBackend.layer(), postgres: {} })
  if (!URL.canParse(text)) return usage(`--${option}: what follows postgres: is no URL`)
  const url = new URL(text)
  const schema = url.searchParams.get("schema") ?? undefined
  url.searchParams.delete("schema")
  const postgres = { url: url.href, schema }
  url.password = ""
  url.search = ""
  const name = schema === undefined ? url.href : `${url.href}, schema ${schema}`
  return Effect.succeed({ name, kind, layer: PostgresBackend.layer(postgres), postgres })
}

/** The store of a text; one that must exist is not made. */
export const storeOf = (
  option: string,
  text: string | undefined,
  mustExist: boolean
): Effect.Effect<Store, UsageError> => {
  const [, kind, rest] = /^(\w+):(.*)$/s.exec(text ?? "") ?? []
  if (kind === "sqlite" && rest !== "") {
    // a source that does not exist would be made
    if (mustExist && !fs.existsSync(rest!)) return usage(`--${option}: the file ${rest} does not exist`)
    const layer = SqliteBackend.layer({ filename: rest! })
    return Effect.succeed({ name: text!, kind: "sqlite", layer, filename: rest! })
  }
  if (kind === "foundationdb") {
    const layer = FoundationDbBackend.layer(rest === "" ? {} : { clusterFile: rest })
    return Effect.succeed({ name: text!, kind, layer })
  }
  if (kind === "postgres" || kind === "postgresql") return postgresOf(option, text!, rest!)
  // a text that is none can hold a password
  const shown = text === undefined || text.includes("@") ? "" : `, not ${JSON.stringify(text)}`
  return usage(`--${option} must be sqlite:FILE, foundationdb:CLUSTERFILE or postgres://HOST/DATABASE${shown}`)
}

/** The path of a tenant: names with / between them, or a JSON array of them. */
export const pathOf = (option: string, text: string): Effect.Effect<ReadonlyArray<string>, UsageError> => {
  let names: unknown = text.split("/")
  if (text.startsWith("[")) {
    try {
      names = JSON.parse(text)
    } catch {
      return usage(`--${option}: ${text} is no JSON array`)
    }
  }
  return Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === "string" && name !== "")
    ? Effect.succeed(names)
    : usage(`--${option} must be one or more names, such as my-app/counters`)
}

/** A path as `pathOf` takes it. */
export const pathText = (path: ReadonlyArray<string>): string =>
  path.some((name) => name.includes("/") || name.startsWith("[") || !/^[\x20-\x7e]*$/.test(name))
    ? JSON.stringify(path)
    : path.join("/")

/** What names a store and a tenant. */
export interface Where {
  readonly store: string | undefined
  readonly tenant: string | undefined
}

/** What an argument says, or else a variable of the environment. */
const said = (argument: string | undefined, option: string, variable: string): Effect.Effect<string, UsageError> => {
  const stands = Effect.orDie(Config.String(variable).pipe(Config.withDefault("")))
  return Effect.flatMap(
    argument === undefined ? stands : Effect.succeed(argument),
    (text) => text === "" ? usage(`--${option}, or the variable ${variable}`) : Effect.succeed(text)
  )
}

/** The store that is meant. */
export const chosenStore = ({ store }: Where): Effect.Effect<Store, UsageError> =>
  Effect.flatMap(
    said(store, "store must name the store", STORE_VARIABLE),
    (text) => storeOf(store === undefined ? STORE_VARIABLE : "store", text, true)
  )

/** Builds a store. */
export const build = (store: Store): Effect.Effect<Backend["Service"], BackendError, Scope.Scope> =>
  Effect.map(Layer.build(store.layer), (context) => Context.get(context, Backend))

/** The store that is meant, opened. */
export const openStore = (
  where: Where
): Effect.Effect<Backend["Service"], BackendError | UsageError, Scope.Scope> =>
  Effect.flatMap(chosenStore(where), build)

/** Runs in the tenant that is meant, which is not made. */
export const inTenant = <A, E, R>(
  where: Where,
  use: Effect.Effect<A, E, R>
): Effect.Effect<A, E | BackendError | UsageError | NotFound, Exclude<R, Tenant.Tenant>> =>
  Effect.scoped(Effect.gen(function*() {
    const path = yield* pathOf(
      "tenant",
      yield* said(where.tenant, "tenant must name the tenant's path", TENANT_VARIABLE)
    )
    const backend = yield* openStore(where)
    const exists = yield* Effect.provideService(Inspect.tenantExists(path), Backend, backend)
    if (exists === false) {
      const message = `there is no tenant ${pathText(path)} in the store: \`effect-dgen tenants\` lists them`
      return yield* new NotFound({ message })
    }
    const layer = Layer.provide(Tenant.layer(path), Layer.succeed(Backend, backend))
    return yield* Effect.provide(use, layer)
  }))
