/** How the programs of simulations go on after failures of the store: a pause, or time would stand still while it is gone. */
import { Schedule } from "effect"
import { BackendError } from "effect-dgen"

export const again = {
  while: (error: unknown): boolean => BackendError.isBackendError(error),
  schedule: Schedule.spaced("200 millis")
}
