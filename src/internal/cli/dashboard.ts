/** The command that serves the dashboard: on loopback, until somebody ends it. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { serve } from "../dashboard/serving.ts"
import * as Source from "../dashboard/source.ts"
import * as Arguments from "./arguments.ts"
import { usage } from "./errors.ts"
import { OutputOf, remark, say, writeJson } from "./output.ts"
import { chosenStore, inTenant } from "./stores.ts"

const PORT_LIMIT = 65_535

const dashboard = Command.make(
  "dashboard",
  {
    ...Arguments.where,
    port: Arguments.whole("port", "the port to listen on; any that is free if it is left out"),
    readOnly: Arguments.flag("read-only", "refuse every change"),
    values: Arguments.values
  },
  Effect.fnUntraced(function*(options) {
    const { json, port = 0, readOnly, values } = options
    if (port < 0 || port > PORT_LIMIT) return yield* usage(`--port must be from 0 to ${PORT_LIMIT}`)
    const { name } = yield* chosenStore(options)
    const serving = Effect.gen(function*() {
      const source = yield* Source.make({ values, store: name })
      const { origin, url } = yield* serve({ port, readOnly, source })
      const { ending } = yield* OutputOf
      if (ending !== undefined) ending.isBySignal = true
      if (json) yield* writeJson({ url, origin })
      else {
        yield* say(url)
        yield* remark("The address opens the dashboard once, in the browser that is first. Ctrl-C ends it.")
      }
      return yield* Effect.never
    })
    return yield* inTenant(options, Effect.scoped(serving))
  })
).pipe(Command.withDescription("Serve a page on this machine that shows a tenant, and mends it"))

export const dashboardCommands = [dashboard] as const
