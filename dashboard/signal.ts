// A value that parts of the page share.
import { useEffect, useState } from "preact/hooks"

export const signalOf = <A>(first: A) => {
  let value = first
  const listeners = new Set<(value: A) => void>()
  return {
    get: (): A => value,
    set: (next: A): void => {
      value = next
      for (const listener of listeners) listener(next)
    },
    use: (): A => {
      const [seen, setSeen] = useState(() => value)
      useEffect(() => {
        const listener = (next: A) => setSeen(() => next)
        listeners.add(listener)
        listener(value)
        return () => {
          listeners.delete(listener)
        }
      }, [])
      return seen
    }
  }
}
