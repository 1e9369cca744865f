/** What the processes of the soak agree on. */

/**
 * What a process does: serve the journal one message at a time or several, send to it, or both; run the accounts; operate
 * them; or use the file for a tenant of its own.
 */
export type Role = "server" | "batches" | "both" | "sender" | "bank" | "operator" | "foreign"

/** How many messages the servers of a role take at a time. */
export const serverOptions: Readonly<Record<Role, number | undefined>> = {
  server: 1,
  batches: 7,
  both: 1,
  sender: undefined,
  bank: undefined,
  operator: undefined,
  foreign: undefined
}

/** Locked handlers take some 100 ms; a dead holder shall not hold up a run of seconds. */
export const LOCK_TIMEOUT = "1 second"

/** What a child is told, once. */
export interface Order {
  /** What `backendOf` takes. */
  readonly store: string
  readonly role: Role
  /** Of its sender: no other life has it. */
  readonly name: string
}

/** What a child tells. */
export type News =
  | { readonly _tag: "Ready" }
  | { readonly _tag: "Acknowledged"; readonly id: string; readonly answer: number | undefined }
  | { readonly _tag: "Refused"; readonly id: string }
  | { readonly _tag: "Acted"; readonly id: string }
  /** A fragile message of the accounts is taken; a ticket was given. */
  | { readonly _tag: "Taken"; readonly id: string }
  | { readonly _tag: "Ticket"; readonly ticket: string }
  | { readonly _tag: "Counted"; readonly count: number }
