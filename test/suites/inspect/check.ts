/**
 * The check of a tenant finds each kind of damage that is made by hand, and nothing where nothing is damaged. Run on every
 * backend. Damage is written past all that the library knows of its keys.
 */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Layer, Schema, Stream } from "effect"
import { type Backend, DgenServer, Inspect, Jobs, Tenant, Tuple } from "effect-dgen"
import { packValue } from "../../../src/internal/data/codec.ts"
import { fast, overwrite, rowsUnder, type Store, testsOf, until } from "../server/support.ts"

const payload = { text: Schema.String }
const options = {
  state: Schema.Struct({
    lines: Schema.Record(Schema.String, Schema.Int),
    long: Schema.String,
    from: Schema.Array(DgenServer.From)
  }),
  messages: {
    Write: DgenServer.cast({ payload }),
    Ask: DgenServer.call({ payload, success: Schema.String }),
    Later: DgenServer.call({ payload }),
    Fail: DgenServer.cast({ payload }),
    Work: DgenServer.cast({ payload, locks: true })
  }
} as const

class Clerk extends DgenServer.Service<Clerk>()("Clerk", options) {}
class HostedClerk extends DgenServer.Service<HostedClerk>()("HostedClerk", { ...options, hosted: true }) {}

type State = typeof options.state.Type
const long = "x".repeat(250_000)

const handlers: any = {
  Write: ({ text }: any, state: State) =>
    DgenServer.noReply({ ...state, lines: { ...state.lines, [text]: 1 }, long: text === "long" ? long : "" }),
  Ask: ({ text }: any, state: State) => DgenServer.reply(text === "long" ? long : text, state),
  Later: (_: any, state: State, { from }: any) => DgenServer.noReply({ ...state, from: [from] }),
  Fail: () => Effect.die(new Error("it fails")),
  Work: (_: any, state: State) => DgenServer.lock(state)
}
const init = Effect.succeed({ lines: {}, long: "", from: [] })
const behaviours = {
  started: Clerk.behaviour({ init, handlers }),
  hosted: HostedClerk.behaviour({ init, handlers })
}
const never = { Work: () => Effect.never }
const tuid = ["clerk", 7] as const

const kinds = {
  started: {
    run: Effect.asVoid(Clerk.start(behaviours.started, { ...fast, grace: 0, tuid, deadLetterThreshold: 1 })).pipe(
      Effect.provide(Clerk.lockedLayer(never))
    ),
    client: Clerk.client({ tuid })
  },
  hosted: {
    run: Effect.asVoid(Layer.build(Layer.fresh(
      HostedClerk.hostLayer(behaviours.hosted, { ...fast, grace: 0, lockTimeout: "1 hour", deadLetterThreshold: 1 })
        .pipe(Layer.provide(HostedClerk.lockedLayer(never)))
    ))),
    client: HostedClerk.client({ tuid }) as unknown as typeof Clerk.client extends (...args: any) => infer R ? R : never
  }
}

const findings = Effect.map(Stream.runCollect(Inspect.check()), (found) => Array.from(found))
const shown = ({ kind, of, problem }: Inspect.Finding) => `${of} ${kind}: ${problem}`
const healthy = Effect.map(findings, (found) => assert.deepStrictEqual(found.map(shown), []))

/** Where the library's rows of the tenant lie. */
const library = Effect.map(Tenant.Tenant, ({ prefix }) => Tuple.pack([1], prefix))

/** The first row under a prefix of a tuple. */
const rowAt = (under: Uint8Array, ...elements: Tuple.Tuple) => {
  const prefix = Tuple.pack(elements, under)
  return Effect.map(rowsUnder(prefix), (rows) => {
    assert.isAbove(rows.length, 0, `no row at ${JSON.stringify(elements)}`)
    return rows
  })
}

/**
 * What lies in the tenant while programs run, put back when they have ended: so nobody mends what a test damages, and no
 * lock and no lease is given back before.
 */
const frozen = <A, E, R>(program: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const { prefix } = yield* Tenant.Tenant
    const rows = yield* Effect.scoped(Effect.andThen(program, rowsUnder(prefix)))
    yield* overwrite([
      { op: "clearRange", begin: prefix, end: Tuple.strinc(prefix) },
      ...rows.map((row): Backend.Mutation => ({ op: "set", ...row }))
    ])
    yield* healthy
  })

