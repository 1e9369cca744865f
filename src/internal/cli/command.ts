/**
 * The command line `effect-dgen`: its commands, and what becomes of their arguments. Nothing is opened before all of them
 * make sense.
 */
import * as CliConfig from "effect/cli/CliConfig"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { copyCommands } from "./copying.ts"
import { dashboardCommands } from "./dashboard.ts"
import { environment } from "./environment.ts"
import { UsageError } from "./errors.ts"
import { jobCommands } from "./jobs.ts"
import { type Output, OutputOf } from "./output.ts"
import { serverCommands } from "./servers.ts"
import { tenantCommands } from "./tenants.ts"

export { UsageError } from "./errors.ts"

export const USAGE = `effect-dgen COMMAND --store STORE --tenant PATH [--json]
effect-dgen COMMAND --help
effect-dgen copy --from STORE --to STORE --tenant PATH [--to-tenant PATH] [--restart] [--quiet]
effect-dgen sql [--schema NAME]

look at       tenants, stats, servers, server, queue, dead, timers, keys, jobs, job, schedules, check, dashboard
mend          requeue, discard, unlock, kill, cast, cancel-timer, requeue-job, remove-job, pause, resume, vacuum
move          copy, sql

  STORE          sqlite:FILE, foundationdb:CLUSTERFILE, foundationdb: for the default cluster file,
                 postgres://USER:PASSWORD@HOST:PORT/DATABASE, with ?schema=NAME for a schema of another name than
                 effect_dgen, or postgres: for the server that PGHOST, PGDATABASE, PGUSER and PGPASSWORD name
  PATH           the names of the tenant's path with / between them, or a JSON array of them

EFFECT_DGEN_STORE and EFFECT_DGEN_TENANT stand for --store and --tenant. effect-dgen --completions SHELL prints what a shell
needs to complete all this.

It ends with 0 when all went well, 1 when it failed, 2 when its arguments make no sense, 3 when there is no such thing,
4 when nobody said yes to a deletion, 5 when a check found something.
`

const root = Command.make("effect-dgen").pipe(
  Command.withDescription("Look at what effect-dgen keeps in a store, and put it in order"),
  Command.withSubcommands([
    ...tenantCommands,
    ...serverCommands,
    ...jobCommands,
    ...copyCommands,
    ...dashboardCommands
  ])
)

/** What is wrong with the arguments. */
const messageOf = ({ errors }: CliError.ShowHelp): string => {
  const [error] = errors
  if (error === undefined) return "name a command"
  return error._tag === "UnknownSubcommand"
    ? `there is no command ${JSON.stringify(error.subcommand)}`
    : error.message.trim()
}

/** What was asked for is shown; what is wrong with the arguments says who ends the program. */
const presenter: CliOutput.Presenter = {
  present: (event) =>
    event._tag === "InvalidInvocation" || (event._tag === "Help" && event.reason === "Implicit")
      ? Effect.void
      : CliOutput.defaultPresenter.present(event)
}

/** Effect's own output goes where ours goes. */
const consoleOf = ({ err, out }: Output): Console.Console => {
  const line = (stream: Output["out"]) => (...texts: ReadonlyArray<unknown>) =>
    void stream.write(`${texts.map(String).join(" ")}\n`)
  return {
    ...globalThis.console,
    log: line(out),
    info: line(out),
    error: line(err),
    warn: line(err)
  } as Console.Console
}

const VERSION = "0.1.0"

const parsed = Command.runWith(root, { version: VERSION, renderErrors: false })

/** What a command can fail with. */
type Failure = Exclude<Effect.Error<ReturnType<typeof parsed>>, CliError.CliError> | UsageError

/** Runs a command, which writes to an output. */
export const runTo = (args: ReadonlyArray<string>, output: Output): Effect.Effect<void, Failure> =>
  parsed(args).pipe(
    Effect.mapError((error): Failure => {
      if (!CliError.isCliError(error)) return error as Failure
      return new UsageError({ message: error._tag === "ShowHelp" ? messageOf(error) : error.message.trim() })
    }),
    Effect.provideService(OutputOf, output),
    Effect.provideService(Console.Console, consoleOf(output)),
    Effect.provide(Layer.mergeAll(
      environment,
      CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] }),
      CliOutput.layerPresenter(presenter),
      CliOutput.layer(CliOutput.defaultFormatter({ colors: output.out.isTTY === true }))
    ))
  )

/** Runs a command. Succeeds with what it writes; how far it has come it shows to the side. */
export const run = (args: ReadonlyArray<string>, err: Output["err"]): Effect.Effect<string, Failure> =>
  Effect.suspend(() => {
    const texts: Array<string> = []
    const out = { write: (text: string) => texts.push(text) }
    return Effect.map(runTo(args, { out, err }), () => texts.join(""))
  })
