/**
 * Copies a tenant from one store into another, byte for byte under the other's prefix.
 *
 * 1. The rows of the source are never written. It is counted first; when all is copied, both are read, and their counts
 *    and sums must be the same: whoever wrote meanwhile, on either side, makes the copy fail.
 * 2. Each part of the copy is one commit together with a record of how far it has come, so a copy that was broken off
 *    goes on from there. The record names the source, and goes away with the verification. A part reads the record for
 *    conflict: one whose answer was lost, and which arrives when the target is in use already, writes nothing.
 * 3. A target that holds anything else is not touched, and nothing is deleted that could be the source itself.
 * 4. Versionstamps are copied as they are. So the target's later commits must have greater ones than the source ever
 *    gave, or new messages would come before old ones: the target is advanced, or the copy refused.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Backend, CommitRequest, Mutation } from "../../Backend.ts"
import { type BackendError, BackendError as StoreError, InvalidArgument } from "../../BackendError.ts"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import { copyKey, processesPrefix } from "../tenant/layout.ts"
import { forEachPart, inTransaction, isEmpty, type Sum, sum } from "./rows.ts"

/** A tenant in a store; `name` is what messages call it. */
export interface Place {
  readonly backend: Backend["Service"]
  readonly path: ReadonlyArray<string>
  readonly name: string
}

/** What a copy is doing, with how much of it is done. */
export interface Progress {
  readonly phase: "counting" | "copying" | "reading" | "verifying"
  readonly rows: number
  readonly bytes: number
  /** Unknown while the source is counted. */
  readonly totalRows: number | undefined
}

/** The copy cannot be made, or is not what the source is. `message` says what to do. */
export class CopyFailed extends Schema.TaggedError<CopyFailed>("effect-dgen/CopyFailed")("CopyFailed", {
  message: Schema.String
}) {}

const Record = Schema.fromJsonString(Schema.Struct({
  from: Schema.String,
  rows: Schema.Int,
  bytes: Schema.Int,
  lastKey: Schema.String
}))
type Record = typeof Record.Type

const failed = (message: string) => Effect.fail(new CopyFailed({ message }))

const readRecord = (to: Backend["Service"], prefix: Uint8Array): Effect.Effect<Record | undefined, BackendError> =>
  Effect.flatMap(inTransaction(to, (driver) => driver.get(copyKey(prefix))), (value) => {
    if (value === undefined) return Effect.undefined
    const record = Schema.decodeResult(Record)(Buffer.from(value).toString())
    return Result.isSuccess(record)
      ? Effect.succeed(record.success)
      : Effect.fail(
        new StoreError({
          reason: new InvalidArgument({ message: "the record of an earlier copy cannot be read: begin with --restart" })
        })
      )
  })

/** See (4). */
const advance = (from: Place, to: Place): Effect.Effect<void, BackendError | CopyFailed> =>
  Effect.gen(function*() {
    const versionOf = (backend: Backend["Service"]) => inTransaction(backend, (driver) => driver.readVersion)
    const needed = yield* versionOf(from.backend)
    if (to.backend.advance !== undefined) return yield* to.backend.advance(needed)
    const version = yield* versionOf(to.backend)
    if (version > needed) return
    return yield* failed(
      `the versions of ${to.name} are at ${version}, behind those of ${from.name}: new messages would come before those ` +
        `that wait. Advance the cluster first: fdbcli --exec "advanceversion ${needed}"`
    )
  })

/** Whether two ways lead to one tenant: what is written through one is read through the other (3). */
const isSameTenant = (
  from: Place,
  to: Place,
  prefixes: { readonly from: Uint8Array; readonly to: Uint8Array }
): Effect.Effect<boolean, BackendError> =>
  Effect.suspend(() => {
    if (!Tuple.equalsBytes(prefixes.from, prefixes.to)) return Effect.succeed(false)
    const mark = globalThis.crypto.getRandomValues(new Uint8Array(16))
    const key = Keys.concat(processesPrefix(prefixes.to), mark)
    const write = (mutation: Mutation) =>
      inTransaction(to.backend, (driver) => driver.commit(commitOf([mutation], [key], key), () => {}))
    return Effect.andThen(
      write({ op: "set", key, value: mark }),
      Effect.ensuring(
        Effect.map(inTransaction(from.backend, (driver) => driver.get(key)), (value) => value !== undefined),
        Effect.ignore(write({ op: "clear", key }))
      )
    )
  })

