/**
 * What Effect's command line asks of a platform, as far as this program uses it: a terminal that asks a line. There are no
 * files among its arguments, and it starts no programs.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import { ChildProcessSpawner, make } from "effect/process/ChildProcessSpawner"
import * as Stdio from "effect/Stdio"
import * as Terminal from "effect/Terminal"

const none = (what: string) => Effect.die(new Error(`effect-dgen: ${what} is not used`))

const terminal = Terminal.make({
  columns: Effect.sync(() => process.stdout.columns ?? 80),
  rows: Effect.sync(() => process.stdout.rows ?? 24),
  size: none("the size of the terminal"),
  readInput: none("the input of keys"),
  readLine: none("the input of lines"),
  display: () => none("the terminal")
})

export const environment: Layer.Layer<
  FileSystem.FileSystem | Path.Path | Terminal.Terminal | ChildProcessSpawner | Stdio.Stdio
> = Layer.mergeAll(
  FileSystem.layerNoop({}),
  Path.layer,
  Layer.succeed(Terminal.Terminal, terminal),
  Layer.succeed(ChildProcessSpawner, make(() => none("a process"))),
  Stdio.layerTest({})
)
