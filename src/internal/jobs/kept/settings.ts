/**
 * What is stored for a type as a whole: its timeout where it differs from the definition's, and whether it is paused.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Transaction } from "../../../Transaction.ts"
import { packValue, unpackValue } from "../../data/codec.ts"
import { InvalidOption } from "../definition/errors.ts"
import { STAMP_BYTES } from "../definition/layout.ts"
import { millisOf, type Model, type Place, timeoutProblem, within } from "../definition/model.ts"
import { touchedOf } from "./lateWrites.ts"

export interface Settings {
  readonly timeoutMillis: number
  readonly isPaused: boolean
}

interface Stored {
  readonly timeoutMillis: number | null
  readonly isPaused: boolean
}

const readStored = ({ keys, state }: Place): Effect.Effect<Stored> =>
  Effect.map(state.get(keys.settings), (bytes) => {
    const unpacked = bytes === undefined ? undefined : unpackValue(bytes)
    const fields = unpacked !== undefined && Result.isSuccess(unpacked) ? unpacked.success : undefined
    if (!Array.isArray(fields)) return { timeoutMillis: null, isPaused: false }
    const [timeoutMillis, isPaused] = fields
    const isTimeout = typeof timeoutMillis === "number" && timeoutProblem(timeoutMillis) === undefined
    return { timeoutMillis: isTimeout ? timeoutMillis : null, isPaused: isPaused === true }
  })

/** The settings that hold now. */
export const read = (place: Place): Effect.Effect<Settings> =>
  Effect.map(readStored(place), ({ isPaused, timeoutMillis }) => ({
    timeoutMillis: timeoutMillis ?? place.model.timeoutMillis,
    isPaused
  }))

const write = (place: Place, update: (stored: Stored) => Stored): Effect.Effect<void> =>
  Effect.map(readStored(place), (stored) => {
    const { isPaused, timeoutMillis } = update(stored)
    place.state.set(place.keys.settings, packValue([timeoutMillis, isPaused]))
  })

export const setTimeout = (
  model: Model,
  timeout: Duration.Input
): Effect.Effect<void, InvalidOption, Transaction> =>
  within(model, (place) => {
    const millis = millisOf(timeout)
    const problem = timeoutProblem(millis)
    if (problem !== undefined) {
      return Effect.fail(new InvalidOption({ type: model.type, option: "timeout", problem }))
    }
    return Effect.andThen(
      Effect.sync(() => tellOfTimeout(place)),
      write(place, (stored) => ({ ...stored, timeoutMillis: millis! }))
    )
  })

const NO_STAMP = new Uint8Array(STAMP_BYTES)

/** Holders hear of another timeout, and the monitor can tell who has shown a sign of life since, and so has heard of it. */
const tellOfTimeout = ({ keys, state }: Place): void => {
  state.setVersionstampedValue(keys.timeoutChanged, NO_STAMP, 0)
  touchedOf(state).ring(keys.revokedBell)
  touchedOf(state).ring(keys.changedBell)
}

export const getTimeout = (model: Model): Effect.Effect<Duration.Duration, InvalidOption, Transaction> =>
  within(model, (place) => Effect.map(read(place), ({ timeoutMillis }) => Duration.millis(timeoutMillis)))

export const pause = (model: Model): Effect.Effect<void, InvalidOption, Transaction> =>
  within(model, (place) => write(place, (stored) => ({ ...stored, isPaused: true })))

export const resume = (model: Model): Effect.Effect<void, InvalidOption, Transaction> =>
  within(model, (place) => {
    touchedOf(place.state).ring(place.keys.pendingBell)
    return write(place, (stored) => ({ ...stored, isPaused: false }))
  })

export const isPaused = (model: Model): Effect.Effect<boolean, InvalidOption, Transaction> =>
  within(model, (place) => Effect.map(read(place), (settings) => settings.isPaused))