/** Makes damage, looks what the check says of it, and mends it. */
const damaged = (
  what: string,
  expected: string,
  make: Effect.Effect<ReadonlyArray<Backend.Mutation>, unknown, any>
) =>
  Effect.gen(function*() {
    const mutations = yield* make
    const before = yield* Effect.forEach(mutations, (mutation) =>
      Effect.map(
        rowsUnder((mutation as any).key),
        (rows) => rows.filter((row) => Tuple.equalsBytes(row.key, (mutation as any).key))
      ))
    yield* overwrite(mutations)
    const found = (yield* findings).map(shown)
    yield* overwrite(mutations.map((mutation, at): Backend.Mutation => {
      const [row] = before[at]!
      const { key } = mutation as any
      return row === undefined ? { op: "clear", key } : { op: "set", ...row }
    }))
    assert.isTrue(found.some((one) => one.includes(expected)), `${what}: "${expected}" is not in ${found.join("; ")}`)
    yield* healthy
  }) as Effect.Effect<void, unknown, any>

const clear = (key: Uint8Array): Backend.Mutation => ({ op: "clear", key })
const set = (key: Uint8Array, value: Uint8Array): Backend.Mutation => ({ op: "set", key, value })
const junk = Uint8Array.from({ length: 40 }, (_, i) => 0xc1 ^ (i * 37) % 256)

