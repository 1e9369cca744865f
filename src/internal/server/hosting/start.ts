/**
 * Hosts a definition in this process, and gives the clients that go past the queues of its servers.
 *
 * 1. There is one host a definition and tenant layer. It is known to those who give servers something to do from its
 *    beginning to its end.
 * 2. Such a client holds its server for each message, so that nothing of it is let go meanwhile. After the host's scope
 *    its messages fail with `ServerStopped`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import type { BackendError } from "../../../BackendError.ts"
import { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import { LocalHostsOf } from "../../tenant/hosts.ts"
import { transact } from "../../transactions/loop.ts"
import { InvalidOption, ServerStopped } from "../definition/errors.ts"
import type { Behaviour, Client, Effects, HostOptions, Running } from "../definition/model.ts"
import { share } from "../durable/worker.ts"
import { identityOf } from "../kept/layout.ts"
import { keepRecord } from "../kept/record.ts"
import { remove } from "../mending/kill.ts"
import { relist } from "../mending/relisting.ts"
import * as Handles from "../running/handle.ts"
import { register } from "../running/start.ts"
import * as Clients from "../sending/client.ts"
import { Host } from "./host.ts"
import { repair } from "./repair.ts"

const refused = (server: string, option: string, problem: string): Effect.Effect<never, InvalidOption> =>
  Effect.fail(new InvalidOption({ server, option, problem }))

/** Hosts the servers of a definition until the scope closes. */
export const host = Effect.fnUntraced(function*(behaviour: Behaviour, effects: Effects, options: HostOptions) {
  const { definition } = behaviour
  const { name } = definition
  if (!definition.hosted) return yield* refused(name, "hosted", "must be true in the definition of servers with a host")
  const locks = [...definition.messages.values()].some((message) => message.locks)
  if (locks && options.lockTimeoutMillis === Infinity) {
    return yield* refused(
      name,
      "lockTimeout",
      "must be set: some messages lock, and a host that dies must lose its locks"
    )
  }
  const tenant = yield* Tenant
  const hosts = Context.get(tenant.services, LocalHostsOf)!
  yield* register(behaviour, [name], tenant)
  if (hosts.has(name)) {
    return yield* refused(
      name,
      "hostLayer",
      "has been built for this tenant's layer already: one host a process is enough"
    )
  }
  yield* transact(tenant, Effect.flatMap(Transaction, (state) => keepRecord(state, tenant, definition)))
  const context = yield* Effect.context<never>()
  const parent = yield* Scope.Scope
  const made = new Host({ tenant, behaviour, effects, options, context })
  hosts.set(name, made)
  yield* Scope.addFinalizer(parent, Effect.sync(() => hosts.delete(name)))
  yield* relist(tenant)
  yield* repair(tenant)
  // both end together: there is one grace period for the whole end
  yield* Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(share(definition, effects.actions, options.graceMillis), (leave) => {
      const end = Effect.all([made.close, leave], { concurrency: "unbounded", discard: true })
      return Effect.andThen(Scope.addFinalizer(parent, end), restore(made.open))
    })
  )
  return made
})

/** What a client of a hosted server can do in the process that hosts it. */
type HostedClient = Client & Pick<Running, "tuid" | "priorityCall" | "priorityCast" | "info"> & {
  readonly kill: Effect.Effect<void, BackendError>
}

/** A client that goes past the queue, for as long as the host is there (2). */
export const hosted = Effect.fnUntraced(function*(made: Host, tuid: Tuple.Tuple) {
  const { definition, tenant } = made
  const keys = yield* Clients.keysOf(definition, tenant, tuid)
  const client = yield* Effect.provideService(Clients.client(definition, tuid), Tenant, tenant)
  const stopped = new ServerStopped({ ...identityOf({ definition, keys }), reason: "the host's scope closed" })
  const past = <A extends ReadonlyArray<any>, B>(
    use: (running: Running) => (...args: A) => Effect.Effect<B, any>
  ) =>
  (...args: A): Effect.Effect<B, any> =>
    Effect.suspend(() => {
      if (made.isClosed) return Effect.fail(stopped)
      const { release, server } = made.hold(tuid)
      return Effect.ensuring(use(Handles.make(server))(...args), Effect.sync(release))
    })
  return {
    ...client,
    tuid,
    kill: remove({ definition, tenant, keys }),
    call: past((running) => running.call),
    priorityCall: past((running) => running.priorityCall),
    priorityCast: past((running) => running.priorityCast),
    info: past((running) => running.info)
  } satisfies HostedClient
})
