/** The other process of `dashboard.ts`: `node dashboardChild.ts serve <filename>` or `ask <filename>`, until its parent goes. */
import { Effect, Fiber, Layer } from "effect"
import { SqliteBackend, Tenant } from "effect-dgen"
import { serve } from "../src/internal/dashboard/serving.ts"
import * as Source from "../src/internal/dashboard/source.ts"

/** As the page does. */
const POLL_MILLIS = 2_000
const SLOW_LIMIT_MILLIS = 10_000
const PAUSE_FACTOR = 50

/** What a page asks for that is the overview half of the time. */
const LOOKS = [
  "overview",
  "servers",
  "overview",
  `server?tuid=${encodeURIComponent("[\"busy\"]")}`,
  "overview",
  "servers?stuck=1",
  "overview",
  "jobs"
]

const sleep = (millis: number) => new Promise((resolve) => setTimeout(resolve, millis))

/** Asks for a view again and again. */
const look = (address: string) =>
  Effect.promise(async (signal) => {
    const { origin, search } = new URL(address)
    const entered = await fetch(`${origin}/${search}`, { redirect: "manual", signal })
    const cookie = entered.headers.getSetCookie()[0]!.split(";")[0]!
    for (let looks = 0; !signal.aborted; looks++) {
      const path = LOOKS[looks % LOOKS.length]!
      const asked = performance.now()
      const answer = await fetch(`${origin}/api/${path}`, { headers: { cookie }, signal })
      if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
      await answer.arrayBuffer()
      await sleep(Math.min(SLOW_LIMIT_MILLIS, Math.max(POLL_MILLIS, (performance.now() - asked) * PAUSE_FACTOR)))
    }
  })

/** A dashboard of its own, and who looks at it. */
const serveAndLook = Effect.scoped(Effect.gen(function*() {
  const source = yield* Source.make({ values: false, store: "" })
  const { url } = yield* serve({ port: 0, readOnly: true, source })
  return yield* look(url)
}))

process.once("disconnect", () => process.exit())
const [way, where] = process.argv.slice(2)

/** Begins with what it is told, ends what it began before, and says what it has computed so far. */
const obey = Effect.gen(function*() {
  const context = yield* Effect.context<Tenant.Tenant>()
  let running: Fiber.Fiber<unknown, unknown> | undefined
  process.on("message", async ({ address }: { readonly address?: string }) => {
    if (running !== undefined) await Effect.runPromise(Fiber.interrupt(running))
    const begun = way === "serve" ? serveAndLook : look(address ?? "")
    running = address === undefined ? undefined : Effect.runForkWith(context)(begun)
    process.send!(process.cpuUsage())
  })
  process.send!("ready")
  return yield* Effect.never
})

const store = Tenant.layer(["bench"]).pipe(Layer.provide(SqliteBackend.layer({ filename: where! })))
await Effect.runPromise(obey.pipe(Effect.provide(store)))