export const checkSuite = (store: string, backend: Store): void => {
  const test = testsOf(backend, "check")

  for (const [kind, { client, run }] of Object.entries(kinds)) {
    describe(`${store}: a check of a ${kind} server`, () => {
      test(
        "finds damage of each kind, and nothing before and after",
        Effect.gen(function*() {
          const under = yield* library
          const server = Tuple.pack(["s", tuid], under)
          yield* healthy
          yield* frozen(Effect.gen(function*() {
            yield* run
            const clerk = yield* client
            yield* clerk.cast("Write", { text: "a" }, { key: "cast" })
            yield* clerk.cast("Write", { text: "long" })
            yield* clerk.call("Ask", { text: "long" }, { key: "asked" })
            yield* Effect.forkChild(Effect.ignore(clerk.call("Later", { text: "" }, { key: "later" })))
            yield* until(clerk.state, (state) => state?.from.length === 1)
            yield* clerk.castLater("Write", { text: "t" }, { after: "1 hour", id: "timer" })
            yield* clerk.cast("Fail", { text: long })
            yield* clerk.cast("Fail", { text: "short" })
            const row = Effect.map(Tenant.transact(Inspect.servers()), ({ servers }) => servers[0])
            yield* until(row, (found) => found?.deadLetters === 2)
            yield* clerk.cast("Work", { text: long }, { key: "locked" })
            yield* until(row, (found) => found?.lock !== undefined)
            yield* clerk.castAll([["Write", { text: long }], ["Write", { text: "b" }]])
            yield* until(row, (found) => found?.queueLength === 3)
            yield* healthy
          }))
          const at = (...elements: Tuple.Tuple) => rowAt(server, ...elements)
          const first = (...elements: Tuple.Tuple) => Effect.map(at(...elements), (rows) => rows[0]!)
          const last = (...elements: Tuple.Tuple) => Effect.map(at(...elements), (rows) => rows.at(-1)!)
          const one = (expected: string, make: Effect.Effect<Backend.Mutation, unknown, any>) =>
            damaged(expected, expected, Effect.map(make, (mutation) => [mutation]))
          const cleared = (row: Effect.Effect<Backend.KeyValue, unknown, any>) =>
            Effect.map(row, ({ key }) => clear(key))
          const spoilt = (row: Effect.Effect<Backend.KeyValue, unknown, any>) =>
            Effect.map(row, ({ key }) => set(key, junk))
          const added = (...elements: Tuple.Tuple) => Effect.succeed(set(Tuple.pack(elements, server), junk))
          const cases: ReadonlyArray<readonly [string, Effect.Effect<Backend.Mutation, unknown, any>]> = [
            ["server unknown: 1 rows with keys that no server has", added("other")],
            ["server unreadable: the lock in the server's head cannot be read", spoiltHead(first("head"))],
            ["nothing says of which definition", cleared(first("name"))],
            ["rows of a state without a head", cleared(first("head"))],
            ["its state: ", spoilt(last("state"))],
            ["its state: ", cleared(first("state"))],
            ["pieces: message ", cleared(first("item"))],
            ["message key-", Effect.succeed(set(Tuple.pack(["item", "none"], server), junk))],
            ["unreadable: message ", spoilt(last("item"))],
            ["and there are 2", Effect.map(first("push"), ({ key }) => set(key, new Uint8Array(8)))],
            ["the counter \"push\" is none", spoilt(first("push"))],
            ["2 dead letters, and there are 1", cleared(last("dead"))],
            ["pieces: dead letter ", cleared(first("dead"))],
            ["unreadable: dead letter ", spoilt(last("dead"))],
            ["dead letters, and there are 2", cleared(first("deads"))],
            ["the message of a lock: not all of its pieces", cleared(first("lock"))],
            ["a message of a lock that nobody holds", added("lock", new Uint8Array(20), 0)],
            ["rows among the calls that wait that are none", added("wait", "none")],
            ["the row of the key \"asked\"", spoilt(first("key", "asked"))],
            ["an end of the key \"asked\", which has another one, or none", cleared(first("key", "asked"))],
            ["the key \"asked\" has no end", cleared(endOf(server, "asked"))],
            ["the answer of the key \"asked\": not all", cleared(first("keyRest"))],
            ["a piece of an answer of the key \"none\"", added("keyRest", "none", 0)],
            ["the key \"later\" is open, and does not stand", cleared(first("keyOpen", "later"))],
            ["an open one of the key \"none\"", added("keyOpen", "none")],
            ["keys of messages, and there are 4", cleared(first("keys"))],
            ["the row of its id names another one, or none", cleared(first("timerId"))],
            ["the timer \"timer\" is not where", cleared(first("timer"))],
            ["a timer that cannot be read", spoilt(first("timer"))],
            ["timers, and there are 1", cleared(first("timers"))],
            ["does not stand in the list", Effect.succeed(clear(listKey(under, kind)))],
            ["which has no state", Effect.succeed(set(listKey(under, kind, ["gone"]), new Uint8Array(0)))],
            [
              "its record: tools hide values",
              Effect.succeed(set(Tuple.pack(["d", nameOf(kind), "record"], under), junk))
            ],
            ["a key that no index has", Effect.succeed(set(Tuple.pack(["d", nameOf(kind), "other"], under), junk))],
            ["a key that this version does not have", Effect.succeed(set(Tuple.pack(["other"], under), junk))],
            ["a key among those of servers", Effect.succeed(set(Tuple.pack(["s", 7], under), junk))],
            [
              "rows of the process 0x0102 without a sign of life",
              Effect.succeed(set(Tuple.pack(["p", Uint8Array.of(1, 2), "slot", 0], under), junk))
            ]
          ]
          for (const [expected, make] of cases) yield* one(expected, make)
          yield* damaged(
            "a lock's message",
            "the message of its lock is not there: it is lost",
            Effect.map(at("lock"), (rows) => rows.map(({ key }) => clear(key)))
          )
          yield* one(
            "the key \"lone\" is open, and its message is not there",
            Effect.succeed(set(Tuple.pack(["key", "lone"], server), packValue([1, 0, new Uint8Array(32), "none"])))
          )
          if (kind === "hosted") {
            const work = yield* rowAt(under, "d", "HostedClerk", "work")
            yield* one("no entry that leads a host to it", Effect.succeed(clear(work[0]!.key)))
            yield* one(
              "a wake-up of [\"gone\"], which waits for another time",
              Effect.succeed(set(Tuple.pack(["d", "HostedClerk", "wake", 7, ["gone"]], under), new Uint8Array(0)))
            )
          }
        })
      )
    })
  }

  durableCases(store, backend)

  describe(`${store}: a check of jobs`, () => {
    const Letters = Jobs.make("letters", {
      data: Schema.String,
      maxAttempts: 1,
      maxRunningPerKey: 1
    })
    test(
      "finds damage of each kind, and nothing before and after",
      Effect.gen(function*() {
        const under = yield* library
        const type = Tuple.pack(["j", "letters"], under)
        const add = (id: string, data: string, more: Jobs.AddOptions = {}) =>
          Tenant.transact(Letters.add(id, data, { priority: 1, ...more }))
        yield* frozen(Effect.gen(function*() {
          const began = yield* Deferred.make<void>()
          yield* add("finished", "")
          yield* add("dead", "dead")
          yield* Layer.build(Letters.workerLayer(
            ({ data, id }) =>
              data === "dead"
                ? Effect.die(new Error("no stamp"))
                : id === "running"
                ? Effect.andThen(Deferred.succeed(began, undefined), Effect.never)
                : Effect.void,
            { concurrency: 3, grace: 0 }
          ))
          const counted = Effect.map(Tenant.transact(Inspect.jobTypes()), ({ types }) => types[0]!.counts)
          yield* until(counted, ({ dead, finished }) => dead === 1 && finished === 1)
          yield* add("running", long, { key: "k", priority: 5 })
          yield* Deferred.await(began)
          yield* add("parked", "", { key: "k" })
          yield* add("later", long, { delay: "1 hour" })
          yield* add("child", "", { after: { job: Letters, id: "later" } })
          yield* until(counted, ({ running }) => running === 1)
          yield* Layer.build(Letters.cronLayer("yearly", { cron: "0 0 1 1 *", data: () => "" }))
          yield* until(Tenant.transact(Inspect.schedules("letters")), (found) => found.length === 1)
          // a worker looks at it once before it waits for a place of its key
          yield* until(parkedOf(type), (row) => row !== undefined)
        }))
        const first = (...elements: Tuple.Tuple) => Effect.map(rowAt(type, ...elements), (rows) => rows[0]!)
        const cleared = (row: Effect.Effect<Backend.KeyValue, unknown, any>) => Effect.map(row, ({ key }) => clear(key))
        const spoilt = (row: Effect.Effect<Backend.KeyValue, unknown, any>) =>
          Effect.map(row, ({ key }) => set(key, junk))
        const added = (...elements: Tuple.Tuple) => Effect.succeed(set(Tuple.pack(elements, type), new Uint8Array(0)))
        const cases: ReadonlyArray<readonly [string, Effect.Effect<Backend.Mutation, unknown, any>]> = [
          ["unreadable: the job \"finished\"", spoilt(first("job", "finished"))],
          ["an entry of the job \"finished\", which is elsewhere, or gone", cleared(first("job", "finished"))],
          ["a sign of life of the job \"running\", which does not run", cleared(first("job", "running"))],
          ["pieces of its data are missing", cleared(first("piece", "later"))],
          ["a piece of data of the job \"dead\", which has none", added("piece", "dead", 0)],
          ["the job \"dead\" is dead, and does not stand among those", cleared(first("ended", "dead"))],
          ["finished jobs, and there are 2", added("ended", "finished", 7, "none")],
          ["the job \"later\" is pending, and does not stand", cleared(first("pending"))],
          ["the job \"parked\" is pending, and does not stand", cleared(Effect.map(parkedOf(type), (row) => row!))],
          ["nobody can notice when its holder is silent", cleared(first("seq"))],
          ["nobody can notice when its holder is silent", cleared(first("activity"))],
          ["which has another one", Effect.succeed(set(activity(type), Tuple.pack(["none"])))],
          ["a row \"family\" of the job \"none\", which is gone", added("family", "none")],
          ["the job \"child\" of type \"letters\" waits, and is gone", cleared(first("job", "child"))],
          ["a row \"parent\" of the job \"child\", which is gone", cleared(first("job", "child"))],
          ["the schedule \"yearly\"", spoilt(first("cron", "yearly"))],
          [
            "of the key \"k\" run 1",
            cleared(first("held", "k")).pipe(Effect.as(set(Tuple.pack(["held", "k"], type), long8(3))))
          ],
          ["1 jobs of a key run, which has no counter", cleared(first("held", "k"))],
          ["pending jobs, and there are", Effect.map(first("moves"), ({ key }) => set(key, long8(77)))],
          ["a key that no type of jobs has", added("other")]
        ]
        for (const [expected, make] of cases) {
          yield* damaged(expected, expected, Effect.map(make, (mutation) => [mutation]))
        }
      })
    )
  })
}

