/** All that backends must do: another backend's tests run this one function. */
import type { Layer } from "effect"
import type { Backend, BackendError } from "effect-dgen"
import { suite } from "./backend.ts"
import { clearingSuite } from "./clearing.ts"
import { refusalsSuite } from "./refusals.ts"

export const allBackend = (name: string, backend: Layer.Layer<Backend.Backend, BackendError.BackendError>): void => {
  suite(name, backend)
  refusalsSuite(name, backend)
  clearingSuite(name, backend)
}
