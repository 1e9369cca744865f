/**
 * The record of a type of jobs: what of its data is redacted, for tools that do not have its definition. It lies at
 * `<library> "j" <type> "record"`. Who works on the type first in a tenant layer reads it, and writes it where it differs;
 * what one release has redacted stays so, also beside one that does not.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { packValue, unpackValue } from "../../data/codec.ts"
import * as Hidden from "../../data/hidden.ts"
import { PIECE_BYTES } from "../../tenant/limits.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { elementText, keysOf, type Model } from "../definition/model.ts"

const FORMAT = 1

const recordKey = (tenantPrefix: Uint8Array, type: Tuple.Element): Uint8Array =>
  Tuple.pack(["record"], keysOf(tenantPrefix, type).prefix)

/** What is redacted of the data of a type; `undefined` where no record says it. */
export const readRecord = (state: TransactionState, type: Tuple.Element): Effect.Effect<Hidden.Hidden | undefined> =>
  Effect.map(state.get(recordKey(state.prefix, type), true), decode)

const decode = (bytes: Uint8Array | undefined): Hidden.Hidden | undefined => {
  const data = bytes === undefined ? undefined : Result.getOrUndefined(unpackValue(bytes))
  return Array.isArray(data) && data[0] === FORMAT ? Hidden.fromData(data[1]) : undefined
}

const encode = (hidden: Hidden.Hidden): Uint8Array => {
  const bytes = packValue([FORMAT, Hidden.dataOf(hidden)])
  return bytes.length <= PIECE_BYTES ? bytes : packValue([FORMAT, true])
}

/** The types whose records a tenant layer has seen to. */
const kept = new WeakMap<object, Set<string>>()

/** Keeps the record of a type. */
export const keepRecord = (tenant: object, { hidden, type }: Model): Effect.Effect<void, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    let types = kept.get(tenant)
    if (types === undefined) kept.set(tenant, types = new Set())
    const text = elementText(type)
    if (types.has(text)) return Effect.void
    const key = recordKey(state.prefix, type)
    return Effect.map(state.get(key), (bytes) => {
      const before = decode(bytes)
      const own = hidden()
      const wanted = encode(before === undefined ? own : Hidden.both(before, own))
      if (bytes === undefined || !Tuple.equalsBytes(bytes, wanted)) state.set(key, wanted)
      state.onCommit.push(() => types.add(text))
    })
  })
