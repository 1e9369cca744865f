import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { Backend, MemoryBackend } from "effect-dgen"
import { allBackend } from "../suites/backend/all.ts"
import { bytes, point, within } from "../support/driver.ts"

allBackend("MemoryBackend", MemoryBackend.layer)

it.effect("MemoryBackend keeps of a value that is a piece of something longer that piece alone", () =>
  Effect.gen(function*() {
    const backend = yield* Backend.Backend
    const piece = new Uint8Array(100_000).subarray(10, 200)
    const request: Backend.CommitRequest = {
      mutations: [{ op: "set", key: bytes("k"), value: piece }],
      readConflicts: [],
      writeConflicts: [point("k")],
      watches: []
    }
    yield* within(backend, (driver) => driver.commit(request, () => {}))
    const kept = yield* within(backend, (driver) => driver.get(bytes("k")))
    assert.strictEqual(kept!.buffer.byteLength, 190)
  }).pipe(Effect.provide(MemoryBackend.layer)))
