/** What jobs must do on every backend: run for each of them. */
import { describe } from "@effect/vitest"
import { jobsAging } from "./aging.ts"
import { jobsBatches } from "./batches.ts"
import { jobsConcurrency } from "./concurrency.ts"
import { jobsCron } from "./cron.ts"
import { jobsDependencies } from "./dependencies.ts"
import { jobsFailures } from "./failures.ts"
import { jobsHostile } from "./hostile.ts"
import { jobsLife } from "./life.ts"
import { jobsMany } from "./many.ts"
import { jobsRates } from "./rates.ts"
import { jobsRefusals } from "./refusals.ts"
import { jobsReports } from "./reports.ts"
import { jobsScheduleRows } from "./scheduleRows.ts"
import { jobsSharing } from "./sharing.ts"
import { jobsSubscriptions } from "./subscriptions.ts"
import { type BackendLayer, harness } from "./support.ts"
import { jobsWorkers } from "./workers.ts"

/**
 * `isNear` says whether the store answers within the process: only then does nothing happen while a test's clock stands.
 * Elsewhere a test that lets time pass until something is done lets it pass for ever, since leases run out with it.
 */
export const suite = (name: string, backend: BackendLayer, isNear = true) => {
  describe(name, () => {
    const tests = harness(backend, isNear)
    describe("life cycle", () => jobsLife(tests))
    describe("failures", () => jobsFailures(tests))
    describe("refusals", () => jobsRefusals(tests))
    describe("order, limits and time", () => jobsConcurrency(tests))
    describe("subscriptions", () => jobsSubscriptions(tests))
    describe("workers", () => jobsWorkers(tests))
    describe("aging", () => jobsAging(tests))
    describe("batches and stops", () => jobsBatches(tests))
    describe("dependencies", () => jobsDependencies(tests))
    describe("many at once", () => jobsMany(tests))
    describe("rates", () => jobsRates(tests, isNear))
    describe("reports", () => jobsReports(tests))
    describe("sharing", () => jobsSharing(tests))
    describe("schedules", () => jobsCron(tests))
    describe("rows of schedules", () => jobsScheduleRows(tests))
    describe("bytes that nobody here wrote", () => jobsHostile(tests))
  })
}
