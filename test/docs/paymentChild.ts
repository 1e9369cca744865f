/** A process that runs the order of examples/paymentServer.ts, with a bank whose books are files in a folder. */
import { Effect, Layer, References } from "effect"
import { SqliteBackend, Tenant } from "effect-dgen"
import * as fs from "node:fs"
import * as path from "node:path"
import { behaviour, Order, OrderLocked, Payments } from "../../examples/paymentServer.ts"

/** Where it stops for ever, if anywhere: before the bank has charged, or after it. */
const [filename, folder, stops] = process.argv.slice(2) as [string, string, "before" | "after" | "never"]

const hangs = (when: typeof stops) =>
  when === stops
    ? Effect.andThen(Effect.sync(() => process.send!("hangs")), Effect.never)
    : Effect.void

const Bank = Layer.succeed(Payments, {
  charge: Effect.fnUntraced(function*(key, cents) {
    fs.appendFileSync(path.join(folder, "requests"), `${key}\n`)
    yield* hangs("before")
    const charged = path.join(folder, `charged ${key}`)
    if (!fs.existsSync(charged)) fs.writeFileSync(charged, String(cents), { flag: "wx" })
    yield* hangs("after")
    return `receipt for ${fs.readFileSync(charged, "utf8")}`
  })
})

const program = Effect.gen(function*() {
  yield* Order.start(behaviour, { tuid: ["order", 1], lockTimeout: "1 second" })
  process.send!("ready")
  return yield* Effect.never
})

process.once("disconnect", () => process.exit(1))

await Effect.runPromise(program.pipe(
  Effect.scoped,
  Effect.provide(OrderLocked.pipe(Layer.provide(Bank))),
  Effect.provide(Tenant.layer(["payment"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))),
  Effect.provideService(References.MinimumLogLevel, "None")
))
