/** Jobs: transaction effects that require nothing but the transaction, data of exactly the schema's type. */
import {
  Context,
  type DateTime,
  Effect,
  type Layer,
  type Option,
  Result,
  Schema,
  type Scope,
  type Stream
} from "effect"
import { type BackendError, Jobs, type Tenant, type Transaction } from "effect-dgen"
import { describe, expect, it } from "tstyche"

const Work = Jobs.make("work", { data: Schema.Struct({ url: Schema.String, done: Schema.Number }) })
type Data = { readonly url: string; readonly done: number }

declare const job: Jobs.Job<Data>
declare const time: DateTime.Utc
class Mailer extends Context.Service<Mailer, { readonly send: Effect.Effect<void> }>()("Mailer") {}

const add = Work.add("id", { url: "", done: 0 })
const finish = Work.finish(job)
const accept = Work.accept()
const subscribe = Work.subscribe("id")
const changes = Work.changes("id")

describe("creation", () => {
  it("is a transaction effect with typed errors", () => {
    expect<Effect.Services<typeof add>>().type.toBe<Transaction.Transaction>()
    expect<Effect.Error<typeof add>>().type.toBe<
      Jobs.JobExists | Jobs.ParentNotFound | Jobs.InvalidData | Jobs.InvalidId | Jobs.InvalidOption | Jobs.JobTooLarge
    >()
    expect<Effect.Success<typeof add>>().type.toBe<Jobs.Added>()
  })

  it("takes data of its schema, ids of any tuple element, times of any kind", () => {
    expect(Work.add).type.not.toBeCallableWith("id", { url: "" })
    expect(Work.add).type.not.toBeCallableWith("id", { url: "", done: "0" })
    expect(Work.add).type.not.toBeCallableWith({}, { url: "", done: 0 })
    expect(Work.add).type.toBeCallableWith(["id", 1], { url: "", done: 0 }, { scheduledAt: time })
    expect(Work.add).type.toBeCallableWith(1n, { url: "", done: 0 }, { scheduledAt: 5, ifExists: "ignore" })
    expect(Work.add).type.not.toBeCallableWith("id", { url: "", done: 0 }, { ifExists: "replace" })
  })

  it("takes jobs of any definition to wait for, and gives what they left as their definition has it", () => {
    const data = { url: "", done: 0 }
    const Other = Jobs.make("other", { data: Schema.String })
    expect(Work.add).type.toBeCallableWith("id", data, { after: { job: Other, id: 1 }, onParentDeath: "run" })
    expect(Work.add).type.toBeCallableWith("id", data, { after: [{ job: Other, id: 1 }, { job: Work, id: ["x"] }] })
    expect(Work.add).type.not.toBeCallableWith("id", data, { after: { job: Other } })
    expect(Work.add).type.not.toBeCallableWith("id", data, { after: "other" })
    expect(Work.add).type.not.toBeCallableWith("id", data, { onParentDeath: "wait" })
    const results = Work.results("id", Other)
    expect<Effect.Success<typeof results>>().type.toBe<ReadonlyArray<Jobs.ParentResult<string>>>()
    Work.workerLayer((_, { results }) =>
      Effect.gen(function*() {
        for (const result of yield* results(Other)) {
          if (result.state === "finished") expect(result.data).type.toBe<string>()
          else expect(result.data).type.toBe<undefined>()
        }
      })
    )
  })

  it("reads data of its schema", () => {
    const get = Work.getData("id")
    expect<Effect.Success<typeof get>>().type.toBe<Data>()
  })
})

describe("definition", () => {
  it("takes an aging", () => {
    expect(Jobs.make).type.toBeCallableWith("a", { data: Schema.Number, aging: "1 hour" })
    expect(Jobs.make).type.not.toBeCallableWith("a", { data: Schema.Number, aging: true })
  })

  it("takes rates of a limit and a window", () => {
    const data = Schema.Number
    expect(Jobs.make).type.toBeCallableWith("a", { data, rateLimit: { limit: 1, window: "1 second" } })
    expect(Jobs.make).type.toBeCallableWith("a", { data, rateLimitPerKey: { limit: 1, window: 5 } })
    expect(Jobs.make).type.not.toBeCallableWith("a", { data, rateLimit: { limit: 1 } })
    expect(Jobs.make).type.not.toBeCallableWith("a", { data, rateLimit: 5 })
  })
})

