/**
 * The jobs that a definition's durable actions are: a type for each tag, with the options that its action declares. A
 * version of a program that does not declare a tag leaves the jobs of its type to one that does.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type Codec, codecOf } from "../../data/codec.ts"
import * as Hidden from "../../data/hidden.ts"
import * as Jobs from "../../jobs/definition/model.ts"
import type { Action, Definition } from "../definition/model.ts"
import { advance, dataOf, tuidOf, typeOf } from "./chain.ts"

/** What a handler has run for stays so long, for who looks. */
const FINISHED_RETENTION = "1 hour"

/** What must not be lost stays until somebody decides. */
const RETENTION = { finished: FINISHED_RETENTION, dead: "Infinity" } as const

/** The data of an action's job. */
export interface Data {
  readonly tuid: ReadonlyArray<any>
  readonly payload: unknown
}

const NO_TUID = { field: "", problem: "it does not say which server it is of" }

/** The codec of an action's job. */
const dataCodec = ({ payload }: Action): Codec => {
  const codec = payload && codecOf(payload)
  return {
    encode: (value) => {
      const { payload, tuid } = value as Data
      const encoded = codec === undefined ? Result.succeed(null) : codec.encode(payload)
      return Result.map(encoded, (plain) => dataOf(tuid, plain))
    },
    decode: (data) => {
      const tuid = tuidOf(data)
      if (tuid === undefined) return Result.fail(NO_TUID)
      const decoded = codec === undefined
        ? Result.succeed(undefined)
        : codec.decode((data as ReadonlyArray<unknown>)[1])
      return Result.map(decoded, (payload) => ({ tuid, payload }))
    }
  }
}

/** What of the data is redacted: of its two parts the one that is no payload is hidden with it. */
const hiddenOf = ({ payload }: Action): Hidden.Hidden => {
  const hidden = payload === undefined ? false : Hidden.hiddenOf(payload)
  return hidden === false ? false : { items: hidden, entries: null }
}

const modelOf = (name: string, action: Action): Jobs.Model => ({
  ...Jobs.make(typeOf(name, action.tag), { ...action.durable, data: Schema.Unknown, retention: RETENTION }),
  codec: dataCodec(action),
  hidden: () => hiddenOf(action),
  ended: advance(name, action.tag)
})

const models = new WeakMap<Definition, ReadonlyMap<string, Jobs.Model>>()

/** The jobs of each durable action of a definition, by its tag. */
export const modelsOf = (definition: Definition): ReadonlyMap<string, Jobs.Model> => {
  let byTag = models.get(definition)
  if (byTag === undefined) {
    const durable = [...definition.actions.values()].filter((action) => action.durable !== undefined)
    byTag = new Map(durable.map((action) => [action.tag, modelOf(definition.name, action)]))
    models.set(definition, byTag)
  }
  return byTag
}

/** The jobs of a tag, also of one that this version does not declare: nothing of those can be read. */
export const modelOfTag = (definition: Definition, tag: string): Jobs.Model => {
  const known = modelsOf(definition).get(tag)
  if (known !== undefined) return known
  const problem = tag === ""
    ? "its row could not be read"
    : `this version of ${definition.name} has no durable action "${tag}"`
  return {
    ...Jobs.bareModel(typeOf(definition.name, tag)),
    codec: { encode: () => Result.fail({ field: "", problem }), decode: () => Result.fail({ field: "", problem }) },
    deadRetentionMillis: Infinity,
    ended: advance(definition.name, tag)
  }
}
