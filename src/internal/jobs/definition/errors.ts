/**
 * What can go wrong with a job: typed errors that name the type, the job and the field, and say what to do.
 */
import * as Schema from "effect/Schema"

/** A type, an id or a key as people read it. */
export const render = (element: unknown): string => {
  if (typeof element === "string") return JSON.stringify(element)
  if (typeof element === "bigint") return `${element}n`
  if (Array.isArray(element)) return `[${element.map(render).join(", ")}]`
  if (element instanceof Uint8Array) return `0x${Buffer.from(element).toString("hex")}`
  return String(element)
}

const job = { type: Schema.Unknown, id: Schema.Unknown }

const named = (error: { readonly type: unknown; readonly id: unknown }): string =>
  `job ${render(error.id)} of type ${render(error.type)}`

/** The defect of a row that cannot be read. */
export const unreadable = (type: unknown, id: unknown): Error =>
  new Error(
    `${named({ type, id })}: its row cannot be read. If a newer version of effect-dgen wrote it, use that version; ` +
      "if it is damaged, remove the job by its id"
  )

/**
 * There is a job of this id already. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class JobExists extends Schema.TaggedError<JobExists>("effect-dgen/Jobs/JobExists")("JobExists", job) {
  override get message(): string {
    return `${named(this)} exists. Use another id, or add with ifExists: "resubmit" or "ignore"`
  }
}

/**
 * There is no job of this id. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class JobNotFound extends Schema.TaggedError<JobNotFound>("effect-dgen/Jobs/JobNotFound")("JobNotFound", job) {
  override get message(): string {
    return `${named(this)} does not exist: it was never added, or was removed`
  }
}

/**
 * A job that another one should wait for is not there. Nothing was written. A job waits only for jobs that were added
 * before it, so that no two can wait for each other; one that is gone, by its retention or by `remove`, cannot be named
 * any more.
 *
 * @since 0.1.0
 * @category errors
 */
export class ParentNotFound
  extends Schema.TaggedError<ParentNotFound>("effect-dgen/Jobs/ParentNotFound")("ParentNotFound", {
    ...job,
    parentType: Schema.Unknown,
    parentId: Schema.Unknown
  })
{
  override get message(): string {
    return `${named(this)} cannot wait for ${
      named({ type: this.parentType, id: this.parentId })
    }, which does not exist: ` +
      "add that one first, or leave it out if it has ended and is gone"
  }
}

/**
 * The caller does not hold the job any more: it was finished, removed, handed back, or went silent for its type's
 * timeout and was given to another. Nothing was written. Stop working on it.
 *
 * @since 0.1.0
 * @category errors
 */
export class Halt extends Schema.TaggedError<Halt>("effect-dgen/Jobs/Halt")("Halt", job) {
  override get message(): string {
    return `${named(this)} is no longer held by this caller, and nothing was written: stop working on it`
  }
}

/**
 * Data does not fit the schema of its type. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidData extends Schema.TaggedError<InvalidData>("effect-dgen/Jobs/InvalidData")("InvalidData", {
  ...job,
  field: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    const at = this.field === "" ? "" : ` at "${this.field}"`
    return `${named(this)}: its data${at} does not fit the schema: ${this.problem}`
  }
}

/**
 * Stored data cannot be read with the schema of its type. The job was not changed. Read it with a schema that knows the
 * older form, or resubmit it with new data.
 *
 * @since 0.1.0
 * @category errors
 */
export class UnreadableData
  extends Schema.TaggedError<UnreadableData>("effect-dgen/Jobs/UnreadableData")("UnreadableData", {
    ...job,
    field: Schema.String,
    problem: Schema.String
  })
{
  override get message(): string {
    const at = this.field === "" ? "" : ` at "${this.field}"`
    return `${named(this)}: its stored data${at} cannot be read: ${this.problem}. Resubmit it with new data`
  }
}

/**
 * Data is larger than a job can hold. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class JobTooLarge extends Schema.TaggedError<JobTooLarge>("effect-dgen/Jobs/JobTooLarge")("JobTooLarge", {
  ...job,
  bytes: Schema.Number,
  limitBytes: Schema.Number
}) {
  override get message(): string {
    return `${named(this)}: its data has ${this.bytes} bytes, and at most ${this.limitBytes} fit: ` +
      "keep the data elsewhere, and a reference to it in the job"
  }
}

/**
 * An id cannot be a key. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidId extends Schema.TaggedError<InvalidId>("effect-dgen/Jobs/InvalidId")("InvalidId", {
  type: Schema.Unknown,
  problem: Schema.String
}) {
  override get message(): string {
    return `type ${render(this.type)}: the id cannot be used: ${this.problem}`
  }
}

/**
 * An option, or the definition of a type, cannot be used. Nothing was written. `type` is `undefined` where nothing
 * tells it.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidOption
  extends Schema.TaggedError<InvalidOption>("effect-dgen/Jobs/InvalidOption")("InvalidOption", {
    type: Schema.Unknown,
    option: Schema.String,
    problem: Schema.String
  })
{
  override get message(): string {
    const of = this.type === undefined ? "" : ` of type ${render(this.type)}`
    return `jobs${of}: the option "${this.option}" ${this.problem}`
  }
}

/**
 * There is no schedule of this name. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class ScheduleNotFound
  extends Schema.TaggedError<ScheduleNotFound>("effect-dgen/Jobs/ScheduleNotFound")("ScheduleNotFound", {
    type: Schema.Unknown,
    name: Schema.String
  })
{
  override get message(): string {
    return `jobs of type ${render(this.type)}: there is no schedule ${render(this.name)}: ` +
      "no process has started its cronLayer, or it was removed"
  }
}