describe("processing", () => {
  it("writes of a holder can halt, and require the transaction alone", () => {
    expect<Effect.Error<typeof finish>>().type.toBe<Jobs.HolderError>()
    expect<Effect.Services<typeof finish>>().type.toBe<Transaction.Transaction>()
  })

  it("accept needs a tenant and gives a job of its data", () => {
    expect<Effect.Success<typeof accept>>().type.toBe<Option.Option<Jobs.Job<Data>>>()
    expect<Effect.Error<typeof accept>>().type.toBe<Jobs.InvalidOption | BackendError.BackendError>()
    expect<Effect.Services<typeof accept>>().type.toBe<Tenant.Tenant>()
  })

  it("progress is computed from the data to the data", () => {
    expect(Work.updateProgress).type.toBeCallableWith(job, (data: Data) => data)
    expect(Work.updateProgress).type.not.toBeCallableWith(job, (data: Data) => data.done)
  })

  it("a worker of batches gets jobs of its data, and answers with a result for each, or nothing", () => {
    const layer = Work.batchWorkerLayer((jobs, { stopping }) =>
      Effect.gen(function*() {
        expect(jobs).type.toBe<ReadonlyArray<Jobs.Job<Data>>>()
        expect(stopping).type.toBe<Effect.Effect<void>>()
        yield* (yield* Mailer).send
        return jobs.map(({ data }) => data.done > 0 ? Result.succeed(data) : Result.fail("not yet"))
      })
    )
    expect(layer).type.toBe<Layer.Layer<never, Jobs.InvalidOption, Tenant.Tenant | Mailer>>()
    expect(Work.batchWorkerLayer).type.toBeCallableWith(() => Effect.void, { maxJobs: 5, maxWait: "1 second" })
    expect(Work.batchWorkerLayer).type.not.toBeCallableWith(() => Effect.succeed([Result.succeed(5)]))
    expect(Work.batchWorkerLayer).type.not.toBeCallableWith(() => Effect.succeed(5))
  })

  it("who is told of dead jobs gets their data, and may need services, but not fail", () => {
    const layer = Work.deadJobLayer((dead) =>
      Effect.gen(function*() {
        expect(dead.data).type.toBe<Data | undefined>()
        yield* (yield* Mailer).send
      })
    )
    expect(layer).type.toBe<Layer.Layer<never, Jobs.InvalidOption, Tenant.Tenant | Mailer>>()
    expect(Work.deadJobLayer).type.not.toBeCallableWith(() => Effect.fail("no"))
  })

  it("a worker asks for the services of its handler, and its result is data or nothing", () => {
    const worker = Work.workerLayer((job) => Effect.as(Effect.flatMap(Mailer, ({ send }) => send), job.data))
    expect(worker).type.toBe<Layer.Layer<never, Jobs.InvalidOption, Tenant.Tenant | Mailer>>()
    expect(Work.workerLayer).type.not.toBeCallableWith(() => Effect.succeed(5))
    expect(Work.workerLayer).type.toBeCallableWith(() => Effect.fail("any error"))
  })
})

describe("subscriptions", () => {
  it("live in a scope", () => {
    expect<Effect.Services<typeof subscribe>>().type.toBe<Scope.Scope | Tenant.Tenant>()
    expect<Stream.Services<typeof changes>>().type.toBe<Tenant.Tenant>()
  })

  it("give the state with the data, and none after the removal", () => {
    const check = (change: Jobs.Change<Data>) => {
      if (change.state === "removed") expect(change.data).type.toBe<undefined>()
      else expect(change.data).type.toBe<Data>()
    }
    expect(check).type.toBe<(change: Jobs.Change<Data>) => void>()
  })
})

describe("definitions", () => {
  it("refuse a schema that needs a service", () => {
    type Served = Schema.Codec<string, string, Mailer, never>
    expect(Jobs.make).type.not.toBeCallableWith("work", { data: Schema.String as unknown as Served })
  })
})
