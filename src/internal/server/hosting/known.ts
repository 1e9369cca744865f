/**
 * What a host knows of a server: where it stands, what was heard of it, and what is kept of it between its turns. The numbers
 * are those of the host's invariants (`host.ts`).
 */
import type * as Effect from "effect/Effect"
import type * as Tuple from "../../../Tuple.ts"
import type { Server } from "../handling/server.ts"
import type { Pace } from "../running/batch.ts"

type Status = "lined" | "working" | "aside" | "resting"

/** A server that has something to do here, or whose state is kept. */
export interface Known {
  readonly text: string
  readonly tuid: Tuple.Tuple
  status: Status
  /** The entry that was heard of last. */
  entry: string
  /** Whether something was heard while it was at work (3). */
  isCalled: boolean
  /** Locked sections and calls past the queue that are under way (6). */
  holds: number
  /** Whether its locked section runs, or the pause after a crash: nothing else can be done here (7). */
  isHeld: boolean
  /** Whether its last turn, or its locked handler, crashed. */
  hasCrashed: boolean
  resident: Resident | undefined
}

/** What is kept of a server between its turns. */
export interface Resident {
  readonly server: Server
  readonly pace: Pace
  step: ((input: unknown) => Effect.Effect<unknown, unknown>) | undefined
  /** The same after locked handlers that died; it starts over after one that lived. */
  lockStep: ((input: unknown) => Effect.Effect<unknown, unknown>) | undefined
  unreadableMillis: number
  usedMillis: number
}

/** A server that is heard of for the first time. */
export const newlyKnown = (text: string, tuid: Tuple.Tuple, status: Status): Known => ({
  text,
  tuid,
  status,
  entry: "",
  isCalled: false,
  holds: 0,
  isHeld: false,
  hasCrashed: false,
  resident: undefined
})

/** Whether something of it is under way that its state is kept for (6). */
export const isInUse = ({ holds, resident }: Known): boolean => holds > 0 || resident?.server.inFlight.isIdle === false
