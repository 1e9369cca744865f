/**
 * A process of the shop. Its mail service tells the process that started it of each mail; the one that is told to be `slow`
 * says that it begins, and never comes to send.
 */
import { Effect, Layer, References } from "effect"
import { CustomerHost, Mails, tenantIn } from "./shop.ts"

const [filename, pace] = process.argv.slice(2) as [string, "slow" | "quick"]

const tell = (message: object) => Effect.sync(() => void process.send!(message))

const MailsLive = Layer.succeed(Mails, {
  send: (mail) => pace === "slow" ? Effect.andThen(tell({ begun: mail }), Effect.never) : tell({ sent: mail })
})

const untilTold = Effect.callback<void>((resume) => {
  process.once("message", () => resume(Effect.void))
  process.send!({ ready: true })
})

await Effect.runPromise(
  untilTold.pipe(
    Effect.provide(CustomerHost.pipe(Layer.provide(MailsLive))),
    Effect.provide(tenantIn(filename)),
    // that the other process has gone silent is told as a warning
    Effect.provideService(References.MinimumLogLevel, "Error")
  )
)
process.disconnect()
