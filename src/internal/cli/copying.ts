/** The commands that move a tenant to another store, and see to stores. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as PostgresBackend from "../../PostgresBackend.ts"
import * as Arguments from "./arguments.ts"
import { copy } from "./copy.ts"
import { usage } from "./errors.ts"
import { OutputOf, progress, say, write, writeJson } from "./output.ts"
import * as Progress from "./progress.ts"
import { build, chosenStore, pathOf, type Store, storeOf } from "./stores.ts"
import { vacuum } from "./vacuum.ts"

const copyCommand = Command.make(
  "copy",
  {
    from: Arguments.text("from", "STORE", "where the tenant is"),
    to: Arguments.text("to", "STORE", "where it is to be"),
    tenant: Arguments.text("tenant", "PATH", "the tenant"),
    toTenant: Arguments.text("to-tenant", "PATH", "its path in the target, if it is another one"),
    restart: Arguments.flag("restart", "deletes what the target holds under its path and begins anew"),
    quiet: Arguments.flag("quiet", "shows no progress")
  },
  (options) =>
    Effect.scoped(Effect.gen(function*() {
      const from = yield* storeOf("from", options.from, true)
      const to = yield* storeOf("to", options.to, false)
      if (options.tenant === undefined) return yield* usage("--tenant must name the tenant's path")
      const path = yield* pathOf("tenant", options.tenant)
      const toPath = options.toTenant === undefined ? path : yield* pathOf("to-tenant", options.toTenant)
      const placeOf = (store: Store, names: ReadonlyArray<string>) =>
        Effect.map(
          build(store),
          (backend) => ({ backend, path: names, name: `${store.name} ${JSON.stringify(names)}` })
        )
      const source = yield* placeOf(from, path)
      const target = yield* placeOf(to, toPath)
      if (source.name === target.name) return yield* usage("--from and --to are one tenant of one store")
      const { err } = yield* OutputOf
      const shown = Progress.make(options.quiet ? { write: () => {} } : err)
      const sum = yield* Effect.ensuring(
        copy(source, target, { restart: options.restart, progress: shown.show }),
        shown.end
      )
      yield* write(`copied and verified ${sum.rows} rows, ${sum.bytes} bytes, sha256 ${sum.checksum}\n`)
    }))
).pipe(
  Command.withDescription(
    "Copy a tenant from one store into another, and verify it by count and checksum. Stop what uses the tenant first. " +
      "A copy that was broken off goes on where it was when the same command is run again"
  ),
  Command.withShortDescription("Copy a tenant into another store, and verify it")
)

const sql = Command.make(
  "sql",
  { schema: Arguments.text("schema", "NAME", "where the store will lie, effect_dgen if it is left out") },
  ({ schema }) => write(PostgresBackend.sql(schema))
).pipe(Command.withDescription("Print the statements that make a store in PostgreSQL, for a layer with migrate: false"))

const vacuumCommand = Command.make(
  "vacuum",
  { store: Arguments.store, json: Arguments.json },
  Effect.fnUntraced(function*(options) {
    const store = yield* chosenStore({ store: options.store, tenant: undefined })
    const bar = yield* progress
    const found = yield* Effect.ensuring(vacuum(store, bar.show), bar.end)
    if (options.json) return yield* writeJson(found)
    const freed = found.freedBytes === undefined ? "" : `${found.freedBytes.toLocaleString("en")} bytes given back; `
    yield* say(`${freed}${found.note}`)
  })
).pipe(Command.withDescription("Give room back to the disk, while programs run"))

export const copyCommands = [copyCommand, vacuumCommand, sql] as const
