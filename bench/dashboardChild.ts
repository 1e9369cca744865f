/** The other process of `dashboard.ts`: `node dashboardChild.ts serve <filename>` or `ask <address>`, until its parent goes. */
import { Effect, Layer } from "effect"
import { SqliteBackend, Tenant } from "effect-dgen"
import { serve } from "../src/internal/dashboard/serving.ts"
import * as Source from "../src/internal/dashboard/source.ts"

const POLL_MILLIS = 2_000

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

/** Asks for a view again and again, while the parent says so. */
const look = async (address: string) => {
  const { origin, search } = new URL(address)
  const entered = await fetch(`${origin}/${search}`, { redirect: "manual" })
  const cookie = entered.headers.getSetCookie()[0]!.split(";")[0]!
  let isOpen = false
  let looks = 0
  const ask = async () => {
    const path = LOOKS[looks++ % LOOKS.length]!
    const answer = await fetch(`${origin}/api/${path}`, { headers: { cookie } })
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    await answer.arrayBuffer()
  }
  const again = async () => {
    if (!isOpen) return
    await ask()
    setTimeout(again, POLL_MILLIS)
  }
  process.on("message", async (message: { readonly open: boolean }) => {
    isOpen = message.open
    if (isOpen) await again()
    process.send!("done")
  })
  process.send!("ready")
}

process.once("disconnect", () => process.exit())
const [way, where] = process.argv.slice(2)
if (way === "ask") await look(where!)
else {
  const serving = Effect.gen(function*() {
    const source = yield* Source.make({ values: false, store: "" })
    const { url } = yield* serve({ port: 0, readOnly: true, source })
    yield* Effect.promise(() => look(url))
    return yield* Effect.never
  })
  const store = Tenant.layer(["bench"]).pipe(Layer.provide(SqliteBackend.layer({ filename: where! })))
  await Effect.runPromise(serving.pipe(Effect.scoped, Effect.provide(store)))
}
