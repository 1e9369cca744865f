/**
 * What the parts of a program give each other for a server, as services by its name: the handlers that have services of
 * their own, and the host. `DgenServer` exports these types.
 */
import type * as D from "./protocol.ts"

/**
 * The action handlers of a server, as a service. `Hint` is for the compiler's error where the layer is missing.
 *
 * @since 0.1.0
 * @category models
 */
export interface ActionsOf<
  in out Name extends string,
  out Hint extends string = `provide the actionsLayer of ${Name}`
> {
  readonly actionsOf: Name
  readonly hint: Hint
}

/**
 * The locked handlers of a server, as a service. `Hint` is for the compiler's error where the layer is missing.
 *
 * @since 0.1.0
 * @category models
 */
export interface LockedOf<in out Name extends string, out Hint extends string = `provide the lockedLayer of ${Name}`> {
  readonly lockedOf: Name
  readonly hint: Hint
}

/**
 * The dead-letter handler of a server, as a service. No server requires it.
 *
 * @since 0.1.0
 * @category models
 */
export interface DeadLettersOf<in out Name extends string> {
  readonly "the handler of the server's dead letters": Name
}

/**
 * What running a server needs besides its tenant: its action handlers, and its locked handlers, if it has any.
 *
 * @since 0.1.0
 * @category models
 */
export type Needs<M, A, Name extends string> = [keyof A] extends [never]
  ? [D.LockingTag<M>] extends [never] ? never : LockedOf<Name>
  : [D.LockingTag<M>] extends [never] ? ActionsOf<Name>
  : ActionsOf<Name> | LockedOf<Name>

/**
 * The host of a definition in this process, as a service.
 *
 * @since 0.2.0
 * @category models
 */
export interface Hosted<in out Name extends string> {
  readonly "the host of the servers of": Name
}
