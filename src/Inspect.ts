/**
 * Looking at what a tenant holds, and putting it in order, without the definitions of its servers and jobs: what the
 * command line and the dashboard stand on, and what a program can use that is an operator's.
 *
 * All looks are transaction effects by snapshot: run them with `Tenant.transact`, beside whatever else runs on the store.
 * They conflict with nobody, read a bounded part, and give plain data that JSON can say. Lists come in pages, whose `next`
 * is the `after` of the following one; `allServers`, `allJobs` and the like are streams over them. Times are milliseconds
 * since 1970. Texts come from the store: whoever shows them escapes them.
 *
 * Programs that start or host servers, or work on jobs, keep a record of their definition in the tenant: which messages
 * there are, whether servers are hosted, what of states, payloads and data is redacted (`Schema.Redacted`). With it values
 * are shown without what is redacted, and servers can be woken. Without it values are hidden, unless `values` asks for
 * them, and what must wake a server fails with `DefinitionUnknown`.
 *
 * What is changed here is changed in one transaction with all that belongs to it, as the server or its host would do it. It
 * counts at once for the processes that run.
 *
 * @since 0.2.0
 */
import type * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Stream from "effect/Stream"
import type { Backend } from "./Backend.ts"
import type { BackendError } from "./BackendError.ts"
import type { DeadLetterNotFound } from "./DurableQueue.ts"
import type { CheckProgress, Finding } from "./internal/inspect/check/finding.ts"
import * as Checking from "./internal/inspect/check/tenant.ts"
import type {
  DefinitionUnknown,
  InvalidMessage,
  InvalidOption as InvalidInput,
  ServerNotFound
} from "./internal/inspect/errors.ts"
import { InvalidOption } from "./internal/inspect/errors.ts"
import * as JobRows from "./internal/inspect/jobs.ts"
import * as Mending from "./internal/inspect/mending.ts"
import * as One from "./internal/inspect/server.ts"
import * as Servers from "./internal/inspect/servers.ts"
import * as Statistics from "./internal/inspect/stats.ts"
import * as Tenants from "./internal/inspect/tenants.ts"
import * as Texts from "./internal/inspect/texts.ts"
import type { InvalidId, JobNotFound, ScheduleNotFound } from "./internal/jobs/definition/errors.ts"
import type { State } from "./internal/jobs/definition/layout.ts"
import type { Tenant } from "./Tenant.ts"
import type { Transaction } from "./Transaction.ts"
import type * as Tuple from "./Tuple.ts"

export type { CheckProgress, Finding, FindingKind } from "./internal/inspect/check/finding.ts"
export { DefinitionUnknown, InvalidMessage, InvalidOption, ServerNotFound } from "./internal/inspect/errors.ts"
export type {
  ElementRow,
  JobOptions,
  JobPage,
  JobRow,
  JobTypePage,
  JobTypeRow,
  ScheduleRow
} from "./internal/inspect/jobs.ts"
export type {
  DeadLetterPage,
  DeadLetterRow,
  DefinitionInfo,
  KeyPage,
  KeyRow,
  LookOptions,
  MessageRow,
  PageOptions,
  QueuePage,
  ServerDetail,
  TimerPage,
  TimerRow
} from "./internal/inspect/server.ts"
export type { LockRow, ServerOptions, ServerPage, ServerRow, StuckReason } from "./internal/inspect/servers.ts"
export type { Count, DefinitionRow, HostRow, Stats } from "./internal/inspect/stats.ts"
export type { Tuid } from "./internal/inspect/texts.ts"
export type { Value } from "./internal/inspect/values.ts"

// --- texts ---

/**
 * The tuid of its text, as rows have it: JSON, with forms for what JSON cannot say (`0x00ff`, `uuid(...)`). Fails with
 * `InvalidOption`.
 *
 * @since 0.2.0
 * @category texts
 */
export const parseTuid = (text: string): Result.Result<Tuple.Tuple, InvalidInput> =>
  Result.flatMap(
    Result.mapError(
      Texts.parseElement(text),
      (problem) => new InvalidOption({ option: "tuid", problem: `must be a text such as ["cart",7]: ${problem}` })
    ),
    (element) =>
      Array.isArray(element) && element.length > 0
        ? Result.succeed(element as Tuple.Tuple)
        : Result.fail(
          new InvalidOption({ option: "tuid", problem: "must be an array of elements, such as [\"cart\",7]" })
        )
  )

