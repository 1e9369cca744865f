/**
 * Messages that run at once, past the queue: what they are, and how far they get.
 */
import type * as Envelopes from "../../queue/envelope.ts"
import type { Handled, Incoming } from "../handling/handlers.ts"
import type { Acquired } from "./locked.ts"

/** A message without the id that its transaction gives it; `data` is its payload as plain data. */
export type Direct = Omit<Incoming, "id"> & { readonly data: unknown }

/** How far a message got. */
export type Progress =
  /** It was handled; a call that is answered has the bytes of its answer. */
  | { readonly _tag: "Handled"; readonly answer: Uint8Array | undefined }
  /** It was handled, and its answer comes later. */
  | { readonly _tag: "Waits" }
  /** An earlier message with its key is under way: it has that one's answer. */
  | { readonly _tag: "Keyed" }
  /** It has to go through the queue, with so many attempts behind it; one whose handler ran is not refused there. */
  | { readonly _tag: "Queue"; readonly attempts: number; readonly isTried: boolean }

/** What the transaction of a message that was handled came to. */
export interface Ran {
  readonly handled: Handled
  readonly id: string
  readonly progress: Progress
  readonly acquired: Acquired | undefined
  readonly caller: Envelopes.Caller | undefined
}

/** It found messages in the queue, or a lock, before its handler ran. */
export const TO_QUEUE: Progress = { _tag: "Queue", attempts: 0, isTried: false }
