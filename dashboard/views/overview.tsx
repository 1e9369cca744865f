// What runs, how fast, how old the oldest message is, and what somebody should look at.
import type { Count as CountOf, Overview as Data } from "../../src/internal/dashboard/wire.ts"
import { usePolled } from "../api.ts"
import { Chart } from "../chart.tsx"
import { age, number, plural, rate, shortAge } from "../format.ts"
import { Age, Card, Count, None, Page, Stale, Table, Tile, Waiting } from "../parts.tsx"
import { to } from "../route.ts"
import { JobTypes } from "./jobTypes.tsx"
import { ServerTable } from "./serverTable.tsx"

const sum = (values: ReadonlyArray<number>) => values.reduce((total, value) => total + value, 0)

const latest = (values: ReadonlyArray<number | null>) => values.findLast((value) => value !== null) ?? undefined

/** A message that has waited for so long is worth a colour. */
const OLD_MILLIS = 60_000

export const Overview = () => {
  const { data, failed } = usePolled<Data>("overview")
  return (
    <Page title="Overview" sub={data === undefined ? "What runs, and what somebody should look at" : subOf(data)}>
      {data === undefined ? <Waiting failed={failed} /> : (
        <>
          <Stale failed={failed} />
          <Tiles data={data} />
          <Charts data={data} />
          <Card
            title="Needs a look"
            note={data.troubledCount > data.troubled.length
              ? `the first ${data.troubled.length} of ${plural(data.troubledCount, "server")}`
              : data.troubledCount === 0
              ? undefined
              : plural(data.troubledCount, "server")}
            actions={<a class="button plain small" href={to("servers", { stuck: "1" })}>All of them</a>}
          >
            <ServerTable
              label="Servers that need a look"
              empty="Nothing is stuck, dead or locked for long."
              page={data}
              rows={data.troubled}
            />
          </Card>
          <Definitions data={data} />
          {data.jobs.length === 0 ? null : (
            <Card title="Jobs">
              <JobTypes types={data.jobs} />
            </Card>
          )}
        </>
      )}
    </Page>
  )
}

const subOf = ({ isWhole, looked }: Data) =>
  isWhole
    ? `${plural(looked, "server")} looked at, again and again`
    : `${plural(looked, "server")} looked at so far: figures of servers are of those`

const atLeast = ({ count, isAtLeast }: CountOf) => `${number(count)}${isAtLeast ? "+" : ""}`

const Tiles = ({ data }: { readonly data: Data }) => {
  const { definitions, history, jobs, now } = data
  const oldest = Math.min(...definitions.map(({ oldestAt }) => oldestAt ?? Infinity))
  const oldestMillis = oldest === Infinity ? undefined : now - oldest
  const dead = sum(definitions.map((row) => row.dead))
  const locked = sum(definitions.map((row) => row.locked))
  const deadJobs = sum(jobs.map((row) => row.counts.dead))
  const perSecond = latest(history.perSecond)
  return (
    <ul class="tiles" aria-label="At a glance">
      <Tile
        label="Servers"
        value={`${number(data.looked)}${data.isWhole ? "" : "+"}`}
        note={plural(definitions.length, "definition")}
        href={to("servers")}
      />
      <Tile
        label="Messages waiting"
        value={number(sum(definitions.map((row) => row.waiting)))}
        note={perSecond === undefined ? undefined : `${rate(perSecond)} a second`}
      />
      <Tile
        label="Oldest message"
        value={oldestMillis === undefined ? "none" : age(oldestMillis)}
        tone={oldestMillis !== undefined && oldestMillis > OLD_MILLIS ? "warn" : "plain"}
        note={oldestMillis === undefined ? "nothing waits" : "since it was sent"}
      />
      <Tile label="Locked" value={number(locked)} tone={locked > 0 ? "busy" : "plain"} note="handlers at work" />
      <Tile
        label="Dead letters"
        value={number(dead)}
        tone={dead > 0 ? "bad" : "plain"}
        note={dead > 0 ? "waiting for somebody" : "none"}
        href={to("servers", { stuck: "1" })}
      />
      <Tile
        label="Jobs"
        value={number(sum(jobs.map((row) => row.counts.pending + row.counts.running)))}
        tone={deadJobs > 0 ? "bad" : "plain"}
        note={deadJobs > 0 ? `and ${number(deadJobs)} dead` : "pending or running"}
        href={to("jobs")}
      />
    </ul>
  )
}

const Charts = ({ data: { history } }: { readonly data: Data }) => (
  <div class="charts">
    <Chart
      title="Messages a second"
      color="--chart-1"
      at={history.at}
      values={history.perSecond}
      show={rate}
    />
    <Chart
      title="Age of the oldest message"
      color="--chart-2"
      at={history.at}
      values={history.oldestMillis}
      show={age}
      mark={shortAge}
    />
    <Chart title="Messages waiting" color="--chart-3" at={history.at} values={history.waiting} show={number} />
    <Chart
      title="Runs of jobs begun a second"
      color="--chart-4"
      at={history.at}
      values={history.jobsPerSecond}
      show={rate}
    />
  </div>
)

const Definitions = ({ data }: { readonly data: Data }) => (
  <Card title="Definitions" note={data.isWhole ? undefined : "of the servers looked at"}>
    <Table
      label="Definitions"
      empty="No server has a state here yet."
      columns={[
        { title: "Definition" },
        { title: "Servers", end: true },
        { title: "Working", end: true },
        { title: "Woken a second", end: true },
        { title: "Hosts", end: true },
        { title: "Waiting", end: true },
        { title: "Oldest message", end: true },
        { title: "Locked", end: true },
        { title: "Dead letters", end: true }
      ]}
      rows={data.definitions.map((row) => ({
        key: row.name,
        cells: [
          <a key="name" href={to("servers", { definition: row.name })}>{row.name}</a>,
          atLeast(row.servers),
          row.hosted === true ? atLeast(row.working) : <None key="working" />,
          row.givenPerSecond === undefined ? <None key="given" /> : rate(row.givenPerSecond),
          row.hosted === true ? <Count key="hosts" of={row.hosts} /> : <None key="hosts" />,
          <Count key="waiting" of={row.waiting} />,
          <Age key="oldest" at={row.oldestAt} now={data.now} />,
          <Count key="locked" of={row.locked} tone="busy" />,
          <Count key="dead" of={row.dead} tone="bad" />
        ]
      }))}
    />
  </Card>
)
