/** What the servers of these tests can be told: a file that a browser reads, too. */
import * as DgenProxy from "effect-dgen/DgenProxy"
import * as Protocol from "effect-dgen/Protocol"
import * as Schema from "effect/Schema"

/** A declared error with a status, and one without. */
export class Overdrawn extends Schema.TaggedError<Overdrawn>()(
  "Overdrawn",
  { balance: Schema.Int },
  { httpApiStatus: 402 }
) {}
export class Frozen extends Schema.TaggedError<Frozen>()("Frozen", { since: Schema.DateTimeUtcFromString }) {}

/** A desk: notes are put on it, and an account is kept. */
export const DeskProtocol = Protocol.make("Desk", {
  messages: {
    Put: Protocol.cast({ payload: { note: Schema.String } }),
    Notes: Protocol.call({ success: Schema.Array(Schema.String) }),
    Draw: Protocol.call({
      payload: { amount: Schema.Int, at: Schema.optionalKey(Schema.DateTimeUtcFromString) },
      success: Schema.Struct({ balance: Schema.Int, by: Schema.String }),
      error: Schema.Union([Overdrawn, Frozen])
    }),
    Freeze: Protocol.call(),
    Say: Protocol.call({ payload: Schema.String, success: Schema.String }),
    Crash: Protocol.call(),
    Lie: Protocol.call({ success: Schema.Int }),
    Stop: Protocol.call(),
    Wait: Protocol.call({ success: Schema.String }),
    Secret: Protocol.call({ success: Schema.String }),
    Wipe: Protocol.cast(),
    Tick: Protocol.info()
  }
})

/** The address of a desk is a name. */
export const deskAddress = { schema: Schema.String, toTuid: (name: string) => ["desk", name] }

/** What a browser may do: it needs the middleware's name alone, so this group is public. */
export class PublicDesk extends DgenProxy.toRpcGroup(DeskProtocol, {
  messages: ["Put", "Notes", "Draw"],
  tuid: deskAddress,
  authorization: "public"
}) {}
