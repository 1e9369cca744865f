import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type BackendError, FoundationDbBackend } from "effect-dgen"
import * as fs from "node:fs"
import * as path from "node:path"
import { toBackendError } from "../../src/internal/foundationdb/errors.ts"
import { make } from "../../src/internal/foundationdb/layer.ts"
import type { FdbPackage } from "../../src/internal/foundationdb/package.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { fdbError, makeFake } from "./fake.ts"

const folder = temporaryFolder()

const settings = {
  clusterFile: undefined,
  connectLimitMillis: 50,
  transactionLimitMillis: 50,
  maxWatches: 100
}

const reasonWith = (from: () => Promise<FdbPackage>): Effect.Effect<BackendError.Reason> =>
  Effect.map(Effect.flip(Effect.scoped(make(settings, from))), (error) => error.reason) as never

const refusal = (options: object): Effect.Effect<BackendError.Reason> =>
  Effect.map(
    Effect.flip(Effect.scoped(Layer.build(FoundationDbBackend.layer(options)))),
    (error) => error.reason
  ) as never

describe("FoundationDbBackend.layer", () => {
  it.live("without the package says what to install", () =>
    Effect.gen(function*() {
      const nowhere: string = path.join(folder, "foundationdb", "index.mjs")
      const reason = yield* reasonWith(() => import(nowhere))
      assert.strictEqual(reason._tag, "ClientMissing")
      assert.match(reason.message, /npm install foundationdb/)
    }))

  it.live("without the client library says what to install", () =>
    Effect.gen(function*() {
      const reason = yield* reasonWith(() =>
        new Promise(() => process.dlopen({ exports: {} }, path.join(folder, "libfdb_c.so")))
      )
      assert.strictEqual(reason._tag, "ClientMissing")
      assert.match(reason.message, /libfdb_c\.so: cannot open/)
      assert.match(reason.message, /foundationdb-clients.*LD_LIBRARY_PATH/)
    }))

  it.live("without a binary for the machine says how to build it", () =>
    Effect.gen(function*() {
      const reason = yield* reasonWith(() =>
        Promise.reject(new Error("No native build was found for platform=plan9 arch=arm64\nloaded from: here"))
      )
      assert.strictEqual(reason._tag, "ClientMissing")
      assert.match(reason.message, /plan9.*npm rebuild foundationdb/)
    }))

  it.live("with a client library that is too old says which one it needs", () =>
    Effect.gen(function*() {
      const { fdb } = makeFake()
      const reason = yield* reasonWith(() =>
        Promise.resolve({
          ...fdb,
          setAPIVersion: () => {
            throw fdbError(2203, "API version not supported")
          }
        })
      )
      assert.strictEqual(reason._tag, "ClientMissing")
      assert.match(reason.message, /API version 710.*7\.1 or newer/)
    }))

  it.live("in a program that has chosen an API version itself keeps that", () =>
    Effect.gen(function*() {
      const { fdb } = makeFake()
      const chosen = {
        ...fdb,
        setAPIVersion: () => {
          throw new Error("foundationdb already initialized with API version 720")
        }
      }
      yield* Effect.scoped(make(settings, () => Promise.resolve(chosen)))
    }))

  it.live("when no cluster answers fails within its time limit, and closes its connection", () =>
    Effect.gen(function*() {
      const fake = makeFake()
      fake.onRead = () => Promise.reject(fdbError(1031, "Operation aborted because the transaction timed out"))
      const reason = yield* reasonWith(() => Promise.resolve(fake.fdb))
      assert.strictEqual(reason._tag, "Unavailable")
      assert.match(reason.message, /no cluster answered within 50 ms.*FDB_CLUSTER_FILE.*fdbcli --exec status/)
      assert.strictEqual(fake.closed, 1)
    }))

  it.live("with a client that says nothing at all does not hang", () =>
    Effect.gen(function*() {
      const fake = makeFake()
      fake.onRead = () => new Promise(() => {})
      const reason = yield* reasonWith(() => Promise.resolve(fake.fdb))
      assert.strictEqual(reason._tag, "Unavailable")
      assert.strictEqual(fake.closed, 1)
    }))

  it.live("with a cluster file that cannot be used says what one looks like", () =>
    Effect.gen(function*() {
      for (const [code, text] of [[1515, "No cluster file found"], [2104, "Connection string invalid"]] as const) {
        const { fdb } = makeFake()
        const reason = yield* reasonWith(() =>
          Promise.resolve({
            ...fdb,
            open: () => {
              throw fdbError(code, text)
            }
          })
        )
        assert.strictEqual(reason._tag, "InvalidArgument")
        assert.match(reason.message, /description:id@/)
      }
    }))

  it.live("checks its options before it loads anything", () =>
    Effect.gen(function*() {
      const nowhere = path.join(folder, "no.cluster")
      const missing = yield* refusal({ clusterFile: nowhere })
      assert.strictEqual(missing._tag, "InvalidArgument")
      assert.include(missing.message, nowhere)
      const clusterFile = path.join(folder, "fdb.cluster")
      fs.writeFileSync(clusterFile, "test:test@127.0.0.1:1")
      for (
        const [name, value] of [
          ["clusterFile", ""],
          ["clusterFile", 7],
          ["connectTimeout", 0],
          ["connectTimeout", "soon"],
          ["connectTimeout", "Infinity"],
          ["transactionTimeout", -1],
          ["maxWatches", 0],
          ["maxWatches", 1.5],
          ["maxWatches", 1_000_001]
        ] as const
      ) {
        const reason = yield* refusal({ clusterFile, [name]: value })
        assert.strictEqual(reason._tag, "InvalidArgument", `${name} ${String(value)}`)
        assert.include(reason.message, name)
      }
    }))
})

