/**
 * Wake-ups within one process: a commit tells those who wait for it directly, with no detour through the store.
 *
 * Owner: the backend, one a store and process. A signal is a hint and carries no data: who is woken looks into the
 * store.
 *
 * 1. A listener that was added and not removed is called by every later `notify` of its key.
 * 2. A key without listeners costs no memory.
 */
export class Signals {
  readonly #listeners = new Map<string, Set<() => void>>()

  /** Calls the listeners of a key. */
  notify(key: string): void {
    const listeners = this.#listeners.get(key)
    if (listeners === undefined) return
    // a listener may add itself again while this runs: each that is here now is called once
    for (const listener of Array.from(listeners)) listener()
  }

  /** Adds a listener; the function it returns removes it. */
  listen(key: string, listener: () => void): () => void {
    let listeners = this.#listeners.get(key)
    if (listeners === undefined) {
      listeners = new Set()
      this.#listeners.set(key, listeners)
    }
    listeners.add(listener)
    const added = listeners
    return () => {
      added.delete(listener)
      if (added.size === 0 && this.#listeners.get(key) === added) this.#listeners.delete(key)
    }
  }

  /** How many listeners a key has. */
  count(key: string): number {
    return this.#listeners.get(key)?.size ?? 0
  }
}
