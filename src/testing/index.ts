/**
 * What tests of programs on this library need: simulations of several processes with time and failures from a seed,
 * checks of what came out, a mode that finds impure transaction bodies, and samples of states of earlier versions.
 *
 * @since 0.1.0
 */
export * as Check from "./Check.ts"
export * as Simulation from "./Simulation.ts"
export * as StateSamples from "./StateSamples.ts"
export * as StrictMode from "./StrictMode.ts"