describe("FoundationDB's error codes", () => {
  const cases: ReadonlyArray<readonly [number, "read" | "commit", BackendError.Reason["_tag"]]> = [
    [1007, "read", "TransactionTooOld"],
    [1007, "commit", "TransactionTooOld"],
    [1009, "read", "Unavailable"],
    [1020, "commit", "Conflict"],
    [1021, "commit", "CommitUnknown"],
    [1022, "commit", "CommitUnknown"],
    [1025, "read", "Closed"],
    [1025, "commit", "CommitUnknown"],
    [1031, "read", "Unavailable"],
    [1031, "commit", "CommitUnknown"],
    [1032, "read", "Unavailable"],
    [1036, "read", "AccessedUnreadable"],
    [1037, "read", "Unavailable"],
    [1038, "commit", "Unavailable"],
    [1039, "read", "Unavailable"],
    [1039, "commit", "CommitUnknown"],
    [1042, "commit", "Unavailable"],
    [1051, "read", "Unavailable"],
    [1078, "read", "Unavailable"],
    [1101, "read", "Closed"],
    [1213, "read", "Unavailable"],
    [2004, "commit", "InvalidArgument"],
    [2101, "commit", "TransactionTooLarge"],
    [2102, "commit", "KeyTooLarge"],
    [2103, "commit", "ValueTooLarge"],
    [4100, "commit", "Unavailable"]
  ]
  for (const [code, doing, tag] of cases) {
    it(`${code} of a ${doing} is ${tag}`, () => {
      const { reason } = toBackendError(fdbError(code), doing)
      assert.strictEqual(reason._tag, tag)
      assert.strictEqual((reason as { readonly code?: unknown }).code, code)
    })
  }
  it("of a time limit that a long transaction met is TransactionTooOld", () => {
    assert.strictEqual(toBackendError(fdbError(1031), "read", 5_001).reason._tag, "TransactionTooOld")
  })
  it("that the cluster calls retryable are retryable, and those it calls maybe committed are so", () => {
    for (const code of [1007, 1009, 1020, 1037, 1038, 1042, 1051, 1078, 1213, 1223]) {
      assert.isTrue(toBackendError(fdbError(code), "commit").isRetryable, String(code))
      assert.isFalse(toBackendError(fdbError(code), "commit").isMaybeCommitted, String(code))
    }
    for (const code of [1021, 1039]) {
      assert.isTrue(toBackendError(fdbError(code), "commit").isMaybeCommitted, String(code))
    }
  })
})
