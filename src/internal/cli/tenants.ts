/** The commands that look at a store and at a tenant as a whole. */
import * as Command from "effect/cli/Command"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Backend } from "../../Backend.ts"
import * as Inspect from "../../Inspect.ts"
import * as Tenant from "../../Tenant.ts"
import * as Arguments from "./arguments.ts"
import { Found } from "./errors.ts"
import { type Column, OutputOf, progress, remark, say, timeText, write, writeJson, writeRows } from "./output.ts"
import { inTenant, openStore, pathOf, pathText } from "./stores.ts"

const tenants = Command.make(
  "tenants",
  {
    store: Arguments.store,
    json: Arguments.json,
    under: Arguments.text("under", "PATH", "those below a path")
  },
  (options) =>
    Effect.scoped(Effect.gen(function*() {
      const under = options.under === undefined ? [] : yield* pathOf("under", options.under)
      const backend = yield* openStore({ store: options.store, tenant: undefined })
      yield* Stream.runForEach(
        Inspect.tenants(under),
        (path) => options.json ? writeJson({ tenant: path }) : say(pathText(path))
      ).pipe(Effect.provideService(Backend, backend))
    }))
).pipe(Command.withDescription("List the tenants of a store"))

const countText = ({ count, isAtLeast }: Inspect.Count): string =>
  `${count.toLocaleString("en")}${isAtLeast ? "+" : ""}`

const definitionColumns: ReadonlyArray<Column<Inspect.DefinitionRow>> = [
  ["DEFINITION", ({ name }) => name],
  ["KIND", ({ definition }) => definition === undefined ? "?" : definition.hosted ? "hosted" : "started"],
  ["SERVERS", ({ servers }) => countText(servers)],
  ["WORKING", ({ working }) => countText(working)],
  ["SLEEPING", ({ sleeping }) => countText(sleeping)],
  ["NEXT", ({ nextWakeAt }) => timeText(nextWakeAt)],
  ["HOSTS", ({ hosts }) => hosts]
]

const typeColumns: ReadonlyArray<Column<Inspect.JobTypeRow>> = [
  ["JOBS", ({ type }) => type.text],
  ["PENDING", ({ counts }) => counts.pending],
  ["RUNNING", ({ counts }) => counts.running],
  ["FINISHED", ({ counts }) => counts.finished],
  ["DEAD", ({ counts }) => counts.dead],
  ["", ({ isPaused }) => isPaused ? "paused" : ""]
]

const stats = Command.make(
  "stats",
  Arguments.where,
  Effect.fnUntraced(function*(options) {
    const { at, definitions, hosts, isListComplete, types } = yield* inTenant(
      options,
      Effect.gen(function*() {
        const { types } = yield* Tenant.transact(Inspect.jobTypes({ limit: 1_000 }))
        const first = yield* Tenant.transact(Inspect.stats())
        const definitions = [...first.definitions]
        let { next } = first
        while (next !== undefined) {
          const more: Inspect.Stats = yield* Tenant.transact(Inspect.stats({ after: next }))
          definitions.push(...more.definitions)
          next = more.next
        }
        return { ...first, definitions, types }
      })
    )
    if (options.json) return yield* writeJson({ at, definitions, types, hosts, isListComplete })
    yield* say(`${hosts.length === 1 ? "1 process hosts" : `${hosts.length} processes host`} servers; ${timeText(at)}`)
    if (!isListComplete) yield* say("servers of an earlier version are still being entered into the lists")
    if (definitions.length > 0) yield* write("\n")
    yield* writeRows(definitions, definitionColumns, false)
    if (types.length > 0) yield* write("\n")
    yield* writeRows(types, typeColumns, false)
  })
).pipe(Command.withDescription("Show a tenant at a glance"))

const findingColumns: ReadonlyArray<Column<Inspect.Finding>> = [
  ["KIND", ({ kind }) => kind],
  ["OF", ({ of }) => of],
  ["WHICH", ({ subject }) => subject],
  ["PROBLEM", ({ problem }) => problem]
]

const check = Command.make(
  "check",
  Arguments.where,
  Effect.fnUntraced(function*(options) {
    const bar = yield* progress
    const begun = yield* Clock.currentTimeMillis
    let looked = ""
    const onProgress = ({ definitions, jobs, servers }: Inspect.CheckProgress) => {
      const count = (of: number, what: string) => `${of.toLocaleString("en")} ${what}`
      looked = `${count(servers, "servers")}, ${count(definitions, "entries")}, ${count(jobs, "rows of jobs")}`
      bar.show(`looked at ${looked}`)
    }
    const { out } = yield* OutputOf
    let problems = 0
    const run = Stream.runForEachArray(Inspect.check({ onProgress }), (found) => {
      problems += found.filter(({ kind }) => kind !== "skipped").length
      return Effect.andThen(bar.end, writeRows(found, findingColumns, options.json))
    })
    yield* Effect.ensuring(inTenant(options, run), bar.end)
    const seconds = ((yield* Clock.currentTimeMillis) - begun) / 1_000
    const summary = `looked at ${looked} in ${seconds.toFixed(1)} s`
    if (options.json) yield* writeJson({ problems, looked })
    else if (out.isTTY !== true) yield* remark(summary)
    else yield* say(summary)
    if (problems > 0) {
      return yield* new Found({ message: `${problems} things do not belong: docs/OPERATING.md says what to do` })
    }
    if (!options.json) yield* say("nothing is wrong")
  })
).pipe(Command.withDescription("Look for what does not belong in a tenant"))

export const tenantCommands = [tenants, stats, check] as const
