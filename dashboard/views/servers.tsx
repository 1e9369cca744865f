// All servers, a page at a time: searched by definition and by how their tuid begins.
import { useEffect, useRef, useState } from "preact/hooks"
import type { ServersPage } from "../../src/internal/dashboard/wire.ts"
import { pathOf, usePolled } from "../api.ts"
import { plural } from "../format.ts"
import { Card, Page, Pager, Stale, Waiting } from "../parts.tsx"
import { go, type Route, to } from "../route.ts"
import { ServerTable } from "./serverTable.tsx"

export const Servers = ({ route: { params } }: { readonly route: Route }) => {
  const { data, failed } = usePolled<ServersPage>(pathOf("servers", params))
  const { after, ...search } = params
  return (
    <Page title="Servers" sub="Every server of the tenant, by definition and tuid">
      <Search params={search} definitions={data?.definitions ?? []} />
      <Card
        title={search["stuck"] === "1" ? "Servers that need a look" : "Servers"}
        note={data === undefined ? undefined : plural(data.rows.length, "server")}
      >
        {data === undefined ? <Waiting failed={failed} /> : (
          <>
            <Stale failed={failed} />
            <ServerTable
              label="Servers"
              empty={data.next === undefined
                ? "There is none."
                : "None on this page: there may be some on the next one."}
              page={data}
              rows={data.rows}
            />
            <Pager
              first={after === undefined ? undefined : to("servers", search)}
              next={data.next === undefined ? undefined : to("servers", { ...search, after: data.next })}
            >
              {plural(data.looked, "server")} looked at
            </Pager>
          </>
        )}
      </Card>
    </Page>
  )
}

const Search = ({ definitions, params }: {
  readonly params: Readonly<Record<string, string>>
  readonly definitions: ReadonlyArray<string>
}) => {
  const [prefix, setPrefix] = useState(params["prefix"] ?? "")
  const seen = useRef(params["prefix"])
  useEffect(() => {
    if (seen.current !== params["prefix"]) setPrefix(params["prefix"] ?? "")
    seen.current = params["prefix"]
  }, [params["prefix"]])
  const change = (fields: Record<string, string | undefined>) => go("servers", { ...params, prefix, ...fields })
  const names = params["definition"] === undefined || definitions.includes(params["definition"])
    ? definitions
    : [params["definition"], ...definitions]
  return (
    <form
      class="search"
      role="search"
      aria-label="Servers"
      onSubmit={(event) => {
        event.preventDefault()
        change({})
      }}
    >
      <label>
        <span>Definition</span>
        <select
          value={params["definition"] ?? ""}
          onChange={(event) => change({ definition: event.currentTarget.value })}
        >
          <option value="">All</option>
          {names.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </label>
      <label class="grow">
        <span>Tuid begins with</span>
        <input
          type="search"
          class="mono"
          placeholder='["cart", 7]'
          value={prefix}
          spellcheck={false}
          autocomplete="off"
          onInput={(event) => setPrefix(event.currentTarget.value)}
        />
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={params["stuck"] === "1"}
          onChange={(event) => change({ stuck: event.currentTarget.checked ? "1" : undefined })}
        />
        <span>Only what needs a look</span>
      </label>
      <button type="submit" class="button main">Search</button>
    </form>
  )
}
