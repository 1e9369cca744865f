#!/usr/bin/env node
/** The program `effect-dgen`: how it ends is in errors.ts. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { messageOfThrown } from "../data/thrown.ts"
import { runTo, USAGE, UsageError } from "./command.ts"
import { codeOf } from "./errors.ts"
import { oneLine } from "./output.ts"

const abort = new AbortController()
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => abort.abort())

// whoever reads a pipe has seen enough
let isPipeClosed = false
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error
    isPipeClosed = true
    abort.abort()
  })
}

const output = {
  out: process.stdout,
  err: process.stderr,
  input: process.stdin.isTTY && process.stderr.isTTY ? process.stdin : undefined,
  ending: { isBySignal: false }
}

Effect.runPromiseExit(runTo(process.argv.slice(2), output), { signal: abort.signal }).then((exit) => {
  if (Exit.isSuccess(exit) || isPipeClosed) return
  const error = Cause.squash(exit.cause)
  const interrupted = Cause.hasInterruptsOnly(exit.cause)
  if (interrupted && output.ending.isBySignal) return
  process.stderr.write(
    interrupted
      ? "\nbroken off: run the same command again to go on\n"
      : `effect-dgen: ${messageOfThrown(error).split("\n").map(oneLine).join("\n")}\n`
  )
  if (error instanceof UsageError) process.stderr.write(`\n${USAGE}`)
  process.exitCode = interrupted ? 1 : codeOf(error)
})
