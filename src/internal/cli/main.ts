#!/usr/bin/env node
/** The program `effect-dgen`: 0 when all went well, 1 when it failed, 2 when its arguments make no sense. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { messageOfThrown } from "../data/thrown.ts"
import { run, USAGE, UsageError } from "./command.ts"

const abort = new AbortController()
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => abort.abort())

Effect.runPromiseExit(run(process.argv.slice(2), process.stderr), { signal: abort.signal }).then((exit) => {
  if (Exit.isSuccess(exit)) {
    process.stdout.write(exit.value)
    return
  }
  const error = Cause.squash(exit.cause)
  const interrupted = Cause.hasInterruptsOnly(exit.cause)
  process.stderr.write(
    interrupted
      ? "\nbroken off: run the same command again to go on\n"
      : `effect-dgen: ${messageOfThrown(error)}\n`
  )
  if (error instanceof UsageError) process.stderr.write(`\n${USAGE}`)
  process.exitCode = error instanceof UsageError ? 2 : 1
})
