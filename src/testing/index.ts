/**
 * What tests of programs on this library need: simulations of several processes with time and failures from a seed,
 * checks of what came out, and a mode that finds impure transaction bodies.
 *
 * @since 0.1.0
 */
export * as Check from "./Check.ts"
export * as Simulation from "./Simulation.ts"
export * as StrictMode from "./StrictMode.ts"
