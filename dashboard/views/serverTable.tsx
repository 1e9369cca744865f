// Servers as rows: where to look, and why.
import type { ServerRow } from "../../src/internal/dashboard/wire.ts"
import { Age, Badge, Count, Table } from "../parts.tsx"
import { to } from "../route.ts"

export const Problems = ({ row }: { readonly row: ServerRow }) =>
  row.problems.length === 0
    ? <Badge tone="good">well</Badge>
    : (
      <span class="badges">
        {row.problems.map((problem) => <Badge key={problem} tone={toneOf(problem)}>{problem}</Badge>)}
      </span>
    )

const toneOf = (problem: string) => problem.includes("dead") || problem.includes("crash") ? "bad" : "warn"

export const ServerTable = (props: {
  readonly label: string
  readonly empty: string
  readonly page: { readonly now: number }
  readonly rows: ReadonlyArray<ServerRow>
}) => (
  <Table
    label={props.label}
    empty={props.empty}
    columns={[
      { title: "Server" },
      { title: "Definition" },
      { title: "Waiting", end: true },
      { title: "Oldest message", end: true },
      { title: "Locked for", end: true },
      { title: "Dead letters", end: true },
      { title: "State" }
    ]}
    rows={props.rows.map((row) => ({
      key: row.tuid,
      cells: [
        <a key="server" class="mono" href={to("server", { tuid: row.tuid })}>{row.tuid}</a>,
        row.definition,
        <Count key="waiting" of={row.waiting} />,
        <Age key="oldest" at={row.oldestAt} now={props.page.now} />,
        <Age key="locked" at={row.lockedAt} now={props.page.now} />,
        <Count key="dead" of={row.dead} tone="bad" />,
        <Problems key="state" row={row} />
      ]
    }))}
  />
)
