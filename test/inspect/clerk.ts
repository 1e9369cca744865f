/** The server that a busy process writes to. */
import { Schema } from "effect"
import { DgenServer } from "effect-dgen"

export class Clerk extends DgenServer.Service<Clerk>()("Clerk", {
  hosted: true,
  state: Schema.Int,
  messages: { Write: DgenServer.cast({ payload: { text: Schema.String } }) }
}) {}
