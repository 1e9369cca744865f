/** What the routes of a dashboard ask of its tenant. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { Tenant } from "../../Tenant.ts"
import { told } from "./failing.ts"
import * as Looking from "./looking.ts"
import * as Measuring from "./measuring.ts"
import { mend } from "./mending.ts"
import type { Source } from "./routes.ts"

export interface SourceOptions extends Looking.Showing {
  /** The store as people may see it; empty where a program serves the page. */
  readonly store: string
}

/** The looks and changes of a tenant; what is measured for the overview ends with the scope. */
export const make = Effect.fnUntraced(function*(
  options: SourceOptions
): Effect.fn.Return<Source, never, Tenant | Scope.Scope> {
  const tenant = yield* Tenant
  const measuring = yield* Measuring.make
  const on = Effect.provideService(Tenant, tenant)
  return {
    tenant: tenant.path,
    store: options.store,
    look: (look, asked) => {
      switch (look) {
        case "overview":
          return told(measuring.overview)
        case "servers":
          return told(Effect.flatMap(measuring.names, (names) => on(Looking.servers(asked, names))))
        case "server":
          return told(on(Looking.server(asked, options)))
        case "jobs":
          return told(on(Looking.jobs(asked, options)))
        case "schedules":
          return told(on(Looking.schedules))
      }
    },
    mend: (wanted) => told(on(mend(wanted)))
  }
})
