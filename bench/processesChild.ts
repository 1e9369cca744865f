/** The other process of `processes.ts`: `node processesChild.ts <filename>` runs a server and a worker until its parent goes. */
import { Effect, Layer, Schema } from "effect"
import { DgenServer, Jobs, SqliteBackend, Tenant } from "effect-dgen"

export class Tally extends DgenServer.Service<Tally>()("Tally", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: { Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }) }
}) {}

export const Pickups = Jobs.make("pickups", { data: Schema.Struct({ at: Schema.Number }), timeout: "30 seconds" })

const behaviour = Tally.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: { Add: ({ by }, state) => DgenServer.reply(state.count + by, { count: state.count + by }) }
})

/** By the clock that all processes of a machine share. */
export const nowMillis = () => Number(process.hrtime.bigint()) / 1e6

const worker = Pickups.workerLayer(({ data }) =>
  Effect.sync(() => {
    process.send!(nowMillis() - data.at)
    return data
  })
)

const running = Effect.gen(function*() {
  yield* Tally.start(behaviour, { tuid: ["processes"] })
  yield* Layer.build(worker)
  process.on("message", () => process.send!(process.cpuUsage()))
  process.send!("ready")
  return yield* Effect.never
})

if (process.argv[1] === import.meta.filename) {
  process.once("disconnect", () => process.exit())
  const store = Tenant.layer(["bench"]).pipe(Layer.provide(SqliteBackend.layer({ filename: process.argv[2]! })))
  await Effect.runPromise(running.pipe(Effect.scoped, Effect.provide(store)))
}
