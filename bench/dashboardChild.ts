/** The other process of `dashboard.ts`: `node dashboardChild.ts serve <filename>` or `ask <address>`, until its parent goes. */
import { Effect, Layer } from "effect"
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

/** Asks for a view again and again, until somebody says that it is enough. */
const look = async (address: string, isEnough: () => boolean) => {
  const { origin, search } = new URL(address)
  const entered = await fetch(`${origin}/${search}`, { redirect: "manual" })
  const cookie = entered.headers.getSetCookie()[0]!.split(";")[0]!
  for (let looks = 0; !isEnough(); looks++) {
    const path = LOOKS[looks % LOOKS.length]!
    const asked = performance.now()
    const answer = await fetch(`${origin}/api/${path}`, { headers: { cookie } })
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    await answer.arrayBuffer()
    await sleep(Math.min(SLOW_LIMIT_MILLIS, Math.max(POLL_MILLIS, (performance.now() - asked) * PAUSE_FACTOR)))
  }
}

process.once("disconnect", () => process.exit())
const [way, where] = process.argv.slice(2)
if (way === "ask") {
  let current = ""
  process.on("message", ({ address = "" }: { readonly address?: string }) => {
    current = address
    // its server may end before the last answer
    if (address !== "") {
      look(address, () => current !== address).catch((error) => current === address && console.error(error))
    }
    process.send!("done")
  })
  process.send!("ready")
} else {
  const serving = Effect.gen(function*() {
    const source = yield* Source.make({ values: false, store: "" })
    const { url } = yield* serve({ port: 0, readOnly: true, source })
    process.on("message", () => process.send!(process.cpuUsage()))
    process.send!("ready")
    return yield* Effect.promise(() => look(url, () => false))
  })
  const store = Tenant.layer(["bench"]).pipe(Layer.provide(SqliteBackend.layer({ filename: where! })))
  await Effect.runPromise(serving.pipe(Effect.scoped, Effect.provide(store)))
}