/** One of which no answer came is sent again: by the conflict, the first one cannot arrive after the second (2). */
const commitOf = (
  mutations: ReadonlyArray<Mutation>,
  keys: ReadonlyArray<Uint8Array>,
  conflict: Uint8Array
): CommitRequest => ({
  mutations,
  readConflicts: [Keys.single(conflict)],
  writeConflicts: keys.map(Keys.single),
  watches: []
})

/** The target as the copy finds it: how far an earlier one came. */
const begin = (
  from: Place,
  to: Place,
  source: Uint8Array,
  restart: boolean
): Effect.Effect<{ readonly prefix: Uint8Array; readonly done: Record | undefined }, BackendError | CopyFailed> =>
  Effect.gen(function*() {
    let prefix = yield* to.backend.directory.open(to.path)
    if (yield* isSameTenant(from, to, { from: source, to: prefix })) {
      return yield* failed(`${from.name} and ${to.name} are one tenant of one store`)
    }
    if (restart) {
      yield* to.backend.directory.remove(to.path)
      prefix = yield* to.backend.directory.open(to.path)
    }
    const done = yield* readRecord(to.backend, prefix)
    if (done !== undefined && done.from !== from.name) {
      return yield* failed(
        `${to.name} holds an unfinished copy of ${done.from}, not of ${from.name}: finish that one, or begin with --restart`
      )
    }
    if (done === undefined && !(yield* isEmpty(to.backend, prefix))) {
      return yield* failed(`${to.name} is not empty: choose another path, or delete it and begin with --restart`)
    }
    return { prefix, done }
  })

/** Writes the parts that are missing, each with the record (2). */
const write = (
  from: Place,
  to: Place,
  prefixes: { readonly from: Uint8Array; readonly to: Uint8Array },
  done: Record | undefined,
  progress: (rows: number, bytes: number) => Effect.Effect<void>
): Effect.Effect<void, BackendError> =>
  Effect.suspend(() => {
    let rows = done?.rows ?? 0
    let bytes = done?.bytes ?? 0
    const after = done === undefined ? undefined : new Uint8Array(Buffer.from(done.lastKey, "hex"))
    return forEachPart(from.backend, prefixes.from, after, (part) => {
      rows += part.length
      for (const row of part) bytes += row.key.length + row.value.length
      const lastKey = Buffer.from(part[part.length - 1]!.key).toString("hex")
      const record = Buffer.from(Schema.encodeSync(Record)({ from: from.name, rows, bytes, lastKey }))
      const mutations = part.map((row): Mutation & { readonly op: "set" } => ({
        op: "set",
        key: Keys.concat(prefixes.to, row.key),
        value: row.value
      }))
      const recordKey = copyKey(prefixes.to)
      mutations.push({ op: "set", key: recordKey, value: new Uint8Array(record) })
      const request = commitOf(mutations, mutations.map((mutation) => mutation.key), recordKey)
      return Effect.andThen(
        inTransaction(to.backend, (driver) => driver.commit(request, () => {})),
        Effect.suspend(() => progress(rows, bytes))
      )
    })
  })

const finish = (to: Place, prefix: Uint8Array): Effect.Effect<void, BackendError> => {
  const key = copyKey(prefix)
  const request = commitOf([{ op: "clear", key }], [key], key)
  return Effect.asVoid(inTransaction(to.backend, (driver) => driver.commit(request, () => {})))
}

/** Copies, verifies, and gives what was copied. */
export const copy = (
  from: Place,
  to: Place,
  options: {
    readonly restart: boolean
    readonly progress: (progress: Progress) => Effect.Effect<void>
  }
): Effect.Effect<Sum, BackendError | CopyFailed> =>
  Effect.gen(function*() {
    const source = yield* from.backend.directory.open(from.path)
    const told = (phase: Progress["phase"], totalRows: number | undefined) => (rows: number, bytes: number) =>
      options.progress({ phase, rows, bytes, totalRows })
    const { rows } = yield* sum(from.backend, source, told("counting", undefined))
    if (rows === 0) return yield* failed(`${from.name} holds nothing: check the store and the path`)
    const { done, prefix } = yield* begin(from, to, source, options.restart)
    yield* advance(from, to)
    yield* write(from, to, { from: source, to: prefix }, done, told("copying", rows))
    const wanted = yield* sum(from.backend, source, told("reading", rows))
    const got = yield* sum(to.backend, prefix, told("verifying", rows))
    if (got.rows !== wanted.rows || got.checksum !== wanted.checksum) {
      return yield* failed(
        `${to.name} has ${got.rows} rows with checksum ${got.checksum}, ${from.name} has ${wanted.rows} with ` +
          `${wanted.checksum}: something wrote to one of them meanwhile. Stop it, and begin with --restart`
      )
    }
    yield* finish(to, prefix)
    return got
  })