const durableCases = (store: string, backend: Store): void => {
  const test = testsOf(backend, "check-durable")
  const Desk = DgenServer.Service<any>()("Desk", {
    state: Schema.Int,
    messages: { Ask: DgenServer.call({ payload: { texts: Schema.Array(Schema.String) } }) },
    actions: { Send: DgenServer.durable({ payload }) }
  }) as any
  const behaviour = Desk.behaviour({
    init: Effect.succeed(0),
    handlers: {
      Ask: ({ texts }: { readonly texts: ReadonlyArray<string> }, state: number) =>
        DgenServer.reply(undefined, state, texts.map((text) => Desk.action("Send", { text })))
    }
  })

  describe(`${store}: a check of durable actions`, () => {
    test(
      "finds damage of each kind, and nothing before and after",
      Effect.gen(function*() {
        const under = yield* library
        const own = Tuple.pack(["a", "Desk"], under)
        yield* frozen(Effect.gen(function*() {
          const began = yield* Deferred.make<void>()
          const Actions = Desk.actionsLayer({
            Send: () => Effect.andThen(Deferred.succeed(began, undefined), Effect.never)
          })
          const desk = yield* Effect.provide(Desk.start(behaviour, { ...fast, grace: 0, tuid }), Actions) as any
          yield* desk.call("Ask", { texts: ["first", long, "last"] })
          yield* Deferred.await(began)
          yield* healthy
        }) as Effect.Effect<void, unknown, any>)
        const first = (...elements: Tuple.Tuple) => Effect.map(rowAt(own, ...elements), (rows) => rows[0]!)
        const last = (...elements: Tuple.Tuple) => Effect.map(rowAt(own, ...elements), (rows) => rows.at(-1)!)
        const job = Effect.map(rowAt(under, "j", ["effect-dgen/durable", "Desk", "Send"], "job"), ([row]) => row!)
        const cleared = (row: Effect.Effect<Backend.KeyValue, unknown, any>) => Effect.map(row, ({ key }) => clear(key))
        const spoilt = (row: Effect.Effect<Backend.KeyValue, unknown, any>) =>
          Effect.map(row, ({ key }) => set(key, junk))
        const added = (...elements: Tuple.Tuple) => Effect.succeed(set(Tuple.pack(elements, own), new Uint8Array(0)))
        const front = "server missing: its durable action \"Send\""
        const cases: ReadonlyArray<readonly [string, Effect.Effect<Backend.Mutation, unknown, any>]> = [
          [`${front} has no job`, cleared(job)],
          [`${front} has nothing that says where the next one goes`, cleared(first("next"))],
          [`${front} is of a tag`, cleared(first("tag"))],
          ["server unreadable: which of its durable actions is the first", spoilt(first("front"))],
          ["server unreadable: where its next durable action goes", spoilt(first("next"))],
          ["its durable action 0 waits, and none is the first", cleared(first("front"))],
          ["where its next durable action goes is said, and none is the first", cleared(first("front"))],
          ["is a durable action of [\"clerk\",7], and not its first one", cleared(first("front"))],
          ["server counter: its durable action 1 stands where 1 goes next", setTo(first("next"), packValue(1))],
          ["server unreadable: its durable action 1", spoilt(last("row"))],
          ["server pieces: its durable action 0 has no beginning", cleared(first("row"))],
          [
            "server pieces: its durable action 0 has 2 of 3 pieces",
            cleared(Effect.map(rowAt(own, "row"), ([, row]) => row!))
          ],
          ["says 2 durable actions that wait, and there are 1", cleared(last("row"))],
          ["says 7 durable actions that wait, and there are 2", setTo(first("rows"), long8(7))],
          ["unknown: a key that no durable actions have", added("other", 1)],
          ["unknown: a key that no durable actions have", added("row", tuid as any, 0)]
        ]
        for (const [expected, make] of cases) {
          yield* damaged(expected, expected, Effect.map(make, (mutation) => [mutation]))
        }
        // a front of another server that names the same job
        yield* damaged(
          "a front of another server",
          "its durable action \"Send\" is of another server, or of none",
          Effect.map(first("front"), ({ value }) => [set(Tuple.pack(["front", ["clerk", 8]], own), value)])
        )
      })
    )
  })
}

