/**
 * Starts a server in this process: initialises its durable state, runs its consumer, and gives the handle.
 *
 * 1. `init` runs at every start; its state is used only where none exists, or with `reset` (rule R24). When it fails,
 *    nothing was written. A state that exists is read, so that one that cannot be read fails the start (rule R16).
 * 2. The handle ends with its scope: no message is taken after that, and calls of the handle settle (rules R9, R25).
 */
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as StateCodec from "../../../StateCodec.ts"
import { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { logWarning } from "../../observing/logging.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { DefinitionMismatch } from "../definition/errors.ts"
import type { Behaviour, Effects, Options } from "../definition/model.ts"
import { share } from "../durable/worker.ts"
import { holdLogs, PureRunner } from "../handling/purity.ts"
import { make, type Server } from "../handling/server.ts"
import { first, type Head } from "../kept/head.ts"
import { type ServerKeys, textOfTuid } from "../kept/layout.ts"
import { keepRecord } from "../kept/record.ts"
import { headOf, named, readState, writeHead, writeName } from "../kept/state.ts"
import { relist } from "../mending/relisting.ts"
import * as Clients from "../sending/client.ts"
import { runningIn, type Within } from "../sending/within.ts"
import { close } from "./closing.ts"
import { consume } from "./consumer.ts"
import * as Handles from "./handle.ts"

export { client } from "../sending/client.ts"
export { castAllTx, castSelfTx } from "../sending/messages.ts"

/** Writes the first state, or finds that there is one. Succeeds with the keys of the tuid that counts. */
const initialise = Effect.fnUntraced(function*(
  behaviour: Behaviour,
  options: Options,
  tenant: Tenant["Service"],
  own: ServerKeys
) {
  const { definition } = behaviour
  const state = yield* Transaction
  yield* keepRecord(state, tenant, definition)
  const logs = yield* holdLogs
  const runner = yield* PureRunner.make({ definition, keys: options }, state, logs)
  const init = runner.run("init", Effect.suspend(() => behaviour.init({ tuid: options.tuid })))
  const initial = yield* Effect.tapCause(init, () => Effect.sync(() => logs.release()))
  const keys = initial.tuid === undefined ? own : yield* Clients.keysOf(definition, tenant, initial.tuid)
  const [stored, bytes] = yield* Effect.all([state.get(keys.name), state.get(keys.head)])
  if (stored !== undefined && Buffer.from(stored).toString() !== definition.name) {
    return yield* new DefinitionMismatch({
      server: definition.name,
      stored: Buffer.from(stored).toString(),
      tuid: keys.tuidText
    })
  }
  const head = bytes === undefined ? undefined : yield* headOf(bytes)
  if (head === undefined || options.reset) yield* writeFirst(behaviour, state, keys, head, initial.state)
  else yield* readState(definition, keys, head)
  state.onCommit.push(() => logs.release())
  return keys
})

/** Writes the first state; a lock, and the messages of broken ones, stay what they are. */
const writeFirst = (
  behaviour: Behaviour,
  state: TransactionState,
  keys: ServerKeys,
  head: Head | undefined,
  initial: unknown
) =>
  Effect.gen(function*() {
    const { definition } = behaviour
    writeName(state, keys, definition.name)
    yield* StateCodec.make(definition.state).write(keys.state, undefined, initial)
    const { format, stateVersion } = first(definition)
    const version = Keys.toText(state.operationId)
    // one that is reset has the newest version, too
    const kept = head ?? first(definition)
    writeHead(state, keys, { ...kept, version, format: Math.max(format, kept.format), stateVersion })
    // whoever watches for pushes sees when the key goes, and with it the server
    state.add(keys.push, Counters.amountBytes(0))
  })

/** Two definitions with one name in one tenant layer would read each other's messages. */
export const register = (
  behaviour: Behaviour,
  tuid: Tuple.Tuple,
  tenant: Tenant["Service"]
): Effect.Effect<void, DefinitionMismatch> => {
  const { definition } = behaviour
  const known = tenant.definitions.get(definition.name)
  if (known !== undefined && known !== definition) {
    return Effect.fail(
      new DefinitionMismatch({
        server: definition.name,
        stored: `another definition named ${definition.name}`,
        tuid: textOfTuid(tuid)
      })
    )
  }
  tenant.definitions.set(definition.name, definition)
  return Effect.void
}

/** Whether a lock of a holder that died would be held for ever. */
const isForever = ({ definition, options }: Server): boolean =>
  options.lockTimeoutMillis === Infinity && [...definition.messages.values()].some((message) => message.locks)

/** Runs the consumer until the handle ends, which waits for it. */
const runConsumer = (server: Server): Effect.Effect<unknown> =>
  Effect.suspend(() => {
    server.inFlight.enter()
    const within: Within = { place: server, holdsQueue: true, isOver: false }
    return Effect.forkDetach(
      Effect.ensuring(
        runningIn(within, consume(server)),
        Effect.sync(() => server.inFlight.leave())
      )
    )
  })

/** Starts a server. */
export const start = Effect.fnUntraced(function*(behaviour: Behaviour, effects: Effects, options: Options) {
  const tenant = yield* Tenant
  const { definition } = behaviour
  const own = yield* Clients.keysOf(definition, tenant, options.tuid)
  yield* register(behaviour, options.tuid, tenant)
  const keys: ServerKeys = yield* named(
    { definition, keys: options },
    transact(tenant, initialise(behaviour, options, tenant, own))
  )
  const parent = yield* Scope.Scope
  const scope = yield* Scope.fork(parent)
  const context = yield* Effect.context<never>()
  const server = make({
    definition,
    behaviour,
    effects,
    options,
    tenant,
    tuid: keys.tuid,
    keys,
    context,
    isHosted: false
  })
  const closed = close(server, "the server's scope closed")
  const worker = options.consume ? share(definition, effects.actions, options.graceMillis) : Effect.succeed(Effect.void)
  // both together: there is one grace period for the whole end
  yield* Effect.uninterruptible(
    Effect.flatMap(
      worker,
      (leave) => Scope.addFinalizer(scope, Effect.all([closed, leave], { concurrency: "unbounded", discard: true }))
    )
  )
  if (isForever(server)) {
    yield* logWarning(
      `${server.name}: has messages that lock, and no lockTimeout: if a process dies under the lock, the queue stands ` +
        "still until an operator breaks it. Set lockTimeout"
    )
  }
  yield* relist(tenant)
  if (options.consume) yield* runConsumer(server)
  return Handles.make(server)
})
