/**
 * The head of a server: the version of its state, its lock, and the messages of locks that an earlier version broke. One
 * small key, so that a batch learns all of it with one read (rule R17).
 *
 * `<version: 22 bytes>`, followed by `[format, lock, fenced, state's version, keyed]` as MessagePack where there is something
 * to say.
 */
import * as Result from "effect/Result"
import { packValue, unpackValue } from "../../data/codec.ts"
import * as Keys from "../../data/keys.ts"
import { isCount, isTime } from "../../tenant/limits.ts"
import type { Kind } from "../definition/model.ts"

const VERSION_BYTES = 22

/** The operation that acquired a lock. What a token names must fit a key. */
const TOKEN_BYTES = 20

/**
 * A head of format 2 is one of a hosted server, of one that has met keys, or of a state that has had several versions: an
 * earlier version of this library, which knows nothing of indexes, keys and steps, must not run it.
 */
const FORMATS: ReadonlySet<unknown> = new Set([1, 2])

/** A lock that is held. */
export interface Lock {
  /** Unique to the acquisition: the operation that wrote it. */
  readonly token: Uint8Array
  /** When it was acquired, or last renewed. */
  readonly millis: number
  readonly tag: string
  readonly kind: Kind
  /** How often handling its message failed before; `undefined` for one that came past the queue. */
  readonly attempts: number | undefined
}

/** A message whose lock was broken by an earlier version of this library, which did not put it back at once. */
export interface Fenced {
  readonly token: Uint8Array
  readonly millis: number
  readonly attempts: number
}

/** A server's head. */
export interface Head {
  /** Unique to the try that wrote the state, as text. */
  readonly version: string
  readonly lock: Lock | undefined
  readonly fenced: ReadonlyArray<Fenced>
  readonly format: number
  /** Whether it has met messages with keys: of a server that is started, it says that there is something to sweep. */
  readonly isKeyed: boolean
  /** Which version of its schema the state has. */
  readonly stateVersion: number
}

/** What a definition says of heads. */
interface Owner {
  readonly hosted: boolean
  readonly earlier: ReadonlyArray<unknown>
}

/** The number of the newest version that a definition knows. */
export const newest = ({ earlier }: Pick<Owner, "earlier">): number => earlier.length + 1

/** How many messages are kept beside the queue: that of the lock, unless it came past the queue, and those of broken ones. */
export const kept = ({ fenced, lock }: Head): number => fenced.length + (lock?.attempts === undefined ? 0 : 1)

/** The head of a server that nobody has written yet. */
export const first = (definition: Owner): Head => ({
  version: "",
  lock: undefined,
  fenced: [],
  format: definition.hosted || definition.earlier.length > 0 ? 2 : 1,
  stateVersion: newest(definition),
  isKeyed: false
})

/** The bytes of a head. */
export const encode = ({ fenced, format, isKeyed, lock, stateVersion, version }: Head): Uint8Array => {
  const bytes = Keys.fromText(version)
  if (format === 1 && !isKeyed && lock === undefined && fenced.length === 0) return bytes
  return Keys.concat(
    bytes,
    packValue([
      isKeyed ? 2 : format,
      lock === undefined
        ? null
        : [lock.token, lock.millis, lock.tag, lock.kind, lock.attempts ?? null],
      fenced.map(({ attempts, millis, token }) => [token, millis, attempts]),
      ...(stateVersion === 1 && !isKeyed ? [] : [stateVersion]),
      ...(isKeyed ? [true] : [])
    ])
  )
}

/** The head of bytes, or what is wrong with them. */
export const decode = (bytes: Uint8Array): Result.Result<Head, string> => {
  if (bytes.length < VERSION_BYTES) return Result.fail("the server's head is cut off")
  const version = Keys.toText(bytes.subarray(0, VERSION_BYTES))
  if (bytes.length === VERSION_BYTES) {
    return Result.succeed({ version, lock: undefined, fenced: [], format: 1, stateVersion: 1, isKeyed: false })
  }
  return Result.flatMap(unpackValue(bytes.subarray(VERSION_BYTES)), (data): Result.Result<Head, string> => {
    if (!Array.isArray(data) || !FORMATS.has(data[0])) return Result.fail("the server's head is not of this version")
    const lock = lockOf(data[1])
    const fenced = Array.isArray(data[2]) ? data[2].map(fencedOf) : [undefined]
    if ((lock === undefined && data[1] !== null) || fenced.includes(undefined)) {
      return Result.fail("the lock in the server's head cannot be read")
    }
    const [format] = data as Array<unknown>
    // a head of format 1 says no more: its state has had one version
    const [, , , stateVersion = 1, keyed] = format === 2 ? data as Array<unknown> : []
    if (!isCount(stateVersion) || stateVersion < 1) return Result.fail("the version of the state cannot be read")
    return Result.succeed({
      version,
      lock,
      fenced: fenced as Array<Fenced>,
      format: format as number,
      stateVersion,
      isKeyed: format === 2 && keyed === true
    })
  })
}

const isToken = (value: unknown): value is Uint8Array => value instanceof Uint8Array && value.length === TOKEN_BYTES

const lockOf = (data: unknown): Lock | undefined => {
  if (!Array.isArray(data)) return undefined
  const [token, millis, tag, kind, attempts] = data as Array<unknown>
  if (!isToken(token) || !isTime(millis) || typeof tag !== "string") return undefined
  if (kind !== "call" && kind !== "cast" && kind !== "info") return undefined
  if (attempts !== null && !isCount(attempts)) return undefined
  return { token, millis, tag, kind, attempts: attempts ?? undefined }
}

const fencedOf = (data: unknown): Fenced | undefined => {
  if (!Array.isArray(data)) return undefined
  const [token, millis, attempts] = data as Array<unknown>
  return isToken(token) && isTime(millis) && isCount(attempts)
    ? { token, millis, attempts }
    : undefined
}