/**
 * The text of a tuid, for `parseTuid`.
 *
 * @since 0.2.0
 * @category texts
 */
export const textOfTuid = (tuid: Tuple.Tuple): string => Texts.textOf(tuid)

/**
 * The element of its text, such as the type or the id of a job. Fails with `InvalidOption`.
 *
 * @since 0.2.0
 * @category texts
 */
export const parseElement = (text: string): Result.Result<Tuple.Element, InvalidInput> =>
  Result.mapError(
    Texts.parseElement(text),
    (problem) => new InvalidOption({ option: "text", problem: `must be a text such as "mail" or 7: ${problem}` })
  )

// --- servers ---

/**
 * A page of servers, in the order of their tuids: of all of the tenant, or of one definition; with `stuck` those that
 * somebody should look at. One page looks at 1,000 servers at the most, and says at how many it has looked.
 *
 * @since 0.2.0
 * @category servers
 */
export const servers: (
  options?: Servers.ServerOptions
) => Effect.Effect<Servers.ServerPage, InvalidInput, Transaction> = Servers.servers

/**
 * All servers that are meant, page by page, each a transaction of its own that is short enough for the store at hand.
 *
 * @since 0.2.0
 * @category servers
 */
export const allServers: (
  options?: Servers.ServerOptions
) => Stream.Stream<Servers.ServerRow, InvalidInput | BackendError, Tenant> = Servers.allRows

/**
 * One server: what a list shows of it, its state, its lock with the message under it, what the record of its definition
 * says. Fails with `ServerNotFound` where there is nothing.
 *
 * @since 0.2.0
 * @category servers
 */
export const server: (
  tuid: Tuple.Tuple,
  options?: One.LookOptions
) => Effect.Effect<One.ServerDetail, InvalidInput | ServerNotFound, Transaction> = One.server

/**
 * A page of the messages that wait in the queue of a server, the first one first. The message under the lock is none of
 * them: `server` shows it.
 *
 * @since 0.2.0
 * @category servers
 */
export const queue: (
  tuid: Tuple.Tuple,
  options?: One.PageOptions
) => Effect.Effect<One.QueuePage, InvalidInput, Transaction> = One.queue

/**
 * A page of the dead letters of a server, in the order in which they died.
 *
 * @since 0.2.0
 * @category servers
 */
export const deadLetters: (
  tuid: Tuple.Tuple,
  options?: One.PageOptions
) => Effect.Effect<One.DeadLetterPage, InvalidInput, Transaction> = One.deadLetters

/**
 * A page of the timers of a server, in the order of their times.
 *
 * @since 0.2.0
 * @category servers
 */
export const timers: (
  tuid: Tuple.Tuple,
  options?: One.PageOptions
) => Effect.Effect<One.TimerPage, InvalidInput, Transaction> = One.timers

/**
 * A page of the keys of a server's messages.
 *
 * @since 0.2.0
 * @category servers
 */
export const keys: (
  tuid: Tuple.Tuple,
  options?: One.PageOptions
) => Effect.Effect<One.KeyPage, InvalidInput, Transaction> = One.keys

// --- mending servers ---

/**
 * Puts a dead letter back at the end of its server's queue, with no attempts behind it, and wakes the server.
 *
 * @since 0.2.0
 * @category mending servers
 */
export const requeue: (
  tuid: Tuple.Tuple,
  id: string
) => Effect.Effect<void, InvalidInput | DefinitionUnknown | DeadLetterNotFound, Transaction> = Mending.requeue

/**
 * Puts all dead letters of a server back that there were when it began, in passes. Succeeds with how many.
 *
 * @since 0.2.0
 * @category mending servers
 */
export const requeueAll: (
  tuid: Tuple.Tuple
) => Effect.Effect<number, InvalidInput | DefinitionUnknown | BackendError, Tenant> = Mending.requeueAll

/**
 * Deletes a dead letter for good.
 *
 * @since 0.2.0
 * @category mending servers
 */
export const discard: (
  tuid: Tuple.Tuple,
  id: string
) => Effect.Effect<void, InvalidInput | DeadLetterNotFound, Transaction> = Mending.discard

/**
 * Deletes all dead letters of a server for good. Succeeds with how many there were.
 *
 * @since 0.2.0
 * @category mending servers
 */
