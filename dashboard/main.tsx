// The dashboard's page.
import { render } from "preact"
import { useEffect, useRef } from "preact/hooks"
import type { About } from "../src/internal/dashboard/wire.ts"
import { usePolled } from "./api.ts"
import { Asking, Told } from "./asking.tsx"
import { Icon, type IconName } from "./icons.tsx"
import { Badge, Waiting } from "./parts.tsx"
import { type Route, to, useRoute } from "./route.ts"
import { Jobs } from "./views/jobs.tsx"
import { Overview } from "./views/overview.tsx"
import { Schedules } from "./views/schedules.tsx"
import { Server } from "./views/server.tsx"
import { Servers } from "./views/servers.tsx"

const VIEWS: ReadonlyArray<{ readonly view: string; readonly title: string; readonly icon: IconName }> = [
  { view: "overview", title: "Overview", icon: "overview" },
  { view: "servers", title: "Servers", icon: "servers" },
  { view: "jobs", title: "Jobs", icon: "jobs" },
  { view: "schedules", title: "Schedules", icon: "schedules" }
]

/** Whom the page looks at does not change; whether it may, can. */
const ABOUT_MILLIS = 30_000

const App = () => {
  const route = useRoute()
  const { data, failed } = usePolled<About>("about", ABOUT_MILLIS)
  const main = useRef<HTMLElement>(null)
  const first = useRef(true)
  // whoever follows a link stands at the beginning of what it leads to, as with any page
  useEffect(() => {
    if (!first.current) main.current?.focus()
    first.current = false
  }, [route.view, route.params["tuid"], route.params["after"]])
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault()
          main.current?.focus()
        }}
      >
        Skip to the content
      </a>
      <Side route={route} about={data} />
      <main ref={main} id="main" tabIndex={-1}>
        {data === undefined
          ? failed === undefined ? null : <Waiting failed={failed} />
          : <View route={route} about={data} />}
      </main>
      <Asking />
      <Told />
    </>
  )
}

const Side = ({ about, route }: { readonly route: Route; readonly about: About | undefined }) => (
  <header class="side">
    <div class="side-in">
      <div class="brand">
        <img src="icon.svg" alt="" width={28} height={28} />
        <span>effect-dgen</span>
      </div>
      <nav aria-label="Views">
        <ul>
          {VIEWS.map(({ icon, title, view }) => (
            <li key={view}>
              <a
                href={to(view)}
                aria-current={route.view === view || (route.view === "server" && view === "servers")
                  ? "page"
                  : undefined}
              >
                <Icon name={icon} />
                <span>{title}</span>
              </a>
            </li>
          ))}
        </ul>
      </nav>
      {about === undefined ? null : (
        <div class="about">
          <span class="about-label">Tenant</span>
          <span class="mono">{about.tenant.join(" / ")}</span>
          {about.store === "" ? null : (
            <>
              <span class="about-label">Store</span>
              <span class="mono">{about.store}</span>
            </>
          )}
          {about.readOnly ? <Badge tone="warn">read only</Badge> : null}
        </div>
      )}
    </div>
  </header>
)

const View = ({ about, route }: { readonly route: Route; readonly about: About }) => {
  const canMend = !about.readOnly
  switch (route.view) {
    case "servers":
      return <Servers route={route} />
    case "server":
      return <Server route={route} canMend={canMend} />
    case "jobs":
      return <Jobs route={route} canMend={canMend} />
    case "schedules":
      return <Schedules canMend={canMend} />
    default:
      return <Overview />
  }
}

render(<App />, document.getElementById("app")!)
