/**
 * The record of a definition: what tools that do not have it must know of it, to show what is stored and to wake a server.
 *
 * ```
 * <library> "d" <name> "record"   [format, hosted, messages, states] as MessagePack
 * ```
 *
 * 1. Who starts or hosts servers of a definition first in a tenant layer reads the record, and writes it where it differs.
 * 2. What one release has redacted stays so for the tools, also beside a release that does not: a record keeps what the
 *    one before it hid.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import { packValue, unpackValue } from "../../data/codec.ts"
import * as Hidden from "../../data/hidden.ts"
import { libraryPrefix } from "../../tenant/layout.ts"
import { PIECE_BYTES } from "../../tenant/limits.ts"
import type { TransactionState } from "../../transactions/state.ts"
import type { Definition, Kind } from "../definition/model.ts"
import { isListed } from "./indexes.ts"

const FORMAT = 1

/** What a record says of a message. */
export interface MessageRecord {
  readonly tag: string
  readonly kind: Kind
  readonly locks: boolean
  readonly hasPayload: boolean
  readonly hidden: Hidden.Hidden
}

/** What a record says. */
export interface DefinitionRecord {
  readonly hosted: boolean
  readonly messages: ReadonlyArray<MessageRecord>
  /** What is redacted of the state, for each version of its schema, the first one first. */
  readonly states: ReadonlyArray<Hidden.Hidden>
}

/** Where the record of a definition lies. */
export const recordKey = (tenantPrefix: Uint8Array, name: string): Uint8Array =>
  Tuple.pack(["d", name, "record"], libraryPrefix(tenantPrefix))

const KINDS: ReadonlyArray<unknown> = ["call", "cast", "info"] satisfies ReadonlyArray<Kind>

const dataOf = ({ hosted, messages, states }: DefinitionRecord): ReadonlyArray<unknown> => [
  FORMAT,
  hosted,
  messages.map(({ hasPayload, hidden, kind, locks, tag }) => [tag, kind, locks, hasPayload, Hidden.dataOf(hidden)]),
  states.map(Hidden.dataOf)
]

/** The bytes of a record; where it is too long for a value, it hides all. */
const encode = (record: DefinitionRecord): Uint8Array => {
  const bytes = packValue(dataOf(record))
  if (bytes.length <= PIECE_BYTES) return bytes
  const { hosted, messages, states } = record
  const hidden = packValue(dataOf({
    hosted,
    messages: messages.map((message) => ({ ...message, hidden: true })),
    states: states.map(() => true)
  }))
  return hidden.length <= PIECE_BYTES ? hidden : packValue(dataOf({ hosted, messages: [], states: [] }))
}

/** The record of bytes; `undefined` for what this version cannot read: as good as none. */
export const decode = (bytes: Uint8Array | undefined): DefinitionRecord | undefined => {
  const data = bytes === undefined ? undefined : Result.getOrUndefined(unpackValue(bytes))
  if (!Array.isArray(data) || data[0] !== FORMAT || typeof data[1] !== "boolean") return undefined
  const [, hosted, messages, states] = data as [unknown, boolean, unknown, unknown]
  if (!Array.isArray(messages) || !Array.isArray(states)) return undefined
  const read = messages.map(messageOf)
  if (read.includes(undefined)) return undefined
  return {
    hosted,
    messages: read as Array<MessageRecord>,
    states: states.map((state) => Hidden.fromData(state))
  }
}

const messageOf = (data: unknown): MessageRecord | undefined => {
  if (!Array.isArray(data)) return undefined
  const [tag, kind, locks, hasPayload, hidden] = data as Array<unknown>
  if (typeof tag !== "string" || !KINDS.includes(kind)) return undefined
  return {
    tag,
    kind: kind as Kind,
    locks: locks === true,
    hasPayload: hasPayload === true,
    hidden: Hidden.fromData(hidden)
  }
}

const known = new WeakMap<Definition, DefinitionRecord>()

/** What a definition has to say. */
const recordOf = (definition: Definition): DefinitionRecord => {
  let record = known.get(definition)
  if (record === undefined) {
    const { earlier, hosted, messages, state } = definition
    record = {
      hosted,
      messages: Array.from(messages.values(), ({ kind, locks, payload, tag }) => ({
        tag,
        kind,
        locks,
        hasPayload: payload !== undefined,
        hidden: payload === undefined ? false : Hidden.hiddenOf(payload)
      })),
      states: [...earlier.map(({ schema }) => schema), state].map(Hidden.hiddenOf)
    }
    known.set(definition, record)
  }
  return record
}

/** What a record becomes that is written after another one (2). */
const after = (before: DefinitionRecord | undefined, record: DefinitionRecord): DefinitionRecord => {
  if (before === undefined) return record
  const hidden = new Map(before.messages.map((message) => [message.tag, message.hidden]))
  const tags = new Set(record.messages.map(({ tag }) => tag))
  return {
    ...record,
    messages: [
      ...record.messages.map((message) => ({
        ...message,
        hidden: Hidden.both(message.hidden, hidden.get(message.tag) ?? false)
      })),
      ...before.messages.filter((message) => !tags.has(message.tag) && message.hidden !== false)
    ],
    states: Array.from(
      { length: Math.max(record.states.length, before.states.length) },
      (_, at) => Hidden.both(record.states[at] ?? false, before.states[at] ?? false)
    )
  }
}

/** The definitions whose records a tenant layer has seen to (1). */
const kept = new WeakMap<object, Set<string>>()

/** Keeps the record of a definition, in the transaction that starts or hosts its servers. */
export const keepRecord = (
  state: TransactionState,
  tenant: object,
  definition: Definition
): Effect.Effect<void> => {
  const { name } = definition
  let names = kept.get(tenant)
  if (names === undefined) kept.set(tenant, names = new Set())
  // the names of others are too long for keys of their own
  if (names.has(name) || !isListed(name)) return Effect.void
  const key = recordKey(state.prefix, name)
  return Effect.map(state.get(key), (bytes) => {
    const wanted = encode(after(decode(bytes), recordOf(definition)))
    if (bytes === undefined || !Tuple.equalsBytes(bytes, wanted)) state.set(key, wanted)
    state.onCommit.push(() => names.add(name))
  })
}
