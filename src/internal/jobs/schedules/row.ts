/**
 * What the store keeps of a schedule: up to where its ticks are seen to, and what was asked of it from outside.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { packValue, unpackOwn } from "../../data/codec.ts"
import { isTime } from "../../tenant/limits.ts"
import type { Place } from "../definition/model.ts"

/** Rows of a later format are taken for none: who begins with the schedule begins anew. */
const FORMAT = 1

export interface Row {
  /** Of the expression that wrote the row: another one begins anew. */
  readonly identity: string
  readonly expression: string
  readonly timeZone: string
  /** All ticks up to here are seen to. */
  readonly handledMillis: number
  /** The last tick that was seen to; `undefined` before the first. */
  readonly lastMillis: number | undefined
  /** The next tick after `handledMillis`; `undefined` until a process that knows the expression has said it. */
  readonly nextMillis: number | undefined
  /** When a process that runs the schedule was last seen, to within half a day. */
  readonly seenMillis: number
  readonly isPaused: boolean
  /** Runs that were asked for by hand, by the number that their job's id will have. */
  readonly requests: ReadonlyArray<number>
}

const encode = (row: Row): Uint8Array =>
  packValue([
    FORMAT,
    row.identity,
    row.expression,
    row.timeZone,
    row.handledMillis,
    row.lastMillis ?? null,
    row.nextMillis ?? null,
    row.seenMillis,
    row.isPaused,
    row.requests
  ])

const isText = (value: unknown): boolean => typeof value === "string"
const isTimeOrNone = (value: unknown): boolean => value === null || isTime(value)

/** What the fields of a row are, in their order. */
const FIELDS: ReadonlyArray<(value: any) => boolean> = [
  (format) => format === FORMAT,
  isText,
  isText,
  isText,
  isTime,
  isTimeOrNone,
  isTimeOrNone,
  isTime,
  (isPaused) => typeof isPaused === "boolean",
  (requests) => Array.isArray(requests) && requests.every(isTime)
]

/** A row, or `undefined` for one of a later version, or what bytes are that no version wrote. */
export const decode = (bytes: Uint8Array): Row | "damaged" | undefined => {
  const unpacked = unpackOwn(bytes)
  const fields: any = Result.isSuccess(unpacked) ? unpacked.success : undefined
  if (!Array.isArray(fields)) return "damaged"
  if (Number.isSafeInteger(fields[0]) && fields[0] > FORMAT) return undefined
  if (fields.length !== FIELDS.length || !FIELDS.every((is, i) => is(fields[i]))) return "damaged"
  return {
    identity: fields[1],
    expression: fields[2],
    timeZone: fields[3],
    handledMillis: fields[4],
    lastMillis: fields[5] ?? undefined,
    nextMillis: fields[6] ?? undefined,
    seenMillis: fields[7],
    isPaused: fields[8],
    requests: fields[9]
  }
}

export const read = ({ keys, state }: Place, name: string): Effect.Effect<Row | "damaged" | undefined> =>
  Effect.map(state.get(keys.schedule(name)), (bytes) => bytes === undefined ? undefined : decode(bytes))

export const write = ({ keys, state }: Place, name: string, row: Row): void =>
  state.set(keys.schedule(name), encode(row))
