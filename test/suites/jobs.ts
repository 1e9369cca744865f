/** What jobs must do on every backend: run for each of them. */
import { describe } from "@effect/vitest"
import { jobsConcurrency } from "./jobsConcurrency.ts"
import { jobsCron } from "./jobsCron.ts"
import { jobsFailures } from "./jobsFailures.ts"
import { jobsHostile } from "./jobsHostile.ts"
import { jobsLife } from "./jobsLife.ts"
import { jobsRefusals } from "./jobsRefusals.ts"
import { jobsSubscriptions } from "./jobsSubscriptions.ts"
import { type BackendLayer, harness } from "./jobsSupport.ts"
import { jobsWorkers } from "./jobsWorkers.ts"

export const suite = (name: string, backend: BackendLayer) => {
  describe(name, () => {
    const tests = harness(backend)
    describe("life cycle", () => jobsLife(tests))
    describe("failures", () => jobsFailures(tests))
    describe("refusals", () => jobsRefusals(tests))
    describe("order, limits and time", () => jobsConcurrency(tests))
    describe("subscriptions", () => jobsSubscriptions(tests))
    describe("workers", () => jobsWorkers(tests))
    describe("schedules", () => jobsCron(tests))
    describe("bytes that nobody here wrote", () => jobsHostile(tests))
  })
}