export const discardAll: (tuid: Tuple.Tuple) => Effect.Effect<number, InvalidInput, Transaction> = Mending.discardAll

/**
 * Breaks the lock of a server: the message under it is queued again, with one more attempt, and who held it writes nothing
 * any more. Succeeds with whether it was held.
 *
 * @since 0.2.0
 * @category mending servers
 */
export const unlock: (
  tuid: Tuple.Tuple
) => Effect.Effect<boolean, InvalidInput | DefinitionUnknown | ServerNotFound, Transaction> = Mending.unlock

/**
 * Ends a server for good, with its state, queue, dead letters, timers and keys. Calls that wait fail with `ServerKilled`.
 *
 * @since 0.2.0
 * @category mending servers
 */
export const kill: (
  tuid: Tuple.Tuple
) => Effect.Effect<void, InvalidInput | ServerNotFound | BackendError, Tenant> = Mending.kill

/**
 * Casts a message to a server, its payload in the JSON form of its schema (`undefined` for a message that has none). What
 * its schema does not take is left alone by consumers for a while, and then a dead letter.
 *
 * @since 0.2.0
 * @category mending servers
 */
export const cast: (
  tuid: Tuple.Tuple,
  tag: string,
  payload?: unknown,
  options?: Mending.CastOptions
) => Effect.Effect<void, InvalidInput | DefinitionUnknown | InvalidMessage, Transaction> = Mending.cast

/**
 * Takes a timer away. Succeeds with whether that prevented a message.
 *
 * @since 0.2.0
 * @category mending servers
 */
export const cancelTimer: (
  tuid: Tuple.Tuple,
  id: string
) => Effect.Effect<boolean, InvalidInput, Transaction> = Mending.cancelTimer

// --- jobs ---

/**
 * A page of the types of jobs, with how many jobs they have in each state.
 *
 * @since 0.2.0
 * @category jobs
 */
export const jobTypes: (
  options?: { readonly limit?: number | undefined; readonly after?: string | undefined }
) => Effect.Effect<JobRows.JobTypePage, InvalidInput, Transaction> = JobRows.jobTypes

/**
 * A page of the jobs of a type, or of those in one state.
 *
 * @since 0.2.0
 * @category jobs
 */
export const jobs: (
  type: Tuple.Element,
  options?: JobRows.JobOptions
) => Effect.Effect<JobRows.JobPage, InvalidInput, Transaction> = JobRows.jobs

/**
 * All jobs of a type, or those of one state, page by page, each a transaction of its own.
 *
 * @since 0.2.0
 * @category jobs
 */
export const allJobs: (
  type: Tuple.Element,
  options?: JobRows.JobOptions
) => Stream.Stream<JobRows.JobRow, InvalidInput | BackendError, Tenant> = JobRows.allJobRows

/**
 * One job.
 *
 * @since 0.2.0
 * @category jobs
 */
export const job: (
  type: Tuple.Element,
  id: Tuple.Element,
  options?: One.LookOptions
) => Effect.Effect<JobRows.JobRow, InvalidInput | InvalidId | JobNotFound, Transaction> = JobRows.job

/**
 * Runs a job again that is dead or finished; one that waits is due at once, one that runs runs once more. Succeeds with
 * the state that it has then.
 *
 * @since 0.2.0
 * @category jobs
 */
export const requeueJob: (
  type: Tuple.Element,
  id: Tuple.Element
) => Effect.Effect<State, InvalidInput | InvalidId | JobNotFound, Transaction> = JobRows.requeueJob

/**
 * Runs all dead jobs of a type again, or all finished ones, in passes. Succeeds with how many.
 *
 * @since 0.2.0
 * @category jobs
 */
export const requeueJobs: (
  type: Tuple.Element,
  options?: JobRows.ManyJobs
) => Effect.Effect<number, InvalidInput | BackendError, Tenant> = JobRows.requeueJobs

/**
 * Removes a job, whatever it does, also one that is damaged. Who works on it is stopped.
 *
 * @since 0.2.0
 * @category jobs
 */
export const removeJob: (
  type: Tuple.Element,
  id: Tuple.Element
) => Effect.Effect<void, InvalidInput | InvalidId | JobNotFound, Transaction> = JobRows.removeJob

/**
 * Removes all jobs of a type, or all of a state, in passes. Succeeds with how many.
 *
 * @since 0.2.0
 * @category jobs
 */
