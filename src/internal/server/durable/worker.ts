/**
 * Runs the durable actions of a definition's servers in this process: a worker of jobs for each of their tags, and the keeper.
 *
 * Owner: whoever starts or hosts a server, or builds `durableLayer`. Those that have the same handlers share one worker.
 *
 * 1. A worker runs the actions of all servers of the definition in its tenant, whoever asked for them.
 * 2. It lives until the last of those that share it has left: then it takes nothing more, handlers have the grace period,
 *    and what has not ended goes back with no attempt counted (rule J6).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { Tenant } from "../../../Tenant.ts"
import { show } from "../../data/show.ts"
import type { Job } from "../../jobs/kept/job.ts"
import { workerLayer, type WorkerOptions } from "../../jobs/working/layer.ts"
import { keepRunning } from "../../observing/unforeseen.ts"
import type { Definition, DurableHandler, Effects } from "../definition/model.ts"
import { identityOf } from "../kept/layout.ts"
import { type Data, modelsOf } from "./jobs.ts"
import { keeper } from "./keeper.ts"

/** As many as a host lets servers work at a time. */
const CONCURRENCY = 64

type Handlers = Effects["actions"]

/** The handler of a tag's jobs. */
const runOf = (definition: Definition, tag: string, handlers: Handlers) => {
  const handler = handlers.get(tag) as unknown as DurableHandler
  return ({ attempt, data: { payload, tuid }, id }: Job<Data>) =>
    Effect.annotateLogs(
      Effect.suspend((): Effect.Effect<unknown, unknown> => {
        const run: unknown = handler(payload, { id: String(id), tuid, attempt })
        return Effect.isEffect(run)
          ? run as Effect.Effect<unknown, unknown>
          : Effect.die(new TypeError(`the durable action "${tag}" must return an Effect, not ${show(run)}`))
      }),
      identityOf({ definition, keys: { tuid } })
    ).pipe(Effect.asVoid)
}

/** A worker from here to the end of the scope. */
export const open = (
  definition: Definition,
  handlers: Handlers,
  options: WorkerOptions
): Effect.Effect<void, never, Tenant | Scope.Scope> =>
  Effect.gen(function*() {
    const layers = [...modelsOf(definition)].map(([tag, model]) =>
      workerLayer<Data, unknown, never>(model, runOf(definition, tag, handlers), options)
    )
    const tenant = yield* Tenant
    // a definition's options have been checked
    yield* Effect.forEach(layers, (layer) => Effect.orDie(Layer.build(Layer.fresh(layer))), {
      concurrency: "unbounded",
      discard: true
    })
    yield* Effect.forkScoped(Effect.interruptible(
      keepRunning("jobs", `${definition.name}: the keeper of durable actions`, keeper(tenant, definition))
    ))
  })

/** A worker that several share, and how many they are. */
interface Shared {
  users: number
  readonly scope: Scope.Closeable
}

const workers = new WeakMap<Tenant["Service"], Map<Handlers, Shared>>()

/**
 * Has a worker with these handlers from here on (2). Succeeds with what leaves it: the last to leave waits for its end.
 */
export const share = (
  definition: Definition,
  handlers: Handlers,
  graceMillis: number
): Effect.Effect<Effect.Effect<void>, never, Tenant> => {
  if (!definition.hasDurable) return Effect.succeed(Effect.void)
  return Effect.uninterruptible(Effect.gen(function*() {
    const tenant = yield* Tenant
    const byHandlers = workers.get(tenant) ?? new Map<Handlers, Shared>()
    workers.set(tenant, byHandlers)
    const known = byHandlers.get(handlers)
    const shared = known ?? { users: 0, scope: yield* Scope.make() }
    shared.users++
    if (known === undefined) {
      byHandlers.set(handlers, shared)
      const opened = open(definition, handlers, { concurrency: CONCURRENCY, grace: graceMillis })
      yield* Effect.provideContext(opened, Context.make(Tenant, tenant).pipe(Context.add(Scope.Scope, shared.scope)))
    }
    return Effect.suspend(() => {
      if (--shared.users > 0) return Effect.void
      byHandlers.delete(handlers)
      return Scope.close(shared.scope, Exit.void)
    })
  }))
}
