/** Builds the dashboard's page before the tests, so that a clean clone needs no step of its own. */
import { build } from "../../scripts/dashboard.mjs"

export const setup = async (): Promise<void> => {
  await build()
}