export const removeJobs: (
  type: Tuple.Element,
  options?: JobRows.ManyJobs
) => Effect.Effect<number, InvalidInput | BackendError, Tenant> = JobRows.removeJobs

/**
 * Lets nobody take jobs of a type any more; those that run go on.
 *
 * @since 0.2.0
 * @category jobs
 */
export const pause: (type: Tuple.Element) => Effect.Effect<void, InvalidInput, Transaction> = JobRows.pause

/**
 * Lets jobs of a type be taken again.
 *
 * @since 0.2.0
 * @category jobs
 */
export const resume: (type: Tuple.Element) => Effect.Effect<void, InvalidInput, Transaction> = JobRows.resume

/**
 * The schedules of a type: at most 1,000.
 *
 * @since 0.2.0
 * @category jobs
 */
export const schedules: (
  type: Tuple.Element
) => Effect.Effect<ReadonlyArray<JobRows.ScheduleRow>, InvalidInput, Transaction> = JobRows.schedules

type OfSchedule<A> = (
  type: Tuple.Element,
  name: string
) => Effect.Effect<A, ScheduleNotFound | InvalidInput, Transaction>

/**
 * Lets a schedule add no jobs.
 *
 * @since 0.2.0
 * @category jobs
 */
export const pauseSchedule: OfSchedule<void> = JobRows.pauseSchedule

/**
 * Lets a schedule add jobs again, from its next tick on.
 *
 * @since 0.2.0
 * @category jobs
 */
export const resumeSchedule: OfSchedule<void> = JobRows.resumeSchedule

/**
 * Lets a schedule begin anew, from now on: for one that a wrong clock has led far ahead.
 *
 * @since 0.2.0
 * @category jobs
 */
export const resetSchedule: OfSchedule<void> = JobRows.resetSchedule

/**
 * Forgets a schedule. A process that runs it begins it anew.
 *
 * @since 0.2.0
 * @category jobs
 */
export const removeSchedule: OfSchedule<void> = JobRows.removeSchedule

/**
 * Asks for a run of a schedule now. Succeeds with the id that its job will have.
 *
 * @since 0.2.0
 * @category jobs
 */
export const runSchedule: OfSchedule<readonly [name: string, millis: number]> = JobRows.runSchedule

// --- tenants ---

/**
 * The paths of all tenants of a store, or of those below a path, in the order of their names.
 *
 * **Example** (What a store has)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Stream } from "effect"
 * import { Inspect, MemoryBackend, Tenant } from "effect-dgen"
 *
 * const program = Effect.gen(function*() {
 *   yield* Layer.build(Layer.merge(Tenant.layer(["docs", "a"]), Tenant.layer(["docs", "b"])))
 *   return Array.from(yield* Stream.runCollect(Inspect.tenants()))
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(MemoryBackend.layer)))
 * // => [["docs", "a"], ["docs", "b"]]
 * ```
 *
 * @since 0.2.0
 * @category looking
 */
export const tenants: (
  under?: ReadonlyArray<string>
) => Stream.Stream<ReadonlyArray<string>, BackendError, Backend> = Tenants.tenants

/**
 * Whether there is a tenant of a path: nothing is made, as `Tenant.layer` would. `undefined` where the store does not say.
 *
 * @since 0.2.0
 * @category looking
 */
export const tenantExists: (
  path: ReadonlyArray<string>
) => Effect.Effect<boolean | undefined, BackendError, Backend> = Tenants.exists

/**
 * A tenant at a glance, by bounded reads: its definitions, how many servers each has, how many of these have something to
 * do, the processes that host them.
 *
 * @since 0.2.0
 * @category looking
 */
export const stats: (
  options?: { readonly after?: string | undefined }
) => Effect.Effect<Statistics.Stats, InvalidInput, Transaction> = Statistics.stats

/**
 * Reads a tenant and tells what does not belong: parts without a whole, counters that lie, rows without an owner, missing
 * entries. Each server is looked at in one transaction, so it can be used while programs run; it changes nothing. `onProgress`
 * is told after each transaction how far it has come.
 *
 * @since 0.2.0
 * @category looking
 */
export const check: (
  options?: { readonly onProgress?: ((progress: CheckProgress) => void) | undefined }
) => Stream.Stream<Finding, BackendError, Tenant> = Checking.check
