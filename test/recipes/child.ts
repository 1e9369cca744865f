/** A process with one version of a program of a recipe: hosts its servers, and does to them what the test asks. */
import { Effect, Exit, Layer, References } from "effect"
import { SqliteBackend, Tenant } from "effect-dgen"
import { recipes } from "./definitions.ts"

const [filename, recipe, version] = process.argv.slice(2) as [string, string, "old" | "new"]
const { host, own } = recipes[recipe]![version]()

interface Asked {
  readonly number: number
  readonly does: "call" | "cast" | "castLater"
  readonly tag: string
  readonly args: ReadonlyArray<unknown>
}

const program = Effect.gen(function*() {
  const client = yield* own.client({ tuid: ["recipe"] }) as Effect.Effect<any>
  const answer = ({ args, does, number, tag }: Asked) =>
    Effect.flatMap(
      Effect.exit(client[does](tag, ...args) as Effect.Effect<unknown>),
      (exit) =>
        Effect.sync(() =>
          process.send!({ number, ...(Exit.isSuccess(exit) ? { value: exit.value } : { failed: String(exit.cause) }) })
        )
    )
  const run = yield* Effect.context<never>()
  process.on("message", (asked: Asked) => Effect.runForkWith(run)(answer(asked)))
  process.send!({ ready: true })
  return yield* Effect.callback<never>((_resume) => {
    process.once("disconnect", () => process.exit(0))
  })
})

const store = Tenant.layer(["recipes"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))
const hosted = host.pipe(Layer.provideMerge(store)) as Layer.Layer<any>

await Effect.runPromise(
  program.pipe(Effect.provide(hosted), Effect.provideService(References.MinimumLogLevel, "Fatal")) as Effect.Effect<
    never
  >
)
