/**
 * Commits whose answer is lost, and which arrive after what was sent in their place: a store at the end of a connection
 * can do that. Nothing may be written twice, or over what came later.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer } from "effect"
import { Backend, BackendError, MemoryBackend, Tenant, Transaction } from "effect-dgen"
import { copy } from "../../src/internal/cli/copy.ts"

type Service = Backend.Backend["Service"]

/**
 * What becomes of a commit: it is answered; it is applied, those that are late arrive after it, and no answer comes; or no
 * answer comes and it is late.
 */
type Fate = "answered" | "unanswered" | "late"

interface Late {
  readonly backend: Service
  /** Decides each commit that writes, from now on. */
  fate: (request: Backend.CommitRequest) => Fate
  /** Lets the late ones arrive. */
  readonly arrive: Effect.Effect<void>
}

const unknown = () =>
  new BackendError.BackendError({ reason: new BackendError.CommitUnknown({ message: "the answer was lost" }) })

const makeLate = Effect.gen(function*() {
  const memory = Context.get(yield* Layer.build(Layer.fresh(MemoryBackend.layer)), Backend.Backend)
  const waiting: Array<Effect.Effect<void>> = []
  const begin = Effect.map(memory.begin, (driver): Backend.DriverTransaction => {
    let isLate = false
    return {
      readVersion: driver.readVersion,
      get: (key) => driver.get(key),
      getRange: (from, to, options) => driver.getRange(from, to, options),
      commit: (request, accepted) => {
        const fate = request.mutations.length === 0 ? "answered" : late.fate(request)
        if (fate === "answered") return driver.commit(request, accepted)
        if (fate === "unanswered") {
          return driver.commit(request, () => {}).pipe(
            Effect.andThen(late.arrive),
            Effect.andThen(Effect.fail(unknown()))
          )
        }
        isLate = true
        waiting.push(Effect.ensuring(
          Effect.ignore(driver.commit(request, () => {})),
          Effect.sync(() => driver.close())
        ))
        // what it conflicts with is what was written since it was sent
        return Effect.andThen(driver.readVersion, Effect.fail(unknown()))
      },
      close: () => {
        if (!isLate) driver.close()
      }
    }
  })
  const late: Late = {
    backend: { ...memory, commitCanBeUnknown: true, begin },
    fate: () => "answered",
    arrive: Effect.suspend(() => Effect.all(waiting.splice(0), { discard: true }))
  }
  return late
})

/** Decides the first commits by a list, and lets the others be answered. */
const inOrder = (fates: Array<Fate>) => (): Fate => fates.shift() ?? "answered"

const onTenant = (backend: Service, path: string) =>
  Effect.provide(Layer.fresh(Tenant.layer([path])).pipe(Layer.provide(Layer.succeed(Backend.Backend, backend))))

describe("a commit that arrives late", () => {
  it.live("does not make a transaction forget that an earlier try of it was applied", () =>
    Effect.gen(function*() {
      const late = yield* makeLate
      yield* Effect.gen(function*() {
        // the first transaction of a layer makes what its later tries look at, then commits
        const fates: Array<Fate> = ["late", "answered", "unanswered"]
        yield* Tenant.Tenant
        late.fate = inOrder(fates)
        yield* Tenant.transact(Transaction.add(["count"], 1))
        assert.deepStrictEqual(fates, [])
        const count = yield* Tenant.transact(Transaction.get(["count"]))
        assert.strictEqual(count![0], 1)
      }).pipe(onTenant(late.backend, "late"))
    }).pipe(Effect.scoped))

  for (
    const [what, end] of [
      ["failed", Effect.fail("declined")],
      ["only read", Transaction.get(["balance"])]
    ] as const
  ) {
    it.live(`is not applied when a later try of its transaction has ${what}`, () =>
      Effect.gen(function*() {
        const late = yield* makeLate
        yield* Effect.gen(function*() {
          yield* Tenant.transact(Transaction.set(["balance"], Uint8Array.of(0)))
          late.fate = inOrder(["late"])
          let tries = 0
          const pay = Effect.suspend(() => ++tries === 1 ? Transaction.set(["paid"], Uint8Array.of(1)) : end)
          assert.strictEqual(
            Exit.isFailure(yield* Effect.exit(Tenant.transact<unknown, string>(pay))),
            what === "failed"
          )
          assert.strictEqual(tries, 2)
          yield* late.arrive
          assert.isUndefined(yield* Tenant.transact(Transaction.get(["paid"])))
          // the next one is a transaction like any other
          yield* Tenant.transact(Transaction.set(["paid"], Uint8Array.of(2)))
          assert.deepStrictEqual(yield* Tenant.transact(Transaction.get(["paid"])), Uint8Array.of(2))
        }).pipe(onTenant(late.backend, "fenced"))
      }).pipe(Effect.scoped))
  }

  it.live("of a copy does not write over what the target did since", () =>
    Effect.gen(function*() {
      const from = { backend: (yield* makeLate).backend, path: ["from"], name: "from" }
      yield* onTenant(from.backend, "from")(Tenant.transact(Transaction.set(["row"], new Uint8Array([1]))))
      const late = yield* makeLate
      const to = { backend: late.backend, path: ["to"], name: "to" }
      let parts = 0
      const row = Buffer.from("row")
      late.fate = ({ mutations }) =>
        mutations.some(({ op, ...rest }) => op === "set" && Buffer.from((rest as any).key).includes(row)) &&
          parts++ === 0
          ? "late"
          : "answered"
      yield* copy(from, to, { restart: false, progress: () => Effect.void })
      assert.strictEqual(parts, 2)
      yield* onTenant(to.backend, "to")(Effect.gen(function*() {
        yield* Tenant.transact(Transaction.set(["row"], new Uint8Array([2])))
        yield* late.arrive
        assert.deepStrictEqual(yield* Tenant.transact(Transaction.get(["row"])), new Uint8Array([2]))
      }))
    }).pipe(Effect.scoped))
})
