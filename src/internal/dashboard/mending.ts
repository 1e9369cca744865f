/** What the page changes, each with the words for what came of it. */
import * as Effect from "effect/Effect"
import * as Inspect from "../../Inspect.ts"
import { type Tenant, transact } from "../../Tenant.ts"
import type { MendJobs, MendServer } from "./asking.ts"
import type { Failure } from "./failing.ts"

type Mended = Effect.Effect<string, Failure, Tenant>

const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? "" : "s"}`

const mendServer = (mend: MendServer): Mended => {
  const { at } = mend
  const name = Inspect.textOfTuid(at)
  switch (mend.operation) {
    case "requeue":
      return mend.id === undefined
        ? Effect.map(Inspect.requeueAll(at), (count) => `Requeued ${counted(count, "dead letter")} of ${name}.`)
        : Effect.as(transact(Inspect.requeue(at, mend.id)), `Requeued a dead letter of ${name}.`)
    case "discard":
      return mend.id === undefined
        ? Effect.map(
          transact(Inspect.discardAll(at)),
          (count) => `Discarded ${counted(count, "dead letter")} of ${name}.`
        )
        : Effect.as(transact(Inspect.discard(at, mend.id)), `Discarded a dead letter of ${name}.`)
    case "unlock":
      return Effect.map(
        transact(Inspect.unlock(at)),
        (wasHeld) => wasHeld ? `Unlocked ${name}.` : `${name} was not locked any more.`
      )
    case "kill":
      return Effect.as(Inspect.kill(at), `Killed ${name}.`)
    case "cast":
      return Effect.as(transact(Inspect.cast(at, mend.tag, mend.payload)), `Cast ${mend.tag} to ${name}.`)
  }
}

const mendJobs = (mend: MendJobs): Mended => {
  const { of, one } = mend
  switch (mend.operation) {
    case "requeue-job":
      return one === undefined
        ? Effect.map(Inspect.requeueJobs(of, { state: mend.state }), (count) => `Requeued ${counted(count, "job")}.`)
        : Effect.as(transact(Inspect.requeueJob(of, one)), `Requeued the job ${mend.id}.`)
    case "remove-job":
      return one === undefined
        ? Effect.map(Inspect.removeJobs(of, { state: mend.state }), (count) => `Removed ${counted(count, "job")}.`)
        : Effect.as(transact(Inspect.removeJob(of, one)), `Removed the job ${mend.id}.`)
    case "pause":
      return Effect.as(transact(Inspect.pause(of)), `Paused ${mend.type}.`)
    case "resume":
      return Effect.as(transact(Inspect.resume(of)), `Resumed ${mend.type}.`)
    case "pause-schedule":
      return Effect.as(transact(Inspect.pauseSchedule(of, mend.name)), `Paused the schedule ${mend.name}.`)
    case "resume-schedule":
      return Effect.as(transact(Inspect.resumeSchedule(of, mend.name)), `Resumed the schedule ${mend.name}.`)
    case "reset-schedule":
      return Effect.as(transact(Inspect.resetSchedule(of, mend.name)), `Reset the schedule ${mend.name}.`)
    case "run-schedule":
      return Effect.as(transact(Inspect.runSchedule(of, mend.name)), `Asked for a run of the schedule ${mend.name}.`)
  }
}

/** Changes what is asked for. */
export const mend = (wanted: MendServer | MendJobs): Mended => "at" in wanted ? mendServer(wanted) : mendJobs(wanted)
