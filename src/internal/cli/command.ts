/**
 * The command line `effect-dgen`: what its arguments mean. Nothing is opened before all of them make sense.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { parseArgs } from "node:util"
import { Backend } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as FoundationDbBackend from "../../FoundationDbBackend.ts"
import * as PostgresBackend from "../../PostgresBackend.ts"
import * as SqliteBackend from "../../SqliteBackend.ts"
import { messageOfThrown } from "../data/thrown.ts"
import { copy, type CopyFailed } from "./copy.ts"
import * as Progress from "./progress.ts"

export const USAGE = `effect-dgen copy --from STORE --to STORE --tenant PATH [--to-tenant PATH] [--restart] [--quiet]
effect-dgen sql [--schema NAME]

copy
  Copies a tenant from one store into another and verifies it by count and checksum. Stop what uses the tenant first.
  A copy that was broken off goes on where it was when the same command is run again.

  STORE          sqlite:FILE, foundationdb:CLUSTERFILE, foundationdb: for the default cluster file,
                 postgres://USER:PASSWORD@HOST:PORT/DATABASE, with ?schema=NAME for a schema of another name than
                 effect_dgen, or postgres: for the server that PGHOST, PGDATABASE, PGUSER and PGPASSWORD name
  PATH           the names of the tenant's path with / between them, or a JSON array of them
  --to-tenant    the path in the target, if it is another one
  --restart      deletes what the target holds under its path and begins anew
  --quiet        shows no progress

sql
  Prints the statements that make a store in PostgreSQL, for a layer with migrate: false.

  --schema       where the store will lie, effect_dgen if it is left out
`

/** The arguments make no sense. `message` says why. */
export class UsageError extends Schema.TaggedError<UsageError>("effect-dgen/UsageError")("UsageError", {
  message: Schema.String
}) {}

/** A store, as an argument names it. */
interface Store {
  readonly name: string
  readonly layer: Layer.Layer<Backend, BackendError>
}

const usage = (message: string) => Effect.fail(new UsageError({ message }))

/** A server, by a URL whose password is not shown, or by the environment. */
const postgresOf = (option: string, text: string, rest: string): Effect.Effect<Store, UsageError> => {
  if (rest === "") return Effect.succeed({ name: text, layer: PostgresBackend.layer() })
  if (!URL.canParse(text)) return usage(`--${option}: what follows postgres: is no URL`)
  const url = new URL(text)
  const schema = url.searchParams.get("schema") ?? undefined
  url.searchParams.delete("schema")
  const layer = PostgresBackend.layer({ url: url.href, schema })
  url.password = ""
  url.search = ""
  return Effect.succeed({ name: schema === undefined ? url.href : `${url.href}, schema ${schema}`, layer })
}

const storeOf = (option: string, text: string | undefined, mustExist: boolean): Effect.Effect<Store, UsageError> => {
  const [, kind, rest] = /^(\w+):(.*)$/s.exec(text ?? "") ?? []
  if (kind === "sqlite" && rest !== "") {
    // a source that does not exist would be made
    if (mustExist && !fs.existsSync(rest!)) return usage(`--${option}: the file ${rest} does not exist`)
    return Effect.succeed({ name: text!, layer: SqliteBackend.layer({ filename: rest! }) })
  }
  if (kind === "foundationdb") {
    const layer = FoundationDbBackend.layer(rest === "" ? {} : { clusterFile: rest })
    return Effect.succeed({ name: text!, layer })
  }
  if (kind === "postgres" || kind === "postgresql") return postgresOf(option, text!, rest!)
  return usage(
    `--${option} must be sqlite:FILE, foundationdb:CLUSTERFILE or postgres://HOST/DATABASE${
      text === undefined ? "" : `, not ${JSON.stringify(text)}`
    }`
  )
}

const pathOf = (option: string, text: string): Effect.Effect<ReadonlyArray<string>, UsageError> => {
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

const build = (store: Store) => Effect.map(Layer.build(store.layer), (context) => Context.get(context, Backend))

interface Values {
  readonly [option: string]: string | boolean | undefined
}

const parse = (args: ReadonlyArray<string>): Effect.Effect<Values, UsageError> =>
  Effect.try({
    try: () => {
      const { positionals, values } = parseArgs({
        args: [...args],
        allowPositionals: true,
        options: {
          from: { type: "string" },
          to: { type: "string" },
          tenant: { type: "string" },
          "to-tenant": { type: "string" },
          restart: { type: "boolean" },
          quiet: { type: "boolean" },
          schema: { type: "string" },
          help: { type: "boolean", short: "h" }
        }
      })
      return { ...values, command: positionals.length === 1 ? positionals[0]! : positionals.join(" ") }
    },
    catch: (cause) => new UsageError({ message: messageOfThrown(cause) })
  })

type Output = Parameters<typeof Progress.make>[0]

const copyCommand = Effect.fnUntraced(function*(values: Values, output: Output) {
  const from = yield* storeOf("from", values.from as string | undefined, true)
  const to = yield* storeOf("to", values.to as string | undefined, false)
  if (typeof values.tenant !== "string") return yield* usage("--tenant must name the tenant's path")
  const path = yield* pathOf("tenant", values.tenant)
  const toPath = typeof values["to-tenant"] === "string" ? yield* pathOf("to-tenant", values["to-tenant"]) : path
  const placeOf = (store: Store, names: ReadonlyArray<string>) =>
    Effect.map(build(store), (backend) => ({ backend, path: names, name: `${store.name} ${JSON.stringify(names)}` }))
  const source = yield* placeOf(from, path)
  const target = yield* placeOf(to, toPath)
  if (source.name === target.name) return yield* usage("--from and --to are one tenant of one store")
  const progress = Progress.make(values.quiet === true ? { write: () => {} } : output)
  const sum = yield* Effect.ensuring(
    copy(source, target, { restart: values.restart === true, progress: progress.show }),
    progress.end
  )
  return `copied and verified ${sum.rows} rows, ${sum.bytes} bytes, sha256 ${sum.checksum}\n`
})

/** Runs a command. Succeeds with what to print. */
export const run = (
  args: ReadonlyArray<string>,
  output: Output
): Effect.Effect<string, UsageError | CopyFailed | BackendError> =>
  Effect.flatMap(parse(args), (values): Effect.Effect<string, UsageError | CopyFailed | BackendError> => {
    if (values.help === true) return Effect.succeed(USAGE)
    if (values.command === "copy") return Effect.scoped(copyCommand(values, output))
    if (values.command === "sql") return Effect.succeed(PostgresBackend.sql(values.schema as string | undefined))
    return usage(values.command === "" ? "name a command" : `there is no command ${JSON.stringify(values.command)}`)
  })
