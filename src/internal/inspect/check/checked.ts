/** A server whose rows were read in one snapshot, for the parts of its check. */
import type * as Envelopes from "../../queue/envelope.ts"
import type * as Heads from "../../server/kept/head.ts"
import type { ServerKeys } from "../../server/kept/layout.ts"
import type { Findings } from "./finding.ts"
import type { Row } from "./rows.ts"

/** A server's rows, and what is found of them. */
export interface Checked {
  readonly keys: ServerKeys
  readonly of: (kind: string) => ReadonlyArray<Row>
  readonly findings: Findings
  readonly head: Heads.Head | undefined
  /** The messages that it has anywhere: in the queue, under locks, among the dead letters. */
  readonly messages: ReadonlyArray<Message>
}

/** A message, and what it is called by. */
export interface Message {
  readonly id: string
  readonly envelope: Envelopes.Envelope
}
