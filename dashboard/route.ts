// Where the page is: the part of the address behind the #, so that the server has one page wherever it is mounted.
import { useEffect, useState } from "preact/hooks"

export interface Route {
  readonly view: string
  readonly params: Readonly<Record<string, string>>
}

const read = (): Route => {
  const [view = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?")
  return { view: view === "" ? "overview" : view, params: Object.fromEntries(new URLSearchParams(search)) }
}

/** The address of a view. */
export const to = (view: string, params: Record<string, string | undefined> = {}): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(params)) if (value !== undefined && value !== "") search.set(name, value)
  const text = search.toString()
  return `#/${view}${text === "" ? "" : `?${text}`}`
}

export const go = (view: string, params: Record<string, string | undefined> = {}): void => {
  location.hash = to(view, params)
}

export const useRoute = (): Route => {
  const [route, setRoute] = useState(read)
  useEffect(() => {
    const changed = () =>
      setRoute((last) => to(last.view, last.params) === to(read().view, read().params) ? last : read())
    addEventListener("hashchange", changed)
    // it may have changed before anybody listened
    changed()
    return () => removeEventListener("hashchange", changed)
  }, [])
  return route
}