const setTo = (row: Effect.Effect<Backend.KeyValue, unknown, any>, value: Uint8Array) =>
  Effect.map(row, ({ key }) => set(key, value))

const nameOf = (kind: string) => kind === "hosted" ? "HostedClerk" : "Clerk"

const listKey = (under: Uint8Array, kind: string, of: Tuple.Tuple = tuid) =>
  Tuple.pack(["d", nameOf(kind), "list", of], under)

const endOf = (server: Uint8Array, key: string) => {
  const prefix = Tuple.pack(["keyEnd"], server)
  return Effect.map(
    rowsUnder(prefix),
    (rows) => rows.find((row) => Tuple.unpack(row.key, prefix.length)[1] === key)!
  )
}

const parkedOf = (type: Uint8Array) =>
  Effect.map(
    rowsUnder(type),
    (rows) => rows.find((row) => Buffer.from(row.key).includes("pending-parked"))
  )

/** A head whose lock says nothing. */
const spoiltHead = (row: Effect.Effect<Backend.KeyValue, unknown, any>) =>
  Effect.map(row, ({ key, value }): Backend.Mutation => {
    const spoilt = value.slice()
    // the tag of the kind, or what is in its place
    const at = Buffer.from(spoilt).indexOf("cast")
    spoilt[at] = 0x78
    return set(key, spoilt)
  })

const long8 = (count: number) => {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigInt64(0, BigInt(count), true)
  return bytes
}

const activity = (type: Uint8Array) =>
  new Uint8Array(Buffer.concat([Tuple.pack(["activity"], type), Buffer.alloc(12, 7)]))
