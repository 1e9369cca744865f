/**
 * A subspace: all keys that begin with one prefix, and the tuples behind it.
 *
 * Keys of one subspace never lie in another one, unless one prefix begins with the other. A subspace is a value: it
 * holds its prefix, touches no store, and never changes.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import { assertBytes, TupleError } from "./internal/tuple/element.ts"
import * as Tuple from "./Tuple.ts"

const TypeId = "~effect-dgen/Subspace"

/**
 * The keys that begin with `prefix`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Subspace {
  readonly [TypeId]: typeof TypeId

  /** The bytes that all keys of this subspace begin with. They must not be written to. */
  readonly prefix: Uint8Array

  /** The key of a tuple in this subspace. Throws a `TupleError` wherever `Tuple.pack` does. */
  pack(tuple: Tuple.Tuple): Uint8Array

  /**
   * The key of a tuple with exactly one incomplete versionstamp, and where in the key the store has to fill it in.
   * Throws a `TupleError` wherever `Tuple.packVersionstamped` does.
   */
  packVersionstamped(tuple: Tuple.Tuple): Tuple.Versionstamped

  /**
   * The tuple of a key. Throws a `TupleError` if the key is not in this subspace, or holds no tuple behind the
   * prefix.
   */
  unpack(key: Uint8Array): Array<Tuple.Element>

  /** Whether a key begins with this subspace's prefix. The prefix itself does. */
  contains(key: Uint8Array): boolean

  /**
   * The range of all keys in this subspace that are `tuple` (empty if absent) with at least one more element. The
   * key of the tuple itself is not in it. Throws a `TupleError` wherever `Tuple.pack` does.
   */
  range(tuple?: Tuple.Tuple): Tuple.KeyRange

  /** The subspace of all keys that begin with these elements. Throws a `TupleError` wherever `Tuple.pack` does. */
  sub(...elements: Tuple.Tuple): Subspace
}

class SubspaceImpl implements Subspace {
  readonly [TypeId]: typeof TypeId = TypeId
  readonly prefix: Uint8Array

  // the bytes belong to the subspace from here on
  constructor(prefix: Uint8Array) {
    this.prefix = prefix
  }

  pack(tuple: Tuple.Tuple): Uint8Array {
    return Tuple.pack(tuple, this.prefix)
  }

  packVersionstamped(tuple: Tuple.Tuple): Tuple.Versionstamped {
    return Tuple.packVersionstamped(tuple, this.prefix)
  }

  unpack(key: Uint8Array): Array<Tuple.Element> {
    if (!this.contains(key)) {
      throw new TupleError({
        reason: "OutsideSubspace",
        message: "the key is not in this subspace: it does not begin with the subspace's prefix",
        path: []
      })
    }
    return Tuple.unpack(key, this.prefix.length)
  }

  contains(key: Uint8Array): boolean {
    assertBytes(key, "the key")
    const { prefix } = this
    if (key.length < prefix.length) return false
    // neighbouring subspaces differ in their last bytes, so those are looked at first
    for (let i = prefix.length - 1; i >= 0; i--) if (key[i] !== prefix[i]) return false
    return true
  }

  range(tuple: Tuple.Tuple = []): Tuple.KeyRange {
    return Tuple.range(tuple, this.prefix)
  }

  sub(...elements: Tuple.Tuple): Subspace {
    return new SubspaceImpl(Tuple.pack(elements, this.prefix))
  }
}

/**
 * Makes a subspace from the bytes of its prefix, which are copied, or from a tuple, which is packed. Without an
 * argument it is the subspace of all keys.
 *
 * **Details**
 *
 * Throws a `TupleError` if the prefix is neither, and wherever `Tuple.pack` does.
 *
 * **Example** (Keys of one subject)
 *
 * ```ts import.meta.vitest
 * import { Subspace } from "effect-dgen"
 *
 * const users = Subspace.make(["users"])
 * const ada = users.sub("ada")
 *
 * ada.unpack(ada.pack(["age"]))
 * // => ["age"]
 * users.unpack(ada.pack(["age"]))
 * // => ["ada", "age"]
 * users.contains(Subspace.make(["groups"]).pack([1]))
 * // => false
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (prefix: Uint8Array | Tuple.Tuple = []): Subspace =>
  new SubspaceImpl(prefix instanceof Uint8Array ? new Uint8Array(prefix) : Tuple.pack(prefix))

/**
 * Whether a value is a subspace.
 *
 * @since 0.1.0
 * @category guards
 */
export const isSubspace = (value: unknown): value is Subspace => Predicate.hasProperty(value, TypeId)
