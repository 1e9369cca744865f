/**
 * Samples of stored states, one file a version: written when a version is the newest one, kept in the repository, and read
 * with every later definition by a test, so that no change of a schema or a step makes a stored state unreadable.
 *
 * A sample is what a store holds of a state, key by key, as JSON with hexadecimal text: `version-3.json` in a folder of the
 * server's own.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { messageOfThrown } from "../internal/data/thrown.ts"
import type { Definition } from "../internal/server/definition/model.ts"
import * as Heads from "../internal/server/kept/head.ts"
import { ServerKeys } from "../internal/server/kept/layout.ts"
import { readState } from "../internal/server/kept/state.ts"
import { DefinitionOf } from "../internal/server/service.ts"
import * as MemoryBackend from "../MemoryBackend.ts"
import * as StateCodec from "../StateCodec.ts"
import * as Tenant from "../Tenant.ts"
import { Transaction } from "../Transaction.ts"
import * as Tuple from "../Tuple.ts"

/**
 * A sample that cannot be written, or that today's definition cannot read: `file` and `problem` say which and why.
 *
 * @since 0.2.0
 * @category errors
 */
export class SampleError extends Schema.TaggedError<SampleError>("effect-dgen/testing/SampleError")("SampleError", {
  file: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `${this.file}: ${this.problem}`
  }
}

/**
 * A state that a sample holds, as today's definition reads it.
 *
 * @since 0.2.0
 * @category models
 */
export interface Sample {
  readonly file: string
  readonly version: number
  readonly state: unknown
}

interface Service {
  readonly [DefinitionOf]?: Definition
}

const definitionOf = (service: unknown): Definition => {
  const definition = (service as Service | undefined)?.[DefinitionOf]
  if (definition === undefined) throw new TypeError("StateSamples: the first argument must be a service of DgenServer")
  return definition
}

const Rows = Schema.Array(Schema.Tuple([Schema.String, Schema.String]))
const File = Schema.Struct({ server: Schema.String, version: Schema.Int, rows: Rows })

/** Runs a transaction in an empty store of its own. */
const inEmptyStore = <A, E>(file: string, effect: Effect.Effect<A, E, Transaction>): Effect.Effect<A, SampleError> =>
  Tenant.transact(effect).pipe(
    Effect.provide(Tenant.layer(["samples"]).pipe(Layer.provide(MemoryBackend.layer))),
    Effect.mapError((error) => new SampleError({ file, problem: messageOfThrown(error) }))
  )

const keysIn = (prefix: Uint8Array, definition: Definition) => new ServerKeys(prefix, ["sample"], definition)

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")

const io = <A>(file: string, run: () => Promise<A>): Effect.Effect<A, SampleError> =>
  Effect.tryPromise({ try: run, catch: (thrown) => new SampleError({ file, problem: messageOfThrown(thrown) }) })

/**
 * Writes a state of the newest version as a sample into a folder, over the one that is there, and succeeds with its file.
 * Fails with `SampleError` when the state does not fit its schema, or the file cannot be written.
 *
 * @since 0.2.0
 * @category samples
 */
export const write = (
  service: unknown,
  options: { readonly folder: string; readonly state: unknown }
): Effect.Effect<string, SampleError> =>
  Effect.gen(function*() {
    const definition = definitionOf(service)
    const version = Heads.newest(definition)
    const file = join(options.folder, `version-${version}.json`)
    const rows = yield* inEmptyStore(
      file,
      Effect.gen(function*() {
        const state = yield* Transaction
        const keys = keysIn(state.prefix, definition)
        yield* StateCodec.make(definition.state).write(keys.state, undefined, options.state)
        const { begin, end } = Tuple.range([], keys.state)
        const written = yield* state.getRange(begin, end)
        return written.map(({ key, value }) => [hex(key.subarray(keys.state.length)), hex(value)] as const)
      })
    )
    const text = `${JSON.stringify({ server: definition.name, version, rows }, undefined, 2)}\n`
    yield* io(file, () => mkdir(options.folder, { recursive: true }))
    yield* io(file, () => writeFile(file, text))
    return file
  })

/**
 * Reads all samples of a folder with today's definition, as a server would, and succeeds with their states, oldest first.
 * Fails with `SampleError` for the first one that cannot be read, or when a version that the definition knows has no
 * sample.
 *
 * @since 0.2.0
 * @category samples
 */
export const check = (
  service: unknown,
  options: { readonly folder: string }
): Effect.Effect<ReadonlyArray<Sample>, SampleError> =>
  Effect.gen(function*() {
    const definition = definitionOf(service)
    const { folder } = options
    const names = yield* io(folder, () => readdir(folder))
    const samples: Array<Sample> = []
    for (const name of names.filter((other) => other.endsWith(".json"))) {
      samples.push(yield* read(definition, join(folder, name)))
    }
    samples.sort((a, b) => a.version - b.version)
    for (let version = 1; version <= Heads.newest(definition); version++) {
      if (!samples.some((sample) => sample.version === version)) {
        return yield* new SampleError({ file: folder, problem: `there is no sample of version ${version}: write one` })
      }
    }
    return samples
  })

const read = (definition: Definition, file: string): Effect.Effect<Sample, SampleError> =>
  Effect.gen(function*() {
    const wrong = (error: { readonly message: string }) => new SampleError({ file, problem: error.message })
    const text = yield* io(file, () => readFile(file, "utf8"))
    const parsed = Result.try({ try: () => JSON.parse(text) as unknown, catch: (thrown) => thrown as Error })
    const { rows, version } = yield* Effect.mapError(
      Effect.flatMap(Effect.fromResult(parsed), Schema.decodeUnknownEffect(File)),
      wrong
    )
    const state = yield* inEmptyStore(
      file,
      Effect.gen(function*() {
        const transaction = yield* Transaction
        const keys = keysIn(transaction.prefix, definition)
        for (const [key, value] of rows) {
          transaction.set(Buffer.concat([keys.state, Buffer.from(key, "hex")]), Buffer.from(value, "hex"))
        }
        const head = { ...Heads.first(definition), stateVersion: version }
        return (yield* readState(definition, keys, head)).state
      })
    )
    return { file, version, state }
  })
