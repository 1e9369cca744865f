/**
 * Jobs that wait for others, as programs see them: which ones, how they ended, and what they left.
 */
import * as Effect from "effect/Effect"
import type { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import { type InvalidId, InvalidOption, JobNotFound, type UnreadableData } from "../definition/errors.ts"
import {
  checkId,
  decodeData,
  elementProblem,
  elementText,
  type Model,
  modelOf,
  type Place,
  within
} from "../definition/model.ts"
import { type ParentRow, readParents, readResult, sameElement } from "../kept/parents.ts"
import { load } from "../kept/places.ts"
import type { Parent as Named } from "../kept/telling.ts"

/** More than this are a mistake: a job of its own can gather what others left. */
const PARENTS_LIMIT = 1_000

/**
 * A job that another one waits for: its definition, as `Jobs.make` gave it, and its id.
 *
 * @since 0.1.0
 * @category models
 */
export interface ParentInput {
  readonly job: { readonly type: Tuple.Element }
  readonly id: Tuple.Element
}

/**
 * What makes a job wait for others.
 *
 * @since 0.1.0
 * @category models
 */
export interface DependencyOptions {
  /**
   * The job waits until these have ended, up to 1,000, of any type in the same tenant. They must be there, and can have
   * ended already. Not together with `ifExists: "resubmit"`.
   */
  readonly after?: ParentInput | ReadonlyArray<ParentInput> | undefined
  /**
   * What becomes of the job when one of them dies, or is removed before it has ended: `"die"`, if absent, makes it dead
   * at once, with the reason in its `error`; `"run"` lets it run when all have ended.
   */
  readonly onParentDeath?: "die" | "run" | undefined
}

/**
 * A job that another one waits for, or waited for. `removed` is one that was removed before it had ended.
 *
 * @since 0.1.0
 * @category models
 */
export interface Parent {
  readonly type: Tuple.Element
  readonly id: Tuple.Element
  readonly state: "waiting" | "finished" | "dead" | "removed"
  /** What a dead one failed with; empty for others. */
  readonly error: string
}

/**
 * How a job ended that another one waited for. A finished one whose data was too long to be kept for those who waited
 * (60,000 bytes) and that was removed since is `removed`, too.
 *
 * @since 0.1.0
 * @category models
 */
export type ParentResult<A> =
  & { readonly type: Tuple.Element; readonly id: Tuple.Element; readonly error: string }
  & (
    | { readonly state: "finished"; readonly data: A }
    | { readonly state: "waiting" | "dead" | "removed"; readonly data: undefined }
  )

/** A definition, as far as it tells what the data of its jobs is. */
export interface DefinitionOf<out A> {
  readonly type: Tuple.Element
  getData(id: Tuple.Element): Effect.Effect<A, unknown, Transaction>
}

const invalid = (model: Model, option: string, problem: string) =>
  Effect.fail(new InvalidOption({ type: model.type, option, problem }))

/** What is asked for, checked: each job once. */
export const checkDependencies = (
  model: Model,
  { after, ifExists, onParentDeath = "die" }: DependencyOptions & { readonly ifExists?: unknown }
): Effect.Effect<{ readonly parents: ReadonlyArray<Named>; readonly dies: boolean }, InvalidOption> => {
  if (onParentDeath !== "die" && onParentDeath !== "run") {
    return invalid(model, "onParentDeath", "must be \"die\" or \"run\"")
  }
  const inputs: ReadonlyArray<unknown> = after === undefined ? NONE : Array.isArray(after) ? after : [after]
  if (inputs.length > PARENTS_LIMIT) {
    return invalid(
      model,
      "after",
      `names ${inputs.length} jobs, and at most ${PARENTS_LIMIT} fit: let another job gather some`
    )
  }
  if (inputs.length > 0 && ifExists === "resubmit") {
    return invalid(
      model,
      "after",
      "cannot be used together with ifExists: \"resubmit\": what is there keeps what it waits for"
    )
  }
  const parents = new Map<string, Named>()
  for (const input of inputs) {
    const { id, job } = (typeof input === "object" ? input : undefined) as ParentInput | null | undefined ?? {}
    const parent = modelOf(job)
    if (parent === undefined) {
      return invalid(model, "after", "must be { job, id }, with a job that Jobs.make gave, or several")
    }
    if (parent.problem !== undefined) return Effect.fail(parent.problem)
    const problem = elementProblem(id!)
    if (problem !== undefined) return invalid(model, "after", `names an id that cannot be used: ${problem}`)
    parents.set(`${elementText(parent.type)} ${elementText(id!)}`, { type: parent.type, id: id! })
  }
  return Effect.succeed({ parents: [...parents.values()], dies: onParentDeath === "die" })
}

const NONE: ReadonlyArray<unknown> = []

type LookError = JobNotFound | InvalidId | InvalidOption

const found = Effect.fnUntraced(function*(
  place: Place,
  id: Tuple.Element
): Effect.fn.Return<ReadonlyArray<ParentRow & { readonly index: number }>, InvalidId | JobNotFound> {
  yield* checkId(place.model, id)
  const row = yield* load(place, id)
  if (row === undefined) return yield* new JobNotFound({ type: place.model.type, id })
  return row.parents === undefined ? [] : yield* readParents(place, id)
})

export const parents = (
  model: Model,
  id: Tuple.Element
): Effect.Effect<ReadonlyArray<Parent>, LookError, Transaction> =>
  within(
    model,
    (place) =>
      Effect.map(found(place, id), (rows) => rows.map(({ error, id, state, type }) => ({ type, id, state, error })))
  )

export const results = <B>(
  model: Model,
  id: Tuple.Element,
  of: DefinitionOf<B>
): Effect.Effect<ReadonlyArray<ParentResult<B>>, LookError | UnreadableData, Transaction> =>
  within(model, (place) =>
    Effect.gen(function*() {
      const parent = modelOf(of)
      if (parent === undefined) return yield* invalid(model, "of", "must be what Jobs.make gave")
      const rows = (yield* found(place, id)).filter(({ type }) => sameElement(type, parent.type))
      return yield* Effect.forEach(rows, (row) => resultOf<B>(place, id, parent, row))
    }))

const resultOf = Effect.fnUntraced(function*<B>(
  place: Place,
  id: Tuple.Element,
  parent: Model,
  row: ParentRow & { readonly index: number }
): Effect.fn.Return<ParentResult<B>, UnreadableData> {
  const named = { type: row.type, id: row.id, error: row.error }
  if (row.state !== "finished") return { ...named, state: row.state, data: undefined }
  const bytes = yield* readResult(place, id, row)
  if (bytes === undefined) return { ...named, state: "removed", data: undefined }
  return { ...named, state: "finished", data: yield* Effect.fromResult(decodeData(parent, row.id, bytes)) }
})
