/**
 * The service that transaction effects require: the try that runs them. `Transaction.ts` hands it to users; it stands
 * here, below all that use it.
 */
import * as Context from "effect/Context"
import type { TransactionState } from "./state.ts"

/**
 * The one service that a transaction effect may require. Only `Tenant.transact` provides it, and a server to its
 * handlers. Use it as a requirement; its fields are for the library. `Hint` is for the compiler's error where a
 * transaction effect is run without.
 *
 * @since 0.1.0
 * @category services
 */
export interface Transaction<out Hint extends string = "run it with Tenant.transact, or in a handler"> {
  readonly "a transaction body may require only Transaction: it can run many times": { readonly hint: Hint }
}

export const Transaction: Context.Service<Transaction, TransactionState> = Context.Service("effect-dgen/Transaction")
